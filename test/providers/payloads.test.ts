import { expect, test } from 'vitest';
import type { z } from 'zod';
import { valueAt } from '../../src/domain/json.ts';
import { alertSchema, notificationSchema } from '../../src/notification/schema.ts';
import type { NotificationInput } from '../../src/notification/notification.ts';
import { apnsFieldsSchema, apnsSoundSchema } from '../../src/notification/devices/apns/fields.ts';
import { androidFieldsSchema, fcmFieldsSchema } from '../../src/notification/devices/fcm/fields.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush, type PushFields } from '../support/push.ts';

type Given = Partial<NotificationInput>;
/** Path in the journal's entry → value; undefined: nothing is there. */
type Wire = Readonly<Record<string, unknown>>;

const NOW_MS = Date.parse('2026-11-21T17:00:00Z');
const NOTHING: Wire = {};
const TEXTS = { title: 'Room 12', body: 'Forms' };

/**
 * Every field, and where it is on the wire: to APNs, and in FCM's message, where `message.android` is for Android and `message.apns`
 * for iPhones. The names are those of
 * developer.apple.com/documentation/usernotifications/generating-a-remote-notification,
 * developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns and
 * firebase.google.com/docs/reference/fcm/rest/v1/projects.messages, written by hand a second time.
 */
