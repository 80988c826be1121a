import { createECDH, createPrivateKey, sign } from 'node:crypto';
import { expect, test } from 'vitest';
import { apnsFaults, apnsLoudFaults } from './apns-rules.ts';
import { fcmFaults, fcmLoudFaults } from './fcm-rules.ts';
import type { WireRequest } from './table.ts';
import { webpushFaults, webpushLoudFaults, type WebpushRequest } from './webpush-rules.ts';

/**
 * The rules are known to bite: a fault of each kind is found in a request that has it alone. That they take what is right, the
 * requests of our own encoders show.
 */

const NOW_MS = Date.parse('2026-11-21T17:00:00Z');
const NOW = NOW_MS / 1_000;
const b64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

const withHeaders = <R extends WireRequest>(good: R, headers: object): R => ({
  ...good,
  headers: Object.fromEntries(
    Object.entries({ ...good.headers, ...headers }).filter(([, value]) => value !== undefined),
  ),
});

function toApns(payload: object, headers: object): WireRequest {
  const body = JSON.stringify(payload);
  const jwt = `bearer ${b64({ alg: 'ES256', kid: 'ABC123DEFG' })}.${b64({ iss: 'DEF123GHIJ', iat: NOW })}.c2ln`;
  const all = {
    authorization: jwt,
    'apns-push-type': 'alert',
    'apns-id': '5f1c7a0e-9b5d-5e0c-8d3a-6c2f7be41d90',
    'apns-expiration': 1_795_284_000,
    'apns-priority': 10,
    'apns-topic': 'com.example.school',
    'apns-collapse-id': 'thread-77',
  };
  return withHeaders({ path: `/3/device/${'a1'.repeat(32)}`, headers: all, body }, headers);
}

const toActivity = (aps: object): WireRequest =>
  toApns({ aps }, { 'apns-push-type': 'liveactivity', 'apns-topic': 'com.example.school.push-type.liveactivity' });

const toChannel = (aps: object, headers: object = {}): WireRequest => {
  const none = { 'apns-id': undefined, 'apns-topic': undefined, 'apns-collapse-id': undefined };
  const own = { 'apns-push-type': 'liveactivity', 'apns-channel-id': 'dHN0LXNyY2gtY2hubA==', 'apns-expiration': 0 };
  return { ...toApns({ aps }, { ...none, ...own, ...headers }), path: '/4/broadcasts/apps/com.example.school' };
};

const ALERT = {
  alert: { title: 'Room 12', 'loc-key': 'B', 'loc-args': ['c'] },
  badge: 3,
  sound: { name: 'a', volume: 1 },
};
const IN_BACKGROUND = { 'apns-push-type': 'background', 'apns-priority': 5 };
const START = {
  timestamp: NOW,
  event: 'start',
  'content-state': { left: 3 },
  'attributes-type': 'TripAttributes',
  attributes: { name: 'Trip' },
  alert: { title: { 'loc-key': 'T', 'loc-args': ['a'] }, body: 'It begins', sound: 'default' },
};
const UPDATE = { timestamp: NOW, event: 'update', 'content-state': { left: 2 } };

const toAlert = (aps: object, headers: object = {}): WireRequest => toApns({ aps }, headers);
const alert = toApns({ aps: ALERT, form: { id: 7, tags: [true, null] } }, {});

