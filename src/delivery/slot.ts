import { countedAs, placeOf } from '../domain/limits.ts';
import { DEFAULT_DIGEST } from '../notification/schema.ts';
import { hasOthers, mayBeSeen, type Result } from '../notification/outcome.ts';
import { retractionOf } from '../notification/retraction.ts';
import { SEND_AFTER, sleepUntil, waitsFrom, within } from '../domain/time.ts';
import type { Ending, NotToBeSent, Join, WaitingAsk, Standing } from '../limiter/limiter.ts';
import { mayHaveAlerted, putBackMs, timeLeftMs, type AdmittedSlot, type Context, type Prepared } from './context.ts';
import {
  duesOf,
  goFirst,
  leadMs,
  limiterFor,
  limiterOf,
  lineFor,
  lineOf,
  moveUp,
  moveUpInto,
  wouldBeInTime,
} from './lines.ts';
import type { DeliverParts, DeliveryLimiter, Turns } from './parts.ts';
import type { Progress } from './progress.ts';
import { admissionFacts } from './trace.ts';

/** A pass waits at most this long for earlier passes: one of them may wait for a provider that accepts no connections. */
const MAX_WAIT_MS = 1_000;

export function createTurns(maxWaitMs: number = MAX_WAIT_MS): Turns {
  /** The latest turn of each recipient, if it has not ended. */
  const latest = new Map<string, Turn>();
  return {
    take(recipientId) {
      const before = latest.get(recipientId);
      const turn: Turn = { ended: undefined };
      latest.set(recipientId, turn);
      const end = (): void => {
        if (latest.get(recipientId) === turn) latest.delete(recipientId);
        turn.ended?.resolve();
      };
      if (before === undefined) return end;
      before.ended ??= Promise.withResolvers();
      return within(before.ended.promise, maxWaitMs).then(() => end);
    },
  };
}

interface Turn {
  /** Created only when another pass waits for the end of this turn. */
  ended: PromiseWithResolvers<void> | undefined;
}

/**
 * `slot`: send now in `context.slot`. `missed`: every slot was missed. `lock-lost`: another worker may have the job. Otherwise
 * an answer of the limiter.
 */
export type SlotAnswer =
  | { readonly kind: 'slot'; readonly prepared: Prepared }
  | Exclude<Answer, { kind: 'admitted' }>
  | NotToBeSent
  | { readonly kind: 'missed' }
  | { readonly kind: 'lock-lost' };

/**
 * A request leaves at most this much after its slot, or not at all: the next alert's slot keeps the gap from this slot, not
 * from this send. A person does not notice 25 ms. The tests allow 50 ms: 25 ms are left for the way to the provider.
 */
const MAX_LATE_MS = 25;
/** Where the gap is short, a request is late by at most this share of the gap. */
const MAX_LATE_SHARE = 0.25;
/** How often a missed slot is asked for again. That helps after a short standstill, not on a machine that is always late. */
const MAX_RENEWALS = 5;
/** From its second missed slot on, a pass asks for a later one: later by as much as it was late, by this in all at most. */
const MAX_LEAD_MS = 500;
/** `prepare` is called this long before the slot. */
const PREPARE_MS = 25;
/** A pass that sleeps for longer leaves its place to another job meanwhile. */
const SHORT_SLEEP_MS = 30;

interface WhileTaking {
  /** Called when the ask was sent. The next pass may ask then, since the limiter answers in the order of asking. */
  readonly onAsked: () => void;
  /** Called a little before the slot. Called again if the quota tokens that it took have expired. */
  readonly prepare: () => Promise<Prepared>;
}

/**
 * Asks the limiter for a slot, and sleeps until the slot: `context.slot`. If the process stood still and missed the slot, the
 * pass asks again under the same id (`renew`: nothing was sent), and sends nothing before the answer. So the limiter knows of
 * every send that is late by more than `maxLateMs`, even if Redis fails at that moment. `repeated` means that another pass got
 * this slot, and may have sent in it: that slot stays counted, and the pass asks under the next id. But if the last pass
 * certainly sent nothing, the slot is its own, and is asked for anew.
 *
 * Before each ask, the lock is looked at: if the process stood still for longer, another worker has the job. That worker is
 * given other slots, or the same id at a later instant. So a slot is named by its id and its instant wherever it is given up.
 */