const ROWS: readonly (readonly [field: string, given: Given, apns: Wire, fcm: Wire])[] = [
  ['id', {}, NOTHING, NOTHING],
  ['recipientId', { recipientId: 'nobody-else' }, NOTHING, NOTHING],
  ['devices', {}, NOTHING, NOTHING],
  ['category', { category: 'exam-results' }, { 'payload.aps.category': undefined }, NOTHING],
  ['onThrottle', { onThrottle: 'drop' }, NOTHING, NOTHING],
  ['digest', { onThrottle: 'digest', digest: { key: 'k', body: '{{count}} new' } }, NOTHING, NOTHING],
  ['sendAfter', { sendAfter: '2026-11-21T06:30:00Z' }, NOTHING, NOTHING],
  ['cancellationKey', { cancellationKey: 'trip-77' }, NOTHING, NOTHING],
  ['onQuiet', { onQuiet: 'drop' }, NOTHING, NOTHING],
  ['pushType', { pushType: 'alert' }, { pushType: 'alert' }, { 'message.apns.headers.apns-push-type': 'alert' }],
  [
    'alert',
    { alert: TEXTS },
    { 'payload.aps.alert': TEXTS },
    { 'message.notification': TEXTS, 'message.apns.payload': undefined },
  ],
  ['alert.title', { alert: { title: 'a' } }, { 'payload.aps.alert.title': 'a' }, { 'message.notification.title': 'a' }],
  ['alert.body', { alert: { body: 'a' } }, { 'payload.aps.alert.body': 'a' }, { 'message.notification.body': 'a' }],
  ...onBoth(
    'alert.subtitle',
    { alert: { ...TEXTS, subtitle: '7b' } },
    { alert: { ...TEXTS, subtitle: '7b' } },
    { 'message.notification': TEXTS },
  ),
  ...onBoth(
    'alert.titleLocKey',
    { alert: { titleLocKey: 'T' } },
    { alert: { 'title-loc-key': 'T' } },
    { 'message.notification': undefined, 'message.android.notification.title_loc_key': 'T' },
  ),
  ...onBoth(
    'alert.titleLocArgs',
    { alert: { titleLocKey: 'T', titleLocArgs: ['a', 'b'] } },
    { 'alert.title-loc-args': ['a', 'b'] },
    { 'message.android.notification.title_loc_args': ['a', 'b'] },
  ),
  ...onBoth(
    'alert.subtitleLocKey',
    { alert: { ...TEXTS, subtitleLocKey: 'S' } },
    { alert: { ...TEXTS, 'subtitle-loc-key': 'S' } },
    { 'message.notification': TEXTS },
  ),
  ...onBoth(
    'alert.subtitleLocArgs',
    { alert: { title: 'a', subtitleLocKey: 'S', subtitleLocArgs: ['b'] } },
    { 'alert.subtitle-loc-args': ['b'] },
  ),
  ...onBoth(
    'alert.bodyLocKey',
    { alert: { title: 'a', bodyLocKey: 'B' } },
    { alert: { title: 'a', 'loc-key': 'B' } },
    { 'message.android.notification.body_loc_key': 'B' },
  ),
  ...onBoth(
    'alert.bodyLocArgs',
    { alert: { bodyLocKey: 'B', bodyLocArgs: ['c'] } },
    { 'alert.loc-args': ['c'] },
    { 'message.android.notification.body_loc_args': ['c'] },
  ),
  [
    'data',
    { data: { text: 'a', form: { id: 7, tags: [true, null] }, count: 1.5 } },
    { 'payload.text': 'a', 'payload.form': { id: 7, tags: [true, null] }, 'payload.count': 1.5 },
    { 'message.data': { text: 'a', form: '{"id":7,"tags":[true,null]}', count: '1.5' } },
  ],
  [
    'imageUrl',
    { imageUrl: 'https://example.com/a.jpg' },
    { 'payload.fcm_options': { image: 'https://example.com/a.jpg' }, 'payload.aps.mutable-content': 1 },
    {
      'message.notification.image': 'https://example.com/a.jpg',
      'message.apns.fcm_options': { image: 'https://example.com/a.jpg' },
      'message.apns.payload.aps.mutable-content': 1,
    },
  ],
  ...onBoth(
    'sound',
    { sound: 'bell.caf' },
    { sound: 'bell.caf' },
    { 'message.android.notification.sound': 'bell.caf' },
  ),
  ...onBoth('badge', { badge: 3 }, { badge: 3 }, { 'message.android.notification.notification_count': 3 }),
  [
    'priority',
    { priority: 'high' },
    { priority: '10' },
    { 'message.android.priority': 'high', 'message.apns.headers.apns-priority': '10' },
  ],
  [
    'collapseId',
    { collapseId: 'thread-77' },
    { collapseId: 'thread-77' },
    {
      'message.android.collapse_key': 'thread-77',
      'message.android.notification.tag': 'thread-77',
      'message.apns.headers.apns-collapse-id': 'thread-77',
    },
  ],
  [
    'expiresAt',
    { expiresAt: '2026-11-21T18:00:00Z' },
    { expiration: 1_795_284_000 },
    { 'message.android.ttl': '3600s', 'message.apns.headers.apns-expiration': '1795284000' },
  ],
  [
    'android.dataOnly',
    { alert: TEXTS, data: { a: 'b' }, android: { dataOnly: true } },
    { 'payload.aps.alert': TEXTS, 'payload.a': 'b' },
    {
      'message.notification': undefined,
      'message.android.notification': undefined,
      'message.data': { a: 'b' },
      'message.apns.payload.aps.alert': TEXTS,
    },
  ],
  ...onIphones('threadId', 'class-7b', 'thread-id'),
  ...onIphones('actionCategory', 'FORM', 'category'),
  ...onIphones('interruptionLevel', 'time-sensitive', 'interruption-level'),
  ...onIphones('relevanceScore', 0.7, 'relevance-score'),
  ...onIphones('mutableContent', true, 'mutable-content', 1),
  ...onIphones('targetContentId', 'inbox', 'target-content-id'),
  ...onIphones('sound', { name: 'a.caf', critical: true, volume: 0.8 }, 'sound', {
    name: 'a.caf',
    critical: 1,
    volume: 0.8,
  }),
  ...onBoth(
    'apns.sound.name',
    { sound: 'other.caf', apns: { sound: { name: 'a.caf' } } },
    { sound: 'a.caf' },
    { 'message.android.notification.sound': 'other.caf' },
  ),
  ...onBoth(
    'apns.sound.critical',
    { apns: { sound: { name: 'default', critical: true } } },
    { sound: { name: 'default', critical: 1 } },
    { 'message.android.notification.sound': undefined },
  ),
  ...onBoth(
    'apns.sound.volume',
    { apns: { sound: { name: 'default', volume: 0 } } },
    { sound: { name: 'default', critical: 0, volume: 0 } },
  ),
  ['apns.priority', { apns: { priority: 5 } }, { priority: '5' }, { 'message.apns.headers.apns-priority': '5' }],
  [
    'apns.topic',
    { apns: { topic: 'dev.pushpacer.sandbox.watchkitapp' } },
    { topic: 'dev.pushpacer.sandbox.watchkitapp' },
    { 'message.apns.headers.apns-topic': undefined },
  ],
  [
    'apns.payload',
    { data: { a: '1' }, apns: { payload: { aps: { 'filter-criteria': 'x' }, a: { b: 2 } } } },
    { 'payload.aps.filter-criteria': 'x', 'payload.aps.alert.title': 'Room 12', 'payload.a': { b: 2 } },
    { 'message.apns.payload': { aps: { 'filter-criteria': 'x' }, a: { b: 2 } }, 'message.data': { a: '1' } },
  ],
  ...onAndroid('channelId', 'homework', 'channel_id'),
  ...onAndroid('icon', 'ic_form', 'icon'),
  ...onAndroid('color', '#1a73e8', 'color'),
  ...onAndroid('clickAction', 'OPEN_FORM', 'click_action'),
  ...onAndroid('tag', 'class-7b', 'tag'),
  ...onAndroid('visibility', 'secret', 'visibility', 'SECRET'),
  ...onAndroid('notificationCount', 0, 'notification_count'),
  [
    'fcm.message',
    { fcm: { message: { android: { direct_boot_ok: true, notification: { ticker: 'a', tag: null } } } } },
    NOTHING,
    {
      'message.android.direct_boot_ok': true,
      'message.android.notification': { ticker: 'a' },
      'message.android.priority': 'normal',
    },
  ],
  ['analyticsLabel', { analyticsLabel: 'forms' }, NOTHING, { 'message.fcm_options': { analytics_label: 'forms' } }],
  ['apns', { apns: {} }, NOTHING, NOTHING],
  ['android', { android: {} }, NOTHING, NOTHING],
  ['fcm', { fcm: {} }, NOTHING, NOTHING],
  ['channel', {}, NOTHING, NOTHING], // apns-channel.test.ts has all of it
  ['liveActivity', {}, NOTHING, NOTHING], // apns.test.ts has all of it
  ['webpush', { webpush: {} }, NOTHING, NOTHING], // what browsers get of it: webpush-payload.test.ts
];

