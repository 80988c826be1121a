import type { FailedAttempt } from '../domain/outcome.ts';
import type { Meaning, Reply } from '../providers/provider.ts';
import { reportReply } from './breakers.ts';
import type { Context, ReadyDevice, Tried } from './context.ts';
import type { DeliverParts } from './parts.ts';
import { withAttempts, type DeviceState, type Progress } from './progress.ts';

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