test.each<[fault: string, WireRequest]>([
  ['expected JSON in UTF-8', { ...alert, body: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]) }],
  ['path: expected', { ...alert, path: '/3/device/abc' }],
  ['path: expected', { ...toChannel(UPDATE), path: '/4/broadcasts/apps/a.push-type.liveactivity' }],
  ['apns-channel-id: missing', toChannel(UPDATE, { 'apns-channel-id': undefined })],
  ['apns-topic', toChannel(UPDATE, { 'apns-topic': 'com.example.school' })],
  ['no start over a channel', toChannel(START)],
  ['over 5120', toChannel({ ...UPDATE, 'content-state': { text: 'x'.repeat(5_100) } })],
  ['apns-push-type: missing', withHeaders(alert, { 'apns-push-type': undefined })],
  ['apns-id: expected a UUID', withHeaders(alert, { 'apns-id': 'a' })],
  ['apns-priority: expected one of', withHeaders(alert, { 'apns-priority': 7 })],
  ['apns-collapse-id: expected at most 64 bytes', withHeaders(alert, { 'apns-collapse-id': 'x'.repeat(65) })],
  ['apns-unknown: no such field', withHeaders(alert, { 'apns-unknown': 'a' })],
  ['apns-topic: expected a bundle id alone', withHeaders(alert, { 'apns-topic': 'com.example.voip' })],
  ['bytes, over 4096', toAlert({ alert: 'x'.repeat(4_080) })],
  ['payload.a: null', toApns({ aps: ALERT, a: null }, {})],
  ['payload.aps.alert: a lone surrogate', toAlert({ alert: '\ud83d' })],
  ['a lone surrogate in the name', toApns({ aps: ALERT, '\udc00': 1 }, {})],
  ['aps.badge: expected', toAlert({ badge: -1 })],
  ['aps.alert.text: no such field', toAlert({ alert: { title: 'a', text: 'b' } })],
  ['aps.sound.name: expected a value', toAlert({ sound: { volume: 1 } })],
  ['expected one of alert, badge, sound', toAlert({ 'thread-id': 'a' })],
  ['aps.event: not with this push type', toAlert({ ...ALERT, event: 'end' })],
  ['aps.alert: nothing to show', toAlert({ alert: { subtitle: 'a' } })],
  ['loc-args: expected loc-key beside it', toAlert({ alert: { body: 'a', 'loc-args': [] } })],
  ['expected 5 with this push type', toAlert({ 'content-available': 1 }, { ...IN_BACKGROUND, 'apns-priority': 10 })],
  ['aps.badge: not in the background', toAlert({ 'content-available': 1, badge: 1 }, IN_BACKGROUND)],
  ['aps.timestamp: missing', toActivity({ ...UPDATE, timestamp: undefined })],
  ['aps.attributes: not with this event', toActivity({ ...UPDATE, attributes: {} })],
  ['authorization.header.alg', withHeaders(alert, { authorization: 'bearer e30.e30.a' })],
])('APNs: %s', (fault, request) => {
  expect(apnsFaults(request).join('\n')).toContain(fault);
});

const HEADERS = { 'apns-push-type': 'alert', 'apns-priority': '10' };
const MESSAGE = {
  token: 'f1:APA91b',
  data: { threadId: '77', fromage: 'brie' },
  notification: { title: 'Room 12', body: 'Forms', image: 'https://example.com/a.jpg' },
  android: { priority: 'high', ttl: '3.5s', notification: { tag: '77', channel_id: 'homework', sticky: true } },
  webpush: { headers: { TTL: '15' }, notification: { title: 'a' } },
  apns: { headers: HEADERS, payload: { aps: { badge: 3 }, form: { id: 7 } } },
  fcm_options: { analytics_label: 'forms' },
};

function toFcm(message: object, more: object = {}): WireRequest {
  return {
    path: '/v1/projects/school-1/messages:send',
    headers: { 'content-type': 'application/json', authorization: 'Bearer ya29.token' },
    body: JSON.stringify({ message, ...more }),
  };
}
/** An alert by `android_v2`. */
const REMOTE = {
  ...{ ...MESSAGE, android: undefined },
  android_v2: {
    ...{ collapse_key: 'forms', ttl: '3.5s', data: { a: 'b' }, direct_boot_ok: true },
    remote_notification: { notification: { title: 'Room 12', tag: '77', id: 42 }, mutable_content: true },
  },
};
const remote = (android_v2: object, more: object = {}): WireRequest => toFcm({ ...REMOTE, android_v2, ...more });
/** A message to a Live Activity. */
const toLive = (aps: object, apns: object = {}): object => ({
  token: 'a',
  apns: { live_activity_token: 'ab', headers: { 'apns-priority': '10' }, payload: { aps }, ...apns },
});
const changed = (fields: object): WireRequest => toFcm({ ...MESSAGE, ...fields });
const onAndroid = (notification: object): WireRequest => changed({ android: { notification } });
const onIphone = (headers: object, payload: object = {}): WireRequest =>
  toFcm({ token: 'a', apns: { headers: { ...HEADERS, ...headers }, payload } });