/** What iPhones get in `aps`, by either way. @param more what FCM's message has beside it */
function onBoth(field: string, given: Given, aps: Wire, more: Wire = {}): [string, Given, Wire, Wire][] {
  const below = (path: string): Wire =>
    Object.fromEntries(Object.entries(aps).map(([key, value]) => [`${path}.${key}`, value]));
  return [[field, given, below('payload.aps'), { ...more, ...below('message.apns.payload.aps') }]];
}

function onIphones(field: string, value: unknown, key: string, written = value): [string, Given, Wire, Wire][] {
  return onBoth(`apns.${field}`, { apns: { [field]: value } }, { [key]: written });
}

function onAndroid(field: string, value: unknown, key: string, written = value): [string, Given, Wire, Wire][] {
  return [
    [
      `android.${field}`,
      { android: { [field]: value } },
      NOTHING,
      { [`message.android.notification.${key}`]: written },
    ],
  ];
}

test.each(ROWS)('%s', async (_field, given, apns, fcm) => {
  const sandbox = await openSandbox();
  const [onApns, onFcm] = [makePush(given), makePush({ platform: 'fcm', ...given })];
  expect(await sendPush(await openApns(sandbox), onApns)).toMatchObject({ meaning: 'accepted' });
  expect(await sendPush(await openFcm(sandbox, { now: () => NOW_MS }), onFcm)).toMatchObject({ meaning: 'accepted' });
  const [first, second] = sandbox.journal.all;
  for (const [path, value] of Object.entries(apns)) expect(valueAt(first, path), path).toEqual(value);
  for (const [path, value] of Object.entries(fcm)) {
    expect(valueAt({ message: second?.payload }, path), path).toEqual(value);
  }
  expect([first?.ignored, second?.ignored]).toEqual([undefined, undefined]);
  for (const secret of [onApns.notification.recipientId, onApns.notification.category].filter(Boolean)) {
    expect(JSON.stringify([first, second])).not.toContain(secret);
  }
});

test('no field is without a row', () => {
  const places: readonly (readonly [string, z.ZodObject])[] = [
    ['', notificationSchema],
    ['alert.', alertSchema],
    ['apns.', apnsFieldsSchema],
    ['apns.sound.', apnsSoundSchema],
    ['android.', androidFieldsSchema],
    ['fcm.', fcmFieldsSchema],
  ];
  const fields = places.flatMap(([place, { shape }]) => Object.keys(shape).map((field) => `${place}${field}`));
  expect(ROWS.map(([field]) => field).toSorted()).toEqual(fields.toSorted());
});

