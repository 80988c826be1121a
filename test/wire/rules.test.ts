import { describe, expect, test } from 'vitest';
import { ACTIVITY, APNS_HEADERS, apnsFaults, apnsLoudFaults, APS, PUSH_TYPES } from './apns-rules.ts';
import { broken, breaksOf, fieldsOf, type Break } from './breaks.ts';
import { fcmFaults, fcmLoudFaults, LOUD_FIELDS, MESSAGE } from './fcm-rules.ts';
import { APNS_GOOD, CLAIMS, FCM_MESSAGE, NOW_MS, record, SHOWN_MESSAGE, toFcm, vapid, WEBPUSH_GOOD } from './good.ts';
import { headerText, type Fields, type Shape, type WireRequest } from './table.ts';
import { DRAFT_HEADERS, SHOWN, WEBPUSH_HEADERS, webpushFaults, webpushLoudFaults } from './webpush-rules.ts';

const object = (fields: Fields): Shape => ({ is: 'object', fields });
const told = ({ path, value }: Break): string => `${path.join('.')} = ${JSON.stringify(value) || 'nothing'}`;

/** The breaks of a table that no fault is found for. */
function missed(good: object, shape: Shape, faultsOf: (value: unknown) => string[], seen: Set<string>): string[] {
  const breaks = breaksOf(good, shape, { path: [], seen }).filter(({ path }) => path.length > 0);
  expect(breaks.length).toBeGreaterThan(5);
  return breaks.filter((each) => faultsOf(broken(good, each)).length === 0).map(told);
}

const bodyOf = ({ body }: WireRequest): { aps: object } => JSON.parse(body as string) as { aps: object };
const withAps = (good: WireRequest, aps: unknown): WireRequest => ({
  ...good,
  body: JSON.stringify({ ...bodyOf(good), aps }),
});
const withHeaders = <R extends WireRequest>(good: R, headers: object): R => ({
  ...good,
  headers: { ...good.headers, ...headers },
});

describe('good requests', () => {
  test.each(Object.entries(APNS_GOOD))('to APNs: %s', (_, request) => expect(apnsFaults(request)).toEqual([]));

  test('to FCM, in both ways to write a name', () => {
    expect(fcmFaults(toFcm(FCM_MESSAGE, { validate_only: true }))).toEqual([]);
    expect(fcmFaults(toFcm({ topic: 'news', fcmOptions: { analyticsLabel: 'a' } }))).toEqual([]);
    const { start } = APNS_GOOD;
    const apns = {
      live_activity_token: 'ab',
      headers: { 'apns-push-type': 'liveactivity', 'apns-priority': '10' },
      payload: bodyOf(start),
    };
    expect(fcmFaults(toFcm({ token: 'a', apns }))).toEqual([]);
  });

  test('to a push service', () => expect(webpushFaults(WEBPUSH_GOOD)).toEqual([]));
});

