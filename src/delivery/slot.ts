import { DEFAULT_DIGEST } from '../domain/digest.ts';
import { sleepUntil } from '../domain/time.ts';
import type { Admission, Limiter, Standing } from '../limiter/limiter.ts';
import type { Ended, Join, WaitingAsk } from '../limiter/waiting.ts';
import { timeLeftMs, type Context, type Slot } from './context.ts';
import type { DeliverParts, DeliveryLimiter } from './parts.ts';

/** What came of asking for a slot: one to send in now, the limiter's no, or slots that were missed again and again. */
export type SlotAnswer = Slot | Exclude<Admission, { kind: 'admitted' }> | Ended | { readonly kind: 'missed' };

const MISSED: SlotAnswer = { kind: 'missed' };

/**
 * A request that leaves this much after its slot is on time: a person does not notice it, and even a quiet machine is late
 * by a few milliseconds. With 25 ms, gaps were measured on a busy machine that were 60 ms short.
 */
const ON_TIME_MS = 15;
/** A send that would be later than half the gap, or than this, is not sent; it asks anew. */
const MAX_LATE_MS = 5_000;
const MAX_LATE_WITHOUT_GAP_MS = 500;
/** Asking anew helps after a short standstill, not on a machine that is always late. */
const MAX_RENEWALS = 5;

/**
 * How long after its slot a request may be handed to the sender, in milliseconds: half the gap. Where a category's gap is
 * wider than the overall one, half of the overall gap: alerts of other categories may follow after that.
 */
export function maxLateMs({ gapMs }: Pick<Standing, 'gapMs'>, overallGapMs = 0): number {
  // An urgent category may have no gap, but the others keep the overall one from it.
  if (gapMs === 0) return Math.min(MAX_LATE_WITHOUT_GAP_MS, overallGapMs === 0 ? Infinity : overallGapMs / 2);
  return Math.min((overallGapMs === 0 ? gapMs : Math.min(gapMs, overallGapMs)) / 2, MAX_LATE_MS);
}

/**
 * A blocked job comes back this much before its slot, and the worker sleeps until the slot. Most jobs come back late by less
 * than this (a few ms on a quiet machine, 20 with two dozen workers on two cores). It is at most half of
 * the limiter's tolerance, so that no job comes back too early.
 */
export function leadMs({ toleranceMs }: Pick<Standing, 'toleranceMs'>): number {
  return Math.min(25, Math.floor(toleranceMs / 2));
}

/**
 * Asks the limiter for a slot, and sleeps the few milliseconds until it: `context.slot`. A slot that was missed while the
 * process stood still is asked for again under the same id (`renew`: nothing was sent in it). `repeated` means that an
 * earlier worker got this slot and may have sent in it before it died: that slot stays counted, and the next id asks.
 *
 * @param onAsked called when an ask is on its way: the limiter answers what is asked after it after it
 */
export async function takeSlot(context: Context, parts: DeliverParts, onAsked?: () => void): Promise<SlotAnswer> {
  const { signal } = context;
  const limiter = limiterOf(context, parts);
  let { asks } = context.progress;
  let isUnused = context.isSlotUnused;
  for (let tries = 0; tries <= MAX_RENEWALS; tries++) {
    const ask = askOf(context, asks, isUnused, parts);
    const asking = limiter.admit(ask);
    onAsked?.();
    const admission = await asking;
    if (admission.kind === 'refused' && isUnused) await limiter.refund(ask);
    if (admission.kind !== 'admitted') return answered(context, asks, admission);
    if (admission.digest !== undefined) context.progress = { ...context.progress, digest: admission.digest };
    if (admission.repeated) {
      asks += 1;
      isUnused = false;
      continue;
    }
    isUnused = true;
    const { at, sendAt } = admission;
    if (sendAt > performance.now()) await sleepUntil(sendAt, signal);
    if (signal.aborted) break;
    const sendBy = sendAt + maxLateMs(admission, isBackground(context) ? 0 : parts.overallGapMs);
    if (performance.now() <= sendBy) return answered(context, asks, { kind: 'slot', ask, at, sendAt, sendBy });
  }
  if (isUnused) await limiter.refund({ ...scopeOf(context), id: askId(context.jobId, asks) });
  return answered(context, asks, MISSED);
}

function answered(context: Context, asks: number, answer: SlotAnswer): SlotAnswer {
  context.progress = { ...context.progress, asks, unsent: undefined };
  if (answer.kind === 'slot') context.slot = answer;
  return answer;
}