/** What the loopback servers received of a push for each platform. */
async function received(fields: PushFields) {
  const sandbox = await openSandbox();
  const replies = [
    await sendPush(await openApns(sandbox), makePush(fields)),
    await sendPush(await openFcm(sandbox), makePush({ platform: 'fcm', ...fields })),
  ];
  const [apns, fcm] = sandbox.journal.all;
  return { replies, apns, payload: apns?.payload, message: fcm?.payload };
}

/** Everything that makes a device loud, by fields and by what is merged at the end. */
const LOUD: PushFields = {
  alert: { title: 'Room 12', subtitle: '7b' },
  sound: 'default',
  badge: 3,
  priority: 'high',
  imageUrl: 'https://example.com/a.jpg',
  apns: {
    interruptionLevel: 'critical',
    sound: { name: 'a', critical: true, volume: 1 },
    threadId: 'class-7b',
    priority: 10,
    payload: { aps: { sound: 'b', badge: 9, 'interruption-level': 'critical' }, more: true },
  },
  android: { channelId: 'loud', notificationCount: 7, color: '#1a73e8' },
  fcm: {
    message: {
      android: {
        priority: 'high',
        notification: { sound: 'c', default_sound: true, notification_priority: 'PRIORITY_MAX' },
      },
      apns: { headers: { 'apns-priority': '10' }, payload: { aps: { sound: 'd', 'interruption-level': 'critical' } } },
    },
  },
};

test('silence beats every field, and what is merged at the end', async () => {
  const { replies, apns, payload, message } = await received({ ...LOUD, silent: true });
  expect(replies).toMatchObject([{ meaning: 'accepted' }, { meaning: 'accepted' }]);
  expect(apns).toMatchObject({ priority: '5', pushType: 'alert' });
  const aps = {
    alert: { title: 'Room 12', subtitle: '7b' },
    'interruption-level': 'passive',
    'mutable-content': 1,
    'thread-id': 'class-7b',
  };
  expect(payload).toEqual({ aps, more: true, fcm_options: { image: 'https://example.com/a.jpg' } });
  expect(message).toMatchObject({
    notification: { title: 'Room 12', image: 'https://example.com/a.jpg' },
    apns: { headers: { 'apns-priority': '5' }, payload: { aps, more: true } },
  });
  expect(message).toHaveProperty('android.priority', 'normal');
  expect(Object.keys((message as { android: { notification: object } }).android.notification).toSorted()).toEqual([
    'channel_id',
    'color',
    'notification_priority',
    'tag',
  ]);
  expect(message).toMatchObject({
    android: { notification: { channel_id: 'silent', notification_priority: 'PRIORITY_LOW' } },
  });
});

test('the same push is loud where nothing blocks it', async () => {
  const { payload, message } = await received(LOUD);
  expect(payload).toMatchObject({ aps: { sound: 'b', badge: 9, 'interruption-level': 'critical' } });
  expect(message).toMatchObject({
    android: { priority: 'high', notification: { channel_id: 'loud', sound: 'c', notification_count: 7 } },
    apns: { payload: { aps: { sound: 'd', badge: 9, 'interruption-level': 'critical' } } },
  });
});

test('objects are merged name by name, null removes, everything else replaces', async () => {
  const { payload, message } = await received({
    sound: 'default',
    data: { kept: '1', gone: '2', list: ['a', 'b'] },
    apns: { payload: { gone: null, list: ['c'], aps: { sound: null, alert: { subtitle: '7b' } } } },
    fcm: { message: { data: { gone: null, list: 'd' }, apns: null, android: { notification: { sound: null } } } },
  });
  const texts = { title: 'Room 12', body: 'Field trip forms are due' };
  expect(payload).toEqual({ kept: '1', list: ['c'], aps: { alert: { ...texts, subtitle: '7b' } } });
  expect(message).toMatchObject({ notification: texts, data: { kept: '1', list: 'd' } });
  expect(message).not.toHaveProperty('apns');
  expect(message).not.toHaveProperty('android.notification.sound');
  expect(message).not.toHaveProperty('data.gone');
});