export async function takeSlot(context: Context, parts: DeliverParts, during: WhileTaking): Promise<SlotAnswer> {
  const { signal, lock } = context;
  const limiter = limiterOf(context, parts);
  let { asks } = context.progress;
  let prepared: Prepared | undefined;
  let aheadMs = 0;
  for (let tries = 0; tries <= MAX_RENEWALS; tries++) {
    if (!(await lock.isValid())) return answered(context, asks, { kind: 'lock-lost' });
    context.isAsked = true;
    const ask = askOf(context, asks, aheadMs, parts);
    const asking = limiter.admit(ask);
    context.trace?.during('admit', asking, admissionFacts);
    during.onAsked();
    let admission = await asking;
    if (ask.goesFirst === true || canMoveUp(admission)) admission = await movedUp(context, ask, admission, parts);
    if (admission.kind !== 'admitted') {
      await leaveMissed(context, admission, parts);
      return answered(context, asks, admission);
    }
    if (admission.digest !== undefined) context.progress = { ...context.progress, digest: admission.digest };
    const { at, sendAt, repeated } = admission;
    const isOwn = !repeated || (asks === context.before.asks && (await isOfLastPass(context)));
    context.admitted = isOwn ? { slot: ask, at } : undefined;
    if (!isOwn) {
      asks += 1;
      // Saved also if this pass ends without an answer: the next pass must not take the repeated slot for its own.
      context.progress = { ...context.progress, asks };
    }
    if (repeated) continue;
    if (prepared === undefined || prepared.tokensUntil < sendAt) {
      await sleep(sendAt - PREPARE_MS, context);
      prepared = await during.prepare();
    }
    if (sendAt > performance.now()) await sleep(sendAt, context);
    if (signal.aborted) break;
    const lateMs = performance.now() - sendAt;
    const mostMs = maxLateMs(admission, countedAs(context.notification) === 'alert' ? parts.overallGapMs : 0);
    if (lateMs <= mostMs) {
      context.slot = { at, sendAt, sendBy: sendAt + mostMs, leadMs: leadMs(admission) };
      return answered(context, asks, { kind: 'slot', prepared });
    }
    if (tries > 0) aheadMs = Math.min(aheadMs + lateMs, MAX_LEAD_MS);
  }
  return answered(context, asks, { kind: 'missed' });
}

/** A slot was given back, and nobody moved the line: its process ended, or its Redis did not answer. So this pass moves it. */
function canMoveUp(answer: Answer): boolean {
  return answer.kind === 'reserved' && answer.canMoveUp === true;
}

/**
 * Whether a slot that the limiter gave before is one that the last pass certainly did not use. The lock is asked when the slot
 * is known, so no other worker can have been given it.
 */
async function isOfLastPass({ isSlotUnused, admitted, lock }: Context): Promise<boolean> {
  return isSlotUnused && admitted === undefined && lock.isValid();
}

/** The slot that this pass missed is free: the answer to its renewal is no slot now. */
async function leaveMissed(context: Context, answer: Answer, parts: DeliverParts): Promise<void> {
  if (context.admitted === undefined) return;
  if (answer.kind !== 'reserved') return freeSlot(context, parts);
  context.admitted = undefined; // the limiter has forgotten it already, so others may be earlier
  if (answer.before > 0) await moveUp(context, parts);
}

/**
 * The final answer for a notification that goes first, or whose line can move up; `answer` is the limiter's first answer. If
 * the notification must wait, its line is moved, itself before others if it goes first, and its new slot is the final answer.
 * If it was refused because of a long wait, but would wait short enough before others, it asks for a slot without bounds. The
 * last ask has no bounds either: others may have moved before the notification meanwhile.
 */
