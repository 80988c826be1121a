import { formatFault } from '../domain/faults.ts';
import { parseNotification, type Notification, type Platform } from '../domain/notification.ts';
import type { Outcome } from '../domain/outcome.ts';
import type { Limiter } from '../limiter/limiter.ts';
import type { Pauses } from '../pause/pauses.ts';
import { accountFor } from './account.ts';
import { conclude, record, type Concluded, type ConcludeParts, type Kept } from './conclude.ts';
import { openPlatforms, planDevices, type PlanParts, type Ready } from './devices.ts';
import { enterAll, type Entries } from './entries.ts';
import { announce, announced, resume, type Unsent } from './once.ts';
import {
  deadLetter,
  ended,
  missed,
  openDevices,
  planned,
  requeued,
  scopeOf,
  timeLeftMs,
  withId,
  yielded,
  type Pass,
} from './pass.ts';
import type { Progress } from './progress.ts';
import { cover, type Covered, type Quotas, type Wait } from './quota.ts';
import { sendAll, type Arrived, type SendParts } from './send.ts';
import { askId, takeSlot, timingOf, type Slot, type SlotAsk, type SlotParts } from './slot.ts';

export interface DeliverParts extends PlanParts, SlotParts, SendParts, ConcludeParts {
  readonly pauses: Pauses;
  readonly quotas: Quotas;
  readonly limiter: Pick<Limiter, 'admit' | 'refund' | 'cancel' | 'postpone'>;
  /** A slot further ahead than this is not taken: the notification becomes a dead letter. */
  readonly maxWaitMs: number;
  /** Nor one behind so many that wait for the same recipient already. */
  readonly maxPending?: number;
}

/** A pass under way: its notification, and the providers that it may send to. */
interface Way {
  readonly pass: Pass;
  readonly notification: Notification;
  readonly entries: Entries;
}

/** So often a notification asks anew because it did not leave in time, before lateness is put up with. */
const PATIENT_AFTER = 2;
/** Kept this long where Redis would not note, under AT_MOST_ONCE, what was to be sent. */
const NOT_NOTED_MS = 1_000;
/** Kept this long where a token's time was over when it came: sooner, more of the quota would be wasted in the same way. */
const QUOTA_SLOW_MS = 1_000;

/** The way of a notification: parse, expired?, encode, admit, send, conclude. Everything it can come to is an Outcome. */
export async function deliver(job: Pass, parts: DeliverParts): Promise<Concluded> {
  const parsed = parseNotification(withId(job.data, job.jobId));
  if (!parsed.ok) return ended(job, deadLetter('invalid', parsed.faults.map(formatFault).join('; ')));
  const { notification } = parsed;
  if (!(await job.lease.holds())) return yielded(job);

  const pass = { ...job, progress: resume(job.progress, parts.now()) };
  if (openDevices(notification, pass.progress).length === 0) return conclude(pass.progress, [], [], undefined, parts);
  if (timeLeftMs(notification, parts) <= 0) return giveBackAndEnd(pass, notification, { kind: 'expired' }, parts);

  const entries = await enterAll(openPlatforms(notification, pass.progress), parts.pauses);
  try {
    return await admitAndSend({ pass, notification, entries }, parts);
  } finally {
    entries.release();
  }
}

async function admitAndSend(way: Way, parts: DeliverParts): Promise<Concluded> {
  const { pass, notification, entries } = way;
  const plan = planDevices(notification, pass.progress, entries, false, parts);
  const progress = planned(pass.progress, plan);
  if (plan.ready.length === 0) return afterSend(way, [], progress, undefined, parts);

  // A renewal forgets what the id was granted: by now that may be what the job's new owner sends on.
  if (pass.isUnsent && !(await pass.lease.holds())) return yielded(pass);
  const slot = await takeSlot(askOf(pass, notification, parts), parts, pass.signal);
  const asked = { ...progress, asks: slot.asks };
  if (slot.kind === 'missed') return missed('missed-slot', 0, asked);
  if (slot.kind === 'no') return throttled({ ...way, pass: { ...pass, progress: asked } }, slot, parts);

  const covered = await cover(plan.ready, asked, parts.quotas);
  const late = tooLate(covered, slot.sendBy, parts);
  if (late !== undefined) {
    await parts.limiter.refund(slot.held);
    return late;
  }
  const tried = await send(way, covered.ready, covered.progress, slot.leaveBy, parts);
  if (tried === 'not-ours') return yielded({ progress: covered.progress });
  await accountFor(slot, tried === 'not-noted' ? [] : tried, parts.limiter);
  if (tried === 'not-noted') return missed('not-noted', waitMs(NOT_NOTED_MS, parts), covered.progress);
  return afterSend(way, tried, covered.progress, covered.over, parts);
}

