import { disguisedFaults, patchFaults } from './background-rules.ts';
import { asDigest, MAX_DIGEST } from './digest.ts';
import { describeFound, type Fault } from './faults.ts';
import { isObject, valueAt } from './json.ts';
import { liveActivityFaults, strayLiveActivityFaults } from './live-activity-rules.ts';
import { instantOf } from './send-after.ts';
import type { DeviceKind } from '../providers/device-kind.ts';
import { SHOWN_BY_APNS } from '../providers/apns/fields.ts';
import { DEVICE_KINDS } from '../providers/devices.ts';
import { androidFieldsSchema, SHOWN_BY_FCM } from '../providers/fcm/fields.ts';
import type { Notification, Platform } from './notification-types.ts';

/**
 * What no field tells by itself: which fields need or exclude each other. They are read from the raw value, so that these
 * faults are told together with those of single fields.
 */
export function togetherFaults(raw: unknown): Fault[] {
  if (!isObject(raw)) return [];
  const alert = raw['alert'];
  const waiting = [...timesFaults(raw), ...waitingFaults(raw), ...strayLiveActivityFaults(raw)];
  if (raw['pushType'] === 'background') return [...backgroundFaults(raw), ...patchFaults(raw), ...waiting];
  if (raw['pushType'] === 'liveactivity') {
    return [...liveActivityFaults(raw), ...(isObject(alert) ? locArgsFaults(alert) : []), ...waiting];
  }
  waiting.push(...disguisedFaults(raw), ...dataOnlyFaults(raw));
  if (alert === undefined) return [{ path: 'alert', expected: 'an object', found: 'nothing' }, ...waiting];
  return [...(isObject(alert) ? [...locArgsFaults(alert), ...keysAloneFaults(raw, alert)] : []), ...waiting];
}

/** With whom it waits. */
function waitingFaults({ onThrottle, onQuiet, collapseId, digest }: Record<string, unknown>): Fault[] {
  const faults: Fault[] = [];
  if (onThrottle === 'latest' && collapseId === undefined) {
    faults.push({ path: 'collapseId', expected: 'a text beside onThrottle "latest"', found: 'nothing' });
  }
  if (onThrottle === 'digest' && digest === undefined) {
    faults.push({ path: 'digest', expected: 'an object beside onThrottle "digest"', found: 'nothing' });
  }
  const isTogether = onThrottle === 'latest' || onThrottle === 'digest';
  if (isTogether && onQuiet !== undefined && onQuiet !== 'delay') {
    // What is silent or dropped alone would leave the others of its digest, or an older one, behind.
    const expected = `"delay" beside onThrottle "${onThrottle}"`;
    faults.push({ path: 'onQuiet', expected, found: describeFound(onQuiet, false) });
  }
  if (digest !== undefined && onThrottle !== 'digest') {
    faults.push({ path: 'onThrottle', expected: '"digest" beside digest', found: describeFound(onThrottle, false) });
  }
  if (isObject(digest) && !hasText(digest['title']) && !hasText(digest['body'])) {
    faults.push({ path: 'digest', expected: 'a title or a body that is not empty', found: 'neither' });
  }
  return faults;
}

const hasText = (value: unknown): boolean => value !== undefined && value !== '';

/** It must not be held back until it has expired. */
function timesFaults(raw: Record<string, unknown>): Fault[] {
  if (raw['sendAfter'] === undefined) return [];
  const [sendAfter, expiresAt] = [instantOf(raw['sendAfter']), instantOf(raw['expiresAt'])];
  if (sendAfter === undefined || expiresAt === undefined || sendAfter < expiresAt) return [];
  const expected = `a time before expiresAt, which is ${new Date(expiresAt).toISOString()}`;
  return [{ path: 'sendAfter', expected, found: new Date(sendAfter).toISOString() }];
}

/**
 * A background push may not alert (developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app):
 * its `aps` has only `content-available`, and its priority is 5.
 */
export const NOT_IN_BACKGROUND = [
  ...['alert', 'sound', 'badge', 'imageUrl', 'android', 'webpush', 'digest'],
  ...SHOWN_BY_APNS.map((field) => `apns.${field}`),
  ...['apns.payload', 'fcm.message.apns.payload'].flatMap((payload) =>
    ['alert', 'sound', 'badge'].map((key) => `${payload}.aps.${key}`),
  ),
  ...SHOWN_BY_FCM.map((name) => `fcm.message.${name}`),
];

/** The platforms whose devices take no background pushes. */
export const MUST_SHOW: readonly string[] = DEVICE_KINDS.filter(({ mustShow }: DeviceKind) => mustShow === true).map(
  ({ schema }) => schema.shape.platform.value,
);

/** The devices that take no background pushes, by their places. */
function mustShow({ devices }: Record<string, unknown>): (readonly [index: number, platform: string])[] {
  if (!Array.isArray(devices)) return [];
  return devices.flatMap((device: unknown, index) => {
    const platform = isObject(device) ? device['platform'] : undefined;
    return typeof platform === 'string' && MUST_SHOW.includes(platform) ? [[index, platform] as const] : [];
  });
}

