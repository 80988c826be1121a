import {
  headerText,
  isJson,
  isOwnNull,
  jsonFaults,
  readJson,
  shapeFaults,
  valueAt,
  type Fields,
  type Json,
  type Shape,
  type WireRequest,
} from './table.ts';

/**
 * What Apple takes, from the tables of
 * developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns (headers),
 * developer.apple.com/documentation/usernotifications/generating-a-remote-notification (keys of the payload) and
 * developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications.
 *
 * For a push to a channel, looked up on 2026-11-26 in stored copies of the pages:
 * developer.apple.com/documentation/usernotifications/sending-broadcast-push-notification-requests-to-apns (path, headers, size)
 * and the ActivityKit page above (no start, priority 5 or 10). Its table of headers was not among the copies as a whole; its
 * samples, and what others write of it, were.
 */

const TEXT: Shape = { is: 'text' };
const TEXTS: Shape = { is: 'list', of: TEXT };
const SHARE: Shape = { is: 'number', from: 0, to: 1 };
/** Seconds since 1970. */
const INSTANT: Shape = { is: 'number', from: 0, to: 4_294_967_295 };
const DICTIONARY: Shape = { is: 'object', fields: {}, others: 'any' };

/** By their push types: the end of the topic, the priorities, and what must or may stand in `aps`. */
interface PushType {
  readonly topicEnd?: string;
  readonly priorities?: readonly string[];
  readonly maxBytes?: number;
  /** One of these at least. */
  readonly anyOf?: readonly string[];
  /** These and no others. */
  readonly only?: readonly string[];
  readonly never?: readonly string[];
}

/** Only with the push type `liveactivity`. */
export const ACTIVITY_KEYS = [
  ...['timestamp', 'event', 'content-state', 'stale-date', 'dismissal-date', 'attributes-type', 'attributes'],
  ...['input-push-token', 'input-push-channel'],
];

const PUSH_TYPES: Readonly<Record<string, PushType>> = {
  alert: { anyOf: ['alert', 'badge', 'sound'], never: ACTIVITY_KEYS },
  background: { priorities: ['5'], only: ['content-available'], anyOf: ['content-available'] },
  complication: { topicEnd: '.complication' },
  controls: { topicEnd: '.push-type.controls' },
  fileprovider: { topicEnd: '.pushkit.fileprovider' },
  liveactivity: { topicEnd: '.push-type.liveactivity', anyOf: ['event'] },
  location: { topicEnd: '.location-query' },
  mdm: {},
  pushtotalk: { topicEnd: '.voip-ptt', priorities: ['10'] },
  voip: { topicEnd: '.voip', maxBytes: 5_120 },
  widgets: { topicEnd: '.push-type.widgets' },
};

/** The headers that name how to deliver. The same, as texts, in the `apns.headers` of a message to FCM. */
export const APNS_HEADERS: Fields = {
  'apns-push-type': { is: 'text', oneOf: Object.keys(PUSH_TYPES) },
  'apns-id': { is: 'text', form: 'uuid' },
  'apns-expiration': { is: 'text', form: 'decimal', most: 4_294_967_295 },
  'apns-priority': { is: 'text', oneOf: ['1', '5', '10'] },
  'apns-topic': { is: 'text', form: 'bundle' },
  'apns-collapse-id': { is: 'text', form: 'visible', maxBytes: 64 },
};

/** The headers of a push to a channel. Its app is in the path, so it has no topic. */
const CHANNEL_HEADERS: Fields = {
  'apns-channel-id': { is: 'text', form: 'base64' },
  'apns-request-id': { is: 'text', form: 'uuid' },
  'apns-push-type': { is: 'text', oneOf: ['liveactivity'] },
  'apns-expiration': { is: 'text', form: 'decimal', most: 4_294_967_295 },
  'apns-priority': { is: 'text', oneOf: ['5', '10'] },
};
const CHANNEL_REQUIRED = ['apns-channel-id', 'apns-push-type', 'apns-expiration', 'apns-priority'];
const CHANNEL_PATH = /^\/4\/broadcasts\/apps\/(?!.*\.push-type\.liveactivity$)[A-Za-z0-9.-]{1,255}$/;
const CHANNEL_MAX_BYTES = 5_120;

const ALERT: Fields = {
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
  'action-loc-key': TEXT,
  'summary-arg': TEXT,
  'summary-arg-count': { is: 'number', from: 0, whole: true },
};

const SOUND: Shape = {
  is: 'either',
  of: [
    TEXT,
    {
      is: 'object',
      fields: { critical: { is: 'number', from: 0, to: 1, whole: true }, name: TEXT, volume: SHARE },
      required: ['name'],
    },
  ],
};

/** In the alert of a Live Activity: a text, or the key of one. */
const ACTIVITY_TEXT: Shape = {
  is: 'either',
  of: [TEXT, { is: 'object', fields: { 'loc-key': TEXT, 'loc-args': TEXTS }, required: ['loc-key'] }],
};