describe('every field of the tables is checked', () => {
  test('of the payloads and headers of APNs', () => {
    const { alert, start, end } = APNS_GOOD;
    const seen = new Set<string>();
    for (const [good, fields] of [
      [alert, APS],
      [start, ACTIVITY],
      [end, ACTIVITY],
    ] as const) {
      const faultsOf = (aps: unknown): string[] => apnsFaults(withAps(good, aps));
      expect(missed(bodyOf(good).aps, object(fields), faultsOf, seen)).toEqual([]);
    }
    expect(seen).toEqual(new Set([...fieldsOf(object(APS)), ...fieldsOf(object(ACTIVITY))]));
    const headers = Object.fromEntries(
      Object.entries(alert.headers).flatMap(([name, value]) =>
        name.startsWith('apns-') ? [[name, headerText(value)]] : [],
      ),
    );
    const seenHeaders = new Set<string>();
    const breaks = breaksOf(headers, object(APNS_HEADERS), { path: [], seen: seenHeaders });
    const texts = breaks.filter(({ path, value }) => path.length > 0 && typeof value === 'string');
    const found = texts.map(({ path: [name = ''], value }) => [
      name,
      apnsFaults(withHeaders(alert, { [name === 'unknown_field' ? 'apns-unknown' : name]: value })).length,
    ]);
    expect(found.filter(([, faults]) => faults === 0)).toEqual([]);
    expect(seenHeaders).toEqual(new Set(Object.keys(APNS_HEADERS)));
  });

  test('of a message to FCM', () => {
    const seen = new Set<string>();
    const others = { topic: 'news', condition: "'a' in topics", fid: 'a' };
    expect(missed(FCM_MESSAGE, MESSAGE, (value) => fcmFaults(toFcm(value as object)), seen)).toEqual([]);
    for (const [name, value] of Object.entries(others)) {
      const good = { ...FCM_MESSAGE, token: undefined, [name]: value };
      expect(missed(good, MESSAGE, (each) => fcmFaults(toFcm(each as object)), seen)).toEqual([]);
    }
    const apns = { ...FCM_MESSAGE.apns, live_activity_token: 7 };
    expect(fcmFaults(toFcm({ ...FCM_MESSAGE, apns })).join()).toContain('live_activity_token: expected a text');
    expect(new Set([...seen, 'apns.liveActivityToken'])).toEqual(new Set(fieldsOf(MESSAGE)));
  });

  test('of a push service’s headers and of the message that the browser shows', () => {
    const seen = new Set<string>();
    const shape: Shape = { is: 'object', fields: SHOWN, others: 'any' };
    const faultsOf = (value: unknown): string[] =>
      webpushFaults({ ...WEBPUSH_GOOD, message: Buffer.from(JSON.stringify(value)) });
    expect(missed(SHOWN_MESSAGE, shape, faultsOf, seen)).toEqual([]);
    expect(seen).toEqual(new Set(fieldsOf(shape)));
    const bad = {
      ttl: ['-1', '1.5', '', '2147483648', 'a'],
      urgency: ['', 'High'],
      topic: ['a'.repeat(33), 'a b', 'a='],
    };
    expect(Object.keys(bad)).toEqual(Object.keys(WEBPUSH_HEADERS));
    for (const [name, value] of Object.entries(bad).flatMap(([key, values]) => values.map((each) => [key, each]))) {
      expect(webpushFaults(withHeaders(WEBPUSH_GOOD, { [name as string]: value })), `${name} ${value}`).not.toEqual([]);
    }
  });
});

const { alert, background, voip, start, update, end } = APNS_GOOD;
const ALERT_APS = bodyOf(alert).aps;
const without = (headers: WireRequest['headers'], name: string) =>
  Object.fromEntries(Object.entries(headers).filter(([each]) => each !== name));

test.each<[fault: string, WireRequest]>([
  ['expected JSON in UTF-8', { ...alert, body: '{' }],
  ['expected JSON in UTF-8', { ...alert, body: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]) }],
  ['expected a JSON object', { ...alert, body: '[]' }],
  ['path: expected', { ...alert, path: '/3/device/abc' }],
  ['path: expected', { ...alert, path: '/3/device/' }],
  ['apns-push-type: missing', { ...alert, headers: without(alert.headers, 'apns-push-type') }],
  ['apns-topic: missing', { ...alert, headers: without(alert.headers, 'apns-topic') }],
  ['apns-topic: expected a bundle id alone', withHeaders(alert, { 'apns-topic': 'com.example.voip' })],
  ['apns-topic: expected an end .voip', withHeaders(voip, { 'apns-topic': 'com.example' })],
  ['bytes, over 4096', { ...alert, body: JSON.stringify({ aps: { alert: 'x'.repeat(4_080) } }) }],
  ['bytes, over 5120', { ...voip, body: JSON.stringify({ aps: {}, a: 'x'.repeat(5_110) }) }],
  ['payload.a: null', { ...alert, body: '{"aps":{"alert":"a"},"a":null}' }],
  ['payload.aps.alert: a lone surrogate', { ...alert, body: '{"aps":{"alert":"\\ud83d"}}' }],
  ['a lone surrogate in the name', { ...alert, body: '{"aps":{"alert":"a"},"\\udc00":1}' }],
  ['a lone surrogate, which is no UTF-8', { ...alert, body: '{"aps":{"alert":"\ud83d"}}' }],
  ['payload.aps: expected an object', { ...alert, body: '{"a":1}' }],
  ['expected one of alert, badge, sound', withAps(alert, { 'thread-id': 'a' })],
  ['aps.event: not with this push type', withAps(alert, { ...ALERT_APS, event: 'end' })],
  ['aps.alert: nothing to show', withAps(alert, { alert: { subtitle: 'a' } })],
  ['loc-args: expected loc-key beside it', withAps(alert, { alert: { body: 'a', 'loc-args': [] } })],
  ['expected 5 with this push type', withHeaders(background, { 'apns-priority': 10 })],
  ['expected 5 with this push type', { ...background, headers: without(background.headers, 'apns-priority') }],
  ...['alert', 'sound', 'badge', 'mutable-content'].map((key): [string, WireRequest] => [
    `aps.${key}: not in the background`,
    withAps(background, { 'content-available': 1, [key]: key === 'alert' || key === 'sound' ? 'a' : 1 }),
  ]),
  ['expected one of content-available', withAps(background, {})],
  ['aps.attributes: missing', withAps(start, { ...bodyOf(start).aps, attributes: undefined })],
  ['aps.timestamp: missing', withAps(update, { ...bodyOf(update).aps, timestamp: undefined })],
  ['aps.attributes: not with this event', withAps(update, { ...bodyOf(update).aps, attributes: {} })],
  ['expected one of event', withAps(end, { timestamp: 1 })],
  ['authorization: expected bearer', withHeaders(alert, { authorization: 'bearer a.b' })],
  ['authorization.header.alg', withHeaders(alert, { authorization: 'bearer e30.e30.a' })],
  ['authorization.claims.iat', withHeaders(alert, { authorization: 'bearer e30.e30.a' })],
])('APNs: %s', (fault, request) => {
  expect(apnsFaults(request).join('\n')).toContain(fault);
});

