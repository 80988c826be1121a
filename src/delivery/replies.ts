import type { Breakers, BreakerAnswer } from '../breaker/breaker.ts';
import { type Service, serviceOfDevice } from '../domain/device.ts';
import type { FailedAttempt } from '../domain/outcome.ts';
import type { Meaning, Reply } from '../providers/provider.ts';
import {
  type Context,
  type ReadyDevice,
  type Tried,
  type DeliverParts,
  withAttempts,
  type DeviceState,
  type Progress,
  openServices,
} from './context.ts';

/** Adds a try to `context.tried`; tells the breakers, and the listener, of its reply. Undefined where there is nothing to wait for. */
export function noteReply(
  context: Context,
  { label, device, service }: ReadyDevice,
  reply: Reply,
  tookMs: number,
  parts: DeliverParts,
): Promise<void> | undefined {
  reportReply(context, service, reply, parts);
  const tried = { label, service, reply, at: parts.now() };
  const listening = parts.onReply({ notification: context.notification, device, label, reply, tookMs });
  if (listening instanceof Promise) return listening.then(() => void context.tried.push(tried));
  context.tried.push(tried);
  return undefined;
}

/** The meanings that end a device, and how; `later` leaves it open. */
export const STATE_OF: Partial<Record<Meaning, DeviceState>> = {
  accepted: 'delivered',
  gone: 'unregistered',
  'bad-token': 'bad-token',
  rejected: 'rejected',
};

/** The progress after these tries: how devices ended, the failures, and no device that is being sent to. */
export function record(context: Context, tried: readonly Tried[], atMostOnce: boolean): Progress {
  const { progress } = context;
  const devices = { ...progress.devices };
  let { sentAt } = progress;
  const failures: FailedAttempt[] = [];
  for (const { label, reply, at } of tried) {
    const isAmbiguous = atMostOnce && reply.alerted === 'maybe';
    const state = STATE_OF[reply.meaning] ?? (isAmbiguous ? 'ambiguous' : undefined);
    if (state !== undefined) devices[label] = state;
    if (reply.meaning === 'accepted') sentAt = Math.min(sentAt ?? at, at);
    else failures.push({ at, device: label, error: replyText(reply) });
  }
  const known = { ...(sentAt !== undefined && { sentAt }), ...silencedBy(context, tried) };
  return withAttempts({ ...progress, devices, ...known, trying: undefined }, failures);
}

/** Whether all that may have reached a device, before and now, was silent. Nothing for a notification that is never silenced. */
function silencedBy(
  { notification: { onThrottle, onQuiet }, progress, isSilent }: Context,
  tried: readonly Tried[],
): Pick<Progress, 'silenced'> {
  if (onThrottle !== 'silence' && onQuiet !== 'silence') return {};
  if (tried.every(({ reply }) => reply.alerted === 'no')) return {};
  const wasLoud = Object.values(progress.devices).includes('delivered'); // by a worker that did not note it, or before a replay
  return { silenced: isSilent && (progress.silenced ?? !wasLoud) };
}

/** A reply as an attempt of a dead letter tells it: `BadTopic`, `timeout: no answer within 30 s`. */
export function replyText({ code, detail }: Reply): string {
  return detail === undefined || detail === code ? code : `${code}: ${detail}`;
}

interface Parts {
  readonly breakers: Breakers;
}

/**
 * Asks the circuit breakers that are not closed whether this notification may be sent; a half open one may make it the
 * trial. Undefined where all are closed: there is nothing to ask.
 */
export function askBreakers(context: Context, { breakers }: Parts): Promise<unknown> | undefined {
  const isNotClosed = (service: Service): boolean => breakers.current(service) !== undefined;
  if (!context.notification.devices.some((device) => isNotClosed(serviceOfDevice(device)))) return undefined;
  const answers = (context.breakerAnswers = new Map<Service, BreakerAnswer>());
  const ask = async (service: Service): Promise<void> => {
    answers.set(service, await breakers.enter(service, context.notification.recipientId));
  };
  return Promise.all(openServices(context).filter(isNotClosed).map(ask));
}

/** Tells the breaker of a reply, if the reply says something about the provider; the first reply ends a trial. */
function reportReply(context: Context, service: Service, reply: Reply, { breakers }: Parts): void {
  if (!isAboutProvider(reply)) return;
  const { notification, breakerAnswers } = context;
  const { code, trouble, suspect, retryAfterMs } = reply;
  const { recipientId } = notification;
  const evidence = { service, recipientId, code, trouble, suspect, retryAfterMs };
  const answer = breakerAnswers?.get(service);
  if (answer?.kind === 'trial') {
    breakerAnswers?.delete(service);
    breakers.report(evidence, answer.trial);
  } else breakers.report(evidence);
}

/** Gives back the trials on which nothing was sent: another notification may have them. */
export function releaseTrials({ breakerAnswers }: Context, { breakers }: Parts): void {
  if (breakerAnswers === undefined) return;
  for (const answer of breakerAnswers.values()) if (answer.kind === 'trial') breakers.release(answer.trial);
}

/** What this worker gave up, or did not send for a reason of its own, says nothing about the provider. */
function isAboutProvider({ unsent, trouble, suspect, code }: Reply): boolean {
  return trouble !== undefined || suspect !== undefined || (unsent !== true && code !== 'aborted');
}
