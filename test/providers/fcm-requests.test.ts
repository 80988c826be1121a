import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import type { JsonObject } from '../../src/domain/json.ts';
import { androidFieldsSchema, fcmFieldsSchema } from '../../src/notification/devices/fcm/fields.ts';
import { tagsOf, tokenOf } from '../../src/notification/device.ts';
import { checkInput, type EnqueueInput } from '../../src/producer/producer.ts';
import { encodeFcm } from '../../src/providers/fcm/fcm.ts';
import { fcmFaults, fcmLoudFaults } from '../wire/fcm-rules.ts';
import { faultsOf, makePush, type PushFields } from '../support/push.ts';
import { EVERY_APS, EVERY_FIELD, KEPT_BACK, NOW_MS } from './every-field.ts';

type Message = Record<string, unknown>;

/** What FCM gets of a push. It breaks no rule of Google or Apple, and a silent one makes no noise. */
function messageOf(fields: PushFields, androidV2 = false) {
  const push = makePush({ platform: 'fcm', ...fields });
  const prepared = encodeFcm(push, { projectId: 'school-1', androidV2 }, NOW_MS);
  if (prepared.kind === 'refused') throw new Error(prepared.reply.detail);
  const { encoded } = prepared;
  expect([...fcmFaults(encoded), ...(push.silent ? fcmLoudFaults(encoded) : [])]).toEqual([]);
  const { token, fid, ...message } = (JSON.parse(encoded.body.toString()) as { message: Message }).message;
  expect(token ?? fid).toBe(tokenOf(push.device));
  return { push, message, body: encoded.body.toString() };
}

const TEXTS = { title: 'Room 12', body: 'Forms' };
const patched = (message: object) => ({ alert: TEXTS, fcm: { message } }) as PushFields;

test('every field of an alert is where Google wants it, and nothing goes out that only the queue needs', () => {
  const { push, message, body } = messageOf({ ...EVERY_FIELD, ...KEPT_BACK });
  expect(message).toEqual({
    notification: { title: 'Room 12', body: 'Forms are due', image: 'https://example.com/a.jpg' },
    data: { text: 'a', form: '{"id":7,"tags":[true,null]}', count: '1.5' },
    android: {
      priority: 'high',
      ttl: '3600s',
      collapse_key: 'thread-77',
      direct_boot_ok: true,
      notification: {
        tag: 'tag-of-7b',
        sound: 'bell.caf',
        notification_count: 5,
        title_loc_key: 'TITLE',
        title_loc_args: ['title-1', 'title-2'],
        body_loc_key: 'BODY',
        body_loc_args: ['body-1'],
        channel_id: 'homework',
        icon: 'ic_form',
        color: '#1a73e8',
        click_action: 'OPEN_FORM',
        visibility: 'SECRET',
        ticker: 'news',
      },
    },
    apns: {
      headers: {
        'apns-push-type': 'alert',
        'apns-priority': '10',
        'apns-collapse-id': 'thread-77',
        'apns-expiration': '1795284000',
      },
      payload: {
        own: { b: 2 },
        aps: EVERY_APS,
      },
      fcm_options: { image: 'https://example.com/a.jpg' },
    },
    fcm_options: { analytics_label: 'forms' },
  });
  expect(tagsOf(push.notification, [0])).toEqual(['tag-of-7b', 'thread-77']); // by these apps find it on the screen
  expect(body).not.toContain('kept-back');
});

test('those are all fields that there are', () => {
  const namesOf = ({ shape }: z.ZodObject) => Object.keys(shape).toSorted();
  expect([...Object.keys(EVERY_FIELD.android), 'dataOnly'].toSorted()).toEqual(namesOf(androidFieldsSchema));
  expect(Object.keys(EVERY_FIELD.fcm)).toEqual(namesOf(fcmFieldsSchema));
});

