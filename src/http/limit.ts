import { faultOf, InputError, optionFaults, type OptionNames } from '../domain/faults.ts';
import { policyFaults, type Policy } from '../domain/limits.ts';
import { sleepUntil } from '../domain/time.ts';
import type { SlotId, Limiter, RuleStanding, Standing } from '../limiter/limiter.ts';

/** How requests are limited: by which limiter, and for which client each request counts. */
export interface HttpLimitOptions<Request> {
  /** The answer is 503 if the limiter rejects with LimiterUnavailableError, unless its `onUnavailable` decides otherwise. */
  readonly limiter: Pick<Limiter, 'admit' | 'refund'>;
  /**
   * The client for which a request counts (the limiter's recipient): a string of one character or more. Use what the server has
   * verified (the user or API client that signed in), else the address. Do not use a header that the client can choose: the
   * client could escape every limit. `undefined`: this request is not limited. An error goes to the framework's error handling.
   */
  readonly key: (request: Request) => string | undefined | Promise<string | undefined>;
  /** The category of a request. If the limiter has a policy for the category, that policy applies too. Default: none. */
  readonly category?: (request: Request) => string | undefined;
  /** The policy for these requests, in place of the limiter's own. Default: the limiter's own. */
  readonly policy?: Policy;
}

/** Whether a request may go on. */
export type Decision =
  | {
      /** Let the request through. */
      readonly kind: 'allowed';
      /** The RateLimit fields to send with the response; none if no slot was counted. */
      readonly headers: Fields;
    }
  | Refusal
  | {
      /** The client disconnected while the request waited. The request's slot was given back; do not answer. */
      readonly kind: 'gone';
    };

const OPTIONS: OptionNames<HttpLimitOptions<unknown>> = { limiter: true, key: true, category: true, policy: true };
/** Names of options in other middleware, and names of options that belong to the limiter. */
const MEANT = {
  ...{ rules: 'policy', max: 'policy', minGapMs: 'policy', windowMs: 'policy', limit: 'limiter', store: 'limiter' },
  ...{ redis: 'limiter', handler: 'refuse', onUnavailable: "the limiter's onUnavailable" },
};

/** Throws InputError with every option that does not exist or cannot be used. `more`: options of a framework. */
function checkOptions(options: object, more: Readonly<Record<string, true>>): void {
  const faults = optionFaults(options, { ...OPTIONS, ...more }, '', MEANT);
  const { limiter, ...others } = options as Readonly<Record<string, unknown>>;
  const functions = limiter as Partial<Record<string, unknown>> | null | undefined;
  if (typeof functions?.['admit'] !== 'function' || typeof functions['refund'] !== 'function') {
    faults.push(faultOf('limiter', 'a limiter, such as createMemoryLimiter makes', limiter, true));
  }
  for (const path of ['key', 'category', ...Object.keys(more)]) {
    const value = others[path];
    if (typeof value === 'function' || (value === undefined && path !== 'key')) continue;
    faults.push(faultOf(path, 'a function', value, true));
  }
  if (faults.length > 0) throw new InputError('unusable options', faults);
}

/**
 * Decides about a request, for any framework. An allowed request resolves at its slot, which is at most 120 ms
 * ahead (docs/http.md); `signal` ends that wait. Throws InputError if an option or the policy cannot be used.
 */
export function httpLimit<Request>(
  options: HttpLimitOptions<Request>,
): (request: Request, signal: AbortSignal) => Promise<Decision> {
  return decider(options, {});
}

/** As `httpLimit`; `more` are the names of a framework's own options. */
export function decider<Request>(
  options: HttpLimitOptions<Request>,
  more: Readonly<Record<string, true>>,
): (request: Request, signal: AbortSignal) => Promise<Decision> {
  checkOptions(options, more);
  const { limiter, key, category, policy } = options;
  const faults = policy === undefined ? [] : policyFaults(policy, 'policy');
  if (faults.length > 0) throw new InputError('unusable policy', faults);

  async function decide(slot: SlotId, signal: AbortSignal): Promise<Decision> {
    const own = policy !== undefined && { policy };
    const answer = await limiter.admit({ ...slot, maxWaitMs: 0, everyRule: true, ...own });
    const headers = rateLimitFields(answer, answer.kind !== 'admitted');
    if (answer.kind !== 'admitted') return tooMany(answer.rule, answer.waitMs, headers);
    if (await sleepUntil(answer.sendAt, signal)) return { kind: 'allowed', headers };
    await limiter.refund(slot);
    return { kind: 'gone' };
  }

  return async (request, signal) => {
    const recipientId = await key(request);
    if (recipientId === undefined) return { kind: 'allowed', headers: {} };
    const name = category?.(request);
    const slot = { recipientId, id: crypto.randomUUID(), ...(name !== undefined && { category: name }) };
    try {
      return await decide(slot, signal);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return signal.aborted ? { kind: 'gone' } : unavailable();
    }
  };
}

/** Compares the names of errors, because this folder may import only types from the limiter's folder. */
function isUnavailable(error: unknown): boolean {
  return error instanceof Error && UNAVAILABLE.has(error.name);
}

/** The limiter gives no answer: Redis does not answer, or a newer version wrote the state of this key. */
const UNAVAILABLE: ReadonlySet<string> = new Set(['LimiterUnavailableError', 'NewerFormatError']);

