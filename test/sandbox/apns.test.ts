import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it, test } from 'vitest';
import { APNS_REASONS } from '../../sandbox/apns/reasons.ts';
import { openSandbox } from '../support/sandbox.ts';
import { answerOn, connectApns, PAYLOAD, signJwt, verdict, type ApnsRequest, type JwtOptions } from './apns-client.ts';
import { open } from './client.ts';
import { waitFor } from '../support/wait.ts';

const LIVE = {
  'apns-topic': 'dev.pushpacer.sandbox.push-type.liveactivity',
  'apns-push-type': 'liveactivity',
};
const APNS_ID = 'eabeae54-14a8-11e5-b60b-1697f925ec7b';

describe('APNs takes an alert', () => {
  it('and journals what the device gets, stamped on arrival', async () => {
    const { sandbox, client } = await open(connectApns);
    const before = performance.timeOrigin + performance.now();
    const reply = await client.post({
      token: 'AB01',
      headers: {
        'apns-id': APNS_ID,
        'apns-priority': '5',
        'apns-expiration': '1795250000',
        'apns-collapse-id': Buffer.from('thread-ü').toString('latin1'),
      },
    });
    const after = performance.timeOrigin + performance.now();
    expect(reply).toMatchObject({ status: 200, body: '', headers: { 'apns-id': APNS_ID } });
    expect(sandbox.journal.accepted).toEqual([
      {
        platform: 'apns',
        token: 'ab01',
        at: expect.any(Number) as number,
        accepted: true,
        status: 200,
        apnsId: APNS_ID,
        topic: 'dev.pushpacer.sandbox',
        keyId: 'SANDBOXKEY',
        teamId: 'SANDBOXTM1',
        collapseId: 'thread-ü',
        priority: '5',
        expiration: 1_795_250_000,
        pushType: 'alert',
        title: 'Room 12',
        body: 'Forms are due',
        data: { threadId: '77' },
        payload: JSON.parse(PAYLOAD) as unknown,
      },
    ]);
    const { at } = sandbox.journal.accepted[0] ?? { at: NaN };
    expect(at).toBeGreaterThanOrEqual(before);
    expect(at).toBeLessThanOrEqual(after);
  });

  it('stamps the instant of the headers, not that of a body that comes late', async () => {
    const { sandbox, client } = await open(connectApns);
    const stream = client.open({ token: 'cd' });
    await waitFor(() => expect(sandbox.apns.counts.requests).toBe(1));
    const headersArrived = performance.timeOrigin + performance.now();
    stream.end(PAYLOAD);
    expect(await answerOn(stream)).toMatchObject({ status: 200 });
    expect(sandbox.journal.accepted).toMatchObject([{ token: 'cd', title: 'Room 12' }]);
    expect(sandbox.journal.accepted[0]?.at).toBeLessThanOrEqual(headersArrived);
  });

  it('makes an apns-id where none was sent', async () => {
    const { sandbox, client } = await open(connectApns);
    const { headers } = await client.post();
    expect(headers['apns-id']).toMatch(/^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$/);
    expect(sandbox.journal.accepted[0]?.apnsId).toBe(headers['apns-id']);
  });

  it.each<[string, ApnsRequest]>([
    ['an alert that is only a text', { body: '{"aps":{"alert":"Forms are due"}}' }],
    ['a VoIP payload of 5,120 bytes', { headers: { 'apns-push-type': 'voip' }, body: payloadOf(5_120) }],
    ['an alert payload of 4,096 bytes', { body: payloadOf(4_096) }],
    ['a topic of the app with a known suffix', { headers: { 'apns-topic': 'dev.pushpacer.sandbox.voip' } }],
    ["a topic below the app's", { headers: { 'apns-topic': 'dev.pushpacer.sandbox.watchkitapp' } }],
    ['a background notification at priority 5', { headers: { 'apns-push-type': 'background', 'apns-priority': '5' } }],
    ['a Live Activity', { headers: LIVE }],
    ['a collapse id of 64 bytes', { headers: { 'apns-collapse-id': 'x'.repeat(64) } }],
    ['an expiration of 0', { headers: { 'apns-expiration': '0' } }],
  ])('also %s', async (_what, request) => {
    const { sandbox, client } = await open(connectApns);
    expect(verdict(await client.post(request))).toEqual({ status: 200 });
    expect(sandbox.apns.counts).toEqual({ requests: 1, accepted: 1, connections: 1 });
  });
});