test('a plain alert is a notification that all devices show, with the push id to replace a second copy by', () => {
  const { push, message } = messageOf({ badge: 3 });
  expect(tagsOf(push.notification, [0])).toEqual([push.pushId]);
  expect(message).toEqual({
    notification: push.notification.alert,
    android: { priority: 'normal', notification: { tag: push.pushId, notification_count: 3 } },
    apns: {
      headers: { 'apns-push-type': 'alert', 'apns-priority': '10', 'apns-collapse-id': push.pushId },
      payload: { aps: { badge: 3 } },
    },
  });
});

test.each([
  [NOW_MS + 90_000, '90s'],
  [NOW_MS + 1_500, '1.5s'],
  [NOW_MS - 1, '0s'],
  [NOW_MS + 90 * 86_400_000, '2419200s'],
])('expiresAt %d leaves a ttl of %s', (expiresAt, ttl) => {
  expect(messageOf({ expiresAt }).message).toHaveProperty('android.ttl', ttl);
});

test('a badge of 0, which would count up on Android, is for iPhones alone', () => {
  const { message } = messageOf({ badge: 0 });
  expect(message).toHaveProperty('apns.payload.aps.badge', 0);
  expect(message).not.toHaveProperty('android.notification.notification_count');
});

test('texts that are keys alone make no notification for all devices', () => {
  const { message } = messageOf({ alert: { titleLocKey: 'T' } });
  expect(message).not.toHaveProperty('notification');
  expect(message).toMatchObject({
    android: { notification: { title_loc_key: 'T' } },
    apns: { payload: { aps: { alert: { 'title-loc-key': 'T' } } } },
  });
});

test.each<PushFields>([
  { apns: { payload: { aps: { alert: { 'launch-image': 'trip' } } } } },
  { fcm: { message: { apns: { payload: { aps: { alert: { 'launch-image': 'trip' } } } } } } },
])('an alert to which %j adds keeps its texts, which FCM does not add to an alert that is there', (fields) => {
  const { message } = messageOf({ alert: TEXTS, ...fields });
  expect(message).toHaveProperty('apns.payload.aps.alert', { ...TEXTS, 'launch-image': 'trip' });
});

test('fcm.message is merged name by name: null removes, all else replaces', () => {
  const patch = { data: { gone: null, list: 'd' }, apns: null, android: { notification: { sound: null } } };
  const { message } = messageOf({
    ...{ alert: TEXTS, sound: 'default', collapseId: 'a', data: { kept: '1', gone: '2', list: ['a'] } },
    fcm: { message: patch },
  });
  expect(message).toEqual({
    notification: TEXTS,
    data: { kept: '1', list: 'd' },
    android: { priority: 'normal', collapse_key: 'a', notification: { tag: 'a' } },
  });
});

test("a header of Apple's in other letters is sent once, with the patch's value", () => {
  const headers = { 'Apns-Priority': '5', 'APNS-Collapse-Id': null, 'Apns-Topic': 'com.example.school' };
  expect(messageOf(patched({ apns: { headers } })).message).toHaveProperty('apns.headers', {
    'apns-push-type': 'alert',
    'apns-priority': '5',
    'apns-topic': 'com.example.school',
  });
  const withoutTexts = patched({ notification: null, apns: { headers: { 'Apns-Priority': '5' } } });
  expect(messageOf(withoutTexts).message).toHaveProperty('apns.headers.apns-priority', '5');
});

test('texts that a patch removes leave data for the app: Android would show an empty notification', () => {
  const fields = { ...patched({ notification: null }), data: { a: 'b' }, sound: 'default', priority: 'high' } as const;
  const { push, message } = messageOf(fields);
  expect(message).toEqual({
    data: { a: 'b' },
    android: { priority: 'high' },
    // No alert, so neither its push type nor its priority.
    apns: { headers: { 'apns-collapse-id': push.pushId }, payload: { aps: { sound: 'default' } } },
  });
  const own = patched({ notification: null, android: { notification: { title: 'own' } } });
  expect(messageOf(own).message).toHaveProperty('android.notification.title', 'own');
});