const APS: Fields = {
  alert: { is: 'either', of: [TEXT, { is: 'object', fields: ALERT }] },
  badge: { is: 'number', from: 0, to: 2_147_483_647, whole: true },
  sound: SOUND,
  'thread-id': TEXT,
  category: TEXT,
  'content-available': { is: 'number', from: 1, to: 1 },
  'mutable-content': { is: 'number', from: 0, to: 1, whole: true },
  'target-content-id': TEXT,
  'interruption-level': { is: 'text', oneOf: ['passive', 'active', 'time-sensitive', 'critical'] },
  'relevance-score': SHARE,
  'filter-criteria': TEXT,
  'url-args': TEXTS,
};

/** The keys of a Live Activity. Its relevance score may be any number. */
const ACTIVITY: Fields = {
  ...APS,
  alert: {
    is: 'either',
    of: [TEXT, { is: 'object', fields: { title: ACTIVITY_TEXT, body: ACTIVITY_TEXT, sound: TEXT } }],
  },
  'relevance-score': { is: 'number' },
  timestamp: INSTANT,
  event: { is: 'text', oneOf: ['start', 'update', 'end'] },
  'content-state': DICTIONARY,
  'stale-date': INSTANT,
  'dismissal-date': INSTANT,
  'attributes-type': TEXT,
  attributes: DICTIONARY,
  'input-push-token': { is: 'number', from: 1, to: 1 },
  'input-push-channel': TEXT,
};

/** What each event of a Live Activity needs, and what it must not have. */
const EVENTS: Readonly<Record<string, { readonly needs: readonly string[]; readonly never: readonly string[] }>> = {
  start: { needs: ['timestamp', 'content-state', 'attributes-type', 'attributes', 'alert'], never: ['dismissal-date'] },
  update: { needs: ['timestamp', 'content-state'], never: ['attributes-type', 'attributes', 'dismissal-date'] },
  end: { needs: ['timestamp'], never: ['attributes-type', 'attributes'] },
};

/** One of these gives an alert something to show. */
const SHOWN = ['title', 'body', 'title-loc-key', 'loc-key'];

/** The arguments of a text, and the key without which they mean nothing. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  'title-loc-args': 'title-loc-key',
  'subtitle-loc-args': 'subtitle-loc-key',
  'loc-args': 'loc-key',
};

/** Everything that a request to APNs breaks. */
export function apnsFaults({ path, headers, body }: WireRequest): string[] {
  const { json, faults } = readJson(body);
  const sent = Object.fromEntries(
    Object.entries(headers)
      .filter(([name]) => name.startsWith('apns-'))
      .map(([name, value]) => [name, headerText(value)]),
  );
  const type = typeOf(sent);
  const bytes = Buffer.byteLength(body);
  const isChannel = path.startsWith('/4/');
  const maxBytes = isChannel ? CHANNEL_MAX_BYTES : (type.maxBytes ?? 4_096);
  return [
    ...faults,
    ...jsonFaults(json, 'payload').filter((fault) => !isOwnNull(fault)),
    ...(isChannel ? channelFaults(path, sent, json) : deviceFaults(path, sent, type)),
    ...(bytes > maxBytes ? [`body: ${bytes} bytes, over ${maxBytes}`] : []),
    ...payloadFaults(json, sent, 'payload'),
    ...('authorization' in headers ? tokenFaults(headers['authorization']) : []),
  ];
}

function deviceFaults(path: string, sent: Json, type: PushType): string[] {
  return [
    ...(/^\/3\/device\/([0-9a-fA-F]{2})+$/.test(path) ? [] : [`path: expected /3/device/ and a token in hexadecimal`]),
    ...shapeFaults(sent, { is: 'object', fields: APNS_HEADERS }, 'headers'),
    ...['apns-push-type', 'apns-topic'].filter((name) => !(name in sent)).map((name) => `headers.${name}: missing`),
    ...topicFaults(sent, type),
  ];
}

function channelFaults(path: string, sent: Json, payload: Json): string[] {
  return [
    ...(CHANNEL_PATH.test(path) ? [] : ['path: expected /4/broadcasts/apps/ and a bundle id alone']),
    ...shapeFaults(sent, { is: 'object', fields: CHANNEL_HEADERS }, 'headers'),
    ...CHANNEL_REQUIRED.filter((name) => !(name in sent)).map((name) => `headers.${name}: missing`),
    ...(valueAt(payload, 'aps.event') === 'start' ? ['payload.aps.event: no start over a channel'] : []),
  ];
}

function typeOf(headers: Json): PushType {
  const name = headers['apns-push-type'];
  return (typeof name === 'string' ? PUSH_TYPES[name] : undefined) ?? {};
}

function topicFaults({ 'apns-topic': topic }: Json, { topicEnd }: PushType): string[] {
  if (typeof topic !== 'string') return [];
  const ends = Object.values(PUSH_TYPES).flatMap((type) => type.topicEnd ?? []);
  const found = ends.find((end) => topic.endsWith(end));
  if (found === topicEnd) return [];
  return [`headers.apns-topic: expected ${topicEnd === undefined ? 'a bundle id alone' : `an end ${topicEnd}`}`];
}

