import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it, onTestFinished } from 'vitest';
import { CERTIFICATE_FAULTS } from '../../sandbox/loopback/certificates.ts';
import { DEFAULT_LATENCY, latencyDraw, NO_LATENCY, seededRandom } from '../../sandbox/loopback/timing.ts';
import { type Sandbox, startSandbox } from '../../sandbox/sandbox.ts';
import { openSandbox } from '../support/sandbox.ts';
import { waitFor } from '../support/wait.ts';
import { connectApns } from './apns-client.ts';
import { SENDERS, SENDER_TO } from './client.ts';
import { connectFcm } from './fcm-client.ts';

const SERVER_NAMES = { apns: 'api.push.apple.com', fcm: 'fcm.googleapis.com' } as const;

/** What a TLS client that trusts the sandbox's authority says of the certificate: nothing where it is right. */
async function complaint(sandbox: Sandbox, platform: 'apns' | 'fcm'): Promise<string | undefined> {
  const { port, hostname: host } = new URL(sandbox[platform].url);
  const ca = await readFile(sandbox.caFile);
  const socket = connectTls({ host, port: Number(port), ca, servername: SERVER_NAMES[platform] });
  onTestFinished(() => void socket.destroy());
  return new Promise((resolve) => {
    socket.once('secureConnect', () => resolve(undefined));
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  });
}

describe.each(['apns', 'fcm'] as const)('%s', (platform) => {
  it('goes down: connections are cut and new ones refused; and comes up where it was', async () => {
    const sandbox = await openSandbox();
    const server = sandbox[platform];
    const { url } = server;
    const send = await SENDER_TO[platform](sandbox);
    expect(await send()).toBe(200);
    await server.down();
    await server.down();
    await expect(send()).rejects.toThrow();
    const refused = connect(Number(new URL(url).port), '127.0.0.1');
    expect(await once(refused, 'error')).toMatchObject([{ code: 'ECONNREFUSED' }]);
    await server.up();
    await server.up();
    expect(server.url).toBe(url);
    expect(await (await SENDER_TO[platform](sandbox))()).toBe(200);
  });

  it('freezes standing connections, both ways and without a close; new ones are served', async () => {
    const sandbox = await openSandbox();
    const server = sandbox[platform];
    const [send, other] = [await SENDER_TO[platform](sandbox), await SENDER_TO[platform](sandbox)];
    await Promise.all([send(), other()]);
    server.setDefault({ kind: 'accept', delayMs: 100 });
    const asked = send();
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(3));
    server.freeze(); // before the answer
    const unheard = other();
    const answers: number[] = [];
    void Promise.all([asked, unheard].map(async (answer) => answers.push(await answer)));
    expect(await (await SENDER_TO[platform](sandbox))()).toBe(200);
    expect(await (await SENDER_TO[platform](sandbox))()).toBe(200);
    expect(answers).toEqual([]);
    expect(sandbox.journal.all).toHaveLength(5);
    expect(server.openConnections).toBe(4);
    server.thaw();
    await waitFor(() => expect(answers).toEqual([200, 200]));
    expect(sandbox.journal.all).toHaveLength(6);
  });

  it('shows certificates that nobody may trust, to new connections only', async () => {
    const sandbox = await openSandbox();
    const send = await SENDER_TO[platform](sandbox);
    expect(await send()).toBe(200);
    const complaints: (string | undefined)[] = [];
    for (const fault of CERTIFICATE_FAULTS) {
      await sandbox.spoilCertificate(platform, fault);
      complaints.push(await complaint(sandbox, platform));
    }
    expect(complaints).toEqual([
      'CERT_SIGNATURE_FAILURE', // the other authority has the same name
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'ERR_TLS_CERT_ALTNAME_INVALID',
      'CERT_HAS_EXPIRED',
    ]);
    expect(await send()).toBe(200);
    await sandbox.spoilCertificate(platform, undefined);
    expect(await complaint(sandbox, platform)).toBeUndefined();
  });

  it('cuts off so many requests at their headers, and journals none of them', async () => {
    const sandbox = await openSandbox();
    sandbox[platform].cutRequests(2);
    for (let cut = 0; cut < 2; cut += 1) {
      const send = await SENDER_TO[platform](sandbox);
      await expect(send()).rejects.toThrow();
    }
    expect(await (await SENDER_TO[platform](sandbox))()).toBe(200);
    expect(sandbox.journal.all).toHaveLength(1);
    expect(sandbox[platform].counts.requests).toBe(3);
  });

  it('closes while it is down, and while connections are frozen', async () => {
    const sandbox = await openSandbox();
    const send = await SENDER_TO[platform](sandbox);
    await send();
    sandbox[platform].freeze();
    const lost = send().catch(() => 'lost');
    await sandbox[platform].down();
    expect(await lost).toBe('lost');
    await sandbox.close();
  });
});

it('answers with any body in place of its own', async () => {
  const sandbox = await openSandbox();
  const [apns, fcm] = [await connectApns(sandbox), await connectFcm(sandbox)];
  for (const kind of ['accept', 'refuse'] as const) {
    const answer = { kind, status: 502, body: '<html>' } as const;
    sandbox.apns.setDefault(answer);
    sandbox.fcm.setDefault(answer);
    const status = kind === 'accept' ? 200 : 502;
    expect(await apns.post()).toMatchObject({ status, body: '<html>' });
    expect(await fcm.send({ token: 'ab' })).toMatchObject({ status, body: '<html>' });
  }
});

/** Every answer takes exactly so long. */
const ALWAYS_80_MS = { medianMs: 80, p99Ms: 80 };
const REFUSAL = { kind: 'refuse', status: 503 } as const;

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

describe.each(Object.entries(SENDERS))('%s', (name, connect) => {
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
    const answered = await send(path === undefined ? {} : { path });
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
