import { z } from 'zod';
import { InputError, zodFaults, type Fault } from '../src/domain/faults.ts';
import { type Platform, PLATFORMS } from '../src/notification/notification.ts';
import { parseDuration } from '../src/domain/time.ts';
import { type ApnsReason, APNS_WORDS, TOKEN_REASONS } from './apns/reasons.ts';
import { type FcmReason, FCM_WORDS } from './fcm/reasons.ts';
import type { Answer, Invalid, Refuse, ProviderWords } from './loopback/answers.ts';
import { type WebpushReason, WEBPUSH_WORDS } from './webpush/reasons.ts';

/**
 * One entry of the sandbox's script: which requests it is for, and what they are answered. The same in `setAnswers`, in a
 * file for `sandbox --script`, and in `PUT /answers`.
 *
 * Exactly one of these says what the answer is: `answer`, or `reason`, `status` or both.
 */
export interface ScriptedAnswer {
  /** For requests to this provider. Left out: to all, or to the one that `reason` belongs to. */
  readonly platform?: Platform | undefined;
  /** For requests to the device with this token or installation id; of web push the endpoint. Left out: to any device. */
  readonly token?: string | undefined;
  /**
   * A refusal with the provider's own word: APNs' `Unregistered`, FCM's `UNREGISTERED`, web push's `ExpiredSubscription`. The
   * status follows from it.
   */
  readonly reason?: ApnsReason | FcmReason | WebpushReason | undefined;
  /** A refusal with this HTTP status, and the provider's usual word for it. 502 and 504 have no body, as from a load balancer. */
  readonly status?: number | undefined;
  /**
   * An answer that is no refusal. `accept`: the provider takes the alert. `hang`: no answer ever comes. `reset`: the
   * connection is reset. `reset-stream`: only the request's HTTP/2 stream is. `refused-stream`: the same, with HTTP/2's promise
   * that nothing was processed.
   */
  readonly answer?: 'accept' | 'hang' | 'reset' | 'reset-stream' | 'refused-stream' | undefined;
  /** How many requests get it, 1 or more; then the next entry that fits is asked. Left out: all, until the script is changed. */
  readonly times?: number | undefined;
  /** For this share of the requests, chosen at random: above 0 and at most 1. Left out: all. */
  readonly share?: number | undefined;
  /** How long the answer takes: `"250ms"`, `"3s"`, at most an hour. Left out: the sandbox's latency. */
  readonly delay?: string | undefined;
  /** Of a refusal: the `Retry-After` header, in whole seconds: `"30s"`. */
  readonly retryAfter?: string | undefined;
  /** Of `INVALID_ARGUMENT`: the field that FCM calls invalid. `message.token` and `message.fid` mean that the token is not valid. */
  readonly field?: string | undefined;
  /** Of `INVALID_ARGUMENT`: what APNs answered for the token of an iPhone, as FCM passes it on. */
  readonly apns?: (typeof TOKEN_REASONS)[number] | undefined;
  /** True: the device was alerted, although the answer is lost or says otherwise. The journal has it as accepted. */
  readonly alerted?: boolean | undefined;
}

/** An entry of the script, and how many requests it still answers. */
interface Rule {
  readonly scripted: ScriptedAnswer;
  readonly platform: Platform | undefined;
  left: number;
}

/** The script of both providers: entries in order, the first that fits a request and is not used up decides its answer. */
export class AnswerRules {
  readonly #random: () => number;
  readonly #now: () => number;
  #rules: readonly Rule[] = [];

  /** `random` gives numbers from 0 up to 1, one for each request that an entry with a share fits. */
  constructor(random: () => number, now: () => number) {
    this.#random = random;
    this.#now = now;
  }