/**
 * What a payload breaks by itself, and beside its headers.
 *
 * @param added keys of `aps` that FCM adds to it
 */
export function payloadFaults(payload: Json, headers: Json, path: string, added: readonly string[] = []): string[] {
  const aps = payload['aps'];
  const keys = [...(isJson(aps) ? Object.keys(aps) : []), ...added];
  const { priorities, anyOf, only, never = [] } = typeOf(headers);
  const priority = headers['apns-priority'];
  const event = isJson(aps) && typeof aps['event'] === 'string' ? EVENTS[aps['event']] : undefined;
  const fields = headers['apns-push-type'] === 'liveactivity' ? ACTIVITY : APS;
  const isFine = priorities === undefined || (typeof priority === 'string' && priorities.includes(priority));
  return [
    ...(aps === undefined && added.length > 0 ? [] : shapeFaults(aps, { is: 'object', fields }, `${path}.aps`)),
    ...(isFine ? [] : [`headers.apns-priority: expected ${priorities.join(' or ')} with this push type`]),
    ...(anyOf && !anyOf.some((key) => keys.includes(key)) ? [`${path}.aps: expected one of ${anyOf.join(', ')}`] : []),
    ...keys.filter((key) => never.includes(key)).map((key) => `${path}.aps.${key}: not with this push type`),
    ...(only ? keys.filter((key) => !only.includes(key)) : []).map(
      (key) => `${path}.aps.${key}: not in the background`,
    ),
    ...(event?.needs ?? []).filter((key) => !keys.includes(key)).map((key) => `${path}.aps.${key}: missing`),
    ...(event?.never ?? []).filter((key) => keys.includes(key)).map((key) => `${path}.aps.${key}: not with this event`),
    ...alertFaults(valueAt(aps, 'alert'), `${path}.aps.alert`),
  ];
}

function alertFaults(alert: unknown, path: string): string[] {
  if (!isJson(alert)) return [];
  const alone = Object.entries(ARGUMENTS).filter(([args, key]) => args in alert && !(key in alert));
  return [
    ...(SHOWN.some((key) => key in alert) ? [] : [`${path}: nothing to show`]),
    ...alone.map(([args, key]) => `${path}.${args}: expected ${key} beside it`),
  ];
}

/** developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns */
const TOKEN_HEADER: Shape = {
  is: 'object',
  fields: {
    alg: { is: 'text', oneOf: ['ES256'] },
    kid: { is: 'text', maxBytes: 10 },
    typ: { is: 'text', oneOf: ['JWT'] },
  },
  required: ['alg', 'kid'],
};
const TOKEN_CLAIMS: Shape = {
  is: 'object',
  fields: { iss: { is: 'text', maxBytes: 10 }, iat: { is: 'number', from: 0, whole: true } },
  required: ['iss', 'iat'],
};

function tokenFaults(authorization: unknown): string[] {
  const [, head = '', claims = ''] =
    /^bearer ([\w-]+)\.([\w-]+)\.([\w-]+)$/i.exec(typeof authorization === 'string' ? authorization : '') ?? [];
  if (head === '') return ['headers.authorization: expected bearer and a JWT'];
  return [
    ...shapeFaults(readJson(Buffer.from(head, 'base64url')).json, TOKEN_HEADER, 'authorization.header'),
    ...shapeFaults(readJson(Buffer.from(claims, 'base64url')).json, TOKEN_CLAIMS, 'authorization.claims'),
  ];
}

/** A payload with one of these makes a sound, lights the screen or counts. Not Apple's rule but our promise of a silent push. */
export function loudFaults(payload: Json, headers: Json, path: string, isShown = true): string[] {
  const level = valueAt(payload, 'aps.interruption-level') ?? (isShown ? 'active' : 'passive');
  return [
    ...['aps.sound', 'aps.badge', 'aps.alert.sound']
      .filter((key) => valueAt(payload, key) !== undefined)
      .map((key) => `${path}.${key}: in a silent push`),
    ...(level === 'passive' ? [] : [`${path}.aps.interruption-level: expected passive in a silent push`]),
    ...(headers['apns-priority'] === '10' ? ['headers.apns-priority: 10 in a silent push'] : []),
  ];
}

/** The same for a Live Activity: it has no level, and no alert if it is silent. */
export function activityLoudFaults(payload: Json, headers: Json, path: string): string[] {
  const isAlert = valueAt(payload, 'aps.alert') !== undefined;
  return [...(isAlert ? [`${path}.aps.alert: in a silent push`] : []), ...loudFaults(payload, headers, path, false)];
}

/** The same for a whole request. */
export function apnsLoudFaults({ headers, body }: WireRequest): string[] {
  const faultsIn = headerText(headers['apns-push-type']) === 'liveactivity' ? activityLoudFaults : loudFaults;
  return faultsIn(readJson(body).json, { 'apns-priority': headerText(headers['apns-priority']) }, 'payload');
}
