import { constants } from 'node:http2';
import { describe, expect, it } from 'vitest';
import { AnswerQueue, type Answer, type Refuse } from '../../sandbox/loopback/answers.ts';
import { seededRandom } from '../../sandbox/loopback/timing.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectApns, PAYLOAD, verdict } from './apns-client.ts';
import { open, SENDER_TO } from './client.ts';
import { connectFcm } from './fcm-client.ts';
import { waitFor } from '../support/wait.ts';

const GONE: Refuse = { kind: 'refuse', status: 410, reason: 'Unregistered', timestamp: 1_795_000_000_000 };
const BUSY: Refuse = { kind: 'refuse', status: 503, reason: 'UNAVAILABLE', retryAfter: '7' };

describe.each(['apns', 'fcm'] as const)('%s', (platform) => {
  it('answers a token by its script, one answer a request, then by the default', async () => {
    const sandbox = await openSandbox();
    const send = await SENDER_TO[platform](sandbox);
    sandbox[platform].script('ab', [BUSY, BUSY, { kind: 'accept' }, GONE]);
    const statuses: number[] = [];
    for (const token of ['ab', 'cd', 'ab', 'ab', 'ab', 'ab']) statuses.push(await send({ token }));
    expect(statuses).toEqual([503, 200, 503, 200, 410, 200]);
    sandbox[platform].setDefault(GONE);
    expect(await send({ token: 'ab' })).toBe(410);
    sandbox[platform].setDefault(undefined);
    expect(await send({ token: 'ab' })).toBe(200);
  });

  it('keeps a script for requests that are in order', async () => {
    const sandbox = await openSandbox();
    sandbox[platform].script('ab', [GONE]);
    sandbox[platform].revokeKey();
    const send = await SENDER_TO[platform](sandbox);
    expect([401, 403]).toContain(await send({ token: 'ab' }));
    sandbox[platform].restoreKey();
    expect(await send({ token: 'ab' })).toBe(410);
  });

  it.each<[string, Answer]>([
    ['and says so', { kind: 'accept' }],
    ['and answers 503', { ...BUSY, accepted: true }],
    ['and resets', { kind: 'reset', accepted: true }],
  ])('alerts the device %s', async (_what, answer) => {
    const sandbox = await openSandbox();
    const send = await SENDER_TO[platform](sandbox);
    sandbox[platform].script('ab', [answer]);
    await send({ token: 'ab' }).catch(() => undefined);
    expect(sandbox.journal.accepted).toMatchObject([{ platform, token: 'ab', accepted: true }]);
    expect(sandbox[platform].counts).toMatchObject({ requests: 1, accepted: 1 });
  });

  it('resets the connection, and takes the next', async () => {
    const sandbox = await openSandbox();
    const send = await SENDER_TO[platform](sandbox);
    sandbox[platform].script('ab', [{ kind: 'reset' }]);
    await expect(send({ token: 'ab' })).rejects.toThrow('ECONNRESET');
    expect(sandbox.journal.all).toMatchObject([{ accepted: false, reason: 'reset' }]);
    expect(sandbox.journal.all[0]?.status).toBeUndefined();
    await waitFor(() => expect(sandbox[platform].openConnections).toBe(0));
    expect(await (await SENDER_TO[platform](sandbox))({ token: 'ab' })).toBe(200);
  });

  it('hangs until the client has had enough', async () => {
    const sandbox = await openSandbox();
    const send = await SENDER_TO[platform](sandbox);
    sandbox[platform].script('ab', [{ kind: 'hang' }, { kind: 'hang', accepted: true }]);
    const ends = [send({ token: 'ab' }), send({ token: 'ab' })].map((end) => end.catch(() => 'no answer'));
    await waitFor(() => expect(sandbox.journal.all.length).toBeGreaterThan(0));
    expect(sandbox.journal.all[0]).toMatchObject({ reason: 'hang', accepted: false });
    sandbox[platform].dropConnections();
    expect(await Promise.all(ends)).toEqual(['no answer', 'no answer']);
  });

  it('answers a share of the requests by the rates, the same share for the same seed', async () => {
    const statuses = async (seed: number) => {
      const sandbox = await openSandbox({ seed });
      const send = await SENDER_TO[platform](sandbox);
      sandbox[platform].setRates([
        { rate: 0.25, answer: GONE },
        { rate: 0.25, answer: BUSY },
      ]);
      const all: number[] = [];
      for (let request = 0; request < 200; request += 1) all.push(await send({ token: 'ab' }));
      return all;
    };
    const first = await statuses(7);
    expect(await statuses(7)).toEqual(first);
    expect(await statuses(8)).not.toEqual(first);
    for (const [status, share] of [
      [410, 50],
      [503, 50],
      [200, 100],
    ] as const) {
      expect(Math.abs(first.filter((one) => one === status).length - share)).toBeLessThan(25);
    }
  });
});