describe('APNs refuses', () => {
  it.each<[keyof typeof APNS_REASONS, string, ApnsRequest]>([
    ['BadPath', 'another path', { path: '/3/devices/ab01' }],
    ['BadPath', 'a query', { path: '/3/device/ab01?x=1' }],
    ['MethodNotAllowed', 'another method', { method: 'PUT' }],
    ['MissingDeviceToken', 'a path without a token', { path: '/3/device/' }],
    ['MissingDeviceToken', 'a path that ends early', { path: '/3/device' }],
    ['DuplicateHeaders', 'a header that is sent twice', { headers: { 'apns-priority': ['10', '5'] } }],
    ['MissingProviderToken', 'no authorization', { headers: { authorization: null } }],
    ['MissingProviderToken', 'a bearer of nothing', { headers: { authorization: 'bearer' } }],
    ['InvalidProviderToken', 'another scheme', { headers: { authorization: 'basic b3duZXI6' } }],
    ['InvalidProviderToken', 'what is no token', { headers: { authorization: 'bearer owner' } }],
    ['BadDeviceToken', 'a token that is not hexadecimal', { token: 'xyz0' }],
    ['BadDeviceToken', 'half a byte', { token: 'abc' }],
    ['BadDeviceToken', 'a token of zeros, which no device has', { token: '0'.repeat(64) }],
    ['MissingTopic', 'no topic', { headers: { 'apns-topic': null } }],
    ['BadTopic', 'what cannot be a topic', { headers: { 'apns-topic': 'dev/pushpacer' } }],
    ['TopicDisallowed', "another app's topic", { headers: { 'apns-topic': 'com.example.other' } }],
    ['TopicDisallowed', 'a topic that only begins alike', { headers: { 'apns-topic': 'dev.pushpacer.sandboxes' } }],
    ['BadTopic', "a Live Activity with the app's own topic", { headers: { 'apns-push-type': 'liveactivity' } }],
    ['BadTopic', 'an alert with the topic of Live Activities', { headers: { 'apns-topic': LIVE['apns-topic'] } }],
    [
      'TopicDisallowed',
      "the topic of another app's Live Activities",
      { headers: { ...LIVE, 'apns-topic': 'com.example.other.push-type.liveactivity' } },
    ],
    ['InvalidPushType', 'no push type', { headers: { 'apns-push-type': null } }],
    ['InvalidPushType', 'an unknown push type', { headers: { 'apns-push-type': 'banner' } }],
    ['BadMessageId', 'an id that is no UUID', { headers: { 'apns-id': 'msg-8841' } }],
    ['BadExpirationDate', 'an expiration that is no number', { headers: { 'apns-expiration': 'tomorrow' } }],
    ['BadPriority', 'an unknown priority', { headers: { 'apns-priority': '7' } }],
    [
      'BadPriority',
      'a background notification at 10',
      { headers: { 'apns-push-type': 'background', 'apns-priority': '10' } },
    ],
    ['BadCollapseId', 'a collapse id of 65 bytes', { headers: { 'apns-collapse-id': 'x'.repeat(65) } }],
    ['PayloadEmpty', 'no payload', { body: '' }],
    ['PayloadEmpty', 'a payload with nothing in it', { body: '{}' }],
    ['PayloadEmpty', 'what is no JSON', { body: '{"aps":' }],
    ['PayloadTooLarge', 'an alert payload of 4,097 bytes', { body: payloadOf(4_097) }],
    [
      'PayloadTooLarge',
      'a VoIP payload of 5,121 bytes',
      { headers: { 'apns-push-type': 'voip' }, body: payloadOf(5_121) },
    ],
    ['PayloadTooLarge', 'a payload far too large', { body: payloadOf(1_000_000) }],
  ])('with %s: %s', async (reason, _what, request) => {
    const { sandbox, client } = await open(connectApns);
    const reply = await client.post(request);
    expect(verdict(reply)).toEqual({ status: APNS_REASONS[reason], reason });
    expect(reply.headers['apns-id']).toMatch(/^[0-9A-F-]{36}$/);
    expect(sandbox.journal.accepted).toEqual([]);
    expect(sandbox.journal.all).toMatchObject([{ platform: 'apns', accepted: false, reason }]);
    expect(sandbox.apns.counts).toMatchObject({ requests: 1, accepted: 0 });
  });

  it('nothing that only a device would ignore, but notes it in the journal', async () => {
    const { sandbox, client } = await open(connectApns);
    const bodies = [
      { event: 'start', timestamp: 1, 'content-state': {}, alert: { title: { 'loc-key': 'A', 'loc-arg': [] } } },
      { event: 'begin', 'content-state': 'a', 'stale-date': 1.5, badge: 3 },
      { event: 'update', timestamp: 1, 'content-state': {}, 'relevance-score': 75, alert: { title: 'a', sound: 'b' } },
    ];
    for (const aps of bodies) {
      const request = { headers: LIVE, body: JSON.stringify({ aps }) };
      expect(verdict(await client.post(request))).toEqual({ status: 200 });
    }
    expect(sandbox.journal.accepted.map(({ ignored }) => ignored)).toEqual([
      [
        'aps.attributes-type: expected one',
        'aps.attributes: expected one',
        'aps.alert.title.loc-arg: expected no such key',
      ],
      [
        'aps.timestamp: expected one',
        'aps.event: expected start, update or end',
        'aps.content-state: expected an object',
        'aps.stale-date: expected an integer of 0 or more',
        'aps.badge: expected no such key',
      ],
      undefined,
    ]);
  });

  it('what comes too often for one device, and nothing for the others', async () => {
    const { sandbox, client } = await open(connectApns);
    sandbox.apns.limitDevices({ max: 2, perMs: 60_000 });
    const statuses: number[] = [];
    for (const token of ['aa', 'aa', 'aa', 'bb']) statuses.push((await client.post({ token })).status);
    expect(statuses).toEqual([200, 200, 429, 200]);
    expect(sandbox.journal.all[2]).toMatchObject({ reason: 'TooManyRequests', accepted: false });
    sandbox.apns.limitDevices(undefined);
    expect(verdict(await client.post({ token: 'aa' }))).toEqual({ status: 200 });
  });
});

