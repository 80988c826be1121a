import type { Policy, CountedApart, CountedAs, Rule } from '../domain/limits.ts';
import type { DeadDigest } from '../notification/outcome.ts';
import type { QuietHours } from '../domain/quiet-hours.ts';

/** Names a slot: the recipient, and the id that has it. */
export interface SlotId {
  /** The recipient who owns the slots. */
  readonly recipientId: string;
  /** Names the ask. One id never has two slots. A retry after a failed attempt is a new ask, under a new id. */
  readonly id: string;
  /** The category of the ask. If the category has a policy, its limits count the slot in addition to the overall limits. */
  readonly category?: string;
}

/** An ask for a slot: for whom, under which id and which conditions. */
export interface Ask extends SlotId {
  /**
   * The overall policy for this ask. Default: the limiter's own. A policy stored for the recipient (`limit`) overrides both.
   */
  readonly policy?: Policy;
  /**
   * The longest wait, in milliseconds, without the quiet time and the time of a block in it. If the wait would be longer, the
   * ask is refused: nothing is written, and the id keeps the slot that it has. Default: no bound. With 0 a block counts, and
   * an ask may still get a slot a few milliseconds ahead.
   */
  readonly maxWaitMs?: number;
  /**
   * If the id must wait for the end of quiet times, and that wait contains more quiet time than this (ms), the ask is refused
   * by the rule `quiet`. With 0 the id never waits for the end of a quiet time. A wait for another limit may contain quiet
   * times. Default: no bound.
   */
  readonly maxQuietMs?: number;
  /** If the slot lies further ahead than this (ms, with quiet time and blocks), the ask is refused. Default: no bound. */
  readonly expiresInMs?: number;
  /** If this many reservations wait already, a new id is refused and nothing is written. An id that has a slot keeps it. */
  readonly maxPending?: number;
  /**
   * The id was admitted, but nothing was sent and the instant has passed: forget that admission, and answer as for a
   * reservation that is due now. Only for a caller that knows that nothing was sent.
   */
  readonly renew?: boolean;
  /** An id that comes back is not sent before now plus this (ms), for a caller that was late. Default: 0. */
  readonly leadMs?: number;
  /** Adds `rules` to the answer: what every rule has left. Takes Redis a little longer. */
  readonly everyRule?: boolean;
  /**
   * This ask reserves a slot behind all others. The next `moveUp` of the recipient then moves the slot before reservations
   * without `goesFirst`. Default: false.
   */
  readonly goesFirst?: boolean;
}

/** How much room one rule has left now. */
export interface RuleStanding {
  /** The name of the rule: `10/1m`, `gap`, `messages:10/1m`. */
  readonly rule: string;
  /** The rule allows at most this many slots in any window of `perMs`. */
  readonly max: number;
  /** The length of the window, or of the gap, in milliseconds. */
  readonly perMs: number;
  /** How many more slots fit now. Counts the slot of an admission, but no wait and no refusal, even with `countBlocked`. */
  readonly remaining: number;
  /** Milliseconds until the rule has room for one more than `remaining`; 0 if no slot is counted. */
  readonly resetMs: number;
}

/** Part of every answer. */
export interface Standing {
  /**
   * The rule that decides: `10/1m`, `gap`, `block` or `quiet`; `messages:10/1m` for a rule of a category; `none` if there are no
   * rules; `unavailable` if Redis does not answer and `onUnavailable` is `open`. For a wait: its longest cause. For an
   * admission: the rule that would make the next ask wait longest, or the first rule if none would.
   */
  readonly rule: string;
  /** How many more slots that rule has room for now, after this answer's slot; 0 for a wait, Infinity for `none`. */
  readonly remaining: number;
  /** Milliseconds until that rule has room for one more than `remaining`; for a wait, the wait; 0 if no slot is counted. */
  readonly resetMs: number;
  /**
   * How long after its slot an id may be sent without losing the slot, under the policies in force. An id may come back before
   * its slot by half of this, at most 120 ms (docs/limiter.md).
   */
  readonly toleranceMs: number;
  /** The gap of the policies in force, the larger one if there are two; 0 for none. */
  readonly gapMs: number;
  /** Every rule in force, the overall ones first, each gap before the windows. Present if the ask has `everyRule`. */
  readonly rules?: readonly RuleStanding[];
}

