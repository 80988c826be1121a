import { errorChain } from '../domain/error-chain.ts';
import { formatFault, type Fault } from '../domain/faults.ts';
import type { Platform } from '../domain/notification.ts';
import type { DeadLetterReason, FailedAttempt, Outcome, Trouble } from '../domain/outcome.ts';
import { redact } from '../domain/redact.ts';
import type { Admission } from '../limiter/limiter.ts';
import type { Meaning, Reply } from '../providers/provider.ts';
import { backoffMs, type Backoff } from './backoff.ts';
import { timeLeftMs, type Context, type DeliverParts } from './context.ts';
import { replyText } from './devices.ts';
import { openDevices, openPlatforms } from './labels.ts';
import { withAttempts, type DeviceState, type Progress } from './progress.ts';
import type { Wait } from './quota.ts';

/**
 * What a pass comes to: every outcome is decided in this file. Where an outcome puts the job back, what it has to remember
 * is left in `context.progress`.
 */

/** What one try at one device came to. */
export interface Tried {
  readonly label: string;
  readonly platform: Platform;
  readonly reply: Reply;
  /** When it was answered, or given up: epoch milliseconds. */
  readonly at: number;
}

/** Tries after an answer that leaves open whether it alerted, beyond the first. */
const MAX_AMBIGUOUS_RETRIES = 2;
/** How long a notification is kept for a provider that is down or refuses us, before it becomes a dead letter. */
const MAX_KEPT_MS = 86_400_000;
/** What did not get there is tried again soon, and less often the longer it lasts. */
const UNSENT: Backoff = { backoffBaseMs: 500, backoffMaxMs: 30_000 };
/** What missed its slot by this machine's own fault asks for another almost at once. */
const MISSED: Backoff = { backoffBaseMs: 50, backoffMaxMs: 5_000 };
/** Behind the trial of a breaker, which is to find out first. */
const BEHIND_TRIAL_MS = 1_000;
/** Redis did not note, under AT_MOST_ONCE, what was to be sent. */
const NOT_NOTED_MS = 1_000;
/** Kept this long where the limiter did not answer. */
const LIMITER_AWAY_MS = 1_000;

/** The meanings that settle a device, and as what; `later` leaves it open. */
const STATE_OF: Partial<Record<Meaning, DeviceState>> = {
  accepted: 'delivered',
  gone: 'unregistered',
  'bad-token': 'bad-token',
  rejected: 'rejected',
};

/** Where devices failed for different reasons, the dead letter tells the one that is most worth curing. */
const REASONS_BY_WEIGHT: readonly DeadLetterReason[] = [
  'provider-auth',
  'attempts-exhausted',
  'ambiguous',
  'rejected',
  'provider-not-configured',
  'bad-token',
  'unregistered',
];

export function invalid(faults: readonly Fault[]): Outcome {
  return { kind: 'dead-letter', reason: 'invalid', message: faults.map(formatFault).join('; ') };
}

/** The job is another worker's by now, and that one decides. What this pass holds at the limiter stays counted. */
export const YIELDED: Outcome = { kind: 'yielded' };

/** Nothing is left to try: delivered when at least one device was alerted. */
export function finished({ progress }: Pick<Context, 'progress'>): Outcome {
  const states = Object.values(progress.devices);
  if (states.includes('delivered')) return { kind: 'delivered' };
  const reason = REASONS_BY_WEIGHT.find((candidate) => states.includes(candidate)) ?? 'attempts-exhausted';
  return { kind: 'dead-letter', reason, message: progress.attempts.at(-1)?.error ?? reason };
}

/** Ends it without another try; what was alerted before stays delivered, and what may have been, ambiguous. */
export function ended(context: Context, outcome: Outcome): Outcome {
  const states = Object.values(context.progress.devices);
  return states.includes('delivered') || states.includes('ambiguous') ? finished(context) : outcome;
}

/** Put back until its time has come: its slot, or the room in a provider's quota. */
export function requeued(
  context: Context,
  { waitMs, rule }: { readonly waitMs: number; readonly rule: string },
  delayMs: number,
  { now }: Pick<DeliverParts, 'now'>,
): Outcome {
  const { progress } = context;
  context.progress = {
    ...progress,
    requeues: progress.requeues + 1,
    dueAt: now() + delayMs,
    rule,
    heldSince: undefined,
    unreached: 0,
  };
  return { kind: 'requeued', waitMs, delayMs, rule };
}

/** The limiter refused, and the producer wants to wait: the wait would be too long. */
export function throttledTooLong(
  context: Context,
  { rule, waitMs, because }: Extract<Admission, { kind: 'refused' }>,
  parts: DeliverParts,
): Outcome {
  if (waitMs >= timeLeftMs(context, parts)) return ended(context, { kind: 'expired' });
  const message =
    because === 'max-pending'
      ? `${parts.maxPending} or more wait for this recipient already; its slot would lie ${waitMs} ms ahead, by ${rule}`
      : `its slot lies ${waitMs} ms ahead, by ${rule}; at most ${parts.maxWaitMs} ms are waited for`;
  return ended(context, { kind: 'dead-letter', reason: 'throttled-too-long', message });
}

