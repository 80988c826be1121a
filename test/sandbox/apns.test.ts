import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import type { OutgoingHttpHeaders } from 'node:http2';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { APNS_REASONS, CHANNEL_REASONS } from '../../sandbox/apns/reasons.ts';
import { openSandbox, openWith } from '../support/sandbox.ts';
import { waitFor } from '../support/wait.ts';
import { connectApns, connectRaw, reasonIn, signJwt, type JwtOptions, type RawReply } from './raw-client.ts';

/** A payload of exactly so many bytes. */
function payloadOf(bytes: number): string {
  const empty = JSON.stringify({ aps: { alert: '' } });
  return JSON.stringify({ aps: { alert: 'x'.repeat(bytes - empty.length) } });
}

test('APNs takes what is just within its limits', async () => {
  const { sandbox, client } = await openWith(connectApns);
  const voip = { 'apns-push-type': 'voip', 'apns-topic': 'dev.pushpacer.sandbox.voip' };
  for (const [headers, body] of [
    [{}, payloadOf(4_096)],
    [voip, payloadOf(5_120)],
    [{ 'apns-topic': 'dev.pushpacer.sandbox.watchkitapp' }, '{"aps":{"alert":{"title":"a"}}}'],
    [{ 'apns-push-type': 'background', 'apns-priority': '5' }, '{"aps":{"content-available":1}}'],
    [{ 'apns-collapse-id': 'x'.repeat(64), 'apns-expiration': '0' }, payloadOf(100)],
  ] as const) {
    expect(await client.ask({ headers, body })).toMatchObject({ status: 200 });
  }
  expect(sandbox.apns.counts).toEqual({ requests: 5, accepted: 5, connections: 1 });
});

const BACKGROUND = { 'apns-push-type': 'background', 'apns-priority': '10' };

test.each<[keyof typeof APNS_REASONS, string, OutgoingHttpHeaders, body?: string]>([
  ['BadPath', 'another path', { ':path': '/3/devices/ab01' }],
  ['BadPath', 'a query', { ':path': '/3/device/ab01?x=1' }],
  ['MethodNotAllowed', 'another method', { ':method': 'PUT' }],
  ['MissingDeviceToken', 'a path without a token', { ':path': '/3/device/' }],
  ['DuplicateHeaders', 'a header that is sent twice', { 'apns-priority': ['10', '5'] }],
  ['MissingProviderToken', 'no authorization', { authorization: undefined }],
  ['InvalidProviderToken', 'what is no token', { authorization: 'bearer owner' }],
  ['BadDeviceToken', 'half a byte', { ':path': '/3/device/abc' }],
  ['BadDeviceToken', 'a token of zeros, which no device has', { ':path': `/3/device/${'0'.repeat(64)}` }],
  ['MissingTopic', 'no topic', { 'apns-topic': undefined }],
  ['BadTopic', 'what cannot be a topic', { 'apns-topic': 'dev/pushpacer' }],
  ['TopicDisallowed', 'a topic that only begins alike', { 'apns-topic': 'dev.pushpacer.sandboxes' }],
  ['BadTopic', "a Live Activity with the app's own topic", { 'apns-push-type': 'liveactivity' }],
  ['InvalidPushType', 'no push type', { 'apns-push-type': undefined }],
  ['InvalidPushType', 'an unknown push type', { 'apns-push-type': 'banner' }],
  ['BadMessageId', 'an id that is no UUID', { 'apns-id': 'msg-8841' }],
  ['BadExpirationDate', 'an expiration that is no number', { 'apns-expiration': 'tomorrow' }],
  ['BadPriority', 'an unknown priority', { 'apns-priority': '7' }],
  ['BadPriority', 'a background notification at 10', BACKGROUND],
  ['BadCollapseId', 'a collapse id of 65 bytes', { 'apns-collapse-id': 'x'.repeat(65) }],
  ['PayloadEmpty', 'a payload with nothing in it', {}, '{}'],
  ['PayloadEmpty', 'what is no JSON', {}, '{"aps":'],
  ['PayloadTooLarge', 'an alert payload of 4,097 bytes', {}, payloadOf(4_097)],
])('APNs refuses with %s: %s', async (reason, _what, headers, body) => {
  const { sandbox, client } = await openWith(connectApns);
  const reply = await client.ask({ headers, ...(body !== undefined && { body }) });
  expect({ status: reply.status, reason: reasonIn(reply) }).toEqual({ status: APNS_REASONS[reason], reason });
  expect(reply.headers['apns-id']).toMatch(/^[0-9A-F-]{36}$/);
  expect(sandbox.journal.all).toMatchObject([{ platform: 'apns', accepted: false, reason }]);
  expect(sandbox.apns.counts).toMatchObject({ requests: 1, accepted: 0 });
});

