import type { BreakerAnswer } from '../breaker/breaker.ts';
import { serviceOfDevice, type Service } from '../notification/device.ts';
import type { DeviceState, FailedAttempt } from '../notification/outcome.ts';
import { retractionOf } from '../notification/retraction.ts';
import type { Meaning, Reply } from '../providers/provider.ts';
import { openServices, type Context, type ReadyDevice, type Tried } from './context.ts';
import type { DeliverParts } from './parts.ts';
import { withAttempts, type Progress } from './progress.ts';

/** Asks each circuit breaker that is not closed whether to send this notification; a half open one may make it the trial. */
export async function askBreakers(context: Context, { breakers }: DeliverParts): Promise<void> {
  const isNotClosed = (service: Service): boolean => breakers.current(service) !== undefined;
  if (!context.notification.devices.some((device) => isNotClosed(serviceOfDevice(device)))) return;
  const answers = (context.breakerAnswers = new Map<Service, BreakerAnswer>());
  const ask = async (service: Service): Promise<void> => {
    answers.set(service, await breakers.enter(service, context.notification.recipientId));
  };
  await Promise.all(openServices(context).filter(isNotClosed).map(ask));
}

/**
 * Reports a reply to its breaker and to the listener, and adds the try to `context.tried`.
 *
 * @param handedOverAt when the request was handed over to be sent: an instant of `performance.now()`
 */
export async function noteReply(
  context: Context,
  { label, device, service }: ReadyDevice,
  reply: Reply,
  handedOverAt: number,
  parts: DeliverParts,
): Promise<void> {
  const tookMs = performance.now() - handedOverAt;
  reportToBreaker(context, service, reply, parts);
  const tried = { label, service, reply, at: parts.now(), handedOverAt, tookMs };
  await parts.onReply({ notification: context.notification, device, label, reply, tookMs });
  context.tried.push(tried);
}

/** Reports a reply that says something about the whole provider to its breaker. The first reply to a trial ends the trial. */
function reportToBreaker(context: Context, service: Service, reply: Reply, { breakers }: DeliverParts): void {
  const { code, trouble, suspect, retryAfterMs, unsent } = reply;
  // A request that this worker gave up, or did not send for a reason of its own, says nothing about the provider.
  if (trouble === undefined && suspect === undefined && (unsent === true || code === 'aborted')) return;
  const { notification, breakerAnswers } = context;
  const answer = breakerAnswers?.get(service);
  const trial = answer?.kind === 'trial' ? answer.trial : undefined;
  if (trial !== undefined) breakerAnswers?.delete(service);
  breakers.report({ service, recipientId: notification.recipientId, code, trouble, suspect, retryAfterMs }, trial);
}

/** Gives back the unused trials, so that other notifications may have them. */
export function releaseTrials({ breakerAnswers }: Context, { breakers }: DeliverParts): void {
  for (const answer of breakerAnswers?.values() ?? []) if (answer.kind === 'trial') breakers.release(answer.trial);
}

/** How each meaning of a reply ends a device; `later` leaves it open. */
export const STATE_OF: Partial<Record<Meaning, DeviceState>> = {
  accepted: 'delivered',
  gone: 'unregistered',
  'bad-token': 'bad-token',
  rejected: 'rejected',
};

/** Whether a device that may have been reached is not sent to again. False for a retraction, since a repeat does no harm. */
export function isAtMostOnce(
  { data }: Pick<Context, 'data'>,
  { atMostOnce }: Pick<DeliverParts, 'atMostOnce'>,
): boolean {
  return atMostOnce && retractionOf(data) === undefined;
}

/** The progress after these tries: how devices ended, and the failures. It lists no device as being sent to (`trying`). */
export function record(context: Context, tried: readonly Tried[], parts: Pick<DeliverParts, 'atMostOnce'>): Progress {
  const { progress } = context;
  const devices = { ...progress.devices };
  let { sentAt } = progress;
  const failures: FailedAttempt[] = [];
  for (const { label, reply, at } of tried) {
    const isAmbiguous = isAtMostOnce(context, parts) && reply.alerted === 'maybe';
    const state = STATE_OF[reply.meaning] ?? (isAmbiguous ? 'ambiguous' : undefined);
    if (state !== undefined) devices[label] = state;
    if (reply.meaning === 'accepted') sentAt = Math.min(sentAt ?? at, at);
    else failures.push({ at, device: label, error: replyText(reply) });
  }
  const isMaybe = progress.maybe === true || tried.some(({ reply }) => reply.alerted === 'maybe');
  const known = {
    ...(sentAt !== undefined && { sentAt }),
    ...(isMaybe && { maybe: true }),
    ...silencedBy(context, tried),
  };
  return withAttempts({ ...progress, devices, ...known, trying: undefined }, failures);
}

/** Whether all sends so far that may have reached a device were silent. Absent for a notification that is never silenced. */
function silencedBy(
  { notification: { onThrottle, onQuiet }, progress, isSilent }: Context,
  tried: readonly Tried[],
): Pick<Progress, 'silenced'> {
  if (onThrottle !== 'silence' && onQuiet !== 'silence') return {};
  if (tried.every(({ reply }) => reply.alerted === 'no')) return {};
  const wasLoud = Object.values(progress.devices).includes('delivered'); // by an older worker, or before a replay
  return { silenced: isSilent && (progress.silenced ?? !wasLoud) };
}

/** A reply as a dead letter lists it: `BadTopic`, `timeout: no answer within 30 s`. */
export function replyText({ code, detail }: Reply): string {
  return detail === undefined || detail === code ? code : `${code}: ${detail}`;
}
