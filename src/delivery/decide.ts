import { namesOf, type Account, type Service } from '../notification/device.ts';
import { formatFault, isUnknownField } from '../domain/faults.ts';
import type { Notification } from '../notification/notification.ts';
import {
  CREDENTIALS,
  mayBeSeen,
  mayShow,
  needsOperator,
  type DeadLetterReason,
  type Result,
  type Waited,
} from '../notification/outcome.ts';
import { errorChain, redact } from '../notification/redact.ts';
import { hasTaken, retractionOf } from '../notification/retraction.ts';
import { doubledMs, formatDuration, SEND_AFTER, span, tooFarAhead } from '../domain/time.ts';
import type { NotToBeSent, Refused, Reserved } from '../limiter/limiter.ts';
import { notificationIdOf } from '../queue/names.ts';
import {
  mayHaveAlerted,
  openLabels,
  openServices,
  timeLeftMs,
  type Context,
  type QuotaWait,
  type Tried,
} from './context.ts';
import { leadMs } from './lines.ts';
import type { Backoff, DeliverParts } from './parts.ts';
import { withAttempts } from './progress.ts';
import { record } from './replies.ts';

// How a pass ends: one function for each result, in the order of the steps that find it. They write to `context.progress` what
// the job has to remember.

/** How often a notification is sent again after replies that leave open whether they alerted. */
const MAX_AMBIGUOUS_RETRIES = 2;
/** A notification is given up after being deferred for this long because its provider is down or refuses the credentials. */
const MAX_DEFERRED_MS = 86_400_000;
/** At most this much of the time between two tries counts: if more time passed, no worker was there to try. */
const MAX_BETWEEN_TRIES_MS = 3_600_000;
const MAX_STALL_WAIT_MS = 60_000;
/** The provider could not be reached. */
const UNREACHED: Backoff = { backoffBaseMs: 500, backoffMaxMs: 30_000 };
/** Nothing was sent, and the cause is in this worker: it was too late, or it stops. */
const OWN_FAULT: Backoff = { backoffBaseMs: 50, backoffMaxMs: 5_000 };
/** The codes of the causes that lie in this worker. */
const OWN_FAULT_CODES: ReadonlySet<string> = new Set([
  'too-late',
  'no-stream',
  'refused-stream',
  'cancelled',
  'closed',
]);
/** A retry comes this long after the breaker lets a trial through, so that the trial is answered first. */
const AFTER_TRIAL_MS = 1_000;
/** The code of a result that puts a job back because this worker lacks the credentials and another one may have them. */
export const NO_CREDENTIALS = 'no-credentials';
/** A living worker has the credentials, and may take the job at once. */
const ANOTHER_HAS: Backoff = { backoffBaseMs: 50, backoffMaxMs: 1_000 };
/** No living worker has the credentials. */
const NONE_HAS: Backoff = { backoffBaseMs: 2_000, backoffMaxMs: 60_000 };
/** The wait after Redis did not answer. A random time of up to the same length is added. */
const NO_ANSWER_MS = 1_000;

/** If devices failed for different reasons, the dead letter names the first of these, which matters most to an operator. */
const REASONS_BY_WEIGHT: readonly DeadLetterReason[] = [
  'provider-auth',
  'attempts-exhausted',
  'ambiguous',
  'rejected',
  'provider-not-configured',
  'bad-token',
  'unregistered',
];

/** The lock was lost: the worker that has the job now decides. If this pass took a slot, it gives that back. */
export const LOCK_LOST: Result = { kind: 'yielded' };

/**
 * A job that stalled again, and at least twice in all, first waits for a random time, up to lockMs x 2^(stalls - 2). Such a job
 * may crash its worker, and then the worker's other jobs stall too. The random wait brings the job together with different jobs
 * each time, so that it stalls more often than any of them. Undefined: the job need not wait.
 */
export function stalledAgain(context: Context, { random }: DeliverParts): Result | undefined {
  const { stalls, progress, lock } = context;
  if (stalls < 2 || stalls <= (progress.stalls ?? 0)) return undefined;
  const waitMs = Math.ceil(random() * doubledMs(lock.lockMs, MAX_STALL_WAIT_MS, stalls - 2));
  if (waitMs === 0) return undefined;
  context.progress = { ...progress, stalls };
  return deferred(waitMs, 'stalled-before');
}