async function movedUp(context: Context, ask: WaitingAsk, answer: Answer, parts: DeliverParts): Promise<Answer> {
  const limiter = limiterOf(context, parts);
  const unbounded = { ...ask, maxWaitMs: Infinity, expiresInMs: Infinity, maxQuietMs: Infinity };
  if (answer.kind === 'refused') {
    if (answer.because !== 'max-wait' || !waits(context)) return answer;
    if (!(await wouldBeInTime(context, ask, answer, parts))) return answer;
    const reserved = await limiter.admit(unbounded);
    if (reserved.kind !== 'reserved') return reserved;
  } else if (answer.kind !== 'reserved' || (answer.before === 0 && !canMoveUp(answer))) {
    return answer;
  }
  const comeBack = context.place.leave();
  await goFirst(context, ask.id, parts);
  comeBack();
  return limiter.admit(unbounded);
}

type Answer = Awaited<ReturnType<DeliveryLimiter['admit']>>;

/**
 * How long after its slot a request may be handed to the sender, in milliseconds. If a category's gap is wider, the overall gap
 * decides, because alerts of other categories may follow after the overall gap.
 */
export function maxLateMs({ gapMs }: Pick<Standing, 'gapMs'>, overallGapMs = 0): number {
  const gaps = [gapMs, overallGapMs].filter((ms) => ms > 0);
  return Math.min(MAX_LATE_MS, MAX_LATE_SHARE * Math.min(...gaps));
}

/**
 * How long after its slot the first request of the notification was handed over, if the job was put back until a slot, or until
 * a quota has room. Undefined for other jobs, and if nothing was handed over. `before`: what the job remembered; `now`: epoch
 * milliseconds.
 */
export function slotLateMs(
  { slot, tried }: Pick<Context, 'slot' | 'tried'>,
  before: Pick<Progress, 'dueAt' | 'rule'>,
  now: number,
): number | undefined {
  const { dueAt, rule } = before;
  if (slot === undefined || dueAt === undefined || rule === undefined || rule === SEND_AFTER) return undefined;
  const sent = tried.filter(({ reply }) => reply.unsent !== true);
  if (sent.length === 0) return undefined;
  const sentAgoMs = performance.now() - Math.min(...sent.map(({ handedOverAt }) => handedOverAt));
  return Math.max(0, now - sentAgoMs - (dueAt + slot.leadMs));
}

/** Sleeps, and leaves the pass's place to another job meanwhile, unless the sleep is short. */
async function sleep(until: number, context: Context): Promise<void> {
  const leftMs = until - performance.now();
  if (leftMs <= 0) return;
  const { signal, place } = context;
  const comeBack = leftMs > SHORT_SLEEP_MS ? place.leave() : undefined;
  await sleepUntil(until, signal);
  comeBack?.();
}

function answered(context: Context, asks: number, answer: SlotAnswer): SlotAnswer {
  const { trying, ...progress } = context.progress;
  const isSent = answer.kind === 'slot';
  // `trying` is kept only if the slot that it was prepared for is used: else nothing is sent.
  context.progress = { ...progress, ...(isSent && trying && { trying }), asks, unsent: undefined };
  return answer;
}

function askOf(context: Context, asks: number, aheadMs: number, parts: DeliverParts): WaitingAsk {
  // If a retraction were refused, the alert would stay on the screen.
  const bounds = retractionOf(context.notification) === undefined ? parts : { maxWaitMs: Infinity };
  const { maxPending, maxWaitMs }: Pick<DeliverParts, 'maxPending' | 'maxWaitMs'> = bounds;
  const { admitted } = context;
  const { onThrottle, onQuiet } = context.notification;
  const timeLeft = timeLeftMs(context, parts);
  const join = joinOf(context, asks);
  return {
    ...scopeOf(context),
    id: askId(context.jobId, asks),
    renew: admitted !== undefined,
    ...(admitted && { unusedAt: admitted.at }),
    ...(aheadMs > 0 && { leadMs: aheadMs }),
    maxWaitMs: waits(context) ? maxWaitMs : 0,
    ...(timeLeft !== Infinity && { expiresInMs: timeLeft }),
    ...(onQuiet !== 'delay' && { maxQuietMs: 0 }),
    ...(maxPending !== undefined && { maxPending }),
    ...(join !== undefined && { join }),
    ...(goesFirst(context, parts) && { goesFirst: true }),
    ...(context.isRaised && { behindOverdue: true }),
    ...((onThrottle === 'silence' || onQuiet === 'silence') && { claim: true }),
    ...(!waits(context) && onQuiet === 'delay' && { untilAwake: true }),
    enqueuedAt: context.firstEnqueuedAt,
  };
}