describe('APNs', () => {
  it('has a timestamp and Retry-After, and leaves the body out where it is asked to', async () => {
    const { sandbox, client } = await open(connectApns);
    sandbox.apns.script('ab01', [GONE, BUSY, { ...BUSY, emptyBody: true }]);
    expect((await client.post()).body).toBe('{"reason":"Unregistered","timestamp":1795000000000}');
    expect((await client.post()).headers['retry-after']).toBe('7');
    expect(await client.post()).toMatchObject({ status: 503, body: '' });
  });
});

describe('a client that gives up before a late answer', () => {
  it('harms nobody on APNs', async () => {
    const { sandbox, client } = await open(connectApns);
    await client.post({ token: 'cd' });
    sandbox.apns.script('ab', [{ kind: 'accept', delayMs: 50 }]);
    sandbox.apns.script('cd', [{ kind: 'accept', delayMs: 100 }]);
    const stream = client.open({ token: 'ab' }).end(PAYLOAD);
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(2));
    stream.close(constants.NGHTTP2_CANCEL);
    expect(verdict(await client.post({ token: 'cd' }))).toEqual({ status: 200 }); // decided later, answered later
  });

  it('harms nobody on FCM', async () => {
    const { sandbox, client } = await open(connectFcm);
    sandbox.fcm.script('ab', [{ kind: 'accept', delayMs: 50 }]);
    sandbox.fcm.script('cd', [{ kind: 'accept', delayMs: 100 }]);
    const given = client.send({ token: 'ab' });
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
    sandbox.fcm.dropConnections();
    await expect(given).rejects.toThrow('ECONNRESET');
    expect(await client.send({ token: 'cd' })).toMatchObject({ status: 200 });
  });
});

describe('AnswerQueue', () => {
  it.each([
    ['more than all', [0.6, 0.5]],
    ['less than none', [-0.1]],
    ['no number', [NaN]],
  ])('refuses rates that are %s', (_what, rates) => {
    const book = new AnswerQueue(seededRandom(1));
    expect(() => book.setRates(rates.map((rate) => ({ rate, answer: GONE })))).toThrow(RangeError);
  });

  it('takes rates that add up to all, and then never uses the default', () => {
    const book = new AnswerQueue(seededRandom(1));
    book.setDefault(BUSY);
    book.setRates([0.1, 0.2, 0.7].map((rate) => ({ rate, answer: GONE })));
    expect(new Set(Array.from({ length: 500 }, () => book.next('ab')))).toEqual(new Set([GONE]));
    book.setRates([]);
    expect(book.next('ab')).toBe(BUSY);
  });

  it('forgets what is left of a script when it gets another', () => {
    const book = new AnswerQueue(seededRandom(1));
    book.script('ab', [GONE, GONE]);
    book.script('ab', [BUSY]);
    expect([book.next('ab'), book.next('ab')]).toEqual([BUSY, { kind: 'accept' }]);
  });
});