/** The code of a result that puts a job back for a worker of a newer version. */
export const NEWER_FORMAT = 'newer-format';
/** The first and the longest wait before another worker may take a job of a newer version. */
const NEWER: Backoff = { backoffBaseMs: 2_000, backoffMaxMs: 300_000 };

/**
 * A newer version wrote the job, or the limiter's state of the recipient. Another worker may be able to read it, so the job is
 * put back without an attempt, each time for longer: a worker that can read none of thousands of such jobs still has time for
 * others. The job never becomes a dead letter here: the record of which devices were alerted would be lost.
 */
export function newer(
  { passes, place }: Pick<Context, 'passes' | 'place'>,
  { random }: Pick<DeliverParts, 'random'>,
): Result {
  place.giveWay(1); // each time: perhaps no worker can read the job, and due jobs must be on time
  return deferred(backoffMs(Math.max(1, passes), NEWER, 0, random()), NEWER_FORMAT);
}

/** As `newer`, if the limiter answered that a newer version wrote its state. Nothing was sent. */
export function newerLimiterState(context: Context, parts: DeliverParts): Result {
  context.progress = { ...context.progress, unsent: true, trying: undefined };
  return newer(context, parts);
}

export function invalid({ faults }: Context): Result {
  const hint = faults.some(isUnknownField) ? NEWER_PRODUCER : '';
  return { kind: 'dead-letter', reason: 'invalid', message: `${faults.map(formatFault).join('; ')}${hint}` };
}

/** A worker refuses a whole notification if one of its fields is unknown. */
const NEWER_PRODUCER = ' (if a newer producer knows the field: upgrade the workers, then replay)';

/** The result when every device has ended: retracted, delivered (at least one was alerted), or dead letter. */
export function finished({ notification, progress }: Context): Result {
  const states = Object.values(progress.devices);
  if (states.some(hasTaken) && retractionOf(notification) !== undefined) return { kind: 'retracted' };
  if (states.includes('delivered')) return { kind: 'delivered', ...(progress.silenced === true && { silenced: true }) };
  const reason = REASONS_BY_WEIGHT.find((candidate) => states.includes(candidate)) ?? 'attempts-exhausted';
  return { kind: 'dead-letter', reason, message: progress.attempts.at(-1)?.error ?? reason };
}

export function expired(context: Context): Result {
  return endedEarly(context, { kind: 'expired' });
}

/** How far the clocks of a worker and a producer may differ, so that no worker refuses an instant that a producer accepted. */
const CLOCK_SKEW_MS = 3_600_000;

/**
 * Puts a notification back if its `sendAfter` lies ahead; undefined if it may be sent. The producer delays such a job itself,
 * and refuses an instant too far ahead. This is for jobs of other clients, and for a producer whose clock is ahead.
 */
export function beforeSendAfter(context: Context, { now }: DeliverParts): Result | undefined {
  const { sendAfter, expiresAt } = context.notification;
  const at = now();
  const faults = tooFarAhead({ sendAfter, expiresAt }, at, CLOCK_SKEW_MS);
  if (faults.length > 0) return { kind: 'dead-letter', reason: 'invalid', message: faults.map(formatFault).join('; ') };
  if (sendAfter === undefined || sendAfter <= at) return undefined;
  const waitMs = sendAfter - at;
  context.progress = { ...context.progress, dueAt: sendAfter, rule: SEND_AFTER };
  return { kind: 'requeued', waitMs, delayMs: waitMs, rule: SEND_AFTER };
}

/** The limiter reserved a slot: the job comes back a little before the slot. */
export function requeued(context: Context, reserved: Reserved, parts: DeliverParts): Result {
  return untilDue(context, reserved, Math.max(0, reserved.waitMs - leadMs(reserved)), parts);
}

/** What the producer wants to happen where a slot is refused. */
export function onRefused(
  { notification }: Pick<Context, 'notification'>,
  { rule, because }: Refused,
): Notification['onThrottle'] {
  return rule === 'quiet' && because !== 'max-pending' ? notification.onQuiet : notification.onThrottle;
}

/**
 * `onThrottle` would drop the notification now, or deliver it without a slot, but `onQuiet: delay` makes the notification wait
 * for the end of the quiet time. When its job comes back, the limits decide.
 */
export function untilQuietEnds(context: Context, { quietMs = 0 }: Refused, parts: DeliverParts): Result {
  if (quietMs >= timeLeftMs(context, parts)) return expired(context);
  const ruleUntil = Math.round(parts.now() + quietMs);
  return untilDue(context, { waitMs: quietMs, rule: 'quiet', ruleUntil }, quietMs, parts);
}

