import { describeFound, InputError, optionFaults, type OptionNames } from '../domain/faults.ts';
import { policyFaults, type Policy } from '../domain/limits.ts';
import { sleepUntil } from '../domain/time.ts';
import type { Held, Limiter } from '../limiter/limiter.ts';
import { rateLimitFields, type Fields } from './fields.ts';
import { tooMany, unavailable, type Refusal } from './problem.ts';

/** How requests are limited: by which limiter, and for whom each one counts. */
export interface HttpLimitOptions<Request> {
  /** If it rejects with LimiterUnavailableError, the answer is 503. Its option `onUnavailable` can decide otherwise. */
  readonly limiter: Pick<Limiter, 'admit' | 'refund'>;
  /**
   * The client that a request counts for (the limiter's recipient): a string of one character or more. Take what the server
   * has verified (the user or API client that signed in), else the address. Do not take a header that the client can choose:
   * it would escape every limit. `undefined`: this request is not limited. An error goes to the framework's error handling.
   */
  readonly key: (request: Request) => string | undefined | Promise<string | undefined>;
  /** The category of a request. If the limiter has a policy for it, that one holds too. Default: none. */
  readonly category?: (request: Request) => string | undefined;
  /** The policy for these requests, in place of the limiter's own. Default: the limiter's. */
  readonly policy?: Policy;
}

/** Whether a request may go on. */
export type Decision =
  | {
      /** Let it through. */
      readonly kind: 'allowed';
      /** The RateLimit fields to send with the response; none if nothing was counted. */
      readonly headers: Fields;
    }
  | Refusal
  | {
      /** The client disconnected while it waited. Its slot was given back; do not answer. */
      readonly kind: 'gone';
    };

type Names = Readonly<Record<string, true>>;

const OPTIONS: OptionNames<HttpLimitOptions<unknown>> = { limiter: true, key: true, category: true, policy: true };
/** What other middleware calls them, and what is a limiter's. */
const MEANT = {
  ...{ rules: 'policy', max: 'policy', minGapMs: 'policy', windowMs: 'policy', limit: 'limiter', store: 'limiter' },
  ...{ redis: 'limiter', handler: 'refuse', onUnavailable: "the limiter's onUnavailable" },
};

/** Throws InputError with every option that does not exist or cannot be used. `more`: options of a framework. */
function checkOptions(options: object, more: Names): void {
  const faults = optionFaults(options, { ...OPTIONS, ...more }, '', MEANT);
  const { limiter, ...others } = options as Readonly<Record<string, unknown>>;
  const functions = limiter as Partial<Record<string, unknown>> | null | undefined;
  if (typeof functions?.['admit'] !== 'function' || typeof functions['refund'] !== 'function') {
    const expected = 'a limiter, such as createMemoryLimiter makes';
    faults.push({ path: 'limiter', expected, found: describeFound(limiter, true) });
  }
  for (const path of ['key', 'category', ...Object.keys(more)]) {
    const value = others[path];
    if (typeof value === 'function' || (value === undefined && path !== 'key')) continue;
    faults.push({ path, expected: 'a function', found: describeFound(value, true) });
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
  more: Names,
): (request: Request, signal: AbortSignal) => Promise<Decision> {
  checkOptions(options, more);
  const { limiter, key, category, policy } = options;
  const faults = policy === undefined ? [] : policyFaults(policy, 'policy');
  if (faults.length > 0) throw new InputError('unusable policy', faults);

  async function decide(held: Held, signal: AbortSignal): Promise<Decision> {
    const answer = await limiter.admit({
      ...held,
      maxWaitMs: 0,
      everyRule: true,
      ...(policy !== undefined && { policy }),
    });
    const headers = rateLimitFields(answer, answer.kind !== 'admitted');
    if (answer.kind !== 'admitted') return tooMany(answer.rule, answer.waitMs, headers);
    if (await sleepUntil(answer.sendAt, signal)) return { kind: 'allowed', headers };
    await limiter.refund(held);
    return { kind: 'gone' };
  }

  return async (request, signal) => {
    const recipientId = await key(request);
    if (recipientId === undefined) return { kind: 'allowed', headers: {} };
    const name = category?.(request);
    const held = { recipientId, id: crypto.randomUUID(), ...(name !== undefined && { category: name }) };
    try {
      return await decide(held, signal);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return signal.aborted ? { kind: 'gone' } : unavailable();
    }
  };
}

/** Compares the name because this folder may import only types from the limiter's. */
function isUnavailable(error: unknown): boolean {
  return error instanceof Error && error.name === 'LimiterUnavailableError';
}

/** The part of a response that shows that its client has disconnected; node:http's and HTTP/2's both have it. */
export interface Closable {
  /** True if the connection is closed already. */
  readonly destroyed?: boolean;
  /** Calls the listener when the connection closes. */
  once(event: 'close', listener: () => void): unknown;
  /** Takes the listener away. */
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