test.each<[fault: string, WireRequest]>([
  ['path: expected', { ...toFcm(MESSAGE), path: '/v1/projects/a/b/messages:send' }],
  ['authorization: expected Bearer', withHeaders(toFcm(MESSAGE), { authorization: 'key=a' })],
  ['no such field', toFcm(MESSAGE, { dry_run: true })],
  ['the same field twice', changed({ fcmOptions: {} })],
  ['expected one target, found token and fid', changed({ fid: 'a' })],
  ['message.fid: expected 22 characters', changed({ token: undefined, fid: 'f1:APA91b' })],
  ['data.a: a lone surrogate', changed({ data: { a: 'b\udc00' } })],
  ['data.gcmx: a reserved key', changed({ data: { gcmx: 'a' } })],
  ['bytes for android, over 4096', changed({ data: { a: 'x'.repeat(4_096) } })],
  ['bytes for apns, over 4096', onIphone({}, { a: 'x'.repeat(4_096) })],
  ['android.notification: nothing to show', toFcm({ token: 'a', android: { notification: { tag: 'a' } } })],
  ['android.notification.sticky: expected', onAndroid({ sticky: 1 })],
  ['light_settings.light_on_duration', onAndroid({ light_settings: { color: {}, light_on_duration: '1m' } })],
  ['expected 5 for a message without an alert', onIphone({})],
  [
    'aps.alert: not in the background',
    changed({ apns: { headers: { 'apns-push-type': 'background', 'apns-priority': '5' } } }),
  ],
  ['expected the keys of a Live Activity', changed({ apns: { headers: HEADERS, live_activity_token: 'a' } })],
  ['liveActivityToken: expected one beside the keys', toFcm(toLive(UPDATE, { live_activity_token: undefined }))],
  ['aps.event: not with this push type', toFcm(toLive(UPDATE, { headers: HEADERS }))],
  ['android.ttl: expected seconds', changed({ android: { ttl: '3.5' } })],
  ['message.android: not beside android_v2', toFcm({ ...REMOTE, android: MESSAGE.android })],
  ['android_v2: expected one kind, found none', remote({ ttl: '5s' })],
  ['notification.proxy: no such field', remote({ remote_notification: { notification: { proxy: 'DENY' } } })],
  ['webpush.headers.TTL: expected', changed({ webpush: { headers: { TTL: 'soon' } } })],
])('FCM: %s', (fault, request) => {
  expect(fcmFaults(request).join('\n')).toContain(fault);
});

const ORIGIN = 'https://push.example.com';
const pair = createECDH('prime256v1');
const point = pair.generateKeys();
const [x, y] = [point.subarray(1, 33).toString('base64url'), point.subarray(33).toString('base64url')];
const d = Buffer.concat([Buffer.alloc(32), pair.getPrivateKey()])
  .subarray(-32)
  .toString('base64url');
const privateKey = createPrivateKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', d, x, y } });

/** An `authorization` of VAPID with these claims, signed. */
function vapid(claims: object = {}, alg = 'ES256'): { authorization: string } {
  const all = { aud: ORIGIN, exp: NOW + 43_200, sub: 'mailto:push@example.com', ...claims };
  const text = `${b64({ typ: 'JWT', alg })}.${b64(all)}`;
  const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' });
  return { authorization: `vapid t=${text}.${signature.toString('base64url')}, k=${point.toString('base64url')}` };
}

/** Salt, size of a record, length of the key, key, and a record of so many bytes. */
function record(bytes: number, recordSize = 4_096, key = point): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32BE(recordSize);
  return Buffer.concat([Buffer.alloc(16, 7), size, Buffer.from([key.length]), key, Buffer.alloc(bytes, 7)]);
}

const SHOWN = { id: 'msg-8841', title: 'Room 12', tag: '77', silent: false, badge: 3, data: { form: null } };
const GOOD: WebpushRequest = {
  origin: ORIGIN,
  path: '/push/ana?a=b',
  headers: {
    ...vapid(),
    'content-encoding': 'aes128gcm',
    ttl: 90,
    urgency: 'normal',
    topic: 'i-yHV_Zi8PPKuQ08fPv2nOZu',
  },
  body: record(4_096 - 86),
  message: Buffer.from(JSON.stringify(SHOWN)),
  nowMs: NOW_MS,
};
const headed = (headers: object): Pick<WebpushRequest, 'headers'> => withHeaders(GOOD, headers);
const shown = (text: string): Pick<WebpushRequest, 'message'> => ({ message: Buffer.from(text) });

/** A declarative message with these changes in `notification`, and beside it. */
const declared = (change: object, beside: object = {}): Pick<WebpushRequest, 'message'> => {
  const notification = { title: 'Room 12', navigate: 'https://example.com/forms', app_badge: 3, ...change };
  return shown(JSON.stringify({ ...SHOWN, web_push: 8_030, notification, app_badge: 3, ...beside }));
};

/** A retraction with these changes. */
const retracted = (change: object = {}): Pick<WebpushRequest, 'message'> => {
  const data = { pushpacer: { retract: ['msg-1'], tags: ['77'], badge: 2 } };
  return shown(JSON.stringify({ id: 'retract-1', tag: 'pushpacer-retract', silent: true, badge: 2, data, ...change }));
};