describe('a silent message', () => {
  test('is passive on iPhones, and on Android in the silent channel, whatever was asked for and merged', () => {
    const patch = {
      android: {
        priority: 'high',
        notification: { sound: 'c', default_sound: true, notification_priority: 'PRIORITY_MAX' },
      },
      apns: { headers: { 'Apns-Priority': '10' }, payload: { aps: { sound: 'd', 'interruption-level': 'critical' } } },
    };
    const { message } = messageOf({ ...EVERY_FIELD, fcm: { message: patch }, silent: true });
    expect(message).toMatchObject({
      notification: { title: 'Room 12' },
      android: { priority: 'normal', notification: { channel_id: 'silent', notification_priority: 'PRIORITY_LOW' } },
      apns: {
        headers: { 'apns-push-type': 'alert', 'apns-priority': '5' },
        payload: { aps: { alert: { title: 'Room 12' }, 'interruption-level': 'passive', 'thread-id': 'thread-of-7b' } },
      },
    });
    expect(message).toHaveProperty('android.notification.color', '#1a73e8');
  });

  test('has whole parts where something is shown, although a patch has removed them', () => {
    const { message } = messageOf({ ...patched({ android: null, apns: null }), silent: true });
    expect(message).toEqual({
      notification: TEXTS,
      android: {
        priority: 'normal',
        notification: { channel_id: 'silent', notification_priority: 'PRIORITY_LOW' },
      },
      apns: {
        headers: { 'apns-push-type': 'alert', 'apns-priority': '5' },
        payload: { aps: { 'interruption-level': 'passive' } },
      },
    });
  });

  test('has nothing added where nothing is shown', () => {
    const data = { data: { a: 'b' }, sound: 'default', badge: 3, silent: true };
    const { push, message } = messageOf({ ...patched({ notification: null }), ...data });
    expect(message).toEqual({
      data: { a: 'b' },
      android: { priority: 'normal' },
      apns: { headers: { 'apns-collapse-id': push.pushId }, payload: { aps: {} } },
    });
    const bare = messageOf({ ...patched({ notification: null, android: null, apns: null }), ...data });
    expect(bare.message).toEqual({ data: { a: 'b' } });
  });

  test('is silent in a browser that has an FCM token, whatever the patch says for browsers', () => {
    const loud = { vibrate: [200], renotify: true, requireInteraction: true, silent: false };
    const webpush = {
      headers: { Urgency: 'high', TTL: '60' },
      notification: { ...loud, icon: '/icon.png' },
      data: { a: 'b' },
    };
    expect(messageOf({ ...patched({ webpush }), silent: true }).message).toHaveProperty('webpush', {
      headers: { TTL: '60', Urgency: 'low' },
      notification: { icon: '/icon.png', silent: true },
      data: { a: 'b' },
    });
    const dataAlone = patched({ notification: null, webpush: { data: { a: 'b' } } });
    expect(messageOf({ ...dataAlone, silent: true }).message).toHaveProperty('webpush', {
      headers: { Urgency: 'low' },
      data: { a: 'b' },
    });
    expect(messageOf(patched({ webpush })).message).toHaveProperty('webpush', webpush);
  });
});

test.each([undefined, 0])(
  'a background push with a badge of %s wakes the app, and gives Android nothing to show',
  (badge) => {
    const { message } = messageOf({
      ...{
        pushType: 'background',
        alert: undefined,
        priority: 'high',
        data: { sync: { since: 7 } },
        collapseId: 'sync',
      },
      badge,
    });
    expect(message).toEqual({
      data: { sync: '{"since":7}' },
      android: { priority: 'normal', collapse_key: 'sync' },
      apns: {
        headers: {
          'apns-push-type': badge === undefined ? 'background' : 'alert', // Apple takes a badge only in an alert
          'apns-priority': '5',
          'apns-collapse-id': 'sync',
        },
        payload: { aps: { 'content-available': 1, ...(badge === 0 && { badge }) } },
      },
    });
  },
);

