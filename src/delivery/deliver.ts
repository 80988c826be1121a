import { parseNotification, PLATFORMS, type Platform } from '../domain/notification.ts';
import type { Entry } from '../breaker/breaker.ts';
import type { Outcome } from '../domain/outcome.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import type { Permit } from '../providers/provider.ts';
import { notificationIdOf } from '../queue/names.ts';
import { announce, resume } from './at-most-once.ts';
import { scopeOf, timeLeftMs, type Context, type DeliverParts, type Pass } from './context.ts';
import * as decide from './decide.ts';
import { prepareDevices, type Ready } from './devices.ts';
import { openDevices, openPlatforms } from './labels.ts';
import type { Progress } from './progress.ts';
import { cover, type Wait } from './quota.ts';
import { reserve, sendAll, sendOne } from './send.ts';
import { askId, isLate, leadMs, takeSlot, tellLate, type Go, type Slot, type SlotAsk } from './slot.ts';

/** How a pass ended, and what the job is to remember of it. */
export interface Result {
  readonly outcome: Outcome;
  readonly progress: Progress;
  /** What no outcome foresaw, for the log. */
  readonly surprise?: unknown;
}

/** The way of a notification: parse, expired?, encode, reserve a stream, admit, send, decide. */
export async function deliver(pass: Pass, parts: DeliverParts): Promise<Result> {
  const parsed = parseNotification(withId(pass.data, pass.jobId));
  if (!parsed.ok) return { outcome: decide.invalid(parsed.faults), progress: pass.progress };
  if (!(await isOurs(pass))) return { outcome: decide.YIELDED, progress: pass.progress };
  const progress = resume(pass.progress, parts.now());
  const context: Context = { ...pass, notification: parsed.notification, progress };
  try {
    const outcome = await run(context, parts);
    return { outcome, progress: context.progress };
  } catch (error) {
    if (error instanceof LimiterUnavailableError) {
      return { outcome: decide.limiterAway(context, parts), progress: context.progress };
    }
    return { outcome: decide.unforeseen(context, error, parts), progress: context.progress, surprise: error };
  }
}

async function run(context: Context, parts: DeliverParts): Promise<Outcome> {
  if (openDevices(context).length === 0) return decide.finished(context);
  if (timeLeftMs(context, parts) <= 0) return endWithoutSlot(context, { kind: 'expired' }, parts);

  const permits: Permit[] = [];
  const turn = parts.turns.take(context.notification.recipientId);
  const endTurn = turn instanceof Promise ? await turn : turn;
  try {
    const asking = askBreakers(context, parts);
    if (asking !== undefined) await asking;
    const prepared = prepareDevices(context, false, parts);
    const { ready, tried } = await reserve(context, prepared, permits, parts);
    if (ready.length === 0) return decide.afterSend(context, tried, undefined, parts);
    // Waiting for a connection, or for a breaker's answer, took time.
    if (timeLeftMs(context, parts) <= 0) return await endWithoutSlot(context, { kind: 'expired' }, parts);

    // A renewal forgets what the id was granted: by now another worker may have the job, and send on it.
    if (context.isUnsent && !(await isOurs(context))) return decide.YIELDED;
    // The first ask ends the turn: those behind are asked for on the same connection, and answered after this one.
    const { signal } = context;
    const { overallGapMs } = parts;
    const slot = await takeSlot(askOf(context, parts), parts.limiter, { signal, overallGapMs, onAsked: endTurn });
    context.progress = { ...context.progress, asks: slot.asks, unsent: undefined };
    if (slot.kind === 'missed') return decide.missedSlot(context, parts);
    const way = { ready, unreached: tried };
    return slot.kind === 'no'
      ? await throttled(context, slot, way, parts)
      : await sendInSlot(context, slot, way, parts);
  } finally {
    endTurn();
    for (const permit of permits) permit.release(); // those that were not used
    giveBackTrials(context, parts);
  }
}

/** Whether the job is still this worker's. */
function isOurs({ lease }: Pick<Pass, 'lease'>): boolean | Promise<boolean> {
  return lease.holds();
}

/** What is to be sent. */
interface Way {
  readonly ready: readonly Ready[];
  /** The devices whose provider could not be reached. */
  readonly unreached: readonly decide.Tried[];
}

/** Only for the providers whose breaker is not closed; undefined where all are. */
function askBreakers(context: Context, { breakers }: DeliverParts): Promise<unknown> | undefined {
  const isOpen = (platform: Platform): boolean => breakers.current(platform) !== undefined;
  if (!PLATFORMS.some(isOpen)) return undefined;
  const entries = (context.entries = new Map<Platform, Entry>());
  const ask = async (platform: Platform): Promise<void> => {
    entries.set(platform, await breakers.enter(platform, context.notification.id));
  };
  return Promise.all(openPlatforms(context).filter(isOpen).map(ask));
}

function giveBackTrials({ entries }: Context, { breakers }: DeliverParts): void {
  if (entries === undefined) return;
  for (const entry of entries.values()) if (entry.kind === 'trial') breakers.release(entry.trial);
}

