import { describeFound, type Fault } from './faults.ts';
import { isObject, valueAt } from './json.ts';

/**
 * What `apns.payload` and `fcm.message` may change of a background push: nothing that would make Apple refuse or show it.
 * developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app: only `content-available` in `aps`,
 * the push type `background`, and priority 5.
 */

/** Where the patches write Apple's keys. */
const APS_PLACES = ['apns.payload.aps', 'fcm.message.apns.payload.aps'];
/** Each has a rule of its own (`NOT_IN_BACKGROUND`), which JSON Schema tells too. */
const LISTED = new Set(['alert', 'sound', 'badge']);
/** The headers that the push type decides, with their values. */
const HEADERS: ReadonlyMap<string, string> = new Map([
  ['apns-push-type', 'background'],
  ['apns-priority', '5'],
]);
const HEADERS_PLACE = 'fcm.message.apns.headers';
const PRIORITY_PLACE = 'fcm.message.android.priority';

/** The faults of the patches of a background push. */
export function patchFaults(raw: unknown): Fault[] {
  return [...APS_PLACES.flatMap((place) => apsFaults(raw, place)), ...headerFaults(raw), ...priorityFaults(raw)];
}

/** The fault of an alert whose patch makes it a background push, which would keep its sound and its priority. */
export function disguisedFaults(raw: unknown): Fault[] {
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
    const path = `${place}.${safe(key)}`;
    if (key === 'content-available') {
      return value === 1 ? [] : [{ path, expected: '1 in a background push', found: describeFound(value, true) }];
    }
    if (LISTED.has(key) || value === null) return [];
    return [{ path, expected: 'none in a background push, whose aps has only content-available', found: 'one' }];
  });
}

/** A patch that takes away the whole object would take `content-available` or the headers with it. */
function placeFaults(raw: unknown, place: string): Fault[] {
  const value = valueAt(raw, place);
  // The schema itself tells what is wrong in `apns.payload`.
  if (value === undefined || isObject(value) || place.startsWith('apns.')) return [];
  return [
    { path: place, expected: 'an object, since a background push needs its part', found: describeFound(value, true) },
  ];
}

function headerFaults(raw: unknown): Fault[] {
  const faults = headersOf(raw).flatMap(([name, value]) => {
    const needed = HEADERS.get(name.toLowerCase());
    if (needed === undefined || value === needed) return [];
    const found = foundIn(value);
    return [{ path: `${HEADERS_PLACE}.${name}`, expected: `"${needed}", as Apple asks of a background push`, found }];
  });
  return [...placeFaults(raw, HEADERS_PLACE), ...faults];
}

/** Google keeps `high` for what is shown, and lowers the messages of an app that does otherwise. */
function priorityFaults(raw: unknown): Fault[] {
  const priority = valueAt(raw, PRIORITY_PLACE);
  const isNormal = typeof priority === 'string' && priority.toLowerCase() === 'normal';
  if (priority === undefined || priority === null || isNormal) return [];
  const expected = '"normal" in a background push, which shows nothing';
  return [{ path: PRIORITY_PLACE, expected, found: foundIn(priority) }];
}

/** A patch is private, so only what looks like a value of the providers is repeated. */
const foundIn = (value: unknown): string =>
  describeFound(value, typeof value === 'string' && !/^[A-Za-z0-9]{1,12}$/.test(value));

function headersOf(raw: unknown): [name: string, value: unknown][] {
  const headers = valueAt(raw, HEADERS_PLACE);
  return isObject(headers) ? Object.entries(headers) : [];
}

/** The name of a key, where it is one that a fault may repeat. */
function safe(key: string): string {
  return /^[A-Za-z0-9_-]{1,40}$/.test(key) ? key : `(a name of ${key.length} characters)`;
}
