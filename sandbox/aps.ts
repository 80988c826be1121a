import { isObject } from '../src/domain/json.ts';

/**
 * The keys of `aps` and of its `alert`, with what Apple documents as their values
 * (developer.apple.com/documentation/usernotifications/generating-a-remote-notification). APNs itself does not look into `aps`:
 * it accepts any JSON, and the device ignores what it does not know.
 */

type Check = readonly [expected: string, fits: (value: unknown) => boolean];

const TEXT: Check = ['a string', (value) => typeof value === 'string'];
const TEXTS: Check = [
  'an array of strings',
  (value) => Array.isArray(value) && value.every((each) => typeof each === 'string'),
];
const FLAG: Check = ['0 or 1', (value) => value === 0 || value === 1];
const SHARE: Check = ['a number from 0 to 1', (value) => typeof value === 'number' && value >= 0 && value <= 1];
const COUNT: Check = ['an integer of 0 or more', (value) => Number.isInteger(value) && Number(value) >= 0];
const OBJECT: Check = ['an object', isObject];
const LEVELS = ['passive', 'active', 'time-sensitive', 'critical'];

const APS: Readonly<Record<string, Check>> = {
  alert: ['a string or an object', (value) => typeof value === 'string' || isObject(value)],
  badge: COUNT,
  sound: ['a string or an object', (value) => typeof value === 'string' || isObject(value)],
  'thread-id': TEXT,
  category: TEXT,
  'content-available': FLAG,
  'mutable-content': FLAG,
  'target-content-id': TEXT,
  'interruption-level': [LEVELS.join(', '), (value) => typeof value === 'string' && LEVELS.includes(value)],
  'relevance-score': SHARE,
  'filter-criteria': TEXT,
};
/**
 * Of a Live Activity
 * (developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications).
 */
const LIVE_ACTIVITY: Readonly<Record<string, Check>> = {
  event: ['start, update or end', (value) => value === 'start' || value === 'update' || value === 'end'],
  timestamp: COUNT,
  'content-state': OBJECT,
  'stale-date': COUNT,
  'dismissal-date': COUNT,
  'relevance-score': ['a number', (value) => typeof value === 'number'],
  'attributes-type': TEXT,
  attributes: OBJECT,
  'input-push-token': FLAG,
  'input-push-channel': TEXT,
  alert: OBJECT,
};
const LOCALISED: Check = ['a string or an object', (value) => typeof value === 'string' || isObject(value)];
const LIVE_ACTIVITY_ALERT: Readonly<Record<string, Check>> = { title: LOCALISED, body: LOCALISED, sound: TEXT };
const LOCALISED_TEXT: Readonly<Record<string, Check>> = { 'loc-key': TEXT, 'loc-args': TEXTS };
const ALERT: Readonly<Record<string, Check>> = {
  title: TEXT,
  subtitle: TEXT,
  body: TEXT,
  'launch-image': TEXT,
  'title-loc-key': TEXT,
  'title-loc-args': TEXTS,
  'subtitle-loc-key': TEXT,
  'subtitle-loc-args': TEXTS,
  'loc-key': TEXT,
  'loc-args': TEXTS,
};
const SOUND: Readonly<Record<string, Check>> = { critical: FLAG, name: TEXT, volume: SHARE };

/** What the device would ignore in a payload, in words: `aps.relevance-score: expected a number from 0 to 1`. */
export function ignoredByDevice(payload: unknown): string[] {
  const aps = isObject(payload) ? payload['aps'] : undefined;
  if (!isObject(aps)) return ['aps: expected an object'];
  return [
    ...faultsIn('aps', aps, APS),
    ...(isObject(aps['alert']) ? faultsIn('aps.alert', aps['alert'], ALERT) : []),
    ...(isObject(aps['sound']) ? faultsIn('aps.sound', aps['sound'], SOUND) : []),
  ];
}

/** The same for a Live Activity, which also ignores a push without the keys that its event needs. */
export function ignoredByLiveActivity(payload: unknown): string[] {
  const aps = isObject(payload) ? payload['aps'] : undefined;
  if (!isObject(aps)) return ['aps: expected an object'];
  const { alert } = aps;
  const needed = ['event', 'timestamp', 'content-state'];
  if (aps['event'] === 'start') needed.push('attributes-type', 'attributes', 'alert');
  const texts = isObject(alert) ? ['title', 'body'].map((key) => [key, alert[key]] as const) : [];
  return [
    ...needed.filter((key) => aps[key] === undefined).map((key) => `aps.${key}: expected one`),
    ...faultsIn('aps', aps, LIVE_ACTIVITY),
    ...(isObject(alert) ? faultsIn('aps.alert', alert, LIVE_ACTIVITY_ALERT) : []),
    ...texts.flatMap(([key, text]) => (isObject(text) ? faultsIn(`aps.alert.${key}`, text, LOCALISED_TEXT) : [])),
  ];
}

function faultsIn(
  place: string,
  object: Readonly<Record<string, unknown>>,
  checks: Readonly<Record<string, Check>>,
): string[] {
  return Object.entries(object).flatMap(([key, value]) => {
    const check = Object.hasOwn(checks, key) ? checks[key] : undefined;
    if (check === undefined) return [`${place}.${key}: expected no such key`];
    return check[1](value) ? [] : [`${place}.${key}: expected ${check[0]}`];
  });
}
