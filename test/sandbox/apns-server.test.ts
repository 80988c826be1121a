import { describe, expect, it, vi } from 'vitest';
import { APNS_REASONS } from '../../sandbox/apns/reasons.ts';
import { openSandbox } from '../support/sandbox.ts';
import { answerOn, connectApns, PAYLOAD, verdict, type ApnsRequest } from './apns-client.ts';

const LIVE = {
  'apns-topic': 'dev.pushpacer.sandbox.push-type.liveactivity',
  'apns-push-type': 'liveactivity',
};
const APNS_ID = 'eabeae54-14a8-11e5-b60b-1697f925ec7b';

describe('APNs takes an alert', () => {
  it('and journals what the device gets, stamped on arrival', async () => {
    const sandbox = await openSandbox();
    const client = await connectApns(sandbox);
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
    const sandbox = await openSandbox();
    const client = await connectApns(sandbox);
    const stream = client.open({ token: 'cd' });
    await vi.waitFor(() => expect(sandbox.apns.counts.requests).toBe(1));
    const headersArrived = performance.timeOrigin + performance.now();
    stream.end(PAYLOAD);
    expect(await answerOn(stream)).toMatchObject({ status: 200 });
    expect(sandbox.journal.accepted).toMatchObject([{ token: 'cd', title: 'Room 12' }]);
    expect(sandbox.journal.accepted[0]?.at).toBeLessThanOrEqual(headersArrived);
  });

  it('makes an apns-id where none was sent', async () => {
    const sandbox = await openSandbox();
    const client = await connectApns(sandbox);
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
    const sandbox = await openSandbox();
    const client = await connectApns(sandbox);
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
    const sandbox = await openSandbox();
    const client = await connectApns(sandbox);
    const reply = await client.post(request);
    expect(verdict(reply)).toEqual({ status: APNS_REASONS[reason], reason });
    expect(reply.headers['apns-id']).toMatch(/^[0-9A-F-]{36}$/);
    expect(sandbox.journal.accepted).toEqual([]);
    expect(sandbox.journal.all).toMatchObject([{ platform: 'apns', accepted: false, reason }]);
    expect(sandbox.apns.counts).toMatchObject({ requests: 1, accepted: 0 });
  });

  it('nothing that only a device would ignore, and tells it in the journal', async () => {
    const sandbox = await openSandbox();
    const client = await connectApns(sandbox);
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
    const sandbox = await openSandbox();
    const client = await connectApns(sandbox);
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
