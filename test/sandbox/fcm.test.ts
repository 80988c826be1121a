import { expect, test } from 'vitest';
import type { OutgoingHttpHeaders } from 'node:http2';
import { openWith } from '../support/sandbox.ts';
import { connectFcm, messageBody, type RawReply } from './raw-client.ts';

const FID = 'cQx3v8fZTn6tE1mKp0aB9d';
/** What Google's AndroidNotification and AndroidNotificationV2 have in common, every field. */
const LOOKS = {
  ...{ title: 'a', body: 'b', icon: 'i', color: '#1a73e8', sound: 's', tag: 't', click_action: 'c', ticker: 't' },
  ...{ body_loc_key: 'b', body_loc_args: ['1'], title_loc_key: 't', title_loc_args: ['2'], channel_id: 'c' },
  ...{ sticky: true, local_only: false, event_time: '2026-11-21T18:00:00Z', notification_priority: 'PRIORITY_HIGH' },
  ...{ default_sound: true, default_vibrate_timings: true, default_light_settings: true, vibrate_timings: ['0.5s'] },
  ...{ visibility: 'SECRET', notification_count: 3, image: 'https://example.com/a.jpg' },
  light_settings: { color: { red: 1, alpha: 0.5 }, light_on_duration: '1s', light_off_duration: '2.5s' },
};
const REMOTE = { notification: { ...LOOKS, id: 42 }, mutable_content: true, use_as_v1_data_message: false };

test.each<[string, object]>([
  ['in the other spelling of the API', { android: { collapseKey: 'thread-77', priority: 'normal' } }],
  ['with every look of Android', { android: { notification: { ...LOOKS, proxy: 'DENY' } } }],
  ['with the longest ttl', { android: { ttl: '2419200s' } }],
  ['with 4,096 bytes of data', { data: { key: 'x'.repeat(4_093) } }],
  ['with 4,096 bytes for iPhones', { apns: { payload: { a: 'x'.repeat(4_088) } } }],
  ['with a remote notification', { android_v2: { ttl: '5s', data: { key: 'b' }, remote_notification: REMOTE } }],
  ['with a sync in the background', { android_v2: { background_sync: {} } }],
])('FCM takes a message %s', async (_what, message) => {
  const { sandbox, client } = await openWith(connectFcm);
  expect(await client.ask({ body: messageBody(message) })).toMatchObject({ status: 200 });
  expect(sandbox.journal.accepted).toMatchObject([{ payload: message }]);
});

test('a message that is only to be checked alerts nobody', async () => {
  const { sandbox, client } = await openWith(connectFcm);
  const answer = await client.ask({ body: '{"validate_only":true,"message":{"token":"ab"}}' });
  expect(answer).toMatchObject({ status: 200 });
  expect(answer.body).toContain('/messages/fake_message_id');
  expect(sandbox.journal.accepted).toEqual([]);
});

interface RpcError {
  readonly status: string;
  readonly details?: readonly { errorCode?: string; fieldViolations?: readonly { field: string }[] }[];
}

/** What an error of Google says in short. */
function verdict({ status: http, body }: RawReply) {
  const { status, details = [] } = (JSON.parse(body) as { error: RpcError }).error;
  const fields = details.flatMap(({ fieldViolations = [] }) => fieldViolations.map(({ field }) => field));
  return { http, status, errorCode: details.find(({ errorCode }) => errorCode !== undefined)?.errorCode, fields };
}

const INVALID = { http: 400, status: 'INVALID_ARGUMENT' };
/** FCM itself refuses. */
const REFUSED = { ...INVALID, errorCode: 'INVALID_ARGUMENT' };
/** The door of the API refuses what is no message: no FcmError. */
const MALFORMED = { ...INVALID, errorCode: undefined };
const looks = (notification: object) => ({ android: { notification } });

