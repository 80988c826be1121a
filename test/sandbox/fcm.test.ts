import { describe, expect, it } from 'vitest';
import { openWith } from '../support/sandbox.ts';
import { connectFcm, verdict, type FcmRequest } from './fcm-client.ts';

const token = 'ab';
const FID = 'cQx3v8fZTn6tE1mKp0aB9d';
/** What Google's AndroidNotification and AndroidNotificationV2 have in common, every field. */
const SHOWN_REMOTELY = {
  ...{ title: 'a', body: 'b', icon: 'i', color: '#1a73e8', sound: 's', tag: 't', click_action: 'c', ticker: 't' },
  ...{ body_loc_key: 'b', body_loc_args: ['1'], title_loc_key: 't', title_loc_args: ['2'], channel_id: 'c' },
  ...{ sticky: true, local_only: false, event_time: '2026-11-21T18:00:00Z', notification_priority: 'PRIORITY_HIGH' },
  ...{ default_sound: true, default_vibrate_timings: true, default_light_settings: true, vibrate_timings: ['0.5s'] },
  ...{ visibility: 'SECRET', notification_count: 3, image: 'https://example.com/a.jpg' },
  light_settings: { color: { red: 1, alpha: 0.5 }, light_on_duration: '1s', light_off_duration: '2.5s' },
};

/** Google's AndroidNotification. */
const LOOKS = { ...SHOWN_REMOTELY, proxy: 'DENY' };
/** Google's AndroidConfigV2, every field. */
const V2 = {
  android_v2: {
    ...{ collapse_key: 'thread-77', ttl: '5s', restricted_package_name: 'a.b', data: { key: 'b' } },
    ...{ direct_boot_ok: true, bandwidth_constrained_ok: true, restricted_satellite_ok: true },
    fcm_options: { analytics_label: 'a' },
    remote_notification: {
      notification: { ...SHOWN_REMOTELY, id: 42 },
      mutable_content: true,
      use_as_v1_data_message: false,
    },
  },
};

describe('FCM takes a message', () => {
  it.each<[string, object]>([
    ['in the other spelling of the API', { android: { collapseKey: 'thread-77', priority: 'normal' } }],
    ['with the longest ttl', { android: { ttl: '2419200s' } }],
    ['with a ttl of part of a second', { android: { ttl: '1.5s' } }],
    ['with 4,096 bytes of data', { data: { key: 'x'.repeat(4_093) } }],
    ['with parts for other platforms', { apns: { headers: { 'apns-priority': '5' } }, webpush: { data: { a: 'b' } } }],
    ['with every field of a remote notification', V2],
    ['with a sync in the background', { android_v2: { background_sync: {} } }],
    ['with every look of Android', { android: { notification: LOOKS } }],
    ['with 4,096 bytes for iPhones', { apns: { payload: { a: 'x'.repeat(4_088) } } }],
    ['with data keys that look like fields', { data: { collapse_key: '1', snake_case: '2' } }],
  ])('%s', async (_what, message) => {
    const { sandbox, client } = await openWith(connectFcm);
    expect(await client.send({ token: 'ab', ...message })).toMatchObject({ status: 200 });
    expect(sandbox.journal.accepted).toMatchObject([{ payload: message }]);
  });

  it('alerts nobody where it is only to be checked', async () => {
    const { sandbox, client } = await openWith(connectFcm);
    const text = JSON.stringify({ validate_only: true, message: { token: 'ab' } });
    const answer = await client.send(undefined, { text });
    expect(answer).toMatchObject({ status: 200 });
    expect(JSON.stringify(answer)).toContain('/messages/fake_message_id');
    expect(sandbox.journal.accepted).toEqual([]);
    expect(sandbox.fcm.counts).toEqual({ requests: 1, accepted: 0, connections: 1 });
  });
});

const REFUSED = { http: 400, status: 'INVALID_ARGUMENT', errorCode: 'INVALID_ARGUMENT' };
/** The door of the API refuses what is no message: no FcmError. */
const MALFORMED = { http: 400, status: 'INVALID_ARGUMENT', errorCode: undefined };
const LOOK = 'message.android.notification';
const looks = (notification: object) => ({ android: { notification } });