/** A payload of exactly so many bytes. */
function payloadOf(bytes: number): string {
  const empty = JSON.stringify({ aps: { alert: '' } });
  return JSON.stringify({ aps: { alert: 'x'.repeat(bytes - empty.length) } });
}

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const INVALID = { status: 403, reason: 'InvalidProviderToken' };
const EXPIRED = { status: 403, reason: 'ExpiredProviderToken' };
const TOO_MANY_UPDATES = { status: 429, reason: 'TooManyProviderTokenUpdates' };
const ACCEPTED = { status: 200 };

const strangersKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;

describe('the provider token', () => {
  test.each<[string, JwtOptions, object]>([
    ['of another key', { key: strangersKey }, INVALID],
    ["with another key's id", { kid: 'OTHERKEY01' }, INVALID],
    ['that does not say when it was issued', { issuedAt: null }, INVALID],
    ["with another team's id", { iss: 'OTHERTEAM1' }, INVALID],
    ['from the future', { issuedAt: Date.now() + 10 * MINUTE_MS }, INVALID],
    ['from a clock that is a little ahead', { issuedAt: Date.now() + 10_000 }, ACCEPTED],
    ['of 59 minutes', { issuedAt: Date.now() - 59 * MINUTE_MS }, ACCEPTED],
    ['of an hour', { issuedAt: Date.now() - HOUR_MS }, EXPIRED],
  ])('a token %s', async (_what, options, expected) => {
    const sandbox = await openSandbox();
    const client = await connectApns(sandbox, { jwt: await signJwt(sandbox, options) });
    expect(verdict(await client.post())).toEqual(expected);
    expect(verdict(await client.post())).toEqual(expected); // the second time from what was remembered
  });

  test('a token that nobody signed is not taken', async () => {
    const sandbox = await openSandbox();
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const env = sandbox.env();
    const claims = encode({ iss: env['APNS_TEAM_ID'], iat: Math.floor(Date.now() / 1_000) });
    const unsigned = `${encode({ alg: 'none', kid: env['APNS_KEY_ID'] })}.${claims}.`;
    const client = await connectApns(sandbox, { jwt: unsigned });
    expect(verdict(await client.post())).toEqual(INVALID);
  });

  test('a token grows old while its connection stays up, and a new one is taken at once', async () => {
    let nowMs = Date.now();
    const sandbox = await openSandbox({ now: () => nowMs });
    const client = await connectApns(sandbox, { jwt: await signJwt(sandbox, { issuedAt: nowMs }) });
    expect(verdict(await client.post())).toEqual(ACCEPTED);
    nowMs += HOUR_MS + 1_000;
    expect(verdict(await client.post())).toEqual(EXPIRED);
    const renewed = `bearer ${await signJwt(sandbox, { issuedAt: nowMs })}`;
    expect(verdict(await client.post({ headers: { authorization: renewed } }))).toEqual(ACCEPTED);
  });

  test('a connection may change its token once in 20 minutes', async () => {
    let nowMs = Date.now();
    const sandbox = await openSandbox({ now: () => nowMs });
    const bearer = async (salt: string) => `bearer ${await signJwt(sandbox, { issuedAt: nowMs, salt })}`;
    const client = await connectApns(sandbox);
    const post = async (authorization: string) => verdict(await client.post({ headers: { authorization } }));
    const [first, second] = [await bearer('1'), await bearer('2')];
    expect(await post(first)).toEqual(ACCEPTED);
    nowMs += 20 * MINUTE_MS - 1;
    expect(await post(second)).toEqual(TOO_MANY_UPDATES);
    expect(await post(first)).toEqual(ACCEPTED); // the refused one did not take its place
    nowMs += 1;
    expect(await post(second)).toEqual(ACCEPTED);
    expect(await post(first)).toEqual(TOO_MANY_UPDATES);

    const other = await connectApns(sandbox, { jwt: await signJwt(sandbox, { issuedAt: nowMs, salt: '3' }) });
    expect(verdict(await other.post())).toEqual(ACCEPTED); // it counts by connection
  });

  test('how soon a token may change is an option', async () => {
    const { sandbox, client } = await open(connectApns, { apnsTokenUpdateMs: 0 });
    expect(verdict(await client.post())).toEqual(ACCEPTED);
    const authorization = `bearer ${await signJwt(sandbox, { salt: 'other' })}`;
    expect(verdict(await client.post({ headers: { authorization } }))).toEqual(ACCEPTED);
  });

  test('a scripted ExpiredProviderToken lets the connection change its token', async () => {
    const { sandbox, client } = await open(connectApns);
    sandbox.apns.script('ab01', [{ kind: 'refuse', ...EXPIRED }]);
    expect(verdict(await client.post())).toEqual(EXPIRED);
    const authorization = `bearer ${await signJwt(sandbox, { salt: 'renewed' })}`;
    expect(verdict(await client.post({ headers: { authorization } }))).toEqual(ACCEPTED);
  });
});

