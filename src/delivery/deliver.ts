import { formatFault } from '../domain/faults.ts';
import { parseNotification, type Notification, type Platform } from '../domain/notification.ts';
import type { Outcome } from '../domain/outcome.ts';
import { LimiterUnavailableError } from '../limiter/errors.ts';
import type { Held, Limiter } from '../limiter/limiter.ts';
import { notificationIdOf } from '../queue/names.ts';
import { conclude, finalOutcome, record, type Concluded, type ConcludeParts } from './conclude.ts';
import { labelledDevices, planDevices, type Plan, type PlanParts } from './devices.ts';
import { withAttempts, type Progress } from './progress.ts';
import { cover, type Covered, type Quotas, type Wait } from './quota.ts';
import { sendAll, type Sent, type SendParts } from './send.ts';
import { askId, takeSlot, timingOf, type Go, type Slot, type SlotAsk, type SlotParts } from './slot.ts';

/** One pass of a job through a worker. */
export interface Pass {
  readonly jobId: string;
  /** The job's data, as somebody handed it over. */
  readonly data: unknown;
  readonly progress: Progress;
  /** The last pass asked for a slot and certainly sent nothing. */
  readonly isUnsent: boolean;
  /** Fires when the worker has to stop: what has not been sent is given back. */
  readonly signal: AbortSignal;
  /** Keeps what has been reached, against a crash before the pass ends. */
  readonly save: (progress: Progress) => Promise<void>;
}

export interface DeliverParts extends PlanParts, SlotParts, SendParts, ConcludeParts {
  readonly quotas: Quotas;
  readonly limiter: Pick<Limiter, 'admit' | 'refund' | 'cancel' | 'postpone'>;
  /** A slot further ahead than this is not taken: the notification becomes a dead letter. */
  readonly maxWaitMs: number;
  /** Nor one behind so many that wait for the same recipient already. */
  readonly maxPending?: number;
}

/** Alerts that went out this much after their slot are told to the limiter; less is what timers and loops always take. */
const LATE_MS = 15;
/** Kept this long where a token's time was over when it came: sooner, more of the quota would be wasted in the same way. */
const QUOTA_SLOW_MS = 1_000;

/** The way of a notification: parse, expired?, encode, admit, send, conclude. Everything it can come to is an Outcome. */
export async function deliver(pass: Pass, parts: DeliverParts): Promise<Concluded> {
  const parsed = parseNotification(withId(pass.data, pass.jobId));
  if (!parsed.ok) return ended(pass, deadLetter('invalid', parsed.faults.map(formatFault).join('; ')));
  const { notification } = parsed;

  if (timeLeftMs(notification, parts) <= 0) return giveBackAndEnd(pass, notification, { kind: 'expired' }, parts);

  const plan = planDevices(notification, pass.progress, false, parts);
  const planned = settle(pass.progress, plan);
  if (plan.ready.length === 0) return conclude(planned, openDevices(notification, planned), [], plan.pausedMs, parts);

  const slot = await takeSlot(askOf(pass, notification, parts), parts, pass.signal);
  const asked = { ...planned, asks: slot.asks };
  if (slot.kind === 'missed') return missed('missed-slot', 0, asked);
  if (slot.kind === 'no') return throttled({ ...pass, progress: asked }, notification, slot, parts);

  const covered = await cover(plan.ready, asked, parts.quotas);
  const late = tooLate(covered, slot.sendBy, parts);
  if (late !== undefined) {
    await parts.limiter.refund(slot.held);
    return late;
  }
  const sent = await sendAll(notification, covered.ready, covered.progress, pass, parts);
  await accountFor(slot, sent, parts);
  return afterSend(notification, sent, covered.over, plan.pausedMs, parts);
}

/** Not now. What that means is the producer's choice (`onThrottle`), within the time that the notification has. */
async function throttled(
  pass: Pass,
  notification: Notification,
  { admission }: Extract<Slot, { kind: 'no' }>,
  parts: DeliverParts,
): Promise<Concluded> {
  const { rule, waitMs } = admission;
  if (admission.kind === 'reserved') {
    return requeued(pass.progress, admission, Math.max(0, waitMs - timingOf(admission).leadMs), parts);
  }
  if (notification.onThrottle === 'drop') return ended(pass, { kind: 'dropped', rule });
  if (notification.onThrottle === 'silence') return deliverSilently(pass, notification, parts);
  if (waitMs >= timeLeftMs(notification, parts)) {
    return giveBackAndEnd(pass, notification, { kind: 'expired' }, parts);
  }
  const message =
    admission.because === 'max-pending'
      ? `${parts.maxPending} or more wait for this recipient already; its slot would lie ${waitMs} ms ahead, by ${rule}`
      : `its slot lies ${waitMs} ms ahead, by ${rule}; at most ${parts.maxWaitMs} ms are waited for`;
  return giveBackAndEnd(pass, notification, deadLetter('throttled-too-long', message), parts);
}

/** Put back until its time has come: its slot, or the room in a provider's quota. */
function requeued(
  progress: Progress,
  { waitMs, rule }: { readonly waitMs: number; readonly rule: string },
  delayMs: number,
  { now }: DeliverParts,
): Concluded {
  const requeues = progress.requeues + 1;
  return {
    outcome: { kind: 'requeued', waitMs, delayMs, rule },
    progress: { ...progress, requeues, dueAt: now() + delayMs, heldSince: undefined },
  };
}