describe('android.dataOnly', () => {
  const DATA_ONLY: PushFields = {
    ...{ alert: TEXTS, data: { form: { id: 7 } }, sound: 'default', badge: 3, priority: 'high', collapseId: 'forms' },
    ...{ imageUrl: 'https://example.com/a.jpg', android: { dataOnly: true } },
  };

  test('gives Android the data alone, at its priority, and an iPhone the whole alert', () => {
    expect(messageOf(DATA_ONLY).message).toEqual({
      data: { form: '{"id":7}' },
      android: { priority: 'high', collapse_key: 'forms' },
      apns: {
        headers: { 'apns-push-type': 'alert', 'apns-priority': '10', 'apns-collapse-id': 'forms' },
        payload: { aps: { alert: TEXTS, sound: 'default', badge: 3, 'mutable-content': 1 } },
        fcm_options: { image: 'https://example.com/a.jpg' },
      },
    });
  });

  test('silenced tells the app by a field of the data, in Android’s own data too, which go before the others', () => {
    const { message } = messageOf({
      ...DATA_ONLY,
      fcm: { message: { android: { data: { own: 'a' } } } },
      silent: true,
    });
    expect(message).toMatchObject({
      data: { form: '{"id":7}', pushpacer_silent: 'true' },
      android: { priority: 'normal', data: { own: 'a', pushpacer_silent: 'true' } },
      apns: { payload: { aps: { alert: TEXTS, 'interruption-level': 'passive' } } },
    });
    expect(message).not.toHaveProperty('android.notification');
  });

  test('false is as without it', () => {
    const { message } = messageOf({ alert: TEXTS, android: { dataOnly: false, color: '#1a73e8' } });
    expect(message).toMatchObject({ notification: TEXTS, android: { notification: { color: '#1a73e8' } } });
  });

  const NO_DATA = 'data: expected an object beside android.dataOnly, for the app to draw, found nothing';
  const DRAWS = 'expected none beside android.dataOnly, since the app itself draws, found one';
  test.each<[string, object, string[]]>([
    ['data of the patch', { data: undefined, fcm: { message: { data: { a: 'b' } } } }, []],
    ['no data', { data: undefined }, [NO_DATA]],
    ['empty data', { data: { a: null } }, [NO_DATA]],
    ['a digest', { onThrottle: 'digest', digest: { key: 'k', title: '{{count}} new' } }, [`digest: ${DRAWS}`]],
    ['what Android draws by', { android: { dataOnly: true, channelId: 'a' } }, [`android.channelId: ${DRAWS}`]],
    [
      'a notification by the patch',
      { fcm: { message: { notification: { title: 'a' }, android: { notification: { title: 'a' } } } } },
      [`fcm.message.notification: ${DRAWS}`, `fcm.message.android.notification: ${DRAWS}`],
    ],
  ])('with %s', (_, fields, faults) => {
    const { notification } = makePush({ platform: 'fcm', alert: TEXTS, data: { a: 'b' } });
    expect(faultsOf({ ...notification, android: { dataOnly: true }, ...fields })).toEqual(faults);
  });

  test('has a size of its own: the data for Android, the alert for an iPhone', () => {
    const good: EnqueueInput = { recipientId: 'r', devices: [{ platform: 'fcm', token: 't' }], data: { a: 'b' } };
    const enqueue = (fields: Partial<EnqueueInput>) =>
      checkInput({ ...good, alert: TEXTS, android: { dataOnly: true }, ...fields });
    expect(enqueue({ data: { a: 'x'.repeat(4_095) } })).toMatchObject({ kind: 'added' });
    expect(enqueue({ data: { a: 'x'.repeat(4_096) } })).toMatchObject({ faults: [{ found: '4097 bytes' }] });
    const frame = Buffer.byteLength(JSON.stringify({ aps: { alert: { body: '' } } }));
    expect(enqueue({ alert: { body: 'x'.repeat(4_096 - frame) } })).toMatchObject({ kind: 'added' });
    expect(enqueue({ alert: { body: 'x'.repeat(4_097 - frame) } })).toMatchObject({ kind: 'invalid' });
  });
});