test('every kind of push of APNs has its row', () => {
  expect(Object.keys(PUSH_TYPES)).toHaveLength(11);
});

const { apns, android, notification, ...rest } = FCM_MESSAGE;
const whole = toFcm(FCM_MESSAGE);

test.each<[fault: string, WireRequest]>([
  ['path: expected', { ...whole, path: '/v1/projects/a/b/messages:send' }],
  ['path: expected', { ...whole, path: '/fcm/send' }],
  ['content-type: expected', { ...whole, headers: {} }],
  ['authorization: expected Bearer', withHeaders(whole, { authorization: 'key=a' })],
  ['body.message: expected a value', { ...whole, body: '{}' }],
  ['no such field', toFcm(FCM_MESSAGE, { dry_run: true })],
  ['the same field twice', toFcm({ ...FCM_MESSAGE, fcmOptions: {} })],
  ['expected one target, found token and topic', toFcm({ ...FCM_MESSAGE, topic: 'a' })],
  ['expected one target, found token and fid', toFcm({ ...FCM_MESSAGE, fid: 'a' })],
  ['expected one target, found none', toFcm({ data: { a: 'b' } })],
  ['message.name: no such field', toFcm({ ...FCM_MESSAGE, name: 'a' })],
  ['data.a: null', toFcm({ ...FCM_MESSAGE, data: { a: null } })],
  ['data.a: a lone surrogate', toFcm({ ...FCM_MESSAGE, data: { a: 'b\udc00' } })],
  ['bytes for android, over 4096', toFcm({ token: 'a', data: { a: 'x'.repeat(4_096) } })],
  ['bytes for apns, over 4096', toFcm({ token: 'a', apns: { ...apns, payload: { a: 'x'.repeat(4_096) } } })],
  ['android.notification: nothing to show', toFcm({ token: 'a', android: { notification: { tag: 'a' } } })],
  ['expected 5 for a message without an alert', toFcm({ token: 'a', apns: { headers: { 'apns-priority': '10' } } })],
  ['aps.alert: nothing to show', toFcm({ ...FCM_MESSAGE, apns: { ...apns, payload: { aps: { alert: {} } } } })],
  [
    'aps.alert: not in the background',
    toFcm({ ...rest, notification, apns: { headers: { 'apns-push-type': 'background', 'apns-priority': '5' } } }),
  ],
  ['expected the keys of a Live Activity', toFcm({ ...FCM_MESSAGE, apns: { ...apns, live_activity_token: 'a' } })],
  ['ttl: expected seconds', toFcm({ ...rest, notification, android: { ...android, ttl: '3.5' } })],
])('FCM: %s', (fault, request) => {
  expect(fcmFaults(request).join('\n')).toContain(fault);
});

