import { SHOWN_BY_APNS } from './devices/apns/fields.ts';
import type { DeviceKind } from './devices/device-kind.ts';
import { DEVICE_KINDS } from './devices/devices.ts';
import { androidFieldsSchema, SHOWN_BY_FCM } from './devices/fcm/fields.ts';
import { describeFound, type Fault, faultOf, formatPath } from '../domain/faults.ts';
import { isObject, valueAt } from '../domain/json.ts';
import { retractionOf } from './retraction.ts';
import { asDigest, MAX_DIGEST } from './schema.ts';
import type { Notification, Platform } from './types.ts';
import { instantOf } from '../domain/time.ts';

/**
 * The faults of fields that need or exclude each other. The raw value is read, so that these faults are reported together with
 * the faults of single fields.
 */
export function togetherFaults(raw: unknown): Fault[] {
  if (!isObject(raw)) return [];
  const alert = raw['alert'];
  const waiting = [
    ...targetFaults(raw),
    ...timesFaults(raw),
    ...waitingFaults(raw),
    ...strayLiveActivityFaults(raw),
    ...activityTokenFaults(raw),
  ];
  if (raw['pushType'] === 'background') return [...backgroundFaults(raw), ...patchFaults(raw), ...waiting];
  if (raw['pushType'] === 'liveactivity') {
    return [...liveActivityFaults(raw), ...(isObject(alert) ? locArgsFaults(alert) : []), ...waiting];
  }
  waiting.push(...disguisedFaults(raw), ...dataOnlyFaults(raw), ...declarativeFaults(raw));
  if (alert === undefined) return [faultOf('alert', 'an object', alert), ...waiting];
  return [...(isObject(alert) ? [...locArgsFaults(alert), ...keysAloneFaults(raw, alert)] : []), ...waiting];
}

/**
 * The faults of the target: devices, or a channel in their place. A channel takes no `start`
 * (developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications).
 */
function targetFaults({ channel, devices, liveActivity, pushType, recipientId }: Record<string, unknown>): Fault[] {
  if (channel === undefined) {
    return devices === undefined ? [faultOf('devices', 'a list of 1 to 20 devices, or a channel', devices)] : [];
  }
  const faults: Fault[] = [];
  if (devices !== undefined) {
    faults.push({ path: 'devices', expected: 'none beside channel, which stands in their place', found: 'one' });
  }
  if (pushType !== 'liveactivity') {
    faults.push(faultOf('pushType', '"liveactivity" beside channel, which only Live Activities have', pushType));
  }
  if (valueAt(liveActivity, 'event') === 'start') {
    const expected = '"update" or "end" beside channel: Apple takes a start for devices only';
    faults.push(faultOf('liveActivity.event', expected, 'start'));
  }
  const id = valueAt(channel, 'id');
  if (typeof id === 'string' && typeof recipientId === 'string' && recipientId !== id) {
    const expected = 'the id of the channel, whose limits hold for all who send to it';
    faults.push({ path: 'recipientId', expected, found: 'another one' });
  }
  return faults;
}

/** The faults of a notification that waits together with others (`latest` or `digest`). */
function waitingFaults({ onThrottle, onQuiet, collapseId, digest }: Record<string, unknown>): Fault[] {
  const faults: Fault[] = [];
  if (onThrottle === 'latest' && collapseId === undefined) {
    faults.push(faultOf('collapseId', 'a text beside onThrottle "latest"', collapseId));
  }
  if (onThrottle === 'digest' && digest === undefined) {
    faults.push(faultOf('digest', 'an object beside onThrottle "digest"', digest));
  }
  const isTogether = onThrottle === 'latest' || onThrottle === 'digest';
  if (isTogether && onQuiet !== undefined && onQuiet !== 'delay') {
    // If one notification were sent silently or dropped, the notifications that wait with it would be left behind.
    faults.push(faultOf('onQuiet', `"delay" beside onThrottle "${onThrottle}"`, onQuiet));
  }
  if (digest !== undefined && onThrottle !== 'digest') {
    faults.push(faultOf('onThrottle', '"digest" beside digest', onThrottle));
  }
  if (isObject(digest) && !hasText(digest['title']) && !hasText(digest['body'])) {
    faults.push({ path: 'digest', expected: 'a title or a body that is not empty', found: 'neither' });
  }
  return faults;
}

