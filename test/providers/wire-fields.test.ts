import { expect, test } from 'vitest';
import type { z } from 'zod';
import { alertSchema, notificationSchema } from '../../src/domain/notification-schema.ts';
import type { NotificationInput } from '../../src/domain/notification.ts';
import { apnsFieldsSchema, apnsSoundSchema } from '../../src/providers/apns/fields.ts';
import { androidFieldsSchema, fcmFieldsSchema } from '../../src/providers/fcm/fields.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';

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
  [
    'alert.subtitle',
    { alert: { ...TEXTS, subtitle: '7b' } },
    { 'payload.aps.alert': { ...TEXTS, subtitle: '7b' } },
    { 'message.notification': TEXTS, 'message.apns.payload.aps.alert': { ...TEXTS, subtitle: '7b' } },
  ],
  [
    'alert.titleLocKey',
    { alert: { titleLocKey: 'T' } },
    { 'payload.aps.alert': { 'title-loc-key': 'T' } },
    {
      'message.notification': undefined,
      'message.android.notification.title_loc_key': 'T',
      'message.apns.payload.aps.alert': { 'title-loc-key': 'T' },
    },
  ],
  [
    'alert.titleLocArgs',
    { alert: { titleLocKey: 'T', titleLocArgs: ['a', 'b'] } },
    { 'payload.aps.alert.title-loc-args': ['a', 'b'] },
    {
      'message.android.notification.title_loc_args': ['a', 'b'],
      'message.apns.payload.aps.alert.title-loc-args': ['a', 'b'],
    },
  ],
  [
    'alert.subtitleLocKey',
    { alert: { ...TEXTS, subtitleLocKey: 'S' } },
    { 'payload.aps.alert': { ...TEXTS, 'subtitle-loc-key': 'S' } },
    { 'message.notification': TEXTS, 'message.apns.payload.aps.alert': { ...TEXTS, 'subtitle-loc-key': 'S' } },
  ],
  [
    'alert.subtitleLocArgs',
    { alert: { title: 'a', subtitleLocKey: 'S', subtitleLocArgs: ['b'] } },
    { 'payload.aps.alert.subtitle-loc-args': ['b'] },
    { 'message.apns.payload.aps.alert.subtitle-loc-args': ['b'] },
  ],
  [
    'alert.bodyLocKey',
    { alert: { title: 'a', bodyLocKey: 'B' } },
    { 'payload.aps.alert': { title: 'a', 'loc-key': 'B' } },
    { 'message.android.notification.body_loc_key': 'B', 'message.apns.payload.aps.alert.loc-key': 'B' },
  ],
  [
    'alert.bodyLocArgs',
    { alert: { bodyLocKey: 'B', bodyLocArgs: ['c'] } },
    { 'payload.aps.alert.loc-args': ['c'] },
    { 'message.android.notification.body_loc_args': ['c'], 'message.apns.payload.aps.alert.loc-args': ['c'] },
  ],
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
  [
    'sound',
    { sound: 'bell.caf' },
    { 'payload.aps.sound': 'bell.caf' },
    { 'message.android.notification.sound': 'bell.caf', 'message.apns.payload.aps.sound': 'bell.caf' },
  ],
  [
    'badge',
    { badge: 3 },
    { 'payload.aps.badge': 3 },
    { 'message.android.notification.notification_count': 3, 'message.apns.payload.aps.badge': 3 },
  ],
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
  [
    'apns.sound.name',
    { sound: 'other.caf', apns: { sound: { name: 'a.caf' } } },
    { 'payload.aps.sound': 'a.caf' },
    { 'message.apns.payload.aps.sound': 'a.caf', 'message.android.notification.sound': 'other.caf' },
  ],
  [
    'apns.sound.critical',
    { apns: { sound: { name: 'default', critical: true } } },
    { 'payload.aps.sound': { name: 'default', critical: 1 } },
    {
      'message.apns.payload.aps.sound': { name: 'default', critical: 1 },
      'message.android.notification.sound': undefined,
    },
  ],
  [
    'apns.sound.volume',
    { apns: { sound: { name: 'default', volume: 0 } } },
    { 'payload.aps.sound': { name: 'default', critical: 0, volume: 0 } },
    { 'message.apns.payload.aps.sound.volume': 0 },
  ],
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
  ['liveActivity', {}, NOTHING, NOTHING], // live-activity.test.ts has all of it
  ['webpush', { webpush: {} }, NOTHING, NOTHING], // what browsers get of it: webpush-encode.test.ts
];

function onIphones(field: string, value: unknown, key: string, written = value): [string, Given, Wire, Wire][] {
  const wire = { [`payload.aps.${key}`]: written };
  return [[`apns.${field}`, { apns: { [field]: value } }, wire, { [`message.apns.payload.aps.${key}`]: written }]];
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

function valueAt(from: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], from);
}