  /**
   * Replaces the whole script; on a fault nothing is changed.
   *
   * @throws InputError that names every fault by its path: `answers[0].status`.
   */
  set(answers: readonly ScriptedAnswer[]): void {
    this.#rules = parseScript({ answers }).map((scripted) => ({
      scripted,
      platform: scripted.platform ?? (scripted.reason === undefined ? undefined : platformOfReason(scripted.reason)),
      left: scripted.times ?? Infinity,
    }));
  }

  /** What is left of the script: entries that are used up are gone, and `times` is what is still to come. */
  get left(): readonly ScriptedAnswer[] {
    return this.#rules
      .filter(({ left }) => left > 0)
      .map(({ scripted, left }) => (left === Infinity ? scripted : { ...scripted, times: left }));
  }

  /** The answer to a request, which uses it up; undefined if no entry fits. `sameToken` compares as the platform does. */
  next(platform: Platform, sameToken: (token: string) => boolean): Answer | undefined {
    const rule = this.#rules.find((one) => this.#fits(one, platform, sameToken));
    if (!rule) return undefined;
    rule.left -= 1;
    return answerOf(rule.scripted, platform, this.#now());
  }

  #fits({ scripted, left, platform: own }: Rule, platform: Platform, sameToken: (token: string) => boolean): boolean {
    const { token, share } = scripted;
    if (left === 0 || (own !== undefined && own !== platform)) return false;
    if (token !== undefined && !sameToken(token)) return false;
    return share === undefined || this.#random() < share;
  }
}

/** The loopback server's answer for an entry of the script. `nowMs`: since when APNs calls a token gone. */
function answerOf(scripted: ScriptedAnswer, platform: Platform, nowMs: number): Answer {
  const { answer, delay, retryAfter, alerted } = scripted;
  const more = {
    ...(delay === undefined ? {} : { delayMs: parseDuration(delay) ?? 0 }),
    ...(alerted === undefined ? {} : { accepted: alerted }),
  };
  switch (answer) {
    case undefined: {
      const header = retryAfter === undefined ? {} : { retryAfter: String((parseDuration(retryAfter) ?? 0) / 1_000) };
      return { ...refusalOf(platform, scripted, nowMs), ...header, ...more };
    }
    case 'reset':
      return { kind: 'reset', ...more };
    case 'reset-stream':
      return { kind: 'reset', scope: 'stream', ...more };
    case 'refused-stream':
      return { kind: 'reset', scope: 'refused-stream', ...more };
    case 'accept':
    case 'hang':
      return { kind: answer, ...more };
  }
}

/** More than any test needs; keeps a request from being compared with an endless list. */
const MAX_ANSWERS = 10_000;
const MAX_DELAY_MS = 3_600_000;

const delay = z.string().refine((text) => (parseDuration(text) ?? Infinity) <= MAX_DELAY_MS, {
  error: 'a duration such as 250ms, 3s or 1m, at most 1h',
});
const retryAfter = z.string().refine((text) => isWholeSeconds(parseDuration(text)), {
  error: 'a duration in whole seconds, such as 30s or 2m',
});

/** `reason` is checked together with the platform. */
type Readable = Omit<ScriptedAnswer, 'reason'> & { readonly reason?: string | undefined };

const answerSchema: z.ZodType<Readable> = z
  .strictObject({
    platform: z.enum(PLATFORMS).optional(),
    token: z.string().min(1).max(4_096).optional(),
    reason: z.string().optional(),
    status: z.int().optional(),
    answer: z.enum(['accept', 'hang', 'reset', 'reset-stream', 'refused-stream']).optional(),
    times: z.int().min(1).max(1_000_000).optional(),
    share: z
      .number()
      .refine((share) => share > 0 && share <= 1, { error: 'a share above 0 and at most 1' })
      .optional(),
    delay: delay.optional(),
    retryAfter: retryAfter.optional(),
    field: z.string().min(1).max(256).optional(),
    apns: z.enum(TOKEN_REASONS).optional(),
    alerted: z.boolean().optional(),
  })
  .superRefine((answer, context) => {
    for (const [path, message] of contradictions(answer)) {
      context.addIssue({ code: 'custom', path: path === '' ? [] : [path], message });
    }
  });
const scriptSchema = z.strictObject({ answers: z.array(answerSchema).max(MAX_ANSWERS) });

/** What does not fit together: the field, and what was expected of it. */
function contradictions(answer: Readable): (readonly [field: string, expected: string])[] {
  const { reason, status, field, apns, retryAfter: retry, alerted, delay: wait } = answer;
  const isRefusal = reason !== undefined || status !== undefined;
  if (!isRefusal && answer.answer === undefined) return [['', 'a reason, a status or an answer']];
  const kinds: (readonly [string, string, boolean])[] = [
    ['answer', 'none beside a reason or a status', isRefusal && answer.answer !== undefined],
    ['retryAfter', 'none without a reason or a status', !isRefusal && retry !== undefined],
    ['delay', 'none for "hang", which never ends', answer.answer === 'hang' && wait !== undefined],
    ['alerted', 'none for "accept", which always alerts', answer.answer === 'accept' && alerted !== undefined],
    ['field', 'none without the reason INVALID_ARGUMENT', field !== undefined && reason !== 'INVALID_ARGUMENT'],
    ['apns', 'none without the reason INVALID_ARGUMENT', apns !== undefined && reason !== 'INVALID_ARGUMENT'],
    ['apns', 'none beside a field', apns !== undefined && field !== undefined],
  ];
  return [
    ...(isRefusal ? wordFaults(answer) : []),
    ...kinds.flatMap(([name, expected, isBroken]) => (isBroken ? [[name, expected] as const] : [])),
  ];
}