function askOf(context: Context, asks: number, renew: boolean, parts: DeliverParts): WaitingAsk {
  const { maxPending, maxWaitMs } = parts;
  const { onThrottle, onQuiet } = context.notification;
  const timeLeft = timeLeftMs(context, parts);
  const join = joinOf(context, asks);
  return {
    ...scopeOf(context),
    id: askId(context.jobId, asks),
    renew,
    maxWaitMs: mayWait(context) ? maxWaitMs : 0,
    ...(timeLeft !== Infinity && { expiresInMs: timeLeft }),
    ...(onQuiet !== 'delay' && { maxQuietMs: 0 }),
    ...(maxPending !== undefined && { maxPending }),
    ...(join !== undefined && { join }),
    ...((onThrottle === 'silence' || onQuiet === 'silence') && { claim: true }),
  };
}

function mayWait({ notification: { onThrottle } }: Pick<Context, 'notification'>): boolean {
  return onThrottle !== 'drop' && onThrottle !== 'silence';
}

/** With whom it waits. What was to be sent before may have alerted, so a retry goes as it was, and joins no digest. */
function joinOf({ notification, enqueuedAt: at }: Context, asks: number): Join | undefined {
  const { onThrottle, collapseId, digest, category = '', expiresAt: expires } = notification;
  if (onThrottle === 'latest' && collapseId !== undefined) {
    return { kind: onThrottle, key: `${category}:${collapseId}`, at, max: 1 };
  }
  if (onThrottle !== 'digest' || digest === undefined || asks > 0) return undefined;
  return { kind: onThrottle, key: `${category}:${digest.key}`, at, expires, max: digest.maxSize ?? DEFAULT_DIGEST };
}

/** `msg-8841/0`. A retry asks under the next number: the failed attempt may have alerted, so its slot stays counted. */
function askId(jobId: string, asks: number): string {
  return `${jobId}/${asks}`;
}

/** The job of an ask: `msg-8841/0` → `msg-8841`. Undefined where a library user asked under an id of another form. */
export function jobIdOfAsk(askId: string): string | undefined {
  return /^(.+)\/\d+$/s.exec(askId)?.[1];
}

type Limiters = Pick<DeliverParts, 'limiter' | 'backgroundLimiter'>;

/** A background push does not alert, so it is outside of the limits of alerts. */
export function limiterOf(context: Context, { limiter, backgroundLimiter }: Limiters): DeliveryLimiter {
  return isBackground(context) ? backgroundLimiter : limiter;
}

function isBackground({ notification }: Context): boolean {
  return notification.pushType === 'background';
}

/** Whose slots, and of which category. */
function scopeOf({ notification: { recipientId, category } }: Context) {
  return { recipientId, ...(category !== undefined && { category }) };
}

/** Gives back the slot that is reserved ahead for a notification that ends without it. */
export async function cancelReservation(context: Context, parts: Limiters): Promise<void> {
  const { jobId, progress, notification } = context;
  const mayReserve = mayWait(context) || notification.onQuiet === 'delay';
  if (progress.requeues === 0 || !mayReserve) return; // none was reserved
  await limiterOf(context, parts).cancel({ ...scopeOf(context), id: askId(jobId, progress.asks) });
}

/** Gives the slot back after a send that alerted nobody. Where the limiter does not answer, the slot stays counted. */
export async function refundSlot(context: Context, parts: Limiters): Promise<void> {
  const { slot } = context;
  if (slot !== undefined)
    await limiterOf(context, parts)
      .refund(slot.ask)
      .catch(() => undefined);
}

/** A limiter that does not answer is told again, for about as long as the next alert may follow closely. */
const POSTPONE_AGAIN_MS = 50;
const POSTPONE_FOR_MS = 2_000;

/** Whether a request that left at `sentAt` (`performance.now()`) was so late that the limiter has to know. */
export function isLate({ sendAt }: Slot, sentAt: number): boolean {
  return sentAt - sendAt > ON_TIME_MS;
}

/**
 * Moves the slot to when the request really left, so that the next alert keeps its distance from there. Never rejects: the
 * alert is out.
 */
export async function postponeSlot(slot: Slot, sentAt: number, limiter: Pick<Limiter, 'postpone'>): Promise<void> {
  const lateMs = sentAt - slot.sendAt;
  const deadline = performance.now() + POSTPONE_FOR_MS;
  while (performance.now() < deadline) {
    const isDone = await limiter.postpone(slot.ask, slot.at + lateMs).then(
      () => true,
      () => false,
    );
    if (isDone || !(await sleepUntil(performance.now() + POSTPONE_AGAIN_MS, NEVER))) return;
  }
}

const NEVER = new AbortController().signal;