/** Why a wait is so long. Part of every answer that is not an admission, and of every reservation that is shown. */
export interface Cause {
  /**
   * The longest cause of the wait: `block`, `quiet`, or a limit (`10/1m`, `gap`, `messages:10/1m`). The limit is the one that
   * alone would make the id wait longest behind the ids before it.
   */
  readonly rule: string;
  /** How many ids are before this id: in the overall line, or in its category's line if the category alone makes it wait. */
  readonly before: number;
  /** When the block ends, or the last quiet time before the slot ends: epoch milliseconds. Absent for other rules. */
  readonly ruleUntil?: number;
}

/** Yes: send at `at`, which is now or a few milliseconds ahead. */
export interface Admitted extends Standing {
  /** The id has a slot now. */
  readonly kind: 'admitted';
  /** The slot: epoch milliseconds on the limiter's clock (Redis's). */
  readonly at: number;
  /** The same instant on this process's `performance.now()`: sleep until then. Ask again if it is long past. */
  readonly sendAt: number;
  /** True if this id was admitted before. The earlier answer may have been used to send; to send again, ask under a new id. */
  readonly repeated: boolean;
}

/** Not yet: a slot is reserved `waitMs` ahead. Come back then, and not before. */
export interface Reserved extends Standing, Cause {
  /** The id has a slot that lies ahead. */
  readonly kind: 'reserved';
  /** The slot: epoch milliseconds on the limiter's clock. */
  readonly at: number;
  /** Milliseconds until the slot. */
  readonly waitMs: number;
}

/** The wait would be longer than the ask allows, or `maxPending` reservations wait already. Nothing was written. */
export interface Refused extends Standing, Cause {
  /** The id got no slot. */
  readonly kind: 'refused';
  /** Which bound of the ask was passed: `maxPending`, or one of `maxWaitMs`, `maxQuietMs` and `expiresInMs`. */
  readonly because: 'max-wait' | 'max-pending';
  /** The wait that a reservation would have had, in milliseconds. */
  readonly waitMs: number;
  /** If it is quiet now: milliseconds until this quiet time ends. Absent if it is not quiet now. */
  readonly quietMs?: number;
}

/** The answer to an ask: a slot now, a slot ahead, or none. */
export type Admission = Admitted | Reserved | Refused;

/** No ask for this recipient is admitted before `until`. */
export interface Block {
  /** Epoch milliseconds on the limiter's clock; at most 366 days ahead. */
  readonly until: number;
  /** For people to read: 1 to 500 characters. */
  readonly reason: string;
}

/** A slot as `inspect` shows it. */
export interface SlotView {
  /** The slot: epoch milliseconds on the limiter's clock. */
  readonly at: number;
  /** The id that has the slot; absent for a sent slot unless the limiter keeps ids (`keepIds`). */
  readonly id?: string;
}

/** Whether a reservation goes before others, or others go before it. */
export interface OrderView {
  /** If it goes first: how many reservations behind it do not go first. Absent if it does not go first. */
  readonly goesBefore?: number;
  /** How often reservations that go first have overtaken this one. Absent if never. */
  readonly overtaken?: number;
}

/** A reserved slot as `inspect` shows it, with the reason for its wait. */
export interface ReservedView extends SlotView, Cause, OrderView {}

/** The quiet hours of a recipient. */
export interface QuietView {
  /** The quiet hours in force. */
  readonly hours: QuietHours;
  /** Where the hours come from: this limiter's options, or stored for the recipient with `quiet`. */
  readonly source: 'limiter' | 'stored';
  /** If it is quiet now: when this quiet time ends, in epoch milliseconds. Absent if it is not quiet now. */
  readonly until?: number;
}

