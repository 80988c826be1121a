import type { Target } from './device.ts';
import { parseJson } from '../domain/json.ts';
import type { LetterStory } from './story.ts';

/**
 * What is wrong with a provider as a whole, worst first:
 * `auth`: it refuses the credentials; `configuration`: it refuses the app, or all of the app's tokens;
 * `quota`: it asks all workers to slow down; `outage`: it cannot be reached, or only answers with errors.
 */
export const TROUBLES = ['auth', 'configuration', 'quota', 'outage'] as const;
export type Trouble = (typeof TROUBLES)[number];

/** Whether the trouble lasts until an operator corrects something. */
export function needsOperator(trouble: Trouble | undefined): boolean {
  return trouble === 'auth' || trouble === 'configuration';
}

/** Why a notification cannot be delivered as it is. docs/errors.md says for each reason what to do. */
export const DEAD_LETTER_REASONS = [
  'invalid',
  'unregistered',
  'bad-token',
  'rejected',
  'provider-not-configured',
  'provider-auth',
  'attempts-exhausted',
  'ambiguous',
  'stalled',
  'throttled-too-long',
] as const;
/** Why a notification became a dead letter: one of `DEAD_LETTER_REASONS`. */
export type DeadLetterReason = (typeof DEAD_LETTER_REASONS)[number];

/** How a notification ended. Final: a pass that only defers or retries has no outcome. */
export const OUTCOMES = [
  'delivered',
  'retracted',
  'expired',
  'dropped',
  'canceled',
  'superseded',
  'merged',
  'dead-lettered',
] as const;
/** One of `OUTCOMES`. */
export type OutcomeName = (typeof OUTCOMES)[number];

/**
 * How one pass of a job through a worker ended.
 *
 * | kind        | the job                        | attempts |
 * |-------------|--------------------------------|----------|
 * | delivered   | completed                      | —        |
 * | retracted   | completed: a retraction that a device has taken | — |
 * | expired     | completed                      | —        |
 * | dropped     | completed                      | —        |
 * | canceled    | completed                      | —        |
 * | superseded  | completed: a newer one is sent in its slot | — |
 * | merged      | completed: it is a part of a digest that was sent | — |
 * | requeued    | delayed until its slot         | +0       |
 * | deferred    | delayed until the cause may be gone; logged and counted as `held` | +0 |
 * | retried     | delayed by the backoff         | +1       |
 * | yielded     | not touched: another worker has its job lock by now | +0 |
 * | dead-letter | failed, then moved to the dead letters | — |
 */
export type Result =
  /** `silenced`: no device made a sound, vibrated or showed a banner. */
  | { readonly kind: 'delivered'; readonly silenced?: true }
  | { readonly kind: 'retracted' }
  | { readonly kind: 'expired' }
  | { readonly kind: 'dropped'; readonly rule: string }
  | { readonly kind: 'canceled' }
  /** `by`: the id of the newer notification, or of the notification that is sent as the digest. */
  | { readonly kind: 'superseded' | 'merged'; readonly by: string }
  /**
   * `waitMs`: until its slot. `delayMs`: until a worker takes the job again, which is a little before the slot. `rule`: the
   * longest cause of the wait; `ruleUntil`: when the block or the quiet time ends, epoch milliseconds; `before`: how many
   * notifications are before it in its line.
   */
  | ({ readonly kind: 'requeued'; readonly delayMs: number } & Waited)
  | { readonly kind: 'deferred'; readonly waitMs: number; readonly code: string }
  | { readonly kind: 'yielded' }
  | { readonly kind: 'retried'; readonly waitMs: number; readonly code: string }
  | { readonly kind: 'dead-letter'; readonly reason: DeadLetterReason; readonly message: string };

/** The name of a result in the log, in metrics and in traces: the name of the outcome, if the result is one. */
export function resultName({ kind }: Result): Exclude<Result['kind'], 'dead-letter'> | 'dead-lettered' {
  return kind === 'dead-letter' ? 'dead-lettered' : kind;
}

/** A wait, and the reason for it. */
export interface Waited {
  readonly waitMs: number;
  readonly rule: string;
  readonly ruleUntil?: number | undefined;
  readonly before?: number | undefined;
}

/** One failed try, as a dead letter lists it. Never contains a token. */
export interface FailedAttempt {
  /** Epoch milliseconds. */
  readonly at: number;
  /** `apns#0` is the first of `devices`, on APNs. Absent if no device was tried. */
  readonly device?: string;
  /** What went wrong: the provider's own name for it (`InternalServerError`), or a text. */
  readonly error: string;
}

/** What a digest that became a dead letter is made of. */
export interface DeadDigest {
  /** How many notifications it stands for; all of them but one have ended as `merged`. */
  readonly count: number;
  /** Whether the text of the leader itself is one of them: false only if it was canceled under an earlier version. */
  readonly own: boolean;
}

/** Whether a digest stands for other notifications too. One of only its own notification is sent as a normal alert. */
export function hasOthers(digest: DeadDigest | undefined): digest is DeadDigest {
  return digest !== undefined && !(digest.own && digest.count === 1);
}