/** Sends in the slot, and gives it back where nobody was alerted. */
async function sendInSlot(context: Context, slot: Go, way: Way, parts: DeliverParts): Promise<Outcome> {
  let telling: Promise<void>[] | undefined;
  const onSent = (at: number): void => {
    if (isLate(slot, at)) (telling ??= []).push(tellLate(slot, at, parts.limiter));
  };
  const sent = await send(context, way, slot.sendBy, onSent, parts);
  if (telling !== undefined) await Promise.all(telling);
  if (sent.kind === 'not-ours') return decide.YIELDED;
  const tried = sent.kind === 'sent' ? sent.tried : [];
  // Its slot is used: what is left asks for another one.
  if (tried.length > 0) context.progress = { ...context.progress, asks: context.progress.asks + 1 };
  const isAlerted = tried.some(({ reply }) => reply.alerted !== 'no');
  if (!isAlerted) await parts.limiter.refund(slot.held).catch(() => undefined); // the slot stays counted, no more
  return afterSend(context, sent, way, parts);
}

/** Takes no slot: nobody is alerted. */
async function deliverSilently(context: Context, way: Way, parts: DeliverParts): Promise<Outcome> {
  const ready = prepareDevices(context, true, parts).flatMap((silent) => {
    const loud = way.ready.find(({ label }) => label === silent.label);
    return loud === undefined ? [] : [{ ...silent, ...(loud.permit && { permit: loud.permit }) }];
  });
  const sent = await send(context, { ...way, ready }, Infinity, () => undefined, parts);
  return sent.kind === 'not-ours' ? decide.YIELDED : afterSend(context, sent, way, parts);
}

type Sent =
  | { readonly kind: 'sent'; readonly tried: readonly decide.Tried[]; readonly over?: Wait | undefined }
  /** The job is another worker's by now. */
  | { readonly kind: 'not-ours' }
  /** AT_MOST_ONCE, and Redis did not note what was to be sent. */
  | { readonly kind: 'not-noted' };

/** Sends as far as the quotas go, where the job is still ours. */
async function send(
  context: Context,
  way: Way,
  slotUntil: number,
  onSent: (at: number) => void,
  parts: DeliverParts,
): Promise<Sent> {
  let { ready } = way;
  let over: Wait | undefined;
  let useBy = Infinity;
  if (parts.quotas.size > 0) {
    const covered = await cover(ready, context.progress, parts.quotas);
    ({ ready, over, useBy } = covered);
    context.progress = covered.progress;
  }
  const [first] = ready;
  if (first === undefined) return { kind: 'sent', tried: [], over };
  if (!(await isOurs(context))) return { kind: 'not-ours' };
  if (parts.atMostOnce) {
    const announced = await announce(context, ready);
    if (announced !== 'noted') return { kind: announced };
  }
  const expiresBy = performance.now() + timeLeftMs(context, parts);
  const round = { sendBy: Math.min(slotUntil, useBy, context.lease.until, expiresBy), onSent };
  const tried =
    ready.length === 1 ? [await sendOne(context, first, round, parts)] : await sendAll(context, ready, round, parts);
  return { kind: 'sent', tried, over };
}

function afterSend(
  context: Context,
  sent: Exclude<Sent, { kind: 'not-ours' }>,
  { unreached }: Way,
  parts: DeliverParts,
): Outcome {
  if (sent.kind === 'not-noted') return decide.notNoted(parts);
  return decide.afterSend(context, [...unreached, ...sent.tried], sent.over, parts);
}

/** Not now. What that means is the producer's choice (`onThrottle`), within the time that the notification has. */
async function throttled(
  context: Context,
  { admission }: Extract<Slot, { kind: 'no' }>,
  way: Way,
  parts: DeliverParts,
): Promise<Outcome> {
  if (admission.kind === 'reserved') {
    return decide.requeued(context, admission, Math.max(0, admission.waitMs - leadMs(admission)), parts);
  }
  const { onThrottle } = context.notification;
  if (onThrottle === 'drop') return decide.ended(context, { kind: 'dropped', rule: admission.rule });
  if (onThrottle === 'silence') return deliverSilently(context, way, parts);
  return endWithoutSlot(context, decide.throttledTooLong(context, admission, parts), parts);
}

/** Ends a notification that may hold a reservation nobody will use. */
async function endWithoutSlot(context: Context, outcome: Outcome, parts: DeliverParts): Promise<Outcome> {
  const { jobId, progress } = context;
  if (progress.requeues > 0) await parts.limiter.cancel({ ...scopeOf(context), id: askId(jobId, progress.asks) });
  return decide.ended(context, outcome);
}

function askOf(context: Context, parts: DeliverParts): SlotAsk {
  const { jobId, isUnsent, notification, progress } = context;
  const { recipientId, category, onThrottle } = notification;
  const { maxPending } = parts;
  return {
    recipientId,
    ...(category !== undefined && { category }),
    maxWaitMs: onThrottle === 'delay' ? Math.min(parts.maxWaitMs, timeLeftMs(context, parts)) : 0,
    ...(maxPending !== undefined && { maxPending }),
    jobId,
    asks: progress.asks,
    isUnsent,
  };
}

/** The id may be left out of the data: it is the job's then. */
function withId(data: unknown, jobId: string): unknown {
  const isObject = typeof data === 'object' && data !== null && !Array.isArray(data);
  return isObject && !('id' in data) ? { ...data, id: notificationIdOf(jobId) } : data;
}