/** A fault for each of these fields that is present. */
function presentFaults(raw: object, paths: readonly string[], expected: string): Fault[] {
  return paths.filter((path) => valueAt(raw, path) !== undefined).map((path) => ({ path, expected, found: 'one' }));
}

const hasText = (value: unknown): boolean => value !== undefined && value !== '';

/** The fault of a notification whose `sendAfter` is not before its `expiresAt`. */
function timesFaults(raw: Record<string, unknown>): Fault[] {
  if (raw['sendAfter'] === undefined) return [];
  const [sendAfter, expiresAt] = [instantOf(raw['sendAfter']), instantOf(raw['expiresAt'])];
  if (sendAfter === undefined || expiresAt === undefined || sendAfter < expiresAt) return [];
  const expected = `a time before expiresAt, which is ${new Date(expiresAt).toISOString()}`;
  return [{ path: 'sendAfter', expected, found: new Date(sendAfter).toISOString() }];
}

/**
 * A background push may not alert (developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app):
 * its `aps` has only `content-available`, and its priority is 5. With a badge it is sent as an alert without texts.
 */
export const NOT_IN_BACKGROUND = [
  ...['alert', 'sound', 'imageUrl', 'android', 'webpush', 'digest'],
  ...SHOWN_BY_APNS.map((field) => `apns.${field}`),
  ...['apns.payload', 'fcm.message.apns.payload'].flatMap((payload) =>
    ['alert', 'sound', 'badge'].map((key) => `${payload}.aps.${key}`),
  ),
  ...SHOWN_BY_FCM.map((name) => `fcm.message.${name}`),
];

/** The platforms whose devices cannot get background pushes, except for retractions, which change what is shown. */
export const MUST_SHOW = platformsWhere((kind) => kind.mustShow === true);
/** The platforms whose devices have Live Activities. */
export const LIVE_ACTIVITY_PLATFORMS = platformsWhere((kind) => kind.takesLiveActivities === true);
/** For each platform with such a field: the field of a device that Live Activities need and no other push may have. */
export const LIVE_ACTIVITY_FIELDS: ReadonlyMap<string, string> = new Map(
  DEVICE_KINDS.flatMap(({ schema, liveActivityField }: DeviceKind) =>
    liveActivityField === undefined ? [] : [[schema.shape.platform.value, liveActivityField]],
  ),
);

function platformsWhere(isOne: (kind: DeviceKind) => boolean): readonly string[] {
  return DEVICE_KINDS.filter(isOne).map(({ schema }) => schema.shape.platform.value);
}

/** A fault for each device on a platform that is not allowed. */
function platformFaults(raw: Record<string, unknown>, isAllowed: (platform: string) => boolean, expected: string) {
  return platformsOf(raw).flatMap(([index, platform]) =>
    isAllowed(platform) ? [] : [faultOf(`devices[${index}].platform`, expected, platform.slice(0, 16))],
  );
}

/** The platforms that the devices name, each with the index of the device. */
function platformsOf({ devices }: Record<string, unknown>): (readonly [index: number, platform: string])[] {
  if (!Array.isArray(devices)) return [];
  return devices.flatMap((device: unknown, index) => {
    const platform = isObject(device) ? device['platform'] : undefined;
    return typeof platform === 'string' ? [[index, platform] as const] : [];
  });
}

function backgroundFaults(raw: Record<string, unknown>): Fault[] {
  const mustShow = 'another platform in a background push: a browser must show every push';
  const faults = [
    ...presentFaults(raw, NOT_IN_BACKGROUND, 'none in a background push, which shows nothing'),
    ...(retractionOf(raw) === undefined
      ? platformFaults(raw, (platform) => !MUST_SHOW.includes(platform), mustShow)
      : []),
  ];
  const priority = valueAt(raw, 'apns.priority');
  if (priority === 1 || priority === 10) {
    faults.push(faultOf('apns.priority', '5, which Apple asks of a background push', priority));
  }
  if (raw['onThrottle'] === 'silence') {
    faults.push(faultOf('onThrottle', '"delay" or "drop": a background push is silent already', 'silence'));
  }
  return faults;
}

