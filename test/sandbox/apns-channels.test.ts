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

describe('the management of channels', () => {
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
