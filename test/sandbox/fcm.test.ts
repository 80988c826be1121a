import { describe, expect, it } from 'vitest';
import { shownOf, type JournalEntry } from '../../sandbox/journal.ts';
import type { Answer, Refuse } from '../../sandbox/loopback/answers.ts';
import { openSandbox } from '../support/sandbox.ts';
import { waitFor } from '../support/wait.ts';
import { open } from './client.ts';
import { connectFcm, rpcError, verdict, type FcmRequest, connectFcmHttp2 } from './fcm-client.ts';

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
  it('answers its name, and journals what the device gets, stamped on arrival', async () => {
    const { sandbox, client } = await open(connectFcm);
    const message = {
      token: 'dGVz:APA91b',
      notification: { title: 'Room 12', body: 'Forms are due' },
      data: { threadId: '77' },
      android: { collapse_key: 'thread-77', priority: 'HIGH', ttl: '3600s', notification: { channel_id: 'messages' } },
    };
    const before = performance.timeOrigin + performance.now();
    const reply = await client.send(message);
    const after = performance.timeOrigin + performance.now();
    expect(reply.status).toBe(200);
    expect(JSON.parse(reply.body)).toEqual({ name: 'projects/pushpacer-sandbox/messages/1' });
    const [entry] = sandbox.journal.accepted;
    expect(entry).toEqual({
      platform: 'fcm',
      token: 'dGVz:APA91b',
      at: expect.any(Number) as number,
      accepted: true,
      status: 200,
      messageName: 'projects/pushpacer-sandbox/messages/1',
      projectId: 'pushpacer-sandbox',
      collapseId: 'thread-77',
      priority: 'high',
      expiration: expect.any(Number) as number,
      title: 'Room 12',
      body: 'Forms are due',
      data: { threadId: '77' },
      payload: message,
    });
    expect(entry?.at).toBeGreaterThanOrEqual(before);
    expect(entry?.at).toBeLessThanOrEqual(after);
    expect(entry?.expiration).toBeCloseTo((entry?.at ?? NaN) / 1_000 + 3_600, 3);
  });

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
  ])('also %s', async (_what, message) => {
    const { sandbox, client } = await open(connectFcm);
    expect(await client.send({ token: 'ab', ...message })).toMatchObject({ status: 200 });
    expect(sandbox.journal.accepted).toMatchObject([{ payload: message }]);
  });

  it('also to an installation id, by which the journal and the script know the device', async () => {
    const { sandbox, client } = await open(connectFcm);
    sandbox.setAnswers([{ token: FID, reason: 'UNREGISTERED', times: 1 }]);
    expect(verdict(await client.send({ fid: FID }))).toMatchObject({ http: 404, errorCode: 'UNREGISTERED' });
    expect(await client.send({ fid: FID })).toMatchObject({ status: 200 });
    expect(sandbox.journal.all.map((entry) => [entry.token, entry.accepted])).toEqual([
      [FID, false],
      [FID, true],
    ]);
  });

  it('also to a Live Activity, which is no alert unless it has one, and says what the device would ignore', async () => {
    const { sandbox, client } = await open(connectFcm);
    const aps = { timestamp: 1, event: 'update', 'content-state': {} };
    const live = (more: object) => ({
      token,
      apns: { live_activity_token: 'a1b2', headers: { 'apns-priority': '10' }, payload: { aps: { ...aps, ...more } } },
    });
    for (const message of [live({}), live({ alert: { title: 'Goal' } }), live({ event: 'begin' })])
      expect(await client.send(message)).toMatchObject({ status: 200 });
    const entries = sandbox.journal.accepted;
    expect(entries.map((entry) => [entry.token, entry.liveActivityToken, shownOf(entry), entry.ignored])).toEqual([
      ['ab', 'a1b2', 'nothing', undefined],
      ['ab', 'a1b2', 'alert', undefined],
      ['ab', 'a1b2', 'nothing', ['aps.event: expected start, update or end']],
    ]);
  });

  it('journals a remote notification like another alert', async () => {
    const { sandbox, client } = await open(connectFcm);
    await client.send({ token, notification: { title: 'x', body: 'y' }, data: { key: 'a' }, ...V2 });
    const [entry] = sandbox.journal.accepted;
    expect(entry).toMatchObject({ tag: 't', collapseId: 'thread-77', title: 'a', body: 'b', data: { key: 'b' } });
    expect(entry?.priority).toBeUndefined();
    expect((entry?.expiration ?? 0) - (entry?.at ?? 0) / 1_000).toBeCloseTo(5, 3);
    expect(shownOf(entry as JournalEntry)).toBe('alert');
  });

  it('leaves the data as it was sent', async () => {
    const { sandbox, client } = await open(connectFcm);
    await client.send({ token: 'ab', data: { snake_case: '2' }, android: { data: { other_key: '3' } } });
    expect(sandbox.journal.accepted[0]?.data).toEqual({ snake_case: '2', other_key: '3' });
  });

  it('alerts nobody where it is only to be checked', async () => {
    const { sandbox, client } = await open(connectFcm);
    const text = JSON.stringify({ validate_only: true, message: { token: 'ab' } });
    const answer = await client.send(undefined, { text });
    expect(answer).toMatchObject({ status: 200 });
    expect(JSON.stringify(answer)).toContain('/messages/fake_message_id');
    expect(sandbox.journal.accepted).toEqual([]);
    expect(sandbox.fcm.counts).toEqual({ requests: 1, accepted: 0, connections: 1 });
  });

  it('on a connection that stays open', async () => {
    const { sandbox, client } = await open(connectFcm);
    for (let index = 0; index < 5; index += 1) await client.send({ token: 'ab' });
    expect(sandbox.fcm.counts).toEqual({ requests: 5, accepted: 5, connections: 1 });
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
    const { sandbox, client } = await open(connectFcm);
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
    const { sandbox, client } = await open(connectFcm);
    expect(verdict(await client.send({ token }, request))).toMatchObject({ errorCode: undefined, ...expected });
    expect(sandbox.journal.accepted).toEqual([]);
  });

  it('in the form of a google.rpc.Status', async () => {
    const { sandbox, client } = await open(connectFcm);
    sandbox.fcm.script(token, [{ kind: 'refuse', status: 404, reason: 'UNREGISTERED' }]);
    const reply = await client.send({ token });
    expect(reply.headers['content-type']).toMatch(/^application\/json/);
    expect(rpcError(reply)).toEqual({
      code: 404,
      message: 'Requested entity was not found.',
      status: 'NOT_FOUND',
      details: [{ '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode: 'UNREGISTERED' }],
    });
  });

  it('what was written to somebody is not repeated in a refusal', async () => {
    const { client } = await open(connectFcm);
    const reply = await client.send({ token, notification: { title: ['a secret'] }, data: { a: ['a secret'] } });
    expect(reply.status).toBe(400);
    expect(reply.body).not.toContain('secret');
  });
});