/** Faults of a refusal's reason and status, for the platforms that it is for. */
function wordFaults({ platform, reason, status }: Readable): (readonly [field: string, expected: string])[] {
  const platforms = platform === undefined ? PLATFORMS : [platform];
  if (reason === undefined) {
    const wrong = platforms.find((one) => status !== undefined && !statusesOf(one).includes(status));
    return wrong === undefined
      ? []
      : [['status', `a status that ${WORDS[wrong].name} answers: ${statusesOf(wrong).join(', ')}`]];
  }
  const owner = platformOfReason(reason);
  if (owner === undefined || !platforms.includes(owner)) return [['reason', reasonsOf(platforms)]];
  const ownStatus = WORDS[owner].reasons[reason];
  return status === undefined || status === ownStatus
    ? []
    : [['status', `${ownStatus ?? ''}, the status of ${reason}`]];
}

function reasonsOf(platforms: readonly Platform[]): string {
  return platforms
    .map((one) => `a reason of ${WORDS[one].name} (${Object.keys(WORDS[one].reasons).join(', ')})`)
    .join(' or ');
}

/** The words of the providers are written differently, so that each belongs to one of them. */
function platformOfReason(reason: string): Platform | undefined {
  return PLATFORMS.find((platform) => Object.hasOwn(WORDS[platform].reasons, reason));
}

function isWholeSeconds(ms: number | undefined): boolean {
  return ms !== undefined && ms % 1_000 === 0;
}

const isToken = (path: readonly PropertyKey[]): boolean => path.at(-1) === 'token';

/**
 * Checks a script: `{ "answers": [ … ] }`.
 *
 * @throws InputError that names every fault by its path, `answers[0].status`. No fault shows a token.
 */
export function parseScript(script: unknown, what = 'the script'): readonly ScriptedAnswer[] {
  const result = scriptSchema.safeParse(script);
  if (!result.success) throw new InputError(what, zodFaults(result.error, script, isToken));
  return result.data.answers as readonly ScriptedAnswer[]; // `reason` was checked against the words
}

/** The same for a text, which may be no JSON. */
export function parseScriptText(text: string, what?: string): readonly ScriptedAnswer[] {
  const value = parseJson(text);
  if (value === undefined) throw new InputError(what ?? 'the script', [NOT_JSON]);
  return parseScript(value.json, what);
}

const NOT_JSON: Fault = { path: '', expected: 'JSON: { "answers": [ … ] }', found: 'text that is not JSON' };

function parseJson(text: string): { readonly json: unknown } | undefined {
  try {
    return { json: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

/** One for every provider: a platform without words does not compile. */
export const WORDS: Readonly<Record<Platform, ProviderWords>> = {
  apns: APNS_WORDS,
  fcm: FCM_WORDS,
  webpush: WEBPUSH_WORDS,
};

/** A refusal as a script asks for it. */
export interface AskedRefusal extends Invalid {
  readonly reason?: string | undefined;
  readonly status?: number | undefined;
}

/** What a load balancer in front of a provider answers: the status alone. */
const WITHOUT_BODY = [502, 504];

/** The statuses that a script may ask of a provider without a word. */
export function statusesOf(platform: Platform): number[] {
  return [...Object.keys(WORDS[platform].usual).map(Number), ...WITHOUT_BODY].sort((a, b) => a - b);
}

/** The provider's answer. `nowMs`: since when APNs calls a token gone. */
export function refusalOf(platform: Platform, asked: AskedRefusal, nowMs: number): Refuse {
  const { status = 500 } = asked;
  const { usual, refusal } = WORDS[platform];
  const reason = asked.reason ?? usual[status];
  if (reason === undefined) return { kind: 'refuse', status, emptyBody: true };
  return refusal(reason, asked, nowMs);
}