test.each<[fault: string, Partial<WebpushRequest>]>([
  ['origin: expected https', { origin: 'http://push.example.com' }],
  ['headers.ttl: expected a value', headed({ ttl: undefined })],
  ['headers.urgency: expected one of', headed({ urgency: 'High' })],
  ['headers.topic: expected at most 32 bytes', headed({ topic: 'a'.repeat(33) })],
  ['content-encoding: expected one of', headed({ 'content-encoding': 'aesgcm' })],
  ['encryption: of a draft', headed({ encryption: 'a' })],
  ['bytes, over 4096', { body: record(4_096) }],
  ['an uncompressed point', { body: record(100, 4_096, Buffer.alloc(65, 2)) }],
  ['one record', { body: record(100, 99) }],
  ['cannot decrypt', { message: undefined }],
  ['message.data.a: a lone surrogate', shown('{"body":"a","data":{"a":"\\ud800"}}')],
  ['message.tag: null', shown('{"body":"a","tag":null}')],
  ['message.actions[0].title: expected a value', shown('{"body":"a","actions":[{"action":"a"}]}')],
  ['nothing to show', shown('{"tag":"a"}')],
  ['a text in a retraction', retracted({ body: 'a' })],
  ['message.silent: expected true in a retraction', retracted({ silent: false })],
  ['renotify: expected a tag', shown('{"body":"a","renotify":true}')],
  ['web_push: expected 8030', declared({}, { web_push: '8030' })],
  ['notification.navigate: expected an https URL', declared({ navigate: '/forms' })],
  ['notification.image: no such field', declared({ image: 'https://example.com/a.jpg' })],
  ['alg: expected ES256', headed(vapid({}, 'RS256'))],
  ['aud: expected', headed(vapid({ aud: 'https://a.example' }))],
  ['exp: expected', headed(vapid({ exp: NOW + 86_401 }))],
  ['sub: expected', headed(vapid({ sub: 'nobody' }))],
  ['signature', headed({ authorization: vapid().authorization.replace(/\.[\w-]+, k/, '.AAAA, k') })],
])('web push: %s', (fault, change) => {
  expect(webpushFaults(GOOD)).toEqual([]);
  expect(webpushFaults({ ...GOOD, ...change }).join('\n')).toContain(fault);
});

test('what is loud is found: a sound, a badge, a level, a priority, and what vibrates or lights up', () => {
  const passive = { alert: 'a', 'interruption-level': 'passive' };
  expect(apnsLoudFaults(toAlert(passive, { 'apns-priority': 5 }))).toEqual([]);
  expect(apnsLoudFaults(alert)).toHaveLength(4);
  expect(apnsLoudFaults(withHeaders(toActivity(UPDATE), { 'apns-priority': 5 }))).toEqual([]);
  expect(apnsLoudFaults(toActivity(START))).toHaveLength(3); // the alert, its sound and the priority
  expect(fcmLoudFaults(toFcm(toLive(UPDATE, { headers: { 'apns-priority': '5' } })))).toEqual([]);
  expect(fcmLoudFaults(toFcm(toLive(START)))).toHaveLength(3);

  const onPhone = { headers: { 'apns-priority': '5' }, payload: { aps: passive } };
  const quiet = {
    android: { priority: 'normal', notification: { notification_priority: 'PRIORITY_LOW' } },
    apns: onPhone,
  };
  expect(fcmLoudFaults(toFcm(quiet))).toEqual([]);
  const lights = 'light_settings default_light_settings notification_count';
  const loud = `sound default_sound vibrate_timings default_vibrate_timings ${lights}`.split(' ');
  const android = { notification: Object.fromEntries(loud.map((name) => [name, true])) };
  expect(fcmLoudFaults(toFcm({ android, apns: onPhone }))).toHaveLength(loud.length + 2); // and both priorities
  expect(fcmLoudFaults(changed({ android: quiet.android }))).toHaveLength(3); // the badge, the level and the priority of an iPhone

  expect(webpushLoudFaults(GOOD)).toHaveLength(3);
  expect(webpushLoudFaults({ headers: { urgency: 'low' }, ...shown('{"silent":true}') })).toEqual([]);
  const both = declared({ requireInteraction: true }, { silent: true, badge: undefined });
  expect(webpushLoudFaults({ headers: { urgency: 'low' }, ...both })).toHaveLength(4);
});