/** A quota's answer may take long: what comes of it after the slot or a token has lost its meaning must not go out. */
function tooLate({ ready, useBy, progress }: Covered, sendBy: number, { random }: DeliverParts): Concluded | undefined {
  if (ready.length === 0) return undefined;
  const now = performance.now();
  if (now > sendBy) return missed('missed-slot', 0, progress);
  if (now >= useBy) return missed('missed-quota', Math.round(QUOTA_SLOW_MS * (1 + random())), progress);
  return undefined;
}

/** Nothing was sent, and no attempt is spent. */
function missed(code: 'missed-slot' | 'missed-quota', waitMs: number, progress: Progress): Concluded {
  return { outcome: { kind: 'held', waitMs, code }, progress };
}

/** Takes no slot: nobody is alerted. */
async function deliverSilently(pass: Pass, notification: Notification, parts: DeliverParts): Promise<Concluded> {
  const plan = planDevices(notification, pass.progress, true, parts);
  const covered = await cover(plan.ready, settle(pass.progress, plan), parts.quotas);
  const late = tooLate(covered, Infinity, parts);
  if (late !== undefined) return late;
  const sent = await sendAll(notification, covered.ready, covered.progress, pass, parts);
  return afterSend(notification, sent, covered.over, plan.pausedMs, parts);
}

/**
 * Gives the slot back where nobody was alerted, and counts it from when the alert went out where that was late. The send
 * has happened: a limiter that does not answer any more must not make the notification go out again.
 */
async function accountFor(slot: Go, { tried }: Sent, parts: DeliverParts): Promise<void> {
  const alerts = tried.filter(({ reply }) => reply.alerted !== 'no');
  const lateMs = Math.max(...alerts.map(({ arrivedAt }) => arrivedAt)) - slot.sendAt;
  try {
    if (alerts.length === 0) await parts.limiter.refund(slot.held);
    else if (lateMs > LATE_MS) await parts.limiter.postpone(slot.held, slot.at + lateMs);
  } catch (error) {
    if (!(error instanceof LimiterUnavailableError)) throw error;
  }
}

function afterSend(
  notification: Notification,
  { tried, progress }: Sent,
  over: Wait | undefined,
  pausedMs: number,
  parts: DeliverParts,
): Concluded {
  if (tried.length === 0 && over !== undefined) return overQuota(notification, progress, over, parts);
  const paused = Math.max(pausedMs, ...tried.map(({ label }) => parts.gate.waitMs(platformOf(label))));
  const recorded = record(progress, tried, parts.now());
  const concluded = conclude(recorded, openDevices(notification, recorded), tried, paused, parts);
  const isKept = concluded.outcome.kind === 'held';
  return isKept && over !== undefined ? overQuota(notification, concluded.progress, over, parts) : concluded;
}

/** Called back at the very instant that is set aside: after it, the room is somebody else's. */
function overQuota(notification: Notification, progress: Progress, over: Wait, parts: DeliverParts): Concluded {
  if (over.waitMs >= timeLeftMs(notification, parts)) return ended({ progress }, { kind: 'expired' });
  return requeued(progress, over, Math.max(0, Math.ceil(over.dueAt - performance.now())), parts);
}

/** Ends a notification that may hold a reservation nobody will use. */
async function giveBackAndEnd(
  pass: Pass,
  notification: Notification,
  outcome: Outcome,
  parts: DeliverParts,
): Promise<Concluded> {
  if (pass.progress.requeues > 0) {
    await parts.limiter.cancel({ ...scopeOf(notification), id: askId(pass.jobId, pass.progress.asks) });
  }
  return ended(pass, outcome);
}

/** Ends it without another try; what was alerted before stays delivered. */
function ended({ progress }: Pick<Pass, 'progress'>, outcome: Outcome): Concluded {
  const wasAlerted = Object.values(progress.devices).includes('delivered');
  return { outcome: wasAlerted ? finalOutcome(progress) : outcome, progress };
}

function askOf({ jobId, progress, isUnsent }: Pass, notification: Notification, parts: DeliverParts): SlotAsk {
  const mayWait = notification.onThrottle === 'delay';
  const maxWaitMs = mayWait ? Math.min(parts.maxWaitMs, timeLeftMs(notification, parts)) : 0;
  const { maxPending } = parts;
  return {
    ...scopeOf(notification),
    maxWaitMs,
    ...(maxPending !== undefined && { maxPending }),
    jobId,
    asks: progress.asks,
    isUnsent,
  };
}

/** Whose slots, and of which category. */
function scopeOf({ recipientId, category }: Notification): Omit<Held, 'id'> {
  return { recipientId, ...(category !== undefined && { category }) };
}

function timeLeftMs({ expiresAt }: Notification, { now }: { now: () => number }): number {
  return expiresAt === undefined ? Infinity : expiresAt - now();
}

function settle(progress: Progress, { settled, failures }: Plan): Progress {
  return withAttempts({ ...progress, devices: { ...progress.devices, ...settled } }, failures);
}

function openDevices(notification: Notification, progress: Progress): string[] {
  return labelledDevices(notification)
    .map(({ label }) => label)
    .filter((label) => !(label in progress.devices));
}

function platformOf(label: string): Platform {
  return label.startsWith('apns') ? 'apns' : 'fcm';
}

function deadLetter(reason: 'invalid' | 'throttled-too-long', message: string): Outcome {
  return { kind: 'dead-letter', reason, message };
}

/** The id may be left out of the data: it is the job's then. */
function withId(data: unknown, jobId: string): unknown {
  const isObject = typeof data === 'object' && data !== null && !Array.isArray(data);
  return isObject && !('id' in data) ? { ...data, id: notificationIdOf(jobId) } : data;
}
