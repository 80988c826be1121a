import { asDigest, MAX_DIGEST } from '../../src/domain/notification-schema.ts';
import { payloadFaults } from '../../src/domain/notification-rules.ts';
import type { Device, Notification, Platform } from '../../src/domain/notification.ts';
import { pushId } from '../../src/domain/device.ts';
import { apnsPayload } from '../../src/providers/apns/payload.ts';
import { fcmMessage } from '../../src/providers/fcm/payload.ts';
import type { Encoded, Provider, Push } from '../../src/providers/provider.ts';
import { webpushMessage } from '../../src/providers/webpush/payload.ts';
import { decryptPush, browserKeys, ENDPOINT_PATH } from '../../sandbox/webpush/subscription.ts';
import { apnsFaults, apnsLoudFaults } from './apns-rules.ts';
import { fcmBytes, fcmFaults, fcmLoudFaults } from './fcm-rules.ts';
import { NOW_MS } from './notifications.ts';
import type { WireRequest } from './table.ts';
import { webpushFaults, webpushLoudFaults } from './webpush-rules.ts';

export type Providers = Readonly<Record<Platform, Provider>>;

/** Everything that the worker may send of a notification: to each device, loud, as a digest, and silent. */
export function pushesOf(notification: Notification): Push[] {
  const { devices, digest, id, pushType } = notification;
  return devices.flatMap((device, index) => {
    const push = { notification, device, pushId: pushId(id, index), silent: false };
    if (pushType === 'background') return [push]; // silent already
    const asOne = { ...push, notification: asDigest(notification, MAX_DIGEST) };
    return [push, digest === undefined ? { ...push, silent: true } : asOne];
  });
}

/** What is wrong with a push as its provider encodes it; undefined: refused since it is too large, as it should be. */
export function preparedFaults(push: Push, providers: Providers): string[] | undefined {
  const prepared = providers[push.device.platform].prepare(push);
  if (prepared.kind === 'ready') return requestFaults(push, prepared.encoded);
  const { code } = prepared.reply;
  if (!/too-?large/i.test(code) || !isTooLarge(push)) return [`refused as ${code}, but it fits`];
  const { onThrottle, onQuiet } = push.notification;
  const isNeverSent = push.silent && onThrottle !== 'silence' && onQuiet !== 'silence';
  return isNeverSent || payloadFaults(push.notification).length > 0
    ? undefined
    : ['refused as too large, but the producer was not told'];
}

/** What is wrong with a push as it leaves, or as a server got it. */
export function requestFaults(push: Push, request: WireRequest & Pick<Encoded, 'origin'>, nowMs = NOW_MS): string[] {
  const { silent, device } = push;
  if (device.platform === 'apns') return [...apnsFaults(request), ...(silent ? apnsLoudFaults(request) : [])];
  if (device.platform === 'fcm') return [...fcmFaults(request), ...(silent ? fcmLoudFaults(request) : [])];
  const { origin = new URL(device.endpoint).origin } = request;
  const whole = { ...request, origin, message: messageFor(device, request.body), nowMs };
  return [...webpushFaults(whole), ...(silent ? webpushLoudFaults(whole) : [])];
}

function messageFor(device: Device & { platform: 'webpush' }, body: string | Buffer): Buffer | undefined {
  const name = ENDPOINT_PATH.exec(new URL(device.endpoint).pathname)?.[1] ?? '';
  try {
    return decryptPush(Buffer.from(body as string), browserKeys(name));
  } catch {
    return undefined;
  }
}

/** By the bytes of what would have been sent. */
function isTooLarge({ notification, pushId: id, silent, device }: Push): boolean {
  const bytesOf = (value: object): number => Buffer.byteLength(JSON.stringify(value));
  if (device.platform === 'apns') return bytesOf(apnsPayload(notification, silent, NOW_MS)) > 4_096;
  if (device.platform === 'webpush') return bytesOf(webpushMessage(notification, { pushId: id, silent })) > 3_993;
  const options = { token: '', pushId: id, silent, nowMs: NOW_MS };
  return Math.max(...Object.values(fcmBytes(fcmMessage(notification, options)))) > 4_096;
}