test('APNs takes a second app, with its own key and topic, and each key may be revoked alone', async () => {
  const sandbox = await openSandbox();
  const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const [kid, iss, topic] = ['OTHERKEY', 'OTHERTEAM', 'dev.other'];
  sandbox.apns.addKey({ signer: { publicKey: createPublicKey(key), keyId: kid, teamId: iss }, topic });
  const own = await connectApns(sandbox);
  const other = await connectApns(sandbox, { jwt: await signJwt(sandbox, { key, kid, iss }) });
  const headers = { 'apns-topic': topic };
  expect(verdict(await other.post({ headers }))).toEqual({ status: 200 });
  expect(sandbox.journal.accepted).toMatchObject([{ topic, keyId: kid, teamId: iss }]);
  expect(verdict(await other.post())).toEqual({ status: 400, reason: 'TopicDisallowed' });
  expect(verdict(await own.post({ headers }))).toEqual({ status: 400, reason: 'TopicDisallowed' });

  sandbox.apns.revokeKey(kid);
  expect(verdict(await other.post({ headers }))).toEqual({ status: 403, reason: 'InvalidProviderToken' });
  expect(verdict(await own.post())).toEqual({ status: 200 });
  sandbox.apns.restoreKey(kid);
  expect(verdict(await other.post({ headers }))).toEqual({ status: 200 });
});