/** What the limiter knows about one recipient. Instants are epoch milliseconds on its clock. */
export interface Inspection {
  /** The time of the answer. */
  readonly now: number;
  /** The overall policy in force. */
  readonly policy: Policy;
  /** Where the policy comes from: this limiter's options, or stored for the recipient with `limit`. */
  readonly source: 'limiter' | 'stored';
  /** When the stored policy ends; absent if it has no end. */
  readonly policyUntil?: number;
  /** Absent if the recipient is not blocked. */
  readonly block?: Block;
  /** Absent if there are no quiet hours, neither of the limiter nor stored for the recipient. */
  readonly quiet?: QuietView;
  /** Slots sent within the longest window, oldest first. */
  readonly sent: readonly SlotView[];
  /** Reserved slots that are not no-shows yet, the next one first. */
  readonly reserved: readonly ReservedView[];
  /** The slot that a new id would get now. */
  readonly nextAt: number;
  /** The longest cause of the wait until `nextAt`: `10/1m`, `gap`, `block`, `quiet`, or `none`. */
  readonly rule: string;
}

/**
 * Limits alerts per recipient. It promises, as docs/limiter.md explains and test/contract/limiter.ts asserts: limits are exact
 * over rolling windows, a blocked id is requeued once, slots are given in the order of asking, no slot is later than needed,
 * one id has one slot, a refusal writes nothing, every key expires. Every call rejects with LimiterUnavailableError if there
 * was no answer, with InputError if an argument is not usable, and with NewerFormatError if a newer version of pushpacer wrote
 * the state of this recipient.
 */
export interface Limiter extends Oversight {
  /** Asks for a slot. */
  admit(ask: Ask): Promise<Admission>;
  /** The answer that `admit` would give, without writing anything. */
  peek(ask: Ask): Promise<Admission>;
  /** Gives back a sent slot, after a send that certainly alerted nobody. True if the id had such a slot. */
  refund(slot: SlotId): Promise<boolean>;
  /** Gives back a reservation that will not be used. True if the id had one. */
  cancel(slot: SlotId): Promise<boolean>;
  /**
   * Gives each reservation of the recipient its earliest free slot, in the order of the reservations. Reservations with
   * `goesFirst` are moved before others, as far as `overtaking` allows. Call it when a reservation was given back, or when a
   * reservation with `goesFirst` must wait. It is safe to repeat.
   */
  moveUp(recipientId: string, follow?: Follow): Promise<void>;
}

/** A reservation that an operator's command, or a cancel, has moved to another slot, with the cause of its wait. */
export interface Moved extends Cause {
  /** Absent if the limiter stores only a digest: for an id of more than 160 characters, or not only of visible ASCII. */
  readonly id?: string;
  /** The category of the reservation, if that category has a policy of its own. */
  readonly category?: string;
  /** The slot before the move: epoch milliseconds on the limiter's clock. */
  readonly from: number;
  /** The slot now. */
  readonly at: number;
}

/** How an operator's command reports the reservations that it moves. */
export interface Follow {
  /**
   * Called with the reservations that are about to move to earlier, each part before it moves. Change the due times of their jobs
   * here, and look at them again in `onMoved`: if the process ends in between, a job comes too early, and asks once more. Without
   * it the job would come too late.
   */
  readonly onMoving?: ((moving: readonly Moved[]) => void | Promise<void>) | undefined;
  /**
   * Called with the reservations that have moved, part by part: each part when it is done. The next part waits until the
   * returned promise settles. Wake the jobs that moved to earlier, or they come late. A reservation that moves twice is
   * reported twice.
   */
  readonly onMoved?: ((moved: readonly Moved[]) => void | Promise<void>) | undefined;
  /**
   * Called with the jobs that have no slot of their own: parts of digests, and notifications that end without being sent. The
   * slot for which they wait may be earlier now, so they should ask again.
   */
  readonly onUnslotted?: ((jobIds: readonly string[]) => Promise<void>) | undefined;
  /** No slot is moved to earlier than now plus this (ms), so that there is time to wake its job. Default: 0. */
  readonly leadMs?: number | undefined;
}