test('what only a device would ignore is taken, and noted in the journal', async () => {
  const { sandbox, client } = await openWith(connectApns);
  const live = { 'apns-topic': 'dev.pushpacer.sandbox.push-type.liveactivity', 'apns-push-type': 'liveactivity' };
  const start = { event: 'start', timestamp: 1, 'content-state': {} };
  await client.ask({ headers: live, body: JSON.stringify({ aps: { ...start, alert: { title: { 'loc-arg': [] } } } }) });
  await client.ask({ headers: live, body: '{"aps":{"event":"begin","content-state":"a","stale-date":1.5,"badge":3}}' });
  await client.ask({ body: '{"aps":{"alert":"a","relevance-score":7,"loudness":1}}' });
  await client.ask();
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
    ['aps.relevance-score: expected a number from 0 to 1', 'aps.loudness: expected no such key'],
    undefined,
  ]);
});

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const strangersKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;

describe('the provider token', () => {
  test.each<[string, JwtOptions, reason: string | undefined]>([
    ['of another key', { key: strangersKey }, 'InvalidProviderToken'],
    ["with another key's id", { kid: 'OTHERKEY01' }, 'InvalidProviderToken'],
    ["with another team's id", { iss: 'OTHERTEAM1' }, 'InvalidProviderToken'],
    ['that does not say when it was issued', { issuedAt: null }, 'InvalidProviderToken'],
    ['from the future', { issuedAt: Date.now() + 10 * MINUTE_MS }, 'InvalidProviderToken'],
    ['from a clock that is a little ahead', { issuedAt: Date.now() + 10_000 }, undefined],
    ['of 59 minutes', { issuedAt: Date.now() - 59 * MINUTE_MS }, undefined],
    ['of an hour', { issuedAt: Date.now() - HOUR_MS }, 'ExpiredProviderToken'],
  ])('a token %s: %3$s', async (_what, options, reason) => {
    const sandbox = await openSandbox();
    const client = await connectApns(sandbox, await signJwt(sandbox, options));
    expect(reasonIn(await client.ask())).toBe(reason);
    expect(reasonIn(await client.ask())).toBe(reason); // the second time from what was remembered
  });

  test('that nobody signed is not taken', async () => {
    const sandbox = await openSandbox();
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const env = sandbox.env();
    const claims = encode({ iss: env['APNS_TEAM_ID'], iat: Math.floor(Date.now() / 1_000) });
    const client = await connectApns(sandbox, `${encode({ alg: 'none', kid: env['APNS_KEY_ID'] })}.${claims}.`);
    expect(reasonIn(await client.ask())).toBe('InvalidProviderToken');
  });

  test('grows old while its connection stays up, and may change once in 20 minutes', async () => {
    let nowMs = Date.now();
    const sandbox = await openSandbox({ now: () => nowMs });
    const bearer = async (salt: string) => `bearer ${await signJwt(sandbox, { issuedAt: nowMs, salt })}`;
    const client = await connectApns(sandbox);
    const ask = async (authorization: string) => reasonIn(await client.ask({ headers: { authorization } }));
    const [first, second] = [await bearer('1'), await bearer('2')];
    expect(await ask(first)).toBeUndefined();
    nowMs += 20 * MINUTE_MS - 1;
    expect(await ask(second)).toBe('TooManyProviderTokenUpdates');
    expect(await ask(first)).toBeUndefined(); // the refused one did not take its place
    nowMs += 1;
    expect(await ask(second)).toBeUndefined();
    const other = await connectApns(sandbox, (await bearer('3')).slice('bearer '.length));
    expect(reasonIn(await other.ask())).toBeUndefined(); // it counts by connection
    nowMs += HOUR_MS;
    expect(await ask(second)).toBe('ExpiredProviderToken');
    expect(await ask(await bearer('4'))).toBeUndefined(); // a new one is taken at once
  });

  test('may change at once where a script calls it expired', async () => {
    const { sandbox, client } = await openWith(connectApns);
    sandbox.apns.script('ab01', [{ kind: 'refuse', status: 403, reason: 'ExpiredProviderToken' }]);
    expect(reasonIn(await client.ask())).toBe('ExpiredProviderToken');
    const authorization = `bearer ${await signJwt(sandbox, { salt: 'renewed' })}`;
    expect(await client.ask({ headers: { authorization } })).toMatchObject({ status: 200 });
  });
});

