import { readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { connect } from 'node:http2';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { CHANNEL_REASONS } from '../../sandbox/apns/reasons.ts';
import type { Sandbox, SandboxOptions } from '../../sandbox/sandbox.ts';
import { openSandbox } from '../support/sandbox.ts';
import { answerOn, connectApns, signJwt, verdict, type ApnsReply, type ApnsRequest } from './apns-client.ts';

const PATH = '/1/apps/dev.pushpacer.sandbox/channels';
const ALL = '/1/apps/dev.pushpacer.sandbox/all-channels';
const BROADCAST = '/4/broadcasts/apps/dev.pushpacer.sandbox';
const body = (policy: unknown = 0) => JSON.stringify({ 'message-storage-policy': policy, 'push-type': 'LiveActivity' });

type Ask = (request?: ApnsRequest) => Promise<ApnsReply>;

/** A sandbox, and a raw client at its management of channels. */
async function open(options: SandboxOptions = {}): Promise<{ sandbox: Sandbox; ask: Ask }> {
  const sandbox = await openSandbox(options);
  const session = connect(sandbox.apns.channelsUrl, { ca: await readFile(sandbox.caFile) });
  session.on('error', () => undefined);
  onTestFinished(() => session.destroy());
  await once(session, 'remoteSettings');
  const jwt = await signJwt(sandbox);
  return {
    sandbox,
    ask({ path = PATH, method = 'POST', headers = {}, body: text = '' } = {}) {
      const all = { ':method': method, ':path': path, authorization: `bearer ${jwt}`, ...headers };
      const sent = Object.entries<unknown>(all).filter(([, value]) => value !== null) as [string, string][];
      return answerOn(session.request(Object.fromEntries(sent), { endStream: false }).end(text));
    },
  };
}

async function create(ask: Ask, policy: 0 | 1 = 0): Promise<string> {
  const { status, headers, body: text } = await ask({ body: body(policy) });
  expect({ status, text }).toEqual({ status: 201, text: '' });
  return String(headers['apns-channel-id']);
}

describe('the management of channels', () => {
  it('creates, reads, lists and deletes', async () => {
    const { ask } = await open();
    const ids = [await create(ask, 0), await create(ask, 1)];
    expect(new Set(ids).size).toBe(2);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9+/]{22}==$/);
    const [first = '', second = ''] = ids;
    const headers = { 'apns-channel-id': second };
    const read = await ask({ method: 'GET', headers });
    expect(read.status).toBe(200);
    expect(JSON.parse(read.body)).toEqual({ 'message-storage-policy': 1, 'push-type': 'LiveActivity' });
    const list = async () => JSON.parse((await ask({ path: ALL, method: 'GET' })).body) as unknown;
    expect(await list()).toEqual({ channels: ids });
    expect(await ask({ method: 'DELETE', headers })).toMatchObject({ status: 204, body: '' });
    expect(await list()).toEqual({ channels: [first] });
    expect(verdict(await ask({ method: 'GET', headers }))).toEqual({ status: 400, reason: 'ChannelNotRegistered' });
    expect(verdict(await ask({ method: 'DELETE', headers }))).toEqual({ status: 404, reason: 'BadPath' });
  });

  it('answers with the id of the request, or one of its own', async () => {
    const { ask } = await open();
    const id = '2288cf3f-70d8-46a6-97d7-dd5d00867127';
    const asked = await ask({ body: body(), headers: { 'apns-request-id': id } });
    expect(asked.headers['apns-request-id']).toBe(id);
    expect((await ask({ body: body() })).headers['apns-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });

  it.each<[keyof typeof CHANNEL_REASONS, string, ApnsRequest]>([
    ['BadPath', 'another path', { path: '/1/apps/dev.pushpacer.sandbox/channel' }],
    ['MethodNotAllowed', 'another method', { method: 'PUT' }],
    ['MethodNotAllowed', 'a POST to the list', { path: ALL }],
    ['MissingProviderToken', 'no authorization', { headers: { authorization: null } }],
    ['InvalidProviderToken', 'what is no token', { headers: { authorization: 'bearer owner' } }],
    ['TopicMismatch', 'another app', { path: '/1/apps/com.example.other/channels', body: body() }],
    ['TopicDisallowed', 'a suffix', { path: '/1/apps/dev.pushpacer.sandbox.push-type.liveactivity/channels' }],
    ['BadRequestPayload', 'no JSON', { body: '{' }],
    ['BadRequestParams', 'another policy', { body: body(2) }],
    ['BadRequestParams', 'a field more', { body: JSON.stringify({ ...(JSON.parse(body()) as object), name: 'a' }) }],
    ['MissingPushType', 'no push type', { body: '{"message-storage-policy":0}' }],
    ['InvalidPushType', 'another push type', { body: '{"message-storage-policy":0,"push-type":"Alert"}' }],
    ['MissingChannelId', 'no channel', { method: 'GET' }],
    ['BadChannelId', 'a channel that is no base64', { method: 'DELETE', headers: { 'apns-channel-id': 'a b' } }],
    ['BadChannelId', 'a channel that never was', { method: 'GET', headers: { 'apns-channel-id': 'AAAA' } }],
  ])('refuses with %s: %s', async (reason, _what, request) => {
    const { ask } = await open();
    expect(verdict(await ask(request))).toEqual({ status: CHANNEL_REASONS[reason], reason });
  });

  it('makes as many channels as an app may have, and one more when one was deleted', async () => {
    const { ask } = await open({ apnsMaxChannels: 2 });
    const id = await create(ask);
    await create(ask);
    expect(verdict(await ask({ body: body() }))).toEqual({ status: 400, reason: 'CannotCreateChannelConfig' });
    await ask({ method: 'DELETE', headers: { 'apns-channel-id': id } });
    expect((await ask({ body: body() })).status).toBe(201);
  });

  it('knows 10,000 as Apple’s limit', async () => {
    const { sandbox } = await open();
    const channels = sandbox.apns.channels();
    for (let made = 0; made < 10_000; made += 1) expect(channels.create(0)).toBeDefined();
    expect(channels.create(0)).toBeUndefined();
  });
});

describe('a push to a channel', () => {
  const ACTIVITY = (more: object = {}) =>
    JSON.stringify({ aps: { timestamp: 1, event: 'update', 'content-state': { goals: 1 }, ...more } });
  const HEADERS = {
    ...{ 'apns-topic': null, 'apns-push-type': 'liveactivity', 'apns-priority': '5', 'apns-expiration': '0' },
  };

  async function broadcast(policy: 0 | 1 = 0) {
    const sandbox = await openSandbox();
    const id = sandbox.apns.channels().create(policy) ?? '';
    const client = await connectApns(sandbox);
    const send = ({ headers = {}, ...more }: ApnsRequest = {}) =>
      client.post({
        ...{ path: BROADCAST, headers: { ...HEADERS, 'apns-channel-id': id, ...headers }, body: ACTIVITY() },
        ...more,
      });
    return { sandbox, id, send };
  }

  it('is answered with 200 and apns-request-id, and is in the journal', async () => {
    const { sandbox, id, send } = await broadcast();
    const given = '2288cf3f-70d8-46a6-97d7-dd5d00867127';
    const reply = await send({ headers: { 'apns-request-id': given } });
    expect(reply).toMatchObject({ status: 200, body: '', headers: { 'apns-request-id': given } });
    expect(reply.headers['apns-id']).toBeUndefined();
    expect(sandbox.journal.accepted).toMatchObject([{ channel: id, apnsId: given, topic: 'dev.pushpacer.sandbox' }]);
  });

  it.each<[keyof typeof CHANNEL_REASONS, string, ApnsRequest]>([
    ['BadPath', 'another path', { path: '/4/broadcasts/dev.pushpacer.sandbox' }],
    ['MethodNotAllowed', 'another method', { method: 'PUT' }],
    ['TopicDisallowed', 'a suffix', { path: `${BROADCAST}.push-type.liveactivity` }],
    ['TopicMismatch', 'another app', { path: '/4/broadcasts/apps/com.example.other' }],
    ['MissingChannelId', 'no channel', { headers: { 'apns-channel-id': null } }],
    ['BadChannelId', 'a channel that is no base64', { headers: { 'apns-channel-id': 'a b' } }],
    ['BadChannelId', 'a channel that never was', { headers: { 'apns-channel-id': 'AAAA' } }],
    ['MissingPushType', 'no push type', { headers: { 'apns-push-type': null } }],
    ['InvalidPushType', 'another push type', { headers: { 'apns-push-type': 'alert' } }],
    ['BadExpirationDate', 'no expiration', { headers: { 'apns-expiration': null } }],
    ['BadExpirationDate', 'an expiration at a channel that keeps nothing', { headers: { 'apns-expiration': '9' } }],
    ['BadPriority', 'no priority', { headers: { 'apns-priority': null } }],
    ['PayloadEmpty', 'no payload', { body: '' }],
    ['PayloadTooLarge', 'more than 5,120 bytes', { body: JSON.stringify({ aps: { text: 'x'.repeat(5_200) } }) }],
  ])('is refused with %s: %s', async (reason, _what, request) => {
    const { sandbox, send } = await broadcast();
    expect(verdict(await send(request))).toEqual({ status: CHANNEL_REASONS[reason], reason });
    expect(sandbox.journal.accepted).toEqual([]);
  });

  it('of a channel that was deleted is refused with ChannelNotRegistered', async () => {
    const { sandbox, id, send } = await broadcast();
    sandbox.apns.channels().delete(id);
    expect(verdict(await send())).toEqual({ status: 400, reason: 'ChannelNotRegistered' });
  });

  it('is shown by all phones that subscribed, the newest state last, and nothing after the end', async () => {
    const { sandbox, id, send } = await broadcast();
    const phones = [sandbox.apns.subscribe(id), sandbox.apns.subscribe(id)];
    const goals = (count: number) => ({ 'content-state': { goals: count } });
    await send({ body: ACTIVITY({ timestamp: 10, ...goals(1), alert: { title: 'Goal' } }) });
    await send({ body: ACTIVITY({ timestamp: 9, ...goals(0) }) }); // overtaken on its way
    await send({ body: ACTIVITY({ timestamp: 11, ...goals(2) }) });
    await send({ body: ACTIVITY({ timestamp: 12, ...goals(2), event: 'end' }) });
    await send({ body: ACTIVITY({ timestamp: 13, ...goals(3) }) });
    for (const phone of phones) {
      expect(phone.shown).toEqual([
        { event: 'update', timestamp: 10, contentState: { goals: 1 }, isAlert: true },
        { event: 'update', timestamp: 11, contentState: { goals: 2 }, isAlert: false },
        { event: 'end', timestamp: 12, contentState: { goals: 2 }, isAlert: false },
      ]);
    }
    expect(() => sandbox.apns.subscribe('AAAA')).toThrow(RangeError);
  });

  test.each<[string, 0 | 1, string, number]>([
    ['a channel that keeps nothing', 0, '0', 0],
    ['a channel that keeps the newest', 1, String(Math.floor(Date.now() / 1_000) + 600), 1],
    ['the same without an expiration', 1, '0', 0],
    ['the same after the expiration', 1, '1', 0],
  ])('of %s, for a phone that was offline', async (_, policy, expiration, count) => {
    const { sandbox, id, send } = await broadcast(policy);
    const phone = sandbox.apns.subscribe(id);
    phone.setOnline(false);
    expect((await send({ headers: { 'apns-expiration': expiration } })).status).toBe(200);
    expect(phone.shown).toEqual([]);
    phone.setOnline(true);
    phone.setOnline(true);
    expect(phone.shown).toHaveLength(count);
  });
});
