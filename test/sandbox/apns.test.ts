import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, constants } from 'node:http2';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { APNS_REASONS } from '../../sandbox/apns/reasons.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { openSandbox, openWith } from '../support/sandbox.ts';
import { connectApns, signJwt, verdict, type ApnsRequest, type JwtOptions } from './apns-client.ts';
import { waitFor } from '../support/wait.ts';

const LIVE = {
  'apns-topic': 'dev.pushpacer.sandbox.push-type.liveactivity',
  'apns-push-type': 'liveactivity',
};

describe('APNs takes', () => {
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
  ])('%s', async (_what, request) => {
    const { sandbox, client } = await openWith(connectApns);
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
    const { sandbox, client } = await openWith(connectApns);
    const reply = await client.post(request);
    expect(verdict(reply)).toEqual({ status: APNS_REASONS[reason], reason });
    expect(reply.headers['apns-id']).toMatch(/^[0-9A-F-]{36}$/);
    expect(sandbox.journal.accepted).toEqual([]);
    expect(sandbox.journal.all).toMatchObject([{ platform: 'apns', accepted: false, reason }]);
    expect(sandbox.apns.counts).toMatchObject({ requests: 1, accepted: 0 });
  });

  it('nothing that only a device would ignore, but notes it in the journal', async () => {
    const { sandbox, client } = await openWith(connectApns);
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

  test('a scripted ExpiredProviderToken lets the connection change its token', async () => {
    const { sandbox, client } = await openWith(connectApns);
    sandbox.apns.script('ab01', [{ kind: 'refuse', ...EXPIRED }]);
    expect(verdict(await client.post())).toEqual(EXPIRED);
    const authorization = `bearer ${await signJwt(sandbox, { salt: 'renewed' })}`;
    expect(verdict(await client.post({ headers: { authorization } }))).toEqual(ACCEPTED);
  });
});

describe('streams to APNs', () => {
  it('are limited to one until a token was accepted, then to many', async () => {
    const { client } = await openWith(connectApns, { maxStreams: 250 });
    expect(client.session.remoteSettings.maxConcurrentStreams).toBe(1);
    expect(verdict(await client.post({ headers: { authorization: null } }))).toMatchObject({ status: 403 });
    expect(client.session.remoteSettings.maxConcurrentStreams).toBe(1);
    expect(verdict(await client.post())).toEqual({ status: 200 });
    await waitFor(() => expect(client.session.remoteSettings.maxConcurrentStreams).toBe(250));
  });

  it('beyond the limit are refused: nothing of them is looked at', async () => {
    const sandbox = await openSandbox();
    // A client that sends before it has seen the server's settings.
    const session = connect(sandbox.apns.url, { ca: await readFile(sandbox.caFile) });
    onTestFinished(() => session.destroy());
    const ends = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const stream = session.request({ ':method': 'POST', ':path': '/3/device/ab' });
        stream.on('error', () => undefined).resume();
        stream.end('{"aps":{}}');
        await new Promise((resolve) => stream.once('close', resolve));
        return stream.rstCode;
      }),
    );
    const { NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM } = constants;
    expect(ends.filter((code) => code === NGHTTP2_NO_ERROR)).toHaveLength(1);
    expect(ends.filter((code) => code === NGHTTP2_REFUSED_STREAM)).toHaveLength(4);
    expect(sandbox.apns.counts.requests).toBe(1);
  });
});

/** Begins a TLS connection: resolves when it is secure, rejects with what the client says of the server. */
async function handshake(sandbox: Sandbox, platform: 'apns' | 'fcm', options: ConnectionOptions) {
  const port = Number(new URL(sandbox[platform].url).port);
  const socket = connectTls({ port, host: '127.0.0.1', ALPNProtocols: ['h2'], ...options });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'secureConnect');
  return socket;
}

describe('connections', () => {
  it('need TLS 1.2 or later', async () => {
    const sandbox = await openSandbox();
    const versions = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    const refused = handshake(sandbox, 'apns', { rejectUnauthorized: false, ...versions });
    await expect(refused).rejects.toThrow(/protocol version|unsupported protocol/i);
  });
});