/** The limiter reserved no slot: the producer wants to drop what is blocked, or the wait would be too long. */
export function refused(context: Context, refusal: Refused, parts: DeliverParts): Result {
  const { rule, waitMs, because } = refusal;
  if (onRefused(context, refusal) === 'drop') return endedEarly(context, { kind: 'dropped', rule });
  if (waitMs >= timeLeftMs(context, parts)) return expired(context);
  const message =
    because === 'max-pending'
      ? `${parts.maxPending} or more wait for this recipient already; its slot would lie ${span(waitMs)} ahead, by ${rule}`
      : `its slot lies ${span(waitMs)} ahead, by ${rule}; the longest wait is ${formatDuration(parts.maxWaitMs)} (LIMIT_MAX_WAIT)`;
  return endedEarly(context, { kind: 'dead-letter', reason: 'throttled-too-long', message });
}

/** The limiter answered that the notification is not to be sent. */
export function ended(context: Context, { how, by = '' }: NotToBeSent): Result {
  context.isEnded = true;
  return endedEarly(context, how === 'canceled' ? { kind: how } : { kind: how, by: notificationIdOf(by) });
}

/** Slots were missed again and again: this machine is too busy, or stood still. Nothing was sent. */
export function missedSlot(context: Context, { random }: DeliverParts): Result {
  const unreached = context.progress.unreached + 1;
  context.progress = { ...context.progress, unreached };
  return deferred(backoffMs(unreached, OWN_FAULT, 0, random()), 'missed-slot');
}

/** Redis did not save `trying` (AT_MOST_ONCE), so nothing was sent. Forgets what was saved for a slot that was then missed. */
export function notNoted(context: Pick<Context, 'progress'>, { random }: Pick<DeliverParts, 'random'>): Result {
  context.progress = { ...context.progress, trying: undefined };
  return noAnswer('not-noted', random);
}

/** The limiter or a quota did not answer. Nothing was sent. If the limiter gave a slot anyway, the next pass uses that slot. */
export function limiterUnavailable(context: Context, parts: DeliverParts): Result {
  return unsure(context, 'limiter-unavailable', parts);
}

/** The limiter did not say whether the notification was canceled, or sent as a part of a digest. */
export function endUnknown({ random }: DeliverParts): Result {
  return noAnswer('limiter-unavailable', random);
}

/** The limiter gave a slot, but too few replicas have it (REDIS_WAIT_REPLICAS). Nothing was sent: the next pass uses that slot. */
export function replicasMissing(context: Context, parts: DeliverParts): Result {
  return unsure(context, 'replicas-missing', parts);
}

function unsure(context: Context, code: string, { random }: DeliverParts): Result {
  context.progress = { ...context.progress, unsent: true, trying: undefined };
  return noAnswer(code, random);
}

function noAnswer(code: string, random: DeliverParts['random']): Result {
  return deferred(Math.round(NO_ANSWER_MS * (1 + random())), code);
}

/**
 * An error that no step foresaw: a bug. It counts as an attempt. If something may have been sent, the next ask is a new one; if
 * not, the limiter may still have given a slot.
 */
export function unexpectedError(context: Context, error: unknown, { now, random, retry }: DeliverParts): Result {
  const { progress } = context;
  const message = redactedError(error, context);
  const tries = progress.tries + 1;
  const asked = mayHaveAlerted(context) ? { asks: progress.asks + 1 } : context.isAsked && { unsent: true };
  context.error = error;
  context.progress = { ...withAttempts(progress, [{ at: now(), error: message }]), tries, ...asked };
  if (tries >= retry.attempts)
    return endedEarly(context, { kind: 'dead-letter', reason: 'attempts-exhausted', message });
  return { kind: 'retried', waitMs: backoffMs(tries, retry, 0, random()), code: 'unexpected-error' };
}

/** `TypeError: …`, without what is private in the notification. */
export function redactedError(error: unknown, { data }: Pick<Context, 'data'>): string {
  return redact(`${error instanceof Error ? error.name : 'thrown'}: ${errorChain(error)}`, data);
}