describe('FCM over HTTP/2', () => {
  it('and over HTTP/1.1 on the same port gives the same answers', async () => {
    const sandbox = await openSandbox();
    const clients = [await connectFcmHttp2(sandbox), await connectFcm(sandbox)];
    const busy: Answer = { kind: 'refuse', status: 503, reason: 'UNAVAILABLE', retryAfter: '7' };
    for (const [index, client] of clients.entries()) {
      const accepted = await client.send({ token, notification: { title: 'Room 12' } });
      expect(accepted).toMatchObject({ status: 200, headers: { 'content-type': 'application/json; charset=UTF-8' } });
      expect(JSON.parse(accepted.body)).toEqual({ name: `projects/pushpacer-sandbox/messages/${index * 5 + 1}` });
      sandbox.fcm.script(token, [busy]);
      const refused = await client.send({ token });
      expect(refused).toMatchObject({ status: 503, headers: { 'retry-after': '7' } });
      expect(verdict(refused)).toMatchObject({ status: 'UNAVAILABLE', errorCode: 'UNAVAILABLE' });
      expect(verdict(await client.send({ token: 5 }))).toMatchObject({ http: 400, fields: ['message.token'] });
      expect(await client.send({ token }, { authorization: null })).toMatchObject({ status: 401 });
      expect(await client.send({ token }, { path: '/fcm/send' })).toMatchObject({ status: 404 });
    }
    expect(sandbox.fcm.counts).toEqual({ requests: 10, accepted: 2, connections: 2 });
    expect(sandbox.journal.accepted).toMatchObject(Array(2).fill({ platform: 'fcm', token, title: 'Room 12' }));
  });

  it.each([
    [undefined, 100],
    [3, 3],
  ])('has as many streams as %j allows', async (maxStreams, streams) => {
    const { sandbox, client } = await open(connectFcmHttp2, maxStreams === undefined ? {} : { maxStreams });
    expect(client.session.remoteSettings.maxConcurrentStreams).toBe(streams);
    sandbox.fcm.setDefault({ kind: 'hang' });
    const sends = Array.from({ length: streams + 1 }, () => client.send({ token }).catch(() => 'no answer'));
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(streams)); // the last one waits for its turn
    sandbox.fcm.dropConnections();
    expect(await Promise.all(sends)).toEqual(Array(streams + 1).fill('no answer'));
    expect(sandbox.fcm.counts).toMatchObject({ requests: streams, connections: 1 });
  });
});