test.each<[string, JsonObject]>([
  ['the data', { data: { text: 'x'.repeat(4_096) } }],
  ["an iPhone's part", { apns: { payload: { text: 'x'.repeat(4_096) } } }],
])('a message that becomes too large by a patch of %s is refused before any request', (_what, message) => {
  const push = makePush({ platform: 'fcm', fcm: { message } });
  expect(encodeFcm(push, { projectId: 'school-1' }, NOW_MS)).toMatchObject({
    kind: 'refused',
    reply: {
      ...{ meaning: 'rejected', alerted: 'no', code: 'payload-too-large' },
      detail: expect.stringMatching(/at most 4096 bytes, found \d{4}$/) as string,
    },
  });
});

test('an installation id is the target in place of the token, and nothing else of the message changes', () => {
  const fields = { ...EVERY_FIELD, devices: undefined };
  const toFid = messageOf({ ...fields, devices: [{ platform: 'fcm', fid: 'cQx3v8fZTn6tE1mKp0aB9d' }] });
  const toToken = messageOf({ ...fields, devices: [{ platform: 'fcm', token: 'f1:APA91b' }] });
  expect(toFid.message).toEqual(toToken.message);
});

describe('with androidV2', () => {
  const ALERT: PushFields = { ...EVERY_FIELD, alert: { title: 'Room 12', bodyLocKey: 'FORMS' } };

  test.each(['normal', 'high'] as const)('an alert of priority %s is a remote notification', (priority) => {
    const { android, ...before } = messageOf({ ...ALERT, priority }).message;
    const { notification, priority: own, ...config } = android as Record<string, object>;
    expect(own).toBe(priority);
    const texts = { title: 'Room 12', image: 'https://example.com/a.jpg' };
    expect(messageOf({ ...ALERT, priority }, true).message).toEqual({
      ...before,
      android_v2: { ...config, remote_notification: { notification: { ...texts, ...notification } } },
    });
  });

  test.each<[string, PushFields]>([
    ['a silent alert', { ...ALERT, silent: true }],
    ['a background push', { pushType: 'background', alert: undefined, data: { a: 'b' } }],
    ['data for an app that draws', { android: { dataOnly: true }, data: { a: 'b' } }],
    ['an alert whose texts are removed', { data: { a: 'b' }, fcm: { message: { notification: null } } }],
    ['an alert without its part for Android', { fcm: { message: { android: null } } }],
    ['a field that only `android` has', { fcm: { message: { android: { notification: { proxy: 'DENY' } } } } }],
  ])('%s goes as before', (_name, fields) => {
    const id = 'msg-8841';
    expect(messageOf({ id, ...fields }, true).message).toEqual(messageOf({ id, ...fields }).message);
  });

  test('long texts count once, as they are shown once', () => {
    expect(messageOf({ alert: { title: 'a', body: 'x'.repeat(3_900) } }, true).message).toHaveProperty('android_v2');
  });
});

test("a Live Activity is a message as on Google's page: for one iPhone, with the headers that APNs would get", () => {
  const activity: PushFields = {
    devices: [{ platform: 'fcm', fid: 'cQx3v8fZTn6tE1mKp0aB9d', liveActivityToken: 'a1b2c3d4' }],
    pushType: 'liveactivity',
    alert: undefined,
    liveActivity: { event: 'update', contentState: { score: '2 : 1' } },
  };
  const { push, message } = messageOf(activity);
  const aps = { timestamp: NOW_MS / 1_000, event: 'update', 'content-state': { score: '2 : 1' } };
  expect(message).toEqual({
    apns: {
      live_activity_token: 'a1b2c3d4',
      headers: { 'apns-priority': '5', 'apns-collapse-id': push.pushId },
      payload: { aps },
    },
  });
  const expiresAt = '2026-11-21T18:00:00Z';
  const goal = { alert: { title: 'Goal' }, sound: 'goal.caf', collapseId: 'match-12', expiresAt };
  expect(messageOf({ ...activity, ...goal }).message).toMatchObject({
    apns: {
      headers: { 'apns-priority': '10', 'apns-collapse-id': 'match-12', 'apns-expiration': '1795284000' },
      payload: { aps: { ...aps, alert: { title: 'Goal', sound: 'goal.caf' } } },
    },
  });
  expect(messageOf({ ...activity, ...goal, silent: true }).message).toHaveProperty('apns.payload.aps', aps);
});