/** Decides from the tries, and from `quotaWait` if some devices were not tried because a quota has no room. */
export function afterSend(context: Context, parts: DeliverParts, quotaWait?: QuotaWait): Result {
  if (context.tried.length === 0 && quotaWait !== undefined)
    return overQuota(context, quotaWait, [], () => deferOrGiveUp(context, [], parts), parts);
  const tried = context.tried.map((each) => openIfMisconfigured(each, parts));
  context.progress = record(context, tried, parts);
  const open = openLabels(context);
  if (open.length === 0) return finished(context);

  const later = tried.filter(({ label }) => open.includes(label));
  const failed = later.filter((each) => isAttempt(each, parts));
  const others = later.filter((each) => !failed.includes(each));
  const result =
    failed.length > 0 ? retryOrGiveUp(context, failed, others, parts) : deferOrGiveUp(context, later, parts);
  if (quotaWait === undefined || result.kind !== 'deferred') return result;
  return overQuota(context, quotaWait, later, () => result, parts);
}

/**
 * A quota has no room. The job comes back exactly at the instant that the quota promised: later, others may have taken the
 * room. If it expires before that, it ends, unless other devices wait for their providers, or for a worker with their
 * credentials: then these decide when.
 *
 * @param later tries of this pass whose devices are still open
 */
function overQuota(
  context: Context,
  wait: QuotaWait,
  later: readonly Tried[],
  waitForOthers: () => Result,
  parts: DeliverParts,
): Result {
  if (wait.waitMs >= timeLeftMs(context, parts)) {
    const isNoneElse = later.length === 0 && soonestBreaker(openServices(context), parts) === undefined;
    if (!isNoneElse) return waitForOthers();
    return context.lacking.length > 0 ? withoutCredentials(context, parts) : expired(context);
  }
  return untilDue(context, wait, Math.max(0, Math.ceil(wait.dueAt - performance.now())), parts);
}

/** While the breaker says that the configuration is wrong, `bad-token` does not end a device: its token may be good. */
function openIfMisconfigured(tried: Tried, { breakers }: DeliverParts): Tried {
  const { service, reply } = tried;
  const isSuspect = reply.suspect === 'configuration' && breakers.current(service)?.trouble === 'configuration';
  return isSuspect ? { ...tried, reply: { ...reply, meaning: 'later', trouble: 'configuration' } } : tried;
}

/**
 * Whether a try that failed counts as an attempt. It does not count if the notification is not the cause: the request did not
 * reach the provider; the provider refuses everything that this app sends, or takes no more for now; or the provider is down. A
 * provider counts as down while its breaker is open, or if it has answered nothing well for half a minute. A try that may have
 * alerted always counts, since it may be repeated only a few times.
 */
function isAttempt({ service, reply }: Tried, { breakers }: DeliverParts): boolean {
  if (reply.alerted === 'maybe') return true;
  if (reply.unsent === true || reply.setUp === true || reply.isLimit === true) return false;
  if (reply.trouble !== undefined) return false;
  if (reply.suspect !== 'outage') return true;
  return breakers.current(service) === undefined && breakers.hasAnsweredWell(service);
}

/**
 * An attempt failed. After the last one, the devices that failed are given up; the others stay open.
 *
 * @param others tries of this pass that failed too, but are no attempts
 */
function retryOrGiveUp(
  context: Context,
  failed: readonly Tried[],
  others: readonly Tried[],
  parts: DeliverParts,
): Result {
  const { progress } = context;
  const isAmbiguous = failed.some(({ reply }) => reply.ambiguous);
  const tries = progress.tries + 1;
  const ambiguous = progress.ambiguous + (isAmbiguous ? 1 : 0);
  // The provider replied, so the time for which the job may be deferred begins anew.
  context.progress = { ...progress, tries, ambiguous, unreached: 0, ...NOT_HELD, rule: undefined };
  const isLast = ({ reply }: Tried) =>
    tries >= parts.retry.attempts || (reply.ambiguous && ambiguous > MAX_AMBIGUOUS_RETRIES);
  const lost = failed.filter(isLast).map(({ label }) => label);
  giveUp(context, lost, 'attempts-exhausted');
  if (openLabels(context).length === 0) return finished(context);

  const again = failed.filter(({ label }) => !lost.includes(label));
  if (again.length === 0) return deferOrGiveUp(context, others, parts);
  const backoff = backoffMs(tries, parts.retry, longestRetryAfterMs(again), parts.random());
  const services = again.map(({ service }) => service);
  const breaker = isNoneClosed(services, parts) ? soonestBreaker(services, parts) : undefined;
  const afterTrialMs = breaker === undefined ? 0 : Math.max(0, breaker.until - parts.now()) + AFTER_TRIAL_MS;
  const code = again.map(({ reply }) => reply.code).join(',');
  const leftMs = Math.max(0, Math.ceil(timeLeftMs(context, parts))); // then the next pass only ends it
  return { kind: 'retried', waitMs: Math.min(Math.max(backoff, afterTrialMs), leftMs), code };
}