function backgroundFaults(raw: Record<string, unknown>): Fault[] {
  const faults = NOT_IN_BACKGROUND.filter((path) => valueAt(raw, path) !== undefined).map((path) => ({
    path,
    expected: 'none in a background push, which shows nothing',
    found: 'one',
  }));
  for (const [index, platform] of mustShow(raw)) {
    const expected = 'another platform in a background push: a browser must show every push';
    faults.push({ path: `devices[${index}].platform`, expected, found: describeFound(platform, false) });
  }
  const priority = valueAt(raw, 'apns.priority');
  if (priority === 1 || priority === 10) {
    faults.push({ path: 'apns.priority', expected: '5, which Apple asks of a background push', found: `${priority}` });
  }
  if (raw['onThrottle'] === 'silence') {
    const expected = '"delay" or "drop": a background push is silent already';
    faults.push({ path: 'onThrottle', expected, found: describeFound('silence', false) });
  }
  return faults;
}

/** What Android would show by itself, or shows by, where the app draws (`android.dataOnly`): it could not draw a digest's count. */
export const NOT_IN_DATA_ONLY = [
  'digest',
  ...Object.keys(androidFieldsSchema.shape)
    .filter((field) => field !== 'dataOnly')
    .map((field) => `android.${field}`),
  'fcm.message.notification',
  'fcm.message.android.notification',
];

function dataOnlyFaults(raw: Record<string, unknown>): Fault[] {
  if (valueAt(raw, 'android.dataOnly') !== true) return [];
  const faults = NOT_IN_DATA_ONLY.filter((path) => valueAt(raw, path) !== undefined).map((path) => ({
    path,
    expected: 'none beside android.dataOnly, since the app itself draws',
    found: 'one',
  }));
  const data = ['data', 'fcm.message.data', 'fcm.message.android.data'].map((path) => valueAt(raw, path));
  const isThere = data.some((each) => isObject(each) && Object.values(each).some((value) => value !== null));
  if (!isThere) {
    faults.push({ path: 'data', expected: 'an object beside android.dataOnly, for the app to draw', found: 'nothing' });
  }
  return faults;
}

/** The devices fill in the arguments only where there is a key. */
function locArgsFaults(alert: Record<string, unknown>): Fault[] {
  return ['title', 'subtitle', 'body'].flatMap((text) => {
    const isAlone = alert[`${text}LocArgs`] !== undefined && alert[`${text}LocKey`] === undefined;
    return isAlone ? [{ path: `alert.${text}LocKey`, expected: `a text beside ${text}LocArgs`, found: 'nothing' }] : [];
  });
}

/** A key names a text of an app. A website has none, and a browser would show the word "undefined". */
function keysAloneFaults(raw: Record<string, unknown>, alert: Record<string, unknown>): Fault[] {
  const hasKey = alert['titleLocKey'] !== undefined || alert['bodyLocKey'] !== undefined;
  if (!hasKey || hasText(alert['title']) || hasText(alert['body']) || mustShow(raw).length === 0) return [];
  const expected = 'a title or a body that is not empty, since a browser has no texts for keys';
  return [{ path: 'alert', expected, found: 'keys alone' }];
}

/** A form in which a notification may be sent. */
interface Form {
  /** In words, after the platform; empty for the one that goes if nothing blocks it. */
  readonly name: string;
  readonly notification: Notification;
  readonly silent: boolean;
}

/** What is sent if the limits or quiet hours block it. A digest is never silent, and a background push always is. */
function otherForms(notification: Notification): Form[] {
  const { digest, onQuiet, onThrottle, pushType } = notification;
  const forms: Form[] = [];
  if (digest !== undefined) {
    forms.push({ name: ' as a digest', notification: asDigest(notification, MAX_DIGEST), silent: false });
  }
  const by = [onThrottle === 'silence' && 'onThrottle', onQuiet === 'silence' && 'onQuiet'].filter(
    (field) => field !== false,
  );
  if (pushType === 'alert' && by.length > 0) {
    forms.push({ name: ` where it is silenced (${by.join(', ')})`, notification, silent: true });
  }
  return forms;
}

/** A payload that is too large for a platform of its devices, in any form. The worker would find it too, but only after the queue. */
export function payloadFaults(notification: Notification): Fault[] {
  const forms = [{ name: '', notification, silent: false }, ...otherForms(notification)];
  return DEVICE_KINDS.flatMap(({ schema }) => tooLarge(notification, schema.shape.platform.value, forms) ?? []);
}

/** The fault of the forms that this send is not, so that a worker does not find it only when it is blocked. */
export function laterPayloadFault(notification: Notification, platform: Platform): Fault | undefined {
  const forms = otherForms(notification);
  return forms.length === 0 ? undefined : tooLarge(notification, platform, forms);
}

/** The fault of the first form that is too large for the platform's devices. */
function tooLarge({ devices }: Notification, platform: Platform, forms: readonly Form[]): Fault | undefined {
  const payload = DEVICE_KINDS.find(({ schema }) => schema.shape.platform.value === platform)?.payload;
  if (payload === undefined || !devices.some((device) => device.platform === platform)) return undefined;
  for (const { name, notification, silent } of forms) {
    const bytes = payload.bytesOf(notification, silent);
    if (bytes <= payload.maxBytes) continue;
    const expected = `a payload of at most ${payload.maxBytes} bytes for ${platform}${name}`;
    return { path: '', expected, found: `${bytes} bytes` };
  }
  return undefined;
}