function goesFirst({ notification: { priority } }: Context, { isHighFirst }: DeliverParts): boolean {
  return priority === 'high' && isHighFirst;
}

export function mayWait({ notification: { onThrottle } }: Pick<Context, 'notification'>): boolean {
  return onThrottle !== 'drop' && onThrottle !== 'silence';
}

/**
 * Whether the notification waits for its slot. After its first slot it always waits, whatever its producer wanted: otherwise
 * that slot would block the sends that are left, for example to another device.
 */
function waits(context: Context): boolean {
  return context.progress.asks > 0 || mayWait(context);
}

/** Which notifications it waits with. After an admission it joins no digest: it may have alerted, or have parts already. */
function joinOf({ notification, firstEnqueuedAt, progress }: Context, asks: number): Join | undefined {
  const { onThrottle, collapseId, digest, category = '', expiresAt: expires } = notification;
  if (onThrottle === 'latest' && collapseId !== undefined) {
    const at = waitsFrom(firstEnqueuedAt, notification); // with `sendAfter`, it counts as enqueued at that time
    return { kind: onThrottle, key: `${category}:${collapseId}`, at, max: 1 };
  }
  const wasAdmitted = asks > 0 || progress.digest !== undefined;
  if (onThrottle !== 'digest' || digest === undefined || wasAdmitted) return undefined;
  return {
    kind: onThrottle,
    key: `${category}:${digest.key}`,
    at: firstEnqueuedAt,
    expires,
    max: digest.maxSize ?? DEFAULT_DIGEST,
  };
}

/** `msg-8841/0`. A retry asks under the next number: the failed attempt may have alerted, so its slot stays counted. */
function askId(jobId: string, asks: number): string {
  return `${jobId}/${asks}`;
}

/** The recipient and the category for which the notification asks. */
function scopeOf({ notification: { recipientId, category } }: Context) {
  return { recipientId, ...(category !== undefined && { category }) };
}

/** What must be known of a notification that has ended, to give back what it held. */
interface Ended {
  readonly jobId: string;
  /** The data of its job. */
  readonly data: unknown;
  readonly firstEnqueuedAt: number;
  readonly progress: Pick<Progress, 'asks' | 'digest'>;
}

type GiveBackParts = Pick<DeliverParts, 'limiter' | 'apart' | 'redelay' | 'toleranceMs' | 'moveUps'>;

/**
 * Gives back, or hands on, everything that a notification held while it waited: its slot ahead, its place in a digest, and the
 * lead of a digest. Those behind a slot that is free move up. Called in whatever way the notification ends. If no other
 * notification leads the digest, the answer says what the digest is made of: its dead letter then stands for all its
 * notifications. If the limiter does not answer, the slot is free again a minute after its time, and the parts of the digest go
 * on without their leader.
 */
export async function giveBack<P extends Ended['progress']>(
  ended: Ended & { readonly progress: P },
  how: Ending['how'],
  parts: GiveBackParts,
): Promise<P> {
  const { progress } = ended;
  const ending = endingOf(ended, parts);
  if (ending === undefined) return progress;
  const { limiter, slot, line } = ending;
  const { leader, digest } = (await moveUpInto(limiter.release({ ...slot, how }), line, parts)) ?? {};
  if (leader !== undefined)
    await parts.redelay(slot.recipientId, duesOf([leader], parts.toleranceMs)).catch(() => undefined);
  return { ...progress, ...(digest && { digest }) };
}

/** Call when BullMQ has stored the end of the job. If Redis does not answer, the limiter forgets the notification later. */
export async function forget(ended: Ended, parts: Pick<GiveBackParts, 'limiter' | 'apart'>): Promise<void> {
  const ending = endingOf(ended, parts);
  await ending?.limiter.forget(ending.slot).catch(() => undefined);
}