/** The notification did not cause the failure: it is deferred without an attempt, for at most a day in which workers tried. */
function deferOrGiveUp(context: Context, tried: readonly Tried[], parts: DeliverParts): Result {
  if (context.lacking.length === openLabels(context).length) return withoutCredentials(context, parts);
  const { progress } = context;
  const now = parts.now();
  const heldSince = heldSinceOf(progress, now);
  const wasSent = tried.some(({ reply }) => reply.unsent !== true);
  const unreached = tried.length > 0 && !wasSent ? progress.unreached + 1 : progress.unreached;
  const isRefused = ({ reply }: Tried): boolean =>
    reply.isLimit === true || (reply.suspect === 'outage' && reply.unsent !== true);
  const limited = tried.some(isRefused) ? (progress.limited ?? 0) + 1 : undefined;
  context.progress = {
    ...progress,
    heldSince,
    heldBefore: undefined,
    heldAt: now,
    unreached,
    limited,
    rule: undefined,
  };
  const breaker = soonestBreaker(openServices(context), parts);
  if (now - heldSince > MAX_DEFERRED_MS) {
    const isSetUp = needsOperator(breaker?.trouble) || tried.some(({ reply }) => reply.setUp === true);
    giveUp(context, openLabels(context), isSetUp ? 'provider-auth' : 'attempts-exhausted');
    return finished(context);
  }
  const code = tried[0]?.reply.code ?? breaker?.code ?? 'provider-open';
  const leftMs = Math.max(0, Math.ceil(timeLeftMs(context, parts))); // a Retry-After may ask for more, up to a day
  const services = tried.map(({ service }) => service);
  if (breaker !== undefined && isNoneClosed(services, parts)) {
    const { enqueuedAt, notification } = context;
    const freeAt = parts.breakers.deferUntil(breaker.service, { recipientId: notification.recipientId, enqueuedAt });
    const dueAt = Math.min(Math.max(freeAt, now + longestRetryAfterMs(tried)), now + leftMs);
    context.progress = { ...context.progress, dueAt }; // an instant, not a wait, so that the deferred jobs keep their order
    return deferred(Math.max(0, dueAt - now), code);
  }
  const backoff = tried.every(({ reply }) => OWN_FAULT_CODES.has(reply.code)) ? OWN_FAULT : UNREACHED;
  const times = Math.max(1, unreached, limited ?? 0);
  const waitMs = backoffMs(times, backoff, longestRetryAfterMs(tried), parts.random());
  return deferred(Math.min(waitMs, leftMs), code);
}

/** Since when the job has been deferred: epoch milliseconds, moved to later by the time in which no worker tried it. */
function heldSinceOf(
  { heldSince, heldBefore, heldAt }: Partial<Pick<Context['progress'], 'heldSince' | 'heldBefore' | 'heldAt'>>,
  now: number,
): number {
  const since = heldSince ?? heldBefore;
  return since === undefined ? now : since + Math.max(0, now - (heldAt ?? now) - MAX_BETWEEN_TRIES_MS);
}

/** Forgets since when the job was deferred, and how often a server took no more. */
const NOT_HELD = { heldSince: undefined, heldBefore: undefined, limited: undefined } as const;

/**
 * This worker has no credentials for the devices that are left, so the job is put back for a worker that has them, without an
 * attempt: for a day at most, or for CREDENTIALS_WAIT if no such worker is alive.
 */