/**
 * With `android.dataOnly` the app draws the notification. These fields are not allowed, because Android would show them, or the
 * digest's count.
 */
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
  const faults = presentFaults(raw, NOT_IN_DATA_ONLY, 'none beside android.dataOnly, since the app itself draws');
  const data = ['data', 'fcm.message.data', 'fcm.message.android.data'].map((path) => valueAt(raw, path));
  const isThere = data.some((each) => isObject(each) && Object.values(each).some((value) => value !== null));
  if (!isThere) faults.push(faultOf('data', 'an object beside android.dataOnly, for the app to draw', undefined));
  return faults;
}

/** The fault if only one of `declarative` and `navigate` is there: each needs the other. */
function declarativeFaults(raw: Record<string, unknown>): Fault[] {
  const [declarative, navigate] = [valueAt(raw, 'webpush.declarative'), valueAt(raw, 'webpush.navigate')];
  if (declarative === true && navigate === undefined) {
    return [faultOf('webpush.navigate', 'an https URL beside webpush.declarative', navigate)];
  }
  if (declarative === true || navigate === undefined) return [];
  return [faultOf('webpush.declarative', 'true beside webpush.navigate', declarative)];
}

/** A fault for each list of arguments without its key: devices use the arguments only with the key. */
function locArgsFaults(alert: Record<string, unknown>): Fault[] {
  return ['title', 'subtitle', 'body'].flatMap((text) => {
    const isAlone = alert[`${text}LocArgs`] !== undefined && alert[`${text}LocKey`] === undefined;
    return isAlone ? [faultOf(`alert.${text}LocKey`, `a text beside ${text}LocArgs`, undefined)] : [];
  });
}

/** The fault if a browser would get only keys of texts: a website has no such texts, and the browser would show "undefined". */
function keysAloneFaults(raw: Record<string, unknown>, alert: Record<string, unknown>): Fault[] {
  const hasKey = alert['titleLocKey'] !== undefined || alert['bodyLocKey'] !== undefined;
  if (!hasKey || hasText(alert['title']) || hasText(alert['body'])) return [];
  if (!platformsOf(raw).some(([, platform]) => MUST_SHOW.includes(platform))) return [];
  const expected = 'a title or a body that is not empty, since a browser has no texts for keys';
  return [{ path: 'alert', expected, found: 'keys alone' }];
}

/** A form in which a notification may be sent. */
interface Form {
  /** Stands after the platform in the text of the fault. Empty for the form that is sent if nothing blocks the notification. */
  readonly name: string;
  readonly notification: Notification;
  readonly silent: boolean;
}

/** The forms that may be sent if limits or quiet hours block it. A digest is never silent, and a background push always is. */
function otherForms(notification: Notification): Form[] {
  const { digest, onQuiet, onThrottle, pushType } = notification;
  const forms: Form[] = [];
  if (digest !== undefined) {
    forms.push({ name: ' as a digest', notification: asDigest(notification, MAX_DIGEST), silent: false });
  }
  const by = Object.entries({ onThrottle, onQuiet }).flatMap(([field, value]) => (value === 'silence' ? [field] : []));
  if (pushType === 'alert' && by.length > 0) {
    forms.push({ name: ` where it is silenced (${by.join(', ')})`, notification, silent: true });
  }
  return forms;
}

/**
 * A fault for each platform whose payload would be too large: unchanged, as a digest, or silenced. This is checked before the
 * notification is enqueued, since a worker would find the fault only when it sends.
 */
export function payloadFaults(notification: Notification): Fault[] {
  const forms = [{ name: '', notification, silent: false }, ...otherForms(notification)];
  return DEVICE_KINDS.flatMap(({ schema }) => tooLarge(notification, schema.shape.platform.value, forms) ?? []);
}

/** The fault of a form that may be sent later, so that a worker finds it now and not only when the notification is blocked. */
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
    const maxBytes = payload.maxBytesOf?.(notification) ?? payload.maxBytes;
    if (bytes <= maxBytes) continue;
    const expected = `a payload of at most ${maxBytes} bytes for ${platform}${name}`;
    return { path: '', expected, found: `${bytes} bytes` };
  }
  return undefined;
}

/** The places where patches write Apple's keys. */
const APS_PLACES = ['apns.payload.aps', 'fcm.message.apns.payload.aps'];
/** `NOT_IN_BACKGROUND` and the JSON Schema already have a rule for these keys. */
const LISTED = new Set(['alert', 'sound', 'badge']);
const HEADERS_PLACE = 'fcm.message.apns.headers';
const PRIORITY_PLACE = 'fcm.message.android.priority';