function endingOf({ jobId, data, firstEnqueuedAt, progress }: Ended, parts: Pick<GiveBackParts, 'limiter' | 'apart'>) {
  const place = placeOf(data);
  if (place === undefined) return undefined;
  const { kind, ...scope } = place;
  const slot = { ...scope, id: askId(jobId, progress.asks), enqueuedAt: firstEnqueuedAt };
  return { limiter: limiterFor(kind, parts), slot, line: lineFor(kind, scope.recipientId, parts) };
}

/** A slot that was not used is kept for the next pass if the job is put back for no longer than this; else others may use it. */
const KEPT_UNUSED_MS = 5_000;

/**
 * `giveBack` for a pass, and for a slot in which this pass alerted nobody. Such a slot is the pass's own, so it is given back
 * also if another worker has the job. What the notification holds otherwise is then that worker's.
 */
export async function release(context: Context, result: Result, parts: DeliverParts): Promise<void> {
  const { newer, stalls, lock } = context;
  if (newer !== undefined) return;
  const isKept = context.progress.unsent === true && (putBackMs(result) ?? Infinity) <= KEPT_UNUSED_MS;
  if (!mayHaveAlerted(context) && (!isKept || context.error !== undefined)) {
    context.admitted ??= await unusedOfLastPass(context, result, parts);
    await freeSlot(context, parts);
  }
  if (result.kind === 'yielded') return;
  if (mayHold(context, result) && (await lock.isValid())) {
    const deadHow = mayBeSeen(context.progress) || stalls > 0 ? 'dead' : 'unseen';
    context.progress = await giveBack(context, result.kind === 'dead-letter' ? deadHow : 'ended', parts);
  }
  // The worker that had the job before may have died just after it gave a slot back.
  if (stalls > 0) await moveUp(context, parts);
}

/** Gives back the slot of this pass, in which certainly nobody was alerted. */
async function freeSlot(context: Context, parts: DeliverParts): Promise<void> {
  const { admitted } = context;
  if (admitted === undefined) return;
  context.admitted = undefined;
  context.progress = { ...context.progress, unsent: undefined };
  const freeing = limiterOf(context, parts).refundAt(admitted.slot, admitted.at);
  await moveUpInto(freeing, lineOf(context, parts), parts);
}

/** The slot that the last pass got and certainly did not use, if this pass has ended without an ask. */
async function unusedOfLastPass(
  context: Context,
  { kind }: Result,
  parts: DeliverParts,
): Promise<AdmittedSlot | undefined> {
  if (!context.isSlotUnused || context.isAsked || kind === 'yielded') return undefined;
  const slot = { ...scopeOf(context), id: askId(context.jobId, context.before.asks) };
  const seen = await limiterOf(context, parts)
    .peek(slot)
    .catch(() => undefined);
  if (seen?.kind !== 'admitted' || !seen.repeated || !(await isOfLastPass(context))) return undefined;
  return { slot, at: seen.at };
}

/** Whether the limiter still remembers, when the job has ended, how the notification ended or what its digest was made of. */
export function isKnown({ progress: { digest }, isEnded }: Context, { kind }: Result): boolean {
  return isEnded || (hasOthers(digest) && (kind === 'delivered' || kind === 'expired'));
}

/**
 * False if the notification holds nothing in the limiter: it was sent in its slot, or an answer of the limiter ended it, or its
 * first pass was refused a slot, which writes nothing.
 */
function mayHold(context: Context, { kind }: Result): boolean {
  const { passes, progress, slot, notification } = context;
  switch (kind) {
    case 'requeued':
    case 'deferred':
    case 'yielded':
      return false;
    case 'retried': // after an error; if that was in the send, it joins no digest any more
      return context.error !== undefined && (!mayHaveAlerted(context) || notification.onThrottle === 'digest');
    case 'delivered':
    case 'retracted':
      return passes > 1 && (slot === undefined || !mayWait(context));
    case 'expired': // perhaps because the quiet time lasts too long
      return passes > 1 || (!mayWait(context) && context.isAsked);
    case 'dropped':
      return passes > 1;
    case 'dead-letter':
      return passes > 1 || progress.digest !== undefined || context.error !== undefined;
    default:
      return !context.isAsked;
  }
}