export function withoutCredentials(context: Context, parts: DeliverParts): Result {
  const { progress, lacking, isElsewhere } = context;
  const now = parts.now();
  const heldSince = heldSinceOf({ ...progress, heldBefore: undefined }, now);
  // CREDENTIALS_WAIT begins anew after a wait for anything else, and after another worker had the credentials.
  const isLacked = progress.rule === CREDENTIALS && progress.lackedSince !== undefined;
  const before = isLacked ? { ...progress, heldSince: progress.lackedSince } : {};
  const lackedSince = isElsewhere ? undefined : heldSinceOf({ ...before, heldBefore: undefined }, now);
  const leftMs =
    lackedSince === undefined ? heldSince + MAX_DEFERRED_MS - now : lackedSince + parts.credentialsWaitMs - now;
  if (leftMs <= 0) {
    const failures = lacking.map(({ label, account }) => ({ at: now, device: label, error: lackText(account) }));
    context.progress = withAttempts(progress, failures);
    giveUp(context, openLabels(context), 'provider-not-configured');
    return finished(context);
  }
  const unreached = progress.unreached + 1;
  context.progress = { ...progress, heldSince, lackedSince, heldAt: now, unreached, rule: CREDENTIALS };
  if (isElsewhere) context.place.giveWay(unreached);
  const waitMs = backoffMs(unreached, isElsewhere ? ANOTHER_HAS : NONE_HAS, 0, parts.random());
  return deferred(Math.min(waitMs, leftMs), NO_CREDENTIALS);
}

/** `no credentials for fcm of the app "teacher"` */
export function lackText(account: Account): string {
  const { platform, app } = namesOf(account);
  return `no credentials for ${platform}${app === undefined ? '' : ` of the app "${app}"`}`;
}

/**
 * Puts the job back until its slot, or until a quota has room, and counts it as requeued. Remembers since when a provider has
 * put the job off (`heldBefore`): else a job that is put off and requeued in turn would never end. Time without credentials is
 * not remembered: a worker with the credentials has taken the job since.
 */
function untilDue(
  context: Context,
  { waitMs, rule, ruleUntil, before }: Waited,
  delayMs: number,
  { now }: DeliverParts,
): Result {
  const { progress } = context;
  context.progress = {
    ...progress,
    requeues: progress.requeues + 1,
    dueAt: now() + delayMs,
    rule,
    ruleUntil,
    ...NOT_HELD,
    heldBefore: progress.rule === CREDENTIALS ? undefined : (progress.heldSince ?? progress.heldBefore),
    unreached: 0,
  };
  return { kind: 'requeued', waitMs, delayMs, rule, ruleUntil, before };
}

function deferred(waitMs: number, code: string): Result {
  return { kind: 'deferred', waitMs, code };
}

/**
 * The notification ends while devices are open. If a device was alerted before, the notification counts as delivered; if one
 * may have been alerted, it becomes a dead letter, `ambiguous`. If only an earlier worker could know, the result says so.
 */
function endedEarly(context: Context, result: Early): Result {
  const { progress, stalls } = context;
  if (Object.values(progress.devices).some(mayShow)) return finished(context);
  if (result.kind === 'dead-letter' || !(mayBeSeen(progress) || stalls > 0)) return result;
  return { ...result, maybeShown: true };
}

type Early = Exclude<Result, { kind: 'delivered' | 'retracted' | 'requeued' | 'deferred' | 'yielded' | 'retried' }>;

function giveUp(context: Context, labels: readonly string[], reason: DeadLetterReason): void {
  const { progress } = context;
  const devices = { ...progress.devices, ...Object.fromEntries(labels.map((label) => [label, reason])) };
  context.progress = { ...progress, devices };
}

function longestRetryAfterMs(tried: readonly Tried[]): number {
  return Math.max(0, ...tried.map(({ reply }) => reply.retryAfterMs ?? 0));
}

function isNoneClosed(services: readonly Service[], { breakers }: DeliverParts): boolean {
  return services.every((service) => breakers.current(service) !== undefined);
}

/** Of the services' breakers that are not closed, the one that may close first. */
function soonestBreaker(services: readonly Service[], { breakers }: DeliverParts) {
  const notClosed = services.flatMap((service) => breakers.current(service) ?? []);
  return notClosed.toSorted((a, b) => a.until - b.until)[0];
}

/**
 * The wait before the next attempt, in milliseconds: base x 2^(tries - 1), at most the maximum. The upper half of the wait is
 * random, so that notifications that failed together do not come back together. The wait is never shorter than what a provider
 * asked for (`atLeastMs`, Retry-After), to which up to a tenth is added at random.
 */
export function backoffMs(tries: number, backoff: Backoff, atLeastMs: number, random: number): number {
  const own = doubledMs(backoff.backoffBaseMs, backoff.backoffMaxMs, tries - 1) * (0.5 + random / 2);
  const asked = atLeastMs * (1 + random / 10);
  return Math.round(Math.max(own, asked));
}
