import type { DeviceKind } from '../providers/device-kind.ts';
import { DEVICE_KINDS } from '../providers/devices.ts';
import { SHOWN_BY_APNS } from '../providers/apns/fields.ts';
import { describeFound, type Fault } from './faults.ts';
import { isObject, valueAt } from './json.ts';

/** Which fields a Live Activity's push needs, and which it may not have. Read from the raw value, like notification-rules.ts. */

/** The platforms whose devices have Live Activities. */
export const LIVE_ACTIVITY_PLATFORMS: readonly string[] = DEVICE_KINDS.filter(
  ({ takesLiveActivities }: DeviceKind) => takesLiveActivities === true,
).map(({ schema }) => schema.shape.platform.value);

/** What makes no sense in one, or would make it alert outside of the limits of alerts. */
export const NOT_IN_LIVE_ACTIVITY = [
  ...['data', 'badge', 'imageUrl', 'digest', 'android', 'fcm', 'webpush', 'analyticsLabel'],
  ...['subtitle', 'subtitleLocKey', 'subtitleLocArgs'].map((field) => `alert.${field}`),
  ...SHOWN_BY_APNS.map((field) => `apns.${field}`),
  ...['alert', 'sound', 'badge'].map((key) => `apns.payload.aps.${key}`),
];

/** The fields that only a `start` has, and must have. */
export const ONLY_WITH_START = ['attributesType', 'attributes'] as const;

export function liveActivityFaults(raw: Record<string, unknown>): Fault[] {
  const faults = NOT_IN_LIVE_ACTIVITY.filter((path) => valueAt(raw, path) !== undefined).map((path) => ({
    path,
    expected: 'none beside pushType "liveactivity"',
    found: 'one',
  }));
  const { alert, apns, liveActivity, sound } = raw;
  if (liveActivity === undefined) {
    faults.push({ path: 'liveActivity', expected: 'an object beside pushType "liveactivity"', found: 'nothing' });
  }
  if (sound !== undefined && alert === undefined) {
    faults.push({ path: 'sound', expected: 'none in a Live Activity without an alert', found: 'one' });
  }
  if (isObject(apns) && apns['priority'] === 1) {
    faults.push({ path: 'apns.priority', expected: '5 or 10 for a Live Activity', found: '1' });
  }
  return [...faults, ...platformFaults(raw), ...eventFaults(raw), ...silenceFaults(raw)];
}

/** `liveActivity` beside another push type. */
export function strayLiveActivityFaults({ liveActivity, pushType }: Record<string, unknown>): Fault[] {
  if (liveActivity === undefined || pushType === 'liveactivity') return [];
  return [{ path: 'pushType', expected: '"liveactivity" beside liveActivity', found: describeFound(pushType, false) }];
}

function platformFaults({ devices }: Record<string, unknown>): Fault[] {
  if (!Array.isArray(devices)) return [];
  const known = LIVE_ACTIVITY_PLATFORMS.map((platform) => `"${platform}"`).join(' or ');
  return devices.flatMap((device: unknown, index) => {
    const platform = isObject(device) ? device['platform'] : undefined;
    if (typeof platform !== 'string' || LIVE_ACTIVITY_PLATFORMS.includes(platform)) return [];
    const expected = `${known}, the only one with Live Activities`;
    return [{ path: `devices[${index}].platform`, expected, found: describeFound(platform.slice(0, 16), false) }];
  });
}

function eventFaults({ alert, liveActivity }: Record<string, unknown>): Fault[] {
  if (!isObject(liveActivity)) return [];
  const { event } = liveActivity;
  if (event === 'start') {
    const missing = ONLY_WITH_START.filter((field) => liveActivity[field] === undefined);
    return [
      ...missing.map((field) => ({
        path: `liveActivity.${field}`,
        expected: `${field === 'attributes' ? 'an object' : 'a text'} beside event "start"`,
        found: 'nothing',
      })),
      ...(alert === undefined
        ? [{ path: 'alert', expected: 'an object, which Apple asks of a start', found: 'nothing' }]
        : []),
    ];
  }
  if (event !== 'update' && event !== 'end') return []; // its own check tells
  return ONLY_WITH_START.filter((field) => liveActivity[field] !== undefined).map((field) => ({
    path: `liveActivity.${field}`,
    expected: `none beside event "${event}"`,
    found: 'one',
  }));
}

/** To silence one is to leave out its alert. */
function silenceFaults({ alert, liveActivity, onThrottle, onQuiet }: Record<string, unknown>): Fault[] {
  const isStart = isObject(liveActivity) && liveActivity['event'] === 'start';
  const why = isStart ? 'a start must alert' : 'without an alert it is silent already';
  const faults: Fault[] = [];
  if (onThrottle === 'digest') {
    const expected = 'another one: a Live Activity has no digest';
    faults.push({ path: 'onThrottle', expected, found: describeFound(onThrottle, false) });
  }
  if (alert !== undefined && !isStart) return faults;
  for (const [path, value] of Object.entries({ onThrottle, onQuiet })) {
    if (value !== 'silence') continue;
    faults.push({ path, expected: `another one: ${why}`, found: describeFound(value, false) });
  }
  return faults;
}