test.each<[what: string, fields: object, expected: object, path: string]>([
  ['no target', { token: undefined }, REFUSED, 'message.token'],
  ['two targets', { topic: 'news' }, REFUSED, 'message'],
  ['a token and an installation id', { fid: FID }, REFUSED, 'message'],
  ['a registration token as installation id', { token: undefined, fid: `${FID}:APA91b` }, REFUSED, 'message.fid'],
  ['a token with a space', { token: 'a b' }, REFUSED, 'message.token'],
  ['a token that is no text', { token: 5 }, MALFORMED, 'message.token'],
  ['both configurations for Android', { android: {}, android_v2: { ttl: '5s' } }, REFUSED, 'message.android_v2'],
  ['neither kind of message', { android_v2: { ttl: '5s' } }, REFUSED, 'message.android_v2'],
  ['a priority in the new configuration', { android_v2: { priority: 'high' } }, MALFORMED, 'message.androidV2'],
  ['a reserved data key', { data: { 'google.x': '1' } }, REFUSED, 'message.data'],
  ['a reserved data key for Android', { android: { data: { from: 'a' } } }, REFUSED, 'message.android.data'],
  ['4,097 bytes of data', { data: { key: 'x'.repeat(4_094) } }, REFUSED, 'message'],
  ['data that is no text', { data: { a: '1', b: 2 } }, MALFORMED, 'message.data[1].value'],
  ['a ttl over four weeks', { android: { ttl: '2419201s' } }, REFUSED, 'message.android.ttl'],
  ['a ttl without its unit', { android: { ttl: '60' } }, REFUSED, 'message.android.ttl'],
  ['a field that it does not know', { android: { sound: 'x' } }, MALFORMED, 'message.android'],
  ['an unknown priority', { android: { priority: 10 } }, MALFORMED, 'message.android.priority'],
  ['a color by name', looks({ color: 'red' }), REFUSED, 'message.android.notification.color'],
  ['small letters', looks({ visibility: 'public' }), MALFORMED, 'message.android.notification.visibility'],
  [
    'a count beyond 32 bits',
    looks({ notification_count: 2 ** 31 }),
    MALFORMED,
    'message.android.notification.notificationCount',
  ],
  ['a label with a space', { fcm_options: { analytics_label: 'a b' } }, REFUSED, 'message.fcm_options.analytics_label'],
  [
    'a header that is no text',
    { apns: { headers: { 'apns-priority': 5 } } },
    MALFORMED,
    'message.apns.headers.apns-priority',
  ],
  [
    'data alone at priority 10 for iPhones',
    { apns: { headers: { 'apns-priority': '10' } } },
    REFUSED,
    'message.apns.headers',
  ],
  ['4,097 bytes for iPhones', { apns: { payload: { a: 'x'.repeat(4_089) } } }, REFUSED, 'message.apns.payload'],
])('FCM refuses %s', async (_what, fields, expected, path) => {
  const { sandbox, client } = await openWith(connectFcm);
  expect(verdict(await client.ask({ body: messageBody(fields) }))).toEqual({ ...expected, fields: [path] });
  expect(sandbox.journal.all).toMatchObject([{ platform: 'fcm', accepted: false, status: 400 }]);
  expect(sandbox.fcm.counts).toMatchObject({ requests: 1, accepted: 0 });
});

test.each<[string, OutgoingHttpHeaders, body: string | undefined, http: number, status: string]>([
  ['no authorization', { authorization: undefined }, undefined, 401, 'UNAUTHENTICATED'],
  ['another token', { authorization: 'Bearer ya29.other' }, undefined, 401, 'UNAUTHENTICATED'],
  ['another project', { ':path': '/v1/projects/other/messages:send' }, undefined, 403, 'PERMISSION_DENIED'],
  ['another path', { ':path': '/fcm/send' }, undefined, 404, 'NOT_FOUND'],
  ['no JSON', {}, '{"message":', 400, 'INVALID_ARGUMENT'],
  ['no message', {}, '{}', 400, 'INVALID_ARGUMENT'],
  ['a body without end', {}, ' '.repeat(100_000), 400, 'INVALID_ARGUMENT'],
])('FCM refuses %s before it looks at the message', async (_what, headers, body, http, status) => {
  const { sandbox, client } = await openWith(connectFcm);
  const answer = await client.ask({ headers, ...(body !== undefined && { body }) });
  expect(verdict(answer)).toMatchObject({ http, status, errorCode: undefined });
  expect(sandbox.journal.accepted).toEqual([]);
});

test('what was written to somebody is not repeated in a refusal', async () => {
  const { client } = await openWith(connectFcm);
  const reply = await client.ask({
    body: messageBody({ notification: { title: ['a secret'] }, data: { a: ['a secret'] } }),
  });
  expect(reply.status).toBe(400);
  expect(reply.body).not.toContain('secret');
});