/** Sends, where the job is still ours and, under AT_MOST_ONCE, what is to be sent was noted. */
async function send(
  { pass, notification, entries }: Way,
  ready: readonly Ready[],
  progress: Progress,
  slotEnds: number,
  parts: DeliverParts,
): Promise<readonly Arrived[] | Unsent> {
  if (ready.length === 0) return [];
  if (!(await pass.lease.holds())) return 'not-ours';
  const begun = parts.atMostOnce ? announced(progress, ready) : progress;
  const noted = parts.atMostOnce ? await announce(pass, begun) : 'noted';
  if (noted !== 'noted') return noted;
  const { lease, signal } = pass;
  const leaveBy = Math.min(slotEnds, lease.until);
  const save = (reached: Progress) => lease.save(reached);
  return sendAll({ notification, ready, progress: begun, entries, leaveBy, signal, save }, parts);
}

/** Not now. What that means is the producer's choice (`onThrottle`), within the time that the notification has. */
async function throttled(
  way: Way,
  { admission }: Extract<Slot, { kind: 'no' }>,
  parts: DeliverParts,
): Promise<Concluded> {
  const { pass, notification } = way;
  const { rule, waitMs: aheadMs } = admission;
  if (admission.kind === 'reserved') {
    return requeued(pass.progress, admission, Math.max(0, aheadMs - timingOf(admission).leadMs), parts);
  }
  if (notification.onThrottle === 'drop') return ended(pass, { kind: 'dropped', rule });
  if (notification.onThrottle === 'silence') return deliverSilently(way, parts);
  if (aheadMs >= timeLeftMs(notification, parts)) {
    return giveBackAndEnd(pass, notification, { kind: 'expired' }, parts);
  }
  const message =
    admission.because === 'max-pending'
      ? `${parts.maxPending} or more wait for this recipient already; its slot would lie ${aheadMs} ms ahead, by ${rule}`
      : `its slot lies ${aheadMs} ms ahead, by ${rule}; at most ${parts.maxWaitMs} ms are waited for`;
  return giveBackAndEnd(pass, notification, deadLetter('throttled-too-long', message), parts);
}

/** A quota's answer may take long: what comes of it after the slot or a token has lost its meaning must not go out. */
function tooLate({ ready, useBy, progress }: Covered, sendBy: number, parts: DeliverParts): Concluded | undefined {
  if (ready.length === 0) return undefined;
  const now = performance.now();
  if (now > sendBy) return missed('missed-slot', 0, progress);
  if (now >= useBy) return missed('missed-quota', waitMs(QUOTA_SLOW_MS, parts), progress);
  return undefined;
}

/** Takes no slot: nobody is alerted. */
async function deliverSilently(way: Way, parts: DeliverParts): Promise<Concluded> {
  const { pass, notification, entries } = way;
  const plan = planDevices(notification, pass.progress, entries, true, parts);
  const covered = await cover(plan.ready, planned(pass.progress, plan), parts.quotas);
  const late = tooLate(covered, Infinity, parts);
  if (late !== undefined) return late;
  const tried = await send(way, covered.ready, covered.progress, Infinity, parts);
  if (tried === 'not-ours') return yielded({ progress: covered.progress });
  if (tried === 'not-noted') return missed('not-noted', waitMs(NOT_NOTED_MS, parts), covered.progress);
  return afterSend(way, tried, covered.progress, covered.over, parts);
}

function afterSend(
  { pass, notification }: Way,
  tried: readonly Arrived[],
  progress: Progress,
  over: Wait | undefined,
  parts: DeliverParts,
): Concluded {
  if (tried.length === 0 && over !== undefined) return overQuota(notification, progress, over, parts);
  const recorded = record(progress, tried, parts.now(), parts.atMostOnce);
  const { pauses } = parts;
  const judged = tried.map((each) => ({ ...each, isPaused: pauses.current(each.platform) !== undefined }));
  const kept = keptFor(openPlatforms(notification, recorded), pass.enqueuedAt, pauses);
  const concluded = conclude(recorded, openDevices(notification, recorded), judged, kept, parts);
  const isKept = concluded.outcome.kind === 'held';
  return isKept && over !== undefined ? overQuota(notification, concluded.progress, over, parts) : concluded;
}

/** Of the paused providers that a device waits for, the one that is back first. */
function keptFor(platforms: readonly Platform[], enqueuedAt: number, pauses: Pauses): Kept | undefined {
  const waiting = platforms.flatMap((platform) => pauses.current(platform) ?? []);
  const [first] = waiting.toSorted((a, b) => a.until - b.until);
  if (first === undefined) return undefined;
  const { platform, until, trouble } = first;
  return { until, trouble, comeBackAt: () => pauses.comeBackAt(platform, enqueuedAt) };
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
    isLate: progress.unreached > PATIENT_AFTER,
  };
}

/** Spread by chance: what could not go at the same time should not come back at the same time. */
function waitMs(leastMs: number, { random }: Pick<DeliverParts, 'random'>): number {
  return Math.round(leastMs * (1 + random()));
}