it('has one stream until a token was accepted, then many', async () => {
  const { client } = await openWith(connectApns, { maxStreams: 250 });
  const streams = () => client.session.remoteSettings.maxConcurrentStreams;
  expect(streams()).toBe(1);
  expect(await client.ask({ headers: { authorization: undefined } })).toMatchObject({ status: 403 });
  expect(streams()).toBe(1);
  await client.ask();
  await waitFor(() => expect(streams()).toBe(250));
});

it('needs TLS 1.2 or later', async () => {
  const sandbox = await openSandbox();
  const { port } = new URL(sandbox.apns.url);
  const versions = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
  const socket = connectTls({ port: Number(port), ALPNProtocols: ['h2'], rejectUnauthorized: false, ...versions });
  onTestFinished(() => void socket.destroy());
  await expect(once(socket, 'secureConnect')).rejects.toThrow(/protocol version|unsupported protocol/i);
});

type ChannelReason = keyof typeof CHANNEL_REASONS;
const verdict = (reply: RawReply) => ({ status: reply.status, reason: reasonIn(reply) });

describe('the management of channels', () => {
  const CHANNELS = '/1/apps/dev.pushpacer.sandbox/channels';
  const body = (policy: unknown, more = {}) =>
    JSON.stringify({ 'message-storage-policy': policy, 'push-type': 'LiveActivity', ...more });

  it.each<[ChannelReason, string, OutgoingHttpHeaders, body?: string]>([
    ['BadPath', 'another path', { ':path': `${CHANNELS}s` }],
    ['MethodNotAllowed', 'a POST to the list', { ':path': '/1/apps/dev.pushpacer.sandbox/all-channels' }],
    ['MissingProviderToken', 'no authorization', { authorization: undefined }],
    ['TopicMismatch', 'another app', { ':path': '/1/apps/com.example.other/channels' }],
    ['TopicDisallowed', 'a suffix', { ':path': '/1/apps/dev.pushpacer.sandbox.push-type.liveactivity/channels' }],
    ['BadRequestPayload', 'no JSON', {}, '{'],
    ['BadRequestParams', 'another policy', {}, body(2)],
    ['BadRequestParams', 'a field more', {}, body(0, { name: 'a' })],
    ['MissingPushType', 'no push type', {}, body(0, { 'push-type': undefined })],
    ['InvalidPushType', 'another push type', {}, body(0, { 'push-type': 'Alert' })],
    ['MissingChannelId', 'no channel', { ':method': 'GET' }],
    ['BadChannelId', 'a channel that never was', { ':method': 'GET', 'apns-channel-id': 'AAAA' }],
  ])('refuses with %s: %s', async (reason, _what, headers, text) => {
    const sandbox = await openSandbox();
    const authorization = `bearer ${await signJwt(sandbox)}`;
    const good = { headers: { ':path': CHANNELS, authorization }, body: body(0) };
    const client = await connectRaw(sandbox, sandbox.apns.channelsUrl, good);
    const reply = await client.ask({ headers, ...(text !== undefined && { body: text }) });
    expect(verdict(reply)).toEqual({ status: CHANNEL_REASONS[reason], reason });
  });

  it('makes 10,000, which is Apple’s limit', async () => {
    const channels = (await openSandbox()).apns.channels();
    for (let made = 0; made < 10_000; made += 1) expect(channels.create(0)).toBeDefined();
    expect(channels.create(0)).toBeUndefined();
  });
});