test.each<[fault: string, Partial<typeof WEBPUSH_GOOD>]>([
  ['path: expected', { path: 'push/ana' }],
  ['origin: expected https', { origin: 'http://push.example.com' }],
  ['headers.ttl: expected a value', { headers: without(WEBPUSH_GOOD.headers, 'ttl') }],
  ['content-encoding: expected one of', withHeaders(WEBPUSH_GOOD, { 'content-encoding': 'aesgcm' })],
  ...DRAFT_HEADERS.map((name): [string, object] => [`${name}: of a draft`, withHeaders(WEBPUSH_GOOD, { [name]: 'a' })]),
  ['bytes, over 4096', { body: record(4_096) }],
  ['too short', { body: record(16) }],
  ['a key of 65 bytes', { body: record(100, 4_096, Buffer.alloc(64, 4)) }],
  ['an uncompressed point', { body: record(100, 4_096, Buffer.alloc(65, 2)) }],
  ['one record', { body: record(100, 99) }],
  ['cannot decrypt', { message: undefined }],
  ['expected a JSON object', { message: Buffer.from('"a"') }],
  ['message.body: a lone surrogate', { message: Buffer.from('{"body":"\\ud800"}') }],
  ['message.data.a: a lone surrogate', { message: Buffer.from('{"body":"a","data":{"a":"\\ud800"}}') }],
  ['message.tag: null', { message: Buffer.from('{"body":"a","tag":null}') }],
  ['nothing to show', { message: Buffer.from('{"tag":"a"}') }],
  ['vibrate: not beside silent', { message: Buffer.from('{"body":"a","silent":true,"vibrate":[1]}') }],
  ['renotify: expected a tag', { message: Buffer.from('{"body":"a","renotify":true}') }],
  ['expected vapid, t and k', withHeaders(WEBPUSH_GOOD, { authorization: 'Bearer a' })],
  ['alg: expected ES256', withHeaders(WEBPUSH_GOOD, { authorization: vapid(CLAIMS, 'RS256') })],
  ['aud: expected', withHeaders(WEBPUSH_GOOD, { authorization: vapid({ ...CLAIMS, aud: 'https://a.example' }) })],
  ['exp: expected', withHeaders(WEBPUSH_GOOD, { authorization: vapid({ ...CLAIMS, exp: NOW_MS / 1_000 + 86_401 }) })],
  ['exp: expected', withHeaders(WEBPUSH_GOOD, { authorization: vapid({ ...CLAIMS, exp: NOW_MS / 1_000 }) })],
  ['sub: expected', withHeaders(WEBPUSH_GOOD, { authorization: vapid({ ...CLAIMS, sub: 'nobody' }) })],
  ['vapid.sub: expected a value', withHeaders(WEBPUSH_GOOD, { authorization: vapid({ ...CLAIMS, sub: undefined }) })],
  ['signature', withHeaders(WEBPUSH_GOOD, { authorization: vapid(CLAIMS).replace(/\.[\w-]+, k/, '.AAAA, k') })],
])('web push: %s', (fault, change) => {
  expect(webpushFaults({ ...WEBPUSH_GOOD, ...change }).join('\n')).toContain(fault);
});

describe('what is loud is found', () => {
  test('on APNs', () => {
    const quiet = withHeaders(withAps(alert, { alert: 'a', 'interruption-level': 'passive' }), { 'apns-priority': 5 });
    expect(apnsLoudFaults(quiet)).toEqual([]);
    expect(apnsLoudFaults(alert)).toHaveLength(4);
  });

  test('on FCM', () => {
    const loud = Object.fromEntries(LOUD_FIELDS.map((name) => [name, true]));
    expect(fcmLoudFaults(toFcm({ notification: { title: 'a' }, android: { notification: loud } }))).toHaveLength(
      LOUD_FIELDS.length + 3,
    );
    const quiet = {
      android: { priority: 'normal', notification: { notification_priority: 'PRIORITY_LOW' } },
      apns: { headers: { 'apns-priority': '5' }, payload: { aps: { 'interruption-level': 'passive' } } },
    };
    expect(fcmLoudFaults(toFcm(quiet))).toEqual([]);
    expect(fcmLoudFaults(toFcm(FCM_MESSAGE)).length).toBeGreaterThan(LOUD_FIELDS.length);
  });

  test('in a browser', () => {
    expect(webpushLoudFaults(WEBPUSH_GOOD)).toHaveLength(3);
    expect(webpushLoudFaults({ headers: { urgency: 'low' }, message: Buffer.from('{"silent":true}') })).toEqual([]);
  });
});
