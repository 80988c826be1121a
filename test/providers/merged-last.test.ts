import { expect, test } from 'vitest';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush, type PushFields } from '../support/push.ts';

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

test('a field that Google does not know is refused as Google does', async () => {
  const { replies } = await received({ fcm: { message: { android: { notification: { visibility: 'public' } } } } });
  expect(replies[1]).toMatchObject({ meaning: 'rejected', code: 'INVALID_ARGUMENT' });
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