/**
 * An operator's commands on one recipient. Each is in force at once for every process that shares the limiter. Then all
 * reservations are planned anew, in their order: each gets its earliest slot under the new policies, later or earlier than
 * before. An id that comes back at its old slot gets the new slot as the answer.
 */
export interface Oversight {
  /** Stores an overall policy for this recipient, for ever or until `until` (epoch milliseconds, ahead of now). */
  limit(recipientId: string, policy: Policy, options?: Follow & { readonly until?: number }): Promise<void>;
  /** Removes the stored policy. True if there was one. */
  unlimit(recipientId: string, follow?: Follow): Promise<boolean>;
  /** Blocks the recipient: no ask is admitted before the end of the block. */
  block(recipientId: string, block: Block, follow?: Follow): Promise<void>;
  /** Ends the block. True if there was one. */
  unblock(recipientId: string, follow?: Follow): Promise<boolean>;
  /** Stores quiet hours for this recipient, in place of the limiter's own. Hours without a window mean no quiet time. */
  quiet(recipientId: string, hours: QuietHours, follow?: Follow): Promise<void>;
  /** Removes the stored quiet hours: the limiter's are in force again. True if there were any. */
  unquiet(recipientId: string, follow?: Follow): Promise<boolean>;
  /** Forgets the recipient's sent slots. A stored policy, a block and the reservations stay. True if there were sent slots. */
  reset(recipientId: string, follow?: Follow): Promise<boolean>;
  /** Everything that is stored about the recipient; writes nothing. */
  inspect(recipientId: string): Promise<Inspection>;
}

/** With which other notifications of the recipient a notification waits. */
export interface Join {
  /** `latest`: only the newest notification is sent, in the slot of the oldest. `digest`: one notification is sent for all. */
  readonly kind: 'latest' | 'digest';
  /** Notifications of the recipient that wait under the same key wait together. */
  readonly key: string;
  /** Since when it waits: epoch milliseconds. Of two `latest` notifications, the one with the later time is the newer one. */
  readonly at: number;
  /** When the notification expires, in epoch milliseconds. It joins no digest that expires earlier. Default: never. */
  readonly expires?: number | undefined;
  /** The most notifications in one digest. */
  readonly max: number;
}

/** An ask for a notification. The id is the notification's job id, `/` and a number, since one notification has several asks. */
export interface WaitingAsk extends Ask {
  /** With which other notifications it waits if it is blocked. Default: with none. */
  readonly join?: Join | undefined;
  /** If the ask is refused, the notification will be sent without a slot, so it can no longer be canceled. Default: false. */
  readonly claim?: boolean | undefined;
  /**
   * If the ask is refused in a quiet time, the notification waits for the end of the quiet time without a slot, and
   * `onUnslotted` reports it. Default: false.
   */
  readonly untilAwake?: boolean | undefined;
  /**
   * The ask also waits behind reservations that are overdue by more than two seconds, until they are forgotten. For a job that
   * an overloaded queue took before due jobs: the due jobs will still come. Default: false.
   */
  readonly behindOverdue?: boolean | undefined;
  /**
   * When the notification was first enqueued, before any replay: epoch milliseconds. The id of its first job and this instant
   * identify the notification, because a producer may use an id again.
   */
  readonly enqueuedAt?: number | undefined;
  /**
   * With `renew`: the slot of the admission that was not used. If the id has another slot by now, another worker was admitted
   * under it and may have sent: then nothing is forgotten, and the answer is that admission, `repeated`.
   */
  readonly unusedAt?: number | undefined;
}

/** A notification that ends, named by the id of its next ask. */
export interface Ending extends SlotId {
  /** As `enqueuedAt` in the asks of this notification. */
  readonly enqueuedAt: number;
  /** `dead`: as a dead letter. `unseen`: as a dead letter that surely alerted nobody: its digest may be sent without it. */
  readonly how: 'ended' | 'dead' | 'unseen';
}

/** What became of a slot that was given back. */
export interface Freed {
  /** There was such a slot, and it is free now. */
  readonly hadSlot: boolean;
  /** Present if it is free now and others wait, which may have earlier slots: call `moveUp`. */
  readonly othersWait?: true;
}