/** The data of a job of the dead-letter queue. */
export interface DeadLetter {
  /** The notification exactly as the producer enqueued it, even if it was invalid. */
  readonly notification: unknown;
  /**
   * The name of its job, if that was no notification, but an order about some: `notification` is the job's data then. Absent
   * for notifications, and if an earlier version wrote the dead letter.
   */
  readonly order?: 'cancel' | 'retract';
  /** Why it cannot be delivered. */
  readonly reason: DeadLetterReason;
  /** What went wrong, for people to read; after each `<` stands the cause of what is before. Never contains a token. */
  readonly message: string;
  /** The newest 100 failed attempts, the newest last. */
  readonly attempts: readonly FailedAttempt[];
  /** Epoch milliseconds. */
  readonly deadAt: number;
  /** When the notification was enqueued, before any replay: epoch milliseconds. Absent if an earlier version wrote the dead letter. */
  readonly enqueuedAt?: number;
  /** How often it was replayed before. */
  readonly generation: number;
  /** What it is made of, if it is a digest that was tried: a replay sends it for all of these. Absent for a notification alone. */
  readonly digest?: DeadDigest;
  /** The devices that were alerted before the rest failed (`apns#0`): a replay skips them. Absent if none was. */
  readonly delivered?: readonly string[];
  /** Its story so far; absent if no pass was recorded, and it is not known who enqueued it or in which trace. */
  readonly story?: LetterStory;
}

/** How a device of a notification ended: it was alerted, or why not. */
export type DeviceState = 'delivered' | DeadLetterReason;

/** What a completed job returns. BullMQ keeps it with the job, and `producer.status` reads it. */
export interface Completion {
  readonly outcome: Exclude<OutcomeName, 'dead-lettered'>;
  /** For `superseded` and `merged`: the id of the notification that is sent in its place. */
  readonly by?: string;
  /** Delivered without sound, vibration or banner, because its producer chose that for a blocked notification. Absent otherwise. */
  readonly silenced?: true;
  /** When the first device accepted it: epoch milliseconds. Absent if none did. */
  readonly sentAt?: number;
  /** How each device ended, by label, such as `apns#0`; a device that did not end is absent. */
  readonly devices: Readonly<Record<string, DeviceState>>;
  /** How many attempts there were, with the one that ended the notification. Absent if an older worker wrote it. */
  readonly attempts?: number;
}

/** What became of a notification: one entry of the stream of outcomes. docs/outcomes.md explains the fields. */
export interface Outcome extends Target, Omit<Completion, 'outcome' | 'attempts'> {
  readonly id: string;
  /** Absent if the notification has no usable recipient. */
  readonly recipientId?: string;
  readonly category?: string;
  readonly outcome: OutcomeName;
  /** Why it is a dead letter; absent for the other outcomes. */
  readonly reason?: DeadLetterReason;
  /** How often it was replayed before. */
  readonly generation: number;
  /** Of a `retracted` one: the ids of the notifications that it took back. Absent otherwise. */
  readonly retracted?: readonly string[];
  /** Epoch milliseconds: when its job was added. */
  readonly enqueuedAt: number;
  /** From `enqueuedAt`, or from a later `sendAfter`, to `sentAt`, or to the end if it was not sent; milliseconds. */
  readonly waitMs: number;
}

/**
 * Milliseconds from enqueuing to the first alert, or to the end without one. Never below 0, although the clocks of machines
 * differ.
 */
export function waitOf(enqueuedAt: number, sentAt: number | undefined, endedAt: number): number {
  return Math.max(0, (sentAt ?? endedAt) - enqueuedAt);
}

/** The fields and values of an outcome's entry in the stream, in turn: `['id', 'msg-1', 'outcome', 'delivered', …]`. */
export function outcomeFields({ devices, retracted, ...others }: Outcome): string[] {
  const fields = Object.entries(others).flatMap(([name, value]: [string, string | number | true | undefined]) =>
    value === undefined ? [] : [name, String(value)],
  );
  const ids = retracted === undefined ? [] : ['retracted', JSON.stringify(retracted)];
  return [...fields, ...ids, 'devices', JSON.stringify(devices)];
}

const JSON_FIELDS = ['devices', 'retracted'];
const NUMBERS = ['generation', 'enqueuedAt', 'sentAt', 'waitMs'];

/**
 * The inverse of `outcomeFields`, with values as in JSON; a field that this version does not know, or cannot read, stays a
 * text.
 */
export function readOutcome(fields: readonly string[]): Readonly<Record<string, unknown>> {
  const values = fields.flatMap((name, at) => {
    const text = fields[at + 1] ?? '';
    if (at % 2 === 1) return [];
    if (NUMBERS.includes(name) && /^\d{1,15}$/.test(text)) return [[name, Number(text)]];
    if (name === 'silenced' && text === 'true') return [[name, true]];
    return [[name, JSON_FIELDS.includes(name) ? (parseJson(text) ?? text) : text]];
  });
  return Object.fromEntries(values) as Record<string, unknown>;
}

/** Whether some device may have been alerted, judged by what the job remembers. */
export function mayBeSeen(seen: Seen): boolean {
  const { devices = {}, trying = [] } = seen;
  const isSeen = Object.values(devices).some((state) => state === 'delivered' || state === 'ambiguous');
  return isSeen || isLeftOpen(seen) || trying.length > 0;
}

/** Whether a reply left open whether it alerted. An older worker notes only those without an answer (`ambiguous`). */
export function isLeftOpen({ ambiguous = 0, maybe = false }: Seen): boolean {
  return maybe || ambiguous > 0;
}

/** The fields of a job's progress that say whether some device may have been alerted. */
export interface Seen {
  readonly devices?: Readonly<Record<string, unknown>>;
  readonly ambiguous?: number;
  readonly maybe?: boolean | undefined;
  readonly trying?: readonly string[] | undefined;
}

/** Stands in place of a rule if a notification waits for a worker with credentials for its devices. */
export const CREDENTIALS = 'credentials';
