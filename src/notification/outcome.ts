import type { Target } from './device.ts';
import { parseJson } from '../domain/json.ts';
import type { LetterStory } from './story.ts';

/**
 * What is wrong with a provider as a whole, worst first: `auth`: the provider refuses the credentials; `configuration`: the
 * provider refuses the app, or all of the app's tokens; `quota`: the provider asks all workers to slow down; `outage`: the
 * provider cannot be reached, or only answers with errors.
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

/** How a notification ended. A pass that only defers or retries has no outcome. */
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
 * | superseded  | completed: a newer notification is sent in its slot | — |
 * | merged      | completed: the notification was sent as a part of a digest | — |
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
  | ({ readonly kind: 'expired' | 'canceled' } & MaybeShown)
  | ({ readonly kind: 'dropped'; readonly rule: string } & MaybeShown)
  /** `by`: the id of the newer notification, or of the notification that is sent as the digest. */
  | ({ readonly kind: 'superseded' | 'merged'; readonly by: string } & MaybeShown)
  /**
   * `waitMs`: until the slot. `delayMs`: until a worker takes the job again, a little before the slot. `rule`: the cause of the
   * wait that lasts longest. `ruleUntil`: when the block or the quiet time ends, in epoch milliseconds. `before`: how many
   * notifications of the recipient wait before this one.
   */
  | ({ readonly kind: 'requeued'; readonly delayMs: number } & Waited)
  | { readonly kind: 'deferred'; readonly waitMs: number; readonly code: string }
  | { readonly kind: 'yielded' }
  | { readonly kind: 'retried'; readonly waitMs: number; readonly code: string }
  | { readonly kind: 'dead-letter'; readonly reason: DeadLetterReason; readonly message: string };

interface MaybeShown {
  /** An earlier pass was interrupted, or had no answer: a device may have shown the notification. Absent otherwise. */
  readonly maybeShown?: true;
}

/** `maybeShown` as a sentence. */
export const MAYBE_SHOWN = 'It may have been shown: an earlier attempt was interrupted, or had no answer.';

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
  /** What went wrong: the provider's code (`InternalServerError`), or a text. */
  readonly error: string;
}

/** The notifications in a digest that became a dead letter. */
export interface DeadDigest {
  /** How many notifications are in the digest. All but one have ended as `merged`. */
  readonly count: number;
  /** Whether the leader (its job sends the digest) is counted. False only if an earlier version canceled the leader. */
  readonly own: boolean;
}

/** Whether a digest stands for other notifications too. A digest of its leader alone is sent as a normal alert. */
export function hasOthers(digest: DeadDigest | undefined): digest is DeadDigest {
  return digest !== undefined && !(digest.own && digest.count === 1);
}

/** The data of a job of the dead-letter queue. */
export interface DeadLetter {
  /** The notification exactly as the producer enqueued it, even if it was invalid. */
  readonly notification: unknown;
  /**
   * The job's name, if the job was an order and not a notification: `notification` then has the data of that job. Absent for
   * notifications, and in dead letters that an earlier version wrote.
   */
  readonly order?: 'cancel' | 'retract';
  /** Why the notification cannot be delivered. */
  readonly reason: DeadLetterReason;
  /** What went wrong, for people to read. `a < b` means that b caused a. Never contains a token. */
  readonly message: string;
  /** The newest 100 failed attempts, the newest last. */
  readonly attempts: readonly FailedAttempt[];
  /** Epoch milliseconds. */
  readonly deadAt: number;
  /** When the notification was enqueued, before any replay: epoch milliseconds. Absent if an earlier version wrote this. */
  readonly enqueuedAt?: number;
  /** How often the notification was replayed before. */
  readonly generation: number;
  /** For a digest that was tried: its notifications. A replay sends the digest for all of them. Absent otherwise. */
  readonly digest?: DeadDigest;
  /** The devices that were alerted before the others failed, such as `apns#0`. A replay skips them. Absent if none was. */
  readonly delivered?: readonly string[];
  /** The story so far. Absent if no pass was recorded, and neither who enqueued it nor its trace is known. */
  readonly story?: LetterStory;
}

/** How a device of a notification ended: it was alerted, or why not. */
export type DeviceState = 'delivered' | DeadLetterReason;

/** What a completed job returns. BullMQ keeps it with the job, and `producer.status` reads it. */
export interface Completion extends MaybeShown {
  readonly outcome: Exclude<OutcomeName, 'dead-lettered'>;
  /** For `superseded` and `merged`: the id of the notification that is sent in its place. */
  readonly by?: string;
  /** Delivered without sound, vibration or banner, as the producer chose for a blocked notification. Absent otherwise. */
  readonly silenced?: true;
  /** When the provider accepted the notification for the first device: epoch milliseconds. Absent if no device accepted it. */
  readonly sentAt?: number;
  /** How each device ended, by label, such as `apns#0`; a device that did not end is absent. */
  readonly devices: Readonly<Record<string, DeviceState>>;
  /** How many attempts there were, including the one that ended the notification. Absent if an older worker wrote this. */
  readonly attempts?: number;
}

/** What became of a notification: one entry of the stream of outcomes. docs/outcomes.md explains the fields. */
export interface Outcome extends Target, Omit<Completion, 'outcome' | 'attempts'> {
  readonly id: string;
  /** Absent if the notification has no usable recipient. */
  readonly recipientId?: string;
  readonly category?: string;
  readonly outcome: OutcomeName;
  /** Why the notification is a dead letter; absent for the other outcomes. */
  readonly reason?: DeadLetterReason;
  /** How often the notification was replayed before. */
  readonly generation: number;
  /** For a `retracted` outcome: the ids of the notifications that were taken back. Absent otherwise. */
  readonly retracted?: readonly string[];
  /** When the notification was enqueued, or replayed: epoch milliseconds. */
  readonly enqueuedAt: number;
  /** Milliseconds from `enqueuedAt`, or from a later `sendAfter`, until `sentAt`. If nothing was sent: until the end. */
  readonly waitMs: number;
}

/** Milliseconds from enqueuing to the first alert, or to the end without an alert. Never negative, although clocks differ. */
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
const FLAGS = ['silenced', 'maybeShown'];
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
    if (FLAGS.includes(name) && text === 'true') return [[name, true]];
    return [[name, JSON_FIELDS.includes(name) ? (parseJson(text) ?? text) : text]];
  });
  return Object.fromEntries(values) as Record<string, unknown>;
}

/** Whether a device in this state got the notification, or may have. */
export function mayShow(state: unknown): boolean {
  return state === 'delivered' || state === 'ambiguous';
}

/** Whether some device may have been alerted, according to the job's progress. */
export function mayBeSeen(seen: Seen): boolean {
  const { devices = {}, trying = [] } = seen;
  return Object.values(devices).some(mayShow) || isLeftOpen(seen) || trying.length > 0;
}

/** Whether some send may or may not have alerted a device. Older workers note only missing answers (`ambiguous`). */
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