/** What became of all that a notification held; `hadSlot`: a slot ahead. */
export interface Released extends Freed {
  /** The ask that leads the digest from now on, with its slot. Absent if no ask leads it, or if that ask has no slot. */
  readonly leader?: SlotView;
  /** What its digest is made of, if no other notification leads the digest. Absent if there is no digest. */
  readonly digest?: Digest;
}

/** The notification ends without being sent. It gets this answer whenever it asks, until `forget`. */
export interface NotToBeSent {
  /** It is not to be sent. */
  readonly kind: 'ended';
  /** `canceled`; `superseded`: a newer notification took its slot; `merged`: it is a part of a digest that was sent. */
  readonly how: 'canceled' | 'superseded' | 'merged';
  /** The job of that newer notification, or of the digest; absent for `canceled`. */
  readonly by?: string;
  /** It gave back a slot, ahead or past. So call `moveUp`: the reservations behind it may have earlier slots now. */
  readonly gaveBackSlot: boolean;
}

/** What a digest is made of. */
export type Digest = DeadDigest;

/** A limiter whose asks may wait together, and be canceled (canceller.ts). */
export interface WaitingLimiter extends Omit<Limiter, 'admit'> {
  /**
   * Asks for a slot. The admission of a digest says what the digest is made of. `canMoveUp`, of an ask that waits with
   * `enqueuedAt`: the first of its line has a later slot than the limits need, so call `moveUp`. A slot was given back and
   * nobody moved the line, or a process ended while it moved the line.
   */
  admit(ask: WaitingAsk): Promise<(Admission & { readonly digest?: Digest; readonly canMoveUp?: true }) | NotToBeSent>;
  /**
   * As `refund`, but only for the slot at this instant: if the id was admitted anew since, it keeps that slot. So a worker
   * takes nothing from another one that has the job by now.
   */
  refundAt(slot: SlotId, at: number): Promise<Freed>;
  /**
   * Gives back, or hands on, everything that a notification holds while it waits: its slot ahead, and its place in a digest. To
   * be called whenever a notification ends in another way than by an admission. It is safe to repeat.
   */
  release(ending: Ending): Promise<Released>;
  /** Forgets how the notification ended and what its digest was made of, since its job has ended. It is safe to repeat. */
  forget(ending: Omit<Ending, 'how'>): Promise<void>;
  /**
   * For an ask that was refused a wait of `refusedMs` (milliseconds): how long its id would wait if it went first and the line
   * had moved up. Writes nothing.
   */
  foreseeFirst(slot: SlotId, refusedMs: number): Promise<ForeseenFirst>;
}

/** How long an id would wait if it went first. All in milliseconds. */
export interface ForeseenFirst {
  readonly waitMs: number;
  /** How much of the wait is quiet time. */
  readonly quietMs: number;
  /** How much of the wait counts for `maxWaitMs`. */
  readonly countedMs: number;
}

/**
 * The options of the limiter of background pushes, or of Live Activities. That limiter has other keys and rules than the
 * limiter of alerts.
 *
 * @param prefix the prefix of the limiter of alerts: `{pushpacer}` → `{pushpacer}:background`
 */
export function apartOptions(
  kind: CountedApart,
  rules: readonly Rule[],
  prefix: string,
): { policy: Policy; prefix: string } {
  return { policy: { rules, minGapMs: 0 }, prefix: limiterPrefix(kind, prefix) };
}

/** `{pushpacer}` → `{pushpacer}:background`; the limiter of alerts has the prefix itself. */
export function limiterPrefix(kind: CountedAs, prefix: string): string {
  return kind === 'alert' ? prefix : `${prefix}:${kind}`;
}

/** Makes one value for each kind of limiter: `of` is called with that limiter's prefix. */
export function forEachKind<T>(prefix: string, of: (limiterPrefix: string) => T): Readonly<Record<CountedAs, T>> {
  const made = (kind: CountedAs): T => of(limiterPrefix(kind, prefix));
  return { alert: made('alert'), background: made('background'), liveactivity: made('liveactivity') };
}