describe('FCM refuses', () => {
  it.each<[what: string, fields: object, expected: object, path: string]>([
    ['no target', { token: undefined }, REFUSED, 'message.token'],
    ['two targets', { topic: 'news' }, REFUSED, 'message'],
    ['both configurations for Android', { android: {}, ...V2 }, REFUSED, 'message.android_v2'],
    ['neither kind of message', { android_v2: { ttl: '5s' } }, REFUSED, 'message.android_v2'],
    [
      'both kinds of messages',
      { android_v2: { remote_notification: {}, background_sync: {} } },
      REFUSED,
      'message.android_v2',
    ],
    ['a priority in the new configuration', { android_v2: { priority: 'high' } }, MALFORMED, 'message.androidV2'],
    [
      'a reserved key in it',
      { android_v2: { background_sync: {}, data: { from: 'a' } } },
      REFUSED,
      'message.android_v2.data',
    ],
    [
      'a ttl in it without its unit',
      { android_v2: { background_sync: {}, ttl: '60' } },
      REFUSED,
      'message.android_v2.ttl',
    ],
    [
      'a color in it by name',
      { android_v2: { remote_notification: { notification: { color: 'red' } } } },
      REFUSED,
      'message.android_v2.remote_notification.notification.color',
    ],
    ['a token and an installation id', { fid: FID }, REFUSED, 'message'],
    ['a registration token as installation id', { token: undefined, fid: `${FID}:APA91b` }, REFUSED, 'message.fid'],
    ['an installation id that begins otherwise', { token: undefined, fid: `a${FID.slice(1)}` }, REFUSED, 'message.fid'],
    ['an empty installation id', { token: undefined, fid: '' }, REFUSED, 'message.token'],
    ['a token with a space', { token: 'a b' }, REFUSED, 'message.token'],
    ['a token of 4,097 characters', { token: 'x'.repeat(4_097) }, REFUSED, 'message.token'],
    ['a reserved data key', { data: { 'google.x': '1' } }, REFUSED, 'message.data'],
    ['a data key that begins with gcm', { data: { gcm: '1' } }, REFUSED, 'message.data'],
    ['a ttl over four weeks', { android: { ttl: '2419201s' } }, REFUSED, 'message.android.ttl'],
    ['a ttl without its unit', { android: { ttl: '60' } }, REFUSED, 'message.android.ttl'],
    ['4,097 bytes of data', { data: { key: 'x'.repeat(4_094) } }, REFUSED, 'message'],
    ['data that is no text', { data: { a: '1', b: 2 } }, MALFORMED, 'message.data[1].value'],
    ['a token that is no text', { token: 5 }, MALFORMED, 'message.token'],
    ['a field that it does not know', { sound: 'x' }, MALFORMED, 'message'],
    ['an unknown field further down', { android: { sound: 'x' } }, MALFORMED, 'message.android'],
    ['an unknown priority', { android: { priority: 10 } }, MALFORMED, 'message.android.priority'],
    ['a color by name', looks({ color: 'red' }), REFUSED, `${LOOK}.color`],
    ['a visibility in small letters', looks({ visibility: 'public' }), MALFORMED, `${LOOK}.visibility`],
    ['half a count', looks({ notification_count: 0.5 }), MALFORMED, `${LOOK}.notificationCount`],
    ['a count beyond 32 bits', looks({ notification_count: 2 ** 31 }), MALFORMED, `${LOOK}.notificationCount`],
    ['arguments that are no list', looks({ body_loc_args: 'a' }), MALFORMED, `${LOOK}.bodyLocArgs`],
    ['an unknown look', looks({ chanel_id: 'a' }), MALFORMED, LOOK],
    ['a reserved data key for Android', { android: { data: { from: 'a' } } }, REFUSED, 'message.android.data'],
    [
      'a label with a space',
      { fcm_options: { analytics_label: 'a b' } },
      REFUSED,
      'message.fcm_options.analytics_label',
    ],
    [
      'a header for APNs that is no text',
      { apns: { headers: { 'apns-priority': 5 } } },
      MALFORMED,
      'message.apns.headers.apns-priority',
    ],
    [
      'data alone at priority 10 for iPhones',
      { data: { a: '1' }, apns: { headers: { 'apns-priority': '10' } } },
      REFUSED,
      'message.apns.headers',
    ],
    ['4,097 bytes for iPhones', { apns: { payload: { a: 'x'.repeat(4_089) } } }, REFUSED, 'message.apns.payload'],
  ])('%s', async (_what, fields, expected, path) => {
    const { sandbox, client } = await openWith(connectFcm);
    expect(verdict(await client.send({ token, ...fields }))).toEqual({ ...expected, fields: [path] });
    expect(sandbox.journal.all).toMatchObject([{ platform: 'fcm', accepted: false, status: 400 }]);
    expect(sandbox.fcm.counts).toMatchObject({ requests: 1, accepted: 0 });
  });

  it.each<[string, FcmRequest, object]>([
    ['no authorization', { authorization: null }, { http: 401, status: 'UNAUTHENTICATED' }],
    ['another token', { authorization: 'Bearer ya29.other' }, { http: 401, status: 'UNAUTHENTICATED' }],
    ['another scheme', { authorization: 'Basic owner' }, { http: 401, status: 'UNAUTHENTICATED' }],
    ['another project', { path: '/v1/projects/other/messages:send' }, { http: 403, status: 'PERMISSION_DENIED' }],
    ['another path', { path: '/fcm/send' }, { http: 404, status: 'NOT_FOUND' }],
    ['another method', { method: 'PUT' }, { http: 404, status: 'NOT_FOUND' }],
    ['no JSON', { text: '{"message":' }, { http: 400, status: 'INVALID_ARGUMENT' }],
    ['no object', { text: '[]' }, { http: 400, status: 'INVALID_ARGUMENT' }],
    ['no message', { text: '{}' }, { http: 400, status: 'INVALID_ARGUMENT', fields: ['message'] }],
    ['a body without end', { text: ' '.repeat(100_000) }, { http: 400, status: 'INVALID_ARGUMENT' }],
  ])('%s', async (_what, request, expected) => {
    const { sandbox, client } = await openWith(connectFcm);
    expect(verdict(await client.send({ token }, request))).toMatchObject({ errorCode: undefined, ...expected });
    expect(sandbox.journal.accepted).toEqual([]);
  });

  it('what was written to somebody is not repeated in a refusal', async () => {
    const { client } = await openWith(connectFcm);
    const reply = await client.send({ token, notification: { title: ['a secret'] }, data: { a: ['a secret'] } });
    expect(reply.status).toBe(400);
    expect(reply.body).not.toContain('secret');
  });
});