const OVER: Refuse = { kind: 'refuse', status: 429, reason: 'QUOTA_EXCEEDED' };
const QUOTA_EXCEEDED = { '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode: 'QUOTA_EXCEEDED' };
const QUOTA_FAILURE = 'type.googleapis.com/google.rpc.QuotaFailure';

describe('a quota of FCM', () => {
  it.each([
    ['device', 'device', 'Device message rate exceeded'],
    ['project', 'project:pushpacer-sandbox', 'Message rate exceeded'],
  ] as const)("a %s's quota is named in a google.rpc.QuotaFailure", async (quota, subject, description) => {
    const { sandbox, client } = await open(connectFcmHttp2);
    sandbox.fcm.script(token, [{ ...OVER, quota }]);
    expect(rpcError(await client.send({ token }))).toEqual({
      code: 429,
      message: 'Quota exceeded.',
      status: 'RESOURCE_EXHAUSTED',
      details: [QUOTA_EXCEEDED, { '@type': QUOTA_FAILURE, violations: [{ subject, description }] }],
    });
  });

  it('a quota that nobody names is answered with its code alone', async () => {
    const { sandbox, client } = await open(connectFcmHttp2);
    sandbox.fcm.script(token, [OVER]);
    expect(rpcError(await client.send({ token })).details).toEqual([QUOTA_EXCEEDED]);
  });

  it("a project's quota at Google's front end is answered without FCM's words", async () => {
    const { sandbox, client } = await open(connectFcmHttp2);
    sandbox.fcm.script(token, [{ kind: 'refuse', status: 429, quota: 'project' }]);
    const { message, details = [] } = rpcError(await client.send({ token }));
    expect(message).toMatch(/^Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute'/);
    expect(details.map((detail) => detail['@type'])).toEqual([
      'type.googleapis.com/google.rpc.ErrorInfo',
      'type.googleapis.com/google.rpc.Help',
    ]);
    expect(details[0]).toMatchObject({
      reason: 'RATE_LIMIT_EXCEEDED',
      metadata: { quota_limit: 'SendsPerMinutePerProject', quota_unit: '1/min/{project}' },
    });
  });

  it("the server's own limit of alerts for a device is the device's", async () => {
    const { sandbox, client } = await open(connectFcmHttp2);
    sandbox.fcm.limitDevices({ max: 1, perMs: 60_000 });
    expect(await client.send({ token })).toMatchObject({ status: 200 });
    const refused = await client.send({ token });
    expect(verdict(refused)).toMatchObject({ http: 429, errorCode: 'QUOTA_EXCEEDED' });
    expect(rpcError(refused).details?.[1]).toMatchObject({
      '@type': QUOTA_FAILURE,
      violations: [{ subject: 'device' }],
    });
    expect(await client.send({ token: 'cd' })).toMatchObject({ status: 200 });
  });
});

it('FCM takes a second project, and each may be signed out alone', async () => {
  const { sandbox, client } = await open(connectFcmHttp2);
  const message = { token: 'dGVz:APA91b', notification: { title: 'Room 12' } };
  const path = '/v1/projects/other/messages:send';
  expect((await client.send(message, { path })).status).toBe(403);
  sandbox.fcm.addProject('other');
  expect(JSON.parse((await client.send(message, { path })).body)).toMatchObject({
    name: expect.stringMatching(/^projects\/other\/messages\//) as string,
  });
  sandbox.fcm.revokeKey('other');
  expect((await client.send(message, { path })).status).toBe(401);
  expect((await client.send(message)).status).toBe(200);
  sandbox.fcm.restoreKey();
  expect((await client.send(message, { path })).status).toBe(200);
  expect(sandbox.journal.accepted.map(({ projectId }) => projectId)).toEqual(['other', 'pushpacer-sandbox', 'other']);
});