/**
 * The faults of `apns.payload` and `fcm.message` in a background push. Such a patch may add nothing that Apple refuses or
 * shows: `aps` has only `content-available`, the push type is `background` (`alert` with a badge), and the priority is 5
 * (developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app).
 */
function patchFaults(raw: unknown): Fault[] {
  return [...APS_PLACES.flatMap((place) => apsFaults(raw, place)), ...headerFaults(raw), ...priorityFaults(raw)];
}

/** The faults of an alert whose patch makes it a background push: that push would keep the alert's sound and priority. */
function disguisedFaults(raw: unknown): Fault[] {
  return headersOf(raw)
    .filter(([name, value]) => name.toLowerCase() === 'apns-push-type' && value === 'background')
    .map(([name]) => ({
      path: `${HEADERS_PLACE}.${name}`,
      expected: 'pushType "background" in its place: a background push has no alert, sound and badge',
      found: '"background"',
    }));
}

function apsFaults(raw: unknown, place: string): Fault[] {
  const aps = valueAt(raw, place);
  if (aps === undefined) return placeFaults(raw, place.slice(0, -'.aps'.length));
  if (!isObject(aps)) return placeFaults(raw, place);
  return Object.entries(aps).flatMap(([key, value]) => {
    const path = `${place}.${formatPath([key])}`;
    if (key === 'content-available') {
      return value === 1 ? [] : [faultOf(path, '1 in a background push', value, true)];
    }
    if (LISTED.has(key) || value === null) return [];
    return [{ path, expected: 'none in a background push, whose aps has only content-available', found: 'one' }];
  });
}

/** A fault if a patch replaces a whole object, because `content-available` or the headers would be lost with it. */
function placeFaults(raw: unknown, place: string): Fault[] {
  const value = valueAt(raw, place);
  // The schema itself reports what is wrong in `apns.payload`.
  if (value === undefined || isObject(value) || place.startsWith('apns.')) return [];
  return [faultOf(place, 'an object, since a background push needs its part', value, true)];
}

function headerFaults(raw: unknown): Fault[] {
  const hasBadge = valueAt(raw, 'badge') !== undefined;
  const fixed = new Map([
    ['apns-push-type', hasBadge ? 'alert' : 'background'],
    ['apns-priority', '5'],
  ]);
  const why = `as Apple asks of a background push${hasBadge ? ' with a badge' : ''}`;
  const faults = headersOf(raw).flatMap(([name, value]) => {
    const needed = fixed.get(name.toLowerCase());
    if (needed === undefined || value === needed) return [];
    const found = foundIn(value);
    return [{ path: `${HEADERS_PLACE}.${name}`, expected: `"${needed}", ${why}`, found }];
  });
  return [...placeFaults(raw, HEADERS_PLACE), ...faults];
}

/** The fault of a background push with high priority: Google lowers the priority of apps that use `high` and show nothing. */
function priorityFaults(raw: unknown): Fault[] {
  const priority = valueAt(raw, PRIORITY_PLACE);
  const isNormal = typeof priority === 'string' && priority.toLowerCase() === 'normal';
  if (priority === undefined || priority === null || isNormal) return [];
  const expected = '"normal" in a background push, which shows nothing';
  return [{ path: PRIORITY_PLACE, expected, found: foundIn(priority) }];
}

/** A patch is private, so its value is repeated only if it looks like a word of the providers. */
const foundIn = (value: unknown): string =>
  describeFound(value, typeof value === 'string' && !/^[A-Za-z0-9]{1,12}$/.test(value));

function headersOf(raw: unknown): [name: string, value: unknown][] {
  const headers = valueAt(raw, HEADERS_PLACE);
  return isObject(headers) ? Object.entries(headers) : [];
}

/** Fields that make no sense in a Live Activity, or would make it alert without counting against the limits of alerts. */
export const NOT_IN_LIVE_ACTIVITY = [
  ...['data', 'badge', 'imageUrl', 'digest', 'android', 'fcm', 'webpush', 'analyticsLabel'],
  ...['subtitle', 'subtitleLocKey', 'subtitleLocArgs'].map((field) => `alert.${field}`),
  ...SHOWN_BY_APNS.map((field) => `apns.${field}`),
  ...['alert', 'sound', 'badge'].map((key) => `apns.payload.aps.${key}`),
];

