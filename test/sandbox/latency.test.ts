import { describe, expect, it } from 'vitest';
import { DEFAULT_LATENCY, latencyDraw, NO_LATENCY, seededRandom } from '../../sandbox/loopback/timing.ts';
import { startSandbox, type Sandbox } from '../../sandbox/sandbox.ts';
import { openSandbox } from '../support/sandbox.ts';
import { waitFor } from '../support/wait.ts';
import { connectApns } from './apns-client.ts';
import { connectFcm, connectFcmHttp2 } from './fcm-client.ts';

/** Every answer takes exactly so long. */
const ALWAYS_80_MS = { medianMs: 80, p99Ms: 80 };
const REFUSAL = { kind: 'refuse', status: 503 } as const;

/** Each way to send one alert: gives the status. */
const senders = {
  apns: async (sandbox: Sandbox) => {
    const client = await connectApns(sandbox);
    return async (path?: string) => (await client.post(path === undefined ? {} : { path })).status;
  },
  'fcm over HTTP/2': async (sandbox: Sandbox) => {
    const client = await connectFcmHttp2(sandbox);
    return async (path?: string) => (await client.send({ token: 'ab01' }, path === undefined ? {} : { path })).status;
  },
  'fcm over HTTP/1.1': async (sandbox: Sandbox) => {
    const client = await connectFcm(sandbox);
    return async (path?: string) => (await client.send({ token: 'ab01' }, path === undefined ? {} : { path })).status;
  },
};

function draws(latency: typeof DEFAULT_LATENCY, seed: number, count: number): number[] {
  const draw = latencyDraw(latency, seededRandom(seed)) ?? (() => 0);
  return Array.from({ length: count }, draw);
}

function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? NaN;
}

describe('the latency that is drawn', () => {
  it.each([
    [DEFAULT_LATENCY, 1],
    [DEFAULT_LATENCY, 2],
    [{ medianMs: 5, p99Ms: 20 }, 3],
  ])('has the median and the 99th percentile of %j, seed %i', (latency, seed) => {
    const values = draws(latency, seed, 50_000);
    expect(percentile(values, 0.5) / latency.medianMs).toBeCloseTo(1, 1);
    expect(percentile(values, 0.99) / latency.p99Ms).toBeCloseTo(1, 1);
    expect(Math.min(...values)).toBeGreaterThan(0);
    expect(Math.max(...values)).toBeGreaterThan(latency.p99Ms * 1.5); // a tail
  });

  it('is the same for the same seed', () => {
    expect(draws(DEFAULT_LATENCY, 7, 100)).toEqual(draws(DEFAULT_LATENCY, 7, 100));
    expect(draws(DEFAULT_LATENCY, 8, 100)).not.toEqual(draws(DEFAULT_LATENCY, 7, 100));
  });

  it('is none at all where it is off', () => {
    expect(latencyDraw(NO_LATENCY, seededRandom(1))).toBeUndefined();
  });

  it.each([
    { medianMs: 0, p99Ms: 5 },
    { medianMs: 50, p99Ms: 40 },
    { medianMs: -1, p99Ms: 40 },
    { medianMs: NaN, p99Ms: 40 },
    { medianMs: 40, p99Ms: Infinity },
  ])('must make sense: not %j', async (latency) => {
    await expect(startSandbox({ latency })).rejects.toThrow(/^latency: expected a median above 0 ms/);
  });

  it.each([
    [{ handshakeMs: -1 }, 'handshakeMs: expected 0 or more, found -1'],
    [{ idleMs: 0 }, 'idleMs: expected more than 0'],
    [{ idleMs: 86_400_001 }, 'idleMs: expected more than 0 and at most 86400000'],
  ])('nor may the other timings be wrong: %j', async (timing, message) => {
    await expect(startSandbox(timing)).rejects.toThrow(message);
  });
});

describe.each(Object.entries(senders))('%s', (name, connect) => {
  const platform = name === 'apns' ? 'apns' : 'fcm';

  it.each<[string, number, (sandbox: Sandbox) => void, string?]>([
    ['an alert', 200, () => undefined],
    ['a scripted refusal', 503, (sandbox) => sandbox[platform].script('ab01', [REFUSAL])],
    ['a request that is not in order', 404, () => undefined, '/nowhere'],
  ])('answers %s after its latency, and has journalled it on arrival', async (_what, status, prepare, path) => {
    const sandbox = await openSandbox({ latency: ALWAYS_80_MS, handshakeMs: 0 });
    const send = await connect(sandbox);
    prepare(sandbox);
    let isAnswered = false;
    const journalledFirst = new Promise<boolean>((resolve) => sandbox.journal.on(() => resolve(!isAnswered)));
    const answered = await send(path);
    isAnswered = true;
    const answeredAt = performance.timeOrigin + performance.now();
    expect(answered).toBe(status);
    expect(await journalledFirst).toBe(true);
    expect(answeredAt - (sandbox.journal.all[0]?.at ?? NaN)).toBeGreaterThanOrEqual(79);
  });

  it('answers when a scripted delay says, in place of its latency', async () => {
    const sandbox = await openSandbox({ latency: { medianMs: 600_000, p99Ms: 600_000 } });
    const send = await connect(sandbox);
    sandbox[platform].script('ab01', [
      { kind: 'accept', delayMs: 0 },
      { kind: 'accept', delayMs: 20 },
    ]);
    expect([await send(), await send()]).toEqual([200, 200]);
  });

  it('draws the same rates with latency and without', async () => {
    const statuses = async (latency: typeof DEFAULT_LATENCY) => {
      const sandbox = await openSandbox({ latency, seed: 5 });
      sandbox[platform].setRates([{ rate: 0.5, answer: REFUSAL }]);
      const send = await connect(sandbox);
      const all: number[] = [];
      for (let index = 0; index < 40; index += 1) all.push(await send());
      return all;
    };
    const first = await statuses(NO_LATENCY);
    expect(new Set(first)).toEqual(new Set([200, 503]));
    expect(await statuses({ medianMs: 1, p99Ms: 3 })).toEqual(first);
  });

  it('gives no answer any more once it is closed', async () => {
    const sandbox = await openSandbox({ latency: { medianMs: 600_000, p99Ms: 600_000 } });
    const send = await connect(sandbox);
    const end = send().catch(() => 'no answer');
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
    await sandbox.close();
    expect(await end).toBe('no answer');
  });

  it.each<[object, number]>([
    [{ latency: DEFAULT_LATENCY }, 50],
    [{ latency: NO_LATENCY, handshakeMs: 70 }, 70],
  ])('answers a handshake late with %j', async (options, waitMs) => {
    const sandbox = await openSandbox(options);
    const startedAt = performance.now();
    const send = await connect(sandbox);
    sandbox[platform].script('ab01', [{ kind: 'accept', delayMs: 0 }]);
    expect(await send()).toBe(200);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(waitMs - 1);
  });
});

it('a server that slowed its handshakes down can return to its own', async () => {
  const sandbox = await openSandbox({ handshakeMs: 60 });
  sandbox.apns.slowHandshakes(600_000);
  sandbox.apns.slowHandshakes();
  const startedAt = performance.now();
  expect((await (await connectApns(sandbox)).post()).status).toBe(200);
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(59);
});