/** The project's quota has no room. Called back at the very instant that is set aside: later, the room is somebody else's. */
export function overQuota(context: Context, over: Wait, parts: DeliverParts): Outcome {
  if (over.waitMs >= timeLeftMs(context, parts)) return ended(context, { kind: 'expired' });
  return requeued(context, over, Math.max(0, Math.ceil(over.dueAt - performance.now())), parts);
}

/** Its slot was missed again and again: this machine is too busy, or was stopped. Nothing was sent; it asks anew soon. */
export function missedSlot(context: Context, { random }: Pick<DeliverParts, 'random'>): Outcome {
  const unreached = context.progress.unreached + 1;
  context.progress = { ...context.progress, unreached };
  return { kind: 'held', waitMs: backoffMs(unreached, MISSED, 0, random()), code: 'missed-slot' };
}

/** Redis did not note what was to be sent, and AT_MOST_ONCE wants it noted first. */
export function notNoted({ random }: Pick<DeliverParts, 'random'>): Outcome {
  return { kind: 'held', waitMs: Math.round(NOT_NOTED_MS * (1 + random())), code: 'not-noted' };
}

/** Without the limiter's answer nothing is sent and no attempt is spent; a slot that it granted all the same is unused. */
export function limiterAway(context: Context, { random }: Pick<DeliverParts, 'random'>): Outcome {
  context.progress = { ...context.progress, unsent: true };
  return { kind: 'held', waitMs: Math.round(LIMITER_AWAY_MS * (1 + random())), code: 'limiter-unavailable' };
}

/** An error in our own code counts as a failed attempt. */
export function unforeseen(context: Context, thrown: unknown, { now, random, retry }: DeliverParts): Outcome {
  const { progress, data } = context;
  const error = redact(`${thrown instanceof Error ? thrown.name : 'thrown'}: ${errorChain(thrown)}`, data);
  const tries = progress.tries + 1;
  context.progress = { ...withAttempts(progress, [{ at: now(), error }]), tries, asks: progress.asks + 1 };
  if (tries >= retry.attempts)
    return ended(context, { kind: 'dead-letter', reason: 'attempts-exhausted', message: error });
  return { kind: 'retried', waitMs: backoffMs(tries, retry, 0, random()), code: 'unexpected-error' };
}

/** The progress after a round of tries: devices settled, failures noted, nothing under way any more. */
export function record(progress: Progress, tried: readonly Tried[], atMostOnce: boolean): Progress {
  const devices = { ...progress.devices };
  const failures: FailedAttempt[] = [];
  for (const { label, reply, at } of tried) {
    const isLost = atMostOnce && reply.alerted === 'maybe';
    const state = STATE_OF[reply.meaning] ?? (isLost ? 'ambiguous' : undefined);
    if (state !== undefined) devices[label] = state;
    if (reply.meaning !== 'accepted') failures.push({ at, device: label, error: replyText(reply) });
  }
  return withAttempts({ ...progress, devices, trying: undefined }, failures);
}

/** What a round of tries comes to. `over`: some devices were not tried, because a provider's quota has no room. */
export function afterSend(
  context: Context,
  tried: readonly Tried[],
  over: Wait | undefined,
  parts: DeliverParts,
): Outcome {
  if (tried.length === 0 && over !== undefined) return overQuota(context, over, parts);
  const judged = tried.map((each) => keepIfMisconfigured(each, parts));
  context.progress = record(context.progress, judged, parts.atMostOnce);
  const open = openDevices(context);
  if (open.length === 0) return finished(context);

  const later = judged.filter(({ label }) => open.includes(label));
  const failed = later.filter((each) => isAttempt(each, parts));
  const outcome =
    failed.length > 0 ? retryOrGiveUp(context, open, failed, parts) : keepOrGiveUp(context, open, later, parts);
  return outcome.kind === 'held' && over !== undefined ? overQuota(context, over, parts) : outcome;
}

/** While a run of bad tokens says that our own configuration is wrong, a bad token says nothing about the device. */
function keepIfMisconfigured(tried: Tried, { breakers }: DeliverParts): Tried {
  const { platform, reply } = tried;
  const isSuspect = reply.suspect === 'configuration' && breakers.current(platform)?.trouble === 'configuration';
  return isSuspect ? { ...tried, reply: { ...reply, meaning: 'later', trouble: 'configuration' } } : tried;
}

/**
 * Whether a try that failed counts as an attempt. It does not where it did not get there, where the answer is about all of
 * us, and in an outage that is known of: nothing of that is the notification's fault. What may have alerted counts in
 * any case, since it can be repeated a few times only.
 */