describe('a push to a channel', () => {
  const BROADCAST = '/4/broadcasts/apps/dev.pushpacer.sandbox';

  async function open(policy: 0 | 1 = 0) {
    const sandbox = await openSandbox();
    const id = sandbox.apns.channels().create(policy) ?? '';
    const headers = {
      ...{ ':path': BROADCAST, authorization: `bearer ${await signJwt(sandbox)}`, 'apns-channel-id': id },
      ...{ 'apns-push-type': 'liveactivity', 'apns-priority': '5', 'apns-expiration': '0' },
    };
    const body = JSON.stringify({ aps: { timestamp: 1, event: 'update', 'content-state': { goals: 1 } } });
    return { sandbox, id, client: await connectRaw(sandbox, sandbox.apns.url, { headers, body }) };
  }

  it.each<[ChannelReason, string, OutgoingHttpHeaders, body?: string]>([
    ['BadPath', 'another path', { ':path': '/4/broadcasts/dev.pushpacer.sandbox' }],
    ['TopicDisallowed', 'a suffix', { ':path': `${BROADCAST}.push-type.liveactivity` }],
    ['TopicMismatch', 'another app', { ':path': '/4/broadcasts/apps/com.example.other' }],
    ['MissingChannelId', 'no channel', { 'apns-channel-id': undefined }],
    ['BadChannelId', 'a channel that never was', { 'apns-channel-id': 'AAAA' }],
    ['MissingPushType', 'no push type', { 'apns-push-type': undefined }],
    ['InvalidPushType', 'another push type', { 'apns-push-type': 'alert' }],
    ['BadExpirationDate', 'an expiration at a channel that keeps nothing', { 'apns-expiration': '9' }],
    ['BadPriority', 'no priority', { 'apns-priority': undefined }],
    ['PayloadTooLarge', 'more than 5,120 bytes', {}, payloadOf(5_121)],
  ])('is refused with %s: %s', async (reason, _what, headers, body) => {
    const { sandbox, client } = await open();
    const reply = await client.ask({ headers, ...(body !== undefined && { body }) });
    expect(verdict(reply)).toEqual({ status: CHANNEL_REASONS[reason], reason });
    expect(sandbox.journal.accepted).toEqual([]);
  });

  it('of a channel that was deleted is refused with ChannelNotRegistered', async () => {
    const { sandbox, id, client } = await open();
    sandbox.apns.channels().delete(id);
    expect(verdict(await client.ask())).toEqual({ status: 400, reason: 'ChannelNotRegistered' });
  });

  test.each<[string, 0 | 1, string, number]>([
    ['a channel that keeps nothing', 0, '0', 0],
    ['a channel that keeps the newest', 1, String(Math.floor(Date.now() / 1_000) + 600), 1],
    ['the same without an expiration', 1, '0', 0],
    ['the same after the expiration', 1, '1', 0],
  ])('of %s, for a phone that was offline', async (_, policy, expiration, count) => {
    const { sandbox, id, client } = await open(policy);
    const phone = sandbox.apns.subscribe(id);
    phone.setOnline(false);
    expect((await client.ask({ headers: { 'apns-expiration': expiration } })).status).toBe(200);
    expect(phone.shown).toEqual([]);
    phone.setOnline(true);
    phone.setOnline(true);
    expect(phone.shown).toHaveLength(count);
  });
});