test.each<[string, PushFields, number]>([
  ['apns.payload', { apns: { payload: { text: 'x'.repeat(4_096) } } }, 0],
  ['fcm.message', { fcm: { message: { data: { text: 'x'.repeat(4_096) } } } }, 1],
  ["an iPhone's part of a message", { fcm: { message: { apns: { payload: { text: 'x'.repeat(4_096) } } } } }, 1],
])('a payload that becomes too large by %s is not sent', async (_what, fields, index) => {
  const { replies } = await received(fields);
  expect(replies[index]).toMatchObject({
    meaning: 'rejected',
    alerted: 'no',
    detail: expect.stringMatching(/at most 4096 bytes, found \d{4}$/) as string,
  });
});

test('what an Apple device would ignore goes out, and the journal names it', async () => {
  const { replies, apns } = await received({ apns: { payload: { aps: { 'relevance-score': 7, loudness: 1 } } } });
  expect(replies[0]).toMatchObject({ meaning: 'accepted' });
  expect(apns?.ignored).toEqual([
    'aps.relevance-score: expected a number from 0 to 1',
    'aps.loudness: expected no such key',
  ]);
});

test('a background push wakes the app and shows nothing', async () => {
  const { replies, apns, payload, message } = await received({
    pushType: 'background',
    alert: undefined,
    priority: 'high',
    data: { sync: { since: 7 } },
    collapseId: 'sync',
  });
  expect(replies).toMatchObject([{ meaning: 'accepted' }, { meaning: 'accepted' }]);
  expect(apns).toMatchObject({ pushType: 'background', priority: '5', collapseId: 'sync' });
  expect(payload).toEqual({ sync: { since: 7 }, aps: { 'content-available': 1 } });
  expect(message).toEqual({
    token: expect.any(String) as string,
    data: { sync: '{"since":7}' },
    android: { priority: 'normal', collapse_key: 'sync' },
    apns: {
      headers: { 'apns-push-type': 'background', 'apns-priority': '5', 'apns-collapse-id': 'sync' },
      payload: { aps: { 'content-available': 1 } },
    },
  });
});

test('a background push with a badge is an alert without texts to Apple, and gives Android nothing to show', async () => {
  const { replies, apns, payload, message } = await received({
    pushType: 'background',
    alert: undefined,
    priority: 'high',
    badge: 0,
    data: { pushpacer: { retract: ['msg-1'], tags: ['trip-77'], badge: 0 } },
    collapseId: 'pushpacer-retract',
  });
  expect(replies).toMatchObject([{ meaning: 'accepted' }, { meaning: 'accepted' }]);
  expect(apns).toMatchObject({ pushType: 'alert', priority: '5', collapseId: 'pushpacer-retract' });
  const aps = { 'content-available': 1, badge: 0 };
  expect(payload).toEqual({ pushpacer: { retract: ['msg-1'], tags: ['trip-77'], badge: 0 }, aps });
  expect(message).toEqual({
    token: expect.any(String) as string,
    data: { pushpacer: '{"retract":["msg-1"],"tags":["trip-77"],"badge":0}' },
    android: { priority: 'normal', collapse_key: 'pushpacer-retract' },
    apns: {
      headers: { 'apns-push-type': 'alert', 'apns-priority': '5', 'apns-collapse-id': 'pushpacer-retract' },
      payload: { aps },
    },
  });
});

test('a topic of its own that Apple refuses says nothing about the configuration', async () => {
  const { replies } = await received({ apns: { topic: 'com.example.other' } });
  expect(replies[0]).toMatchObject({ meaning: 'rejected', code: 'TopicDisallowed' });
  expect(replies[0]).not.toHaveProperty('trouble');
});

test.each<PushFields>([
  { apns: { payload: { aps: { alert: { 'launch-image': 'trip' } } } } },
  { fcm: { message: { apns: { payload: { aps: { alert: { 'launch-image': 'trip' } } } } } } },
])('an alert to which %j adds keeps its texts, which FCM does not add to an alert that is there', async (fields) => {
  const { message } = await received({ alert: { title: 'Room 12', body: 'Forms' }, ...fields });
  expect(message).toHaveProperty('apns.payload.aps.alert', { title: 'Room 12', body: 'Forms', 'launch-image': 'trip' });
});