function isAttempt({ platform, reply }: Tried, { breakers }: DeliverParts): boolean {
  if (reply.alerted === 'maybe') return true;
  if (reply.unsent === true || reply.trouble !== undefined) return false;
  return !(reply.suspect === 'outage' && breakers.current(platform) !== undefined);
}

/** Only the devices that failed are given up; one that waits for its provider stays open. */
function retryOrGiveUp(
  context: Context,
  open: readonly string[],
  failed: readonly Tried[],
  parts: DeliverParts,
): Outcome {
  const { progress } = context;
  const isAmbiguous = failed.some(({ reply }) => reply.ambiguous);
  const tries = progress.tries + 1;
  const ambiguous = progress.ambiguous + (isAmbiguous ? 1 : 0);
  // The provider answers again, or another one is the trouble: `heldSince` begins anew.
  context.progress = { ...progress, tries, ambiguous, unreached: 0, heldSince: undefined, rule: undefined };
  const isLast = ({ reply }: Tried) =>
    tries >= parts.retry.attempts || (reply.ambiguous && ambiguous > MAX_AMBIGUOUS_RETRIES);
  const lost = failed.filter(isLast).map(({ label }) => label);
  giveUp(context, lost, 'attempts-exhausted');
  const stillOpen = open.filter((label) => !lost.includes(label));
  if (stillOpen.length === 0) return finished(context);

  const again = failed.filter(({ label }) => !lost.includes(label));
  if (again.length === 0) return keepOrGiveUp(context, stillOpen, [], parts);
  const atLeastMs = Math.max(0, ...again.map(({ reply }) => reply.retryAfterMs ?? 0));
  const backoff = backoffMs(tries, parts.retry, atLeastMs, parts.random());
  const platforms = [...new Set(again.map(({ platform }) => platform))];
  const breaker = platforms.every(isOpen(parts)) ? soonestBreaker(platforms, parts) : undefined;
  const behind = breaker === undefined ? 0 : Math.max(0, breaker.until - parts.now()) + BEHIND_TRIAL_MS;
  const code = again.map(({ reply }) => reply.code).join(',');
  return { kind: 'retried', waitMs: Math.max(backoff, behind), code };
}

/** Nothing is wrong with the notification: it is kept, and no attempt is spent. */
export function keepOrGiveUp(
  context: Context,
  open: readonly string[],
  tried: readonly Tried[],
  parts: DeliverParts,
): Outcome {
  const { progress } = context;
  const now = parts.now();
  const heldSince = progress.heldSince ?? now;
  const wasSent = tried.some(({ reply }) => reply.unsent !== true);
  const unreached = tried.length > 0 && !wasSent ? progress.unreached + 1 : progress.unreached;
  context.progress = { ...progress, heldSince, unreached, rule: undefined };
  const breaker = soonestBreaker(openPlatforms(context), parts);
  if (now - heldSince > MAX_KEPT_MS) {
    giveUp(context, open, isOurs(breaker?.trouble) ? 'provider-auth' : 'attempts-exhausted');
    return finished(context);
  }
  const code = tried[0]?.reply.code ?? breaker?.code ?? 'provider-open';
  if (breaker !== undefined && tried.map(({ platform }) => platform).every(isOpen(parts))) {
    const dueAt = parts.breakers.deferUntil(breaker.platform, context.enqueuedAt);
    context.progress = { ...context.progress, dueAt }; // exactly then, so that all who wait keep their order
    return { kind: 'held', waitMs: Math.max(0, dueAt - now), code };
  }
  const atLeastMs = Math.max(0, ...tried.map(({ reply }) => reply.retryAfterMs ?? 0));
  const isOwnFault = tried.every(({ reply }) => OWN_FAULTS.has(reply.code));
  const backoff = isOwnFault ? MISSED : UNSENT;
  return { kind: 'held', waitMs: backoffMs(Math.max(1, unreached), backoff, atLeastMs, parts.random()), code };
}

/** Unsent for want of time, a stream or this worker's end: the provider has no part in it. */
const OWN_FAULTS: ReadonlySet<string> = new Set(['too-late', 'no-stream', 'refused-stream', 'cancelled', 'closed']);

function isOpen({ breakers }: DeliverParts): (platform: Platform) => boolean {
  return (platform) => breakers.current(platform) !== undefined;
}

/** Of the breakers of these platforms that are not closed, the one that may close first. */
function soonestBreaker(platforms: readonly Platform[], { breakers }: DeliverParts) {
  const waiting = platforms.flatMap((platform) => breakers.current(platform) ?? []);
  return waiting.toSorted((a, b) => a.until - b.until)[0];
}

function isOurs(trouble: Trouble | undefined): boolean {
  return trouble === 'auth' || trouble === 'configuration';
}

function giveUp(context: Context, labels: readonly string[], reason: DeadLetterReason): void {
  if (labels.length === 0) return;
  const { progress } = context;
  const devices = { ...progress.devices, ...Object.fromEntries(labels.map((label) => [label, reason])) };
  context.progress = { ...progress, devices };
}