/** The part of a response that shows that the client has disconnected. Responses of node:http and HTTP/2 have it. */
export interface Closable {
  /** True if the connection is closed already. */
  readonly destroyed?: boolean;
  /** Calls the listener when the connection closes. */
  once(event: 'close', listener: () => void): unknown;
  /** Removes the listener. */
  removeListener(event: 'close', listener: () => void): unknown;
}

/** Calls `run` with a signal that aborts when the client of this response disconnects. */
export async function whilePresent<T>(response: Closable, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const presence = new AbortController();
  const leave = (): void => {
    presence.abort();
  };
  if (response.destroyed === true) leave();
  response.once('close', leave);
  try {
    return await run(presence.signal);
  } finally {
    response.removeListener('close', leave);
  }
}

/** Header fields of a response: name → value. */
export type Fields = Readonly<Record<string, string>>;

type Shown = Omit<Standing, 'toleranceMs' | 'gapMs'>;
/** A rule as the header fields show it; a block has no window. */
type ShownRule = Omit<RuleStanding, 'perMs'> & { readonly perMs?: number };

/**
 * `RateLimit-Policy: "10/1m";q=10;w=60, "gap";q=1;w=3` and `RateLimit: "10/1m";r=9;t=53, "gap";r=0;t=3`, as revision 11 of
 * draft-ietf-httpapi-ratelimit-headers defines them: every rule in force and what it has left, gaps last. In a refusal the rule
 * that makes the request wait comes first. No fields if no rule is in force. Seconds are rounded up, so that a client that
 * waits this long stays within the limit.
 */
export function rateLimitFields(standing: Shown, isRefused: boolean): Fields {
  const all = isRefused ? decidingFirst(standing) : gapsLast(standing.rules);
  if (all.length === 0) return {};
  return { 'RateLimit-Policy': all.map(policyItem).join(', '), RateLimit: all.map(limitItem).join(', ') };
}

function gapsLast(rules: readonly RuleStanding[] = []): readonly RuleStanding[] {
  const isGap = ({ rule }: RuleStanding) => rule === 'gap' || rule.endsWith(':gap');
  return [...rules.filter((each) => !isGap(each)), ...rules.filter(isGap)];
}

/** The rule that decided comes first. If it is not in the list, it is a block, whose max is 0. */
function decidingFirst({ rule, remaining, resetMs, rules = [] }: Shown): readonly ShownRule[] {
  const known = rules.find((each) => each.rule === rule) ?? { max: 0 };
  return [{ ...known, rule, remaining, resetMs }, ...gapsLast(rules.filter((each) => each.rule !== rule))];
}

/** Whole seconds, rounded up. */
function toSeconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

/**
 * A string of RFC 9651 (structured fields), which allows only printable ASCII: quotes and backslashes are escaped by a
 * backslash, other characters are percent-encoded, so that no rule name can end the field or begin another one.
 */
function sfString(text: string): string {
  const printable = text.toWellFormed().replaceAll(/[^ -~]+/g, encodeURIComponent);
  return `"${printable.replaceAll(/["\\]/g, '\\$&')}"`;
}

function policyItem({ rule, max, perMs }: ShownRule): string {
  const window = perMs === undefined ? '' : `;w=${toSeconds(perMs)}`;
  return `${sfString(rule)};q=${max}${window}`;
}

function limitItem({ rule, remaining, resetMs }: ShownRule): string {
  return `${sfString(rule)};r=${remaining};t=${toSeconds(resetMs)}`;
}

/** A problem document (RFC 9457), sent as `application/problem+json`. */
export interface Problem {
  /** Absent if the status says enough (503). */
  readonly type?: string;
  /** The problem in a few words: `Quota Exceeded`, `Service Unavailable`. */
  readonly title: string;
  /** The status of the response: 429 or 503. */
  readonly status: number;
  /** The rule that decided: `["10/1m"]`. */
  readonly 'violated-policies'?: readonly string[];
}

/** The answer for a request that is not let through. */
export interface Refusal {
  /** Do not let the request through: answer with `status`, `headers` and `problem`. */
  readonly kind: 'refused';
  /** 429: the limiter refused the request. 503: the limiter could not be asked. */
  readonly status: 429 | 503;
  /** Whole seconds, rounded up, at least 1; the same as in `Retry-After`. */
  readonly retryAfterSeconds: number;
  /** `Retry-After` and the RateLimit fields, without `Content-Type`. */
  readonly headers: Fields;
  /** The body to send unless the application makes its own. */
  readonly problem: Problem;
}

export const PROBLEM_TYPE = 'application/problem+json';

/** The problem type that draft-ietf-httpapi-ratelimit-headers registers for a used-up quota. */
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded';
/** `Retry-After` while Redis does not answer: most outages are a restart or a failover, which take seconds. */
const AWAY_SECONDS = 5;

function tooMany(rule: string, waitMs: number, fields: Fields): Refusal {
  const retryAfterSeconds = Math.max(1, toSeconds(waitMs));
  return {
    kind: 'refused',
    status: 429,
    retryAfterSeconds,
    headers: { ...fields, 'Retry-After': String(retryAfterSeconds) },
    problem: { type: QUOTA_EXCEEDED, title: 'Quota Exceeded', status: 429, 'violated-policies': [rule] },
  };
}

function unavailable(): Refusal {
  return {
    kind: 'refused',
    status: 503,
    retryAfterSeconds: AWAY_SECONDS,
    headers: { 'Retry-After': String(AWAY_SECONDS) },
    problem: { title: 'Service Unavailable', status: 503 },
  };
}