/** The fields that only a `start` has, and must have. */
export const ONLY_WITH_START = ['attributesType', 'attributes'] as const;

function liveActivityFaults(raw: Record<string, unknown>): Fault[] {
  const faults = presentFaults(raw, NOT_IN_LIVE_ACTIVITY, 'none beside pushType "liveactivity"');
  const { alert, apns, liveActivity, sound } = raw;
  if (liveActivity === undefined) {
    faults.push(faultOf('liveActivity', 'an object beside pushType "liveactivity"', liveActivity));
  }
  if (sound !== undefined && alert === undefined) {
    faults.push({ path: 'sound', expected: 'none in a Live Activity without an alert', found: 'one' });
  }
  if (isObject(apns) && apns['priority'] === 1) {
    faults.push(faultOf('apns.priority', '5 or 10 for a Live Activity', 1));
  }
  const known = LIVE_ACTIVITY_PLATFORMS.map((platform) => `"${platform}"`).join(' or ');
  const isKnown = (platform: string) => LIVE_ACTIVITY_PLATFORMS.includes(platform);
  return [
    ...faults,
    ...platformFaults(raw, isKnown, `${known}, the only ones with Live Activities`),
    ...eventFaults(raw),
    ...silenceFaults(raw),
  ];
}

/** A fault for each device without the token that a Live Activity needs, or with such a token but another push type. */
function activityTokenFaults({ devices, pushType }: Record<string, unknown>): Fault[] {
  const faults: Fault[] = [];
  if (!Array.isArray(devices)) return faults;
  const isLive = pushType === 'liveactivity';
  devices.forEach((device: unknown, index) => {
    const field = isObject(device) ? LIVE_ACTIVITY_FIELDS.get(String(device['platform'])) : undefined;
    if (!isObject(device) || field === undefined || (device[field] !== undefined) === isLive) return;
    const path = `devices[${index}].${field}`;
    faults.push(
      isLive
        ? faultOf(path, 'a text beside pushType "liveactivity"', undefined)
        : { path, expected: 'none without pushType "liveactivity"', found: 'one' },
    );
  });
  return faults;
}

/** A fault if there is a `liveActivity` but another push type. */
function strayLiveActivityFaults({ liveActivity, pushType }: Record<string, unknown>): Fault[] {
  if (liveActivity === undefined || pushType === 'liveactivity') return [];
  return [faultOf('pushType', '"liveactivity" beside liveActivity', pushType)];
}

function eventFaults(raw: Record<string, unknown>): Fault[] {
  const { alert, liveActivity } = raw;
  if (!isObject(liveActivity)) return [];
  const { event } = liveActivity;
  const paths = ONLY_WITH_START.map((field) => `liveActivity.${field}`);
  if (event === 'update' || event === 'end') return presentFaults(raw, paths, `none beside event "${event}"`);
  if (event !== 'start') return []; // the check of the field itself reports an unknown event
  const missing = ONLY_WITH_START.filter((field) => liveActivity[field] === undefined).map((field) => {
    const expected = `${field === 'attributes' ? 'an object' : 'a text'} beside event "start"`;
    return faultOf(`liveActivity.${field}`, expected, undefined);
  });
  return alert === undefined
    ? [...missing, faultOf('alert', 'an object, which Apple asks of a start', alert)]
    : missing;
}

/** The faults of `silence` for a Live Activity. Silencing leaves out the alert, so there must be one that may be left out. */
function silenceFaults({ alert, liveActivity, onThrottle, onQuiet }: Record<string, unknown>): Fault[] {
  const isStart = isObject(liveActivity) && liveActivity['event'] === 'start';
  const why = isStart ? 'a start must alert' : 'without an alert it is silent already';
  const faults: Fault[] = [];
  if (onThrottle === 'digest') {
    faults.push(faultOf('onThrottle', 'another one: a Live Activity has no digest', onThrottle));
  }
  if (alert !== undefined && !isStart) return faults;
  for (const [path, value] of Object.entries({ onThrottle, onQuiet })) {
    if (value === 'silence') faults.push(faultOf(path, `another one: ${why}`, value));
  }
  return faults;
}
