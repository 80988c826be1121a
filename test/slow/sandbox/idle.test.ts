import { readFile } from 'node:fs/promises';
import type { ClientHttp2Session } from 'node:http2';
import { text } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DEFAULT_LATENCY, timingOf } from '../../../sandbox/loopback/timing.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { openSandbox } from '../../support/sandbox.ts';
import { waitFor } from '../../support/wait.ts';
import { connectApns } from '../../sandbox/apns-client.ts';
import { connectFcm, connectFcmHttp2 } from '../../sandbox/fcm-client.ts';

interface Client {
  readonly session: ClientHttp2Session;
  /** Gives the status. */
  send(): Promise<number>;
}

/** Both providers over HTTP/2 by the same few words, and what an idle connection gets. */
const providers = {
  apns: {
    goodbye: '{"reason":"IdleTimeout"}',
    connect: async (sandbox: Sandbox): Promise<Client> => {
      const client = await connectApns(sandbox);
      return { session: client.session, send: async () => (await client.post()).status };
    },
  },
  fcm: {
    goodbye: 'session_timed_out',
    connect: async (sandbox: Sandbox): Promise<Client> => {
      const client = await connectFcmHttp2(sandbox);
      return { session: client.session, send: async () => (await client.send({ token: 'ab01' })).status };
    },
  },
};

describe.each(['apns', 'fcm'] as const)('%s over HTTP/2', (platform) => {
  const { connect, goodbye } = providers[platform];

  it('closes a connection that was idle for long, with GOAWAY', async () => {
    const sandbox = await openSandbox({ idleMs: 100 });
    expect(await goodbyeTo(await connect(sandbox))).toBe(goodbye);
    await waitFor(() => expect(sandbox[platform].openConnections).toBe(0));
  });

  it('keeps a connection while a request is under way, and counts from its end', async () => {
    const sandbox = await openSandbox({ idleMs: 400 }); // with the jitter 600 ms at most
    sandbox[platform].setDefault({ kind: 'accept', delayMs: 800 });
    const client = await connect(sandbox);
    const seen: unknown[] = [];
    const closing = goodbyeTo(client).then((data) => seen.push(data));
    seen.push(await client.send());
    await closing;
    expect(seen).toEqual([200, goodbye]);
  });

  it('closes the idle ones at once where it is asked to, and no others', async () => {
    const sandbox = await openSandbox();
    const [idle, busy] = [await connect(sandbox), await connect(sandbox)];
    expect([await idle.send(), await busy.send()]).toEqual([200, 200]);
    sandbox[platform].setDefault({ kind: 'accept', delayMs: 500 });
    const answer = busy.send();
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(3));
    const closing = goodbyeTo(idle);
    sandbox[platform].closeIdle();
    expect(await closing).toBe(goodbye);
    await waitFor(() => expect(sandbox[platform].openConnections).toBe(1));
    expect(await answer).toBe(200);
    expect(await busy.send()).toBe(200);
  });
});

describe('fcm over HTTP/1.1', () => {
  it('closes a connection that was idle for long', async () => {
    const sandbox = await openSandbox({ idleMs: 100 });
    const { hostname: host, port } = new URL(sandbox.fcm.url);
    // No agent of Node's: it closes by itself when the server says how long it keeps a connection.
    const socket = connectTls({ host, port: Number(port), ca: await readFile(sandbox.caFile) });
    onTestFinished(() => void socket.destroy());
    socket.write('GET / HTTP/1.1\r\nHost: fcm.googleapis.com\r\n\r\n');
    expect(await text(socket)).toMatch(/^HTTP\/1.1 404 /); // to the end that the server makes
    await waitFor(() => expect(sandbox.fcm.openConnections).toBe(0));
  });

  it('closes the idle ones at once where it is asked to, and no others', async () => {
    const sandbox = await openSandbox();
    const [idle, busy] = [await connectFcm(sandbox), await connectFcm(sandbox)];
    for (let index = 0; index < 2; index += 1) {
      await idle.send({ token: 'ab' });
      await busy.send({ token: 'ab' });
    }
    sandbox.fcm.setDefault({ kind: 'accept', delayMs: 500 });
    const answer = busy.send({ token: 'ab' });
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(5));
    expect(sandbox.fcm.openConnections).toBe(2);
    sandbox.fcm.closeIdle();
    await waitFor(() => expect(sandbox.fcm.openConnections).toBe(1));
    expect(await answer).toMatchObject({ status: 200 });
    expect(await busy.send({ token: 'ab' })).toMatchObject({ status: 200 });
    expect(sandbox.fcm.counts.connections).toBe(2);
  });
});

describe('how long a connection may be idle', () => {
  it('is a minute, half of it more or less, where answers take time', () => {
    const { drawIdleMs, handshakeMs } = timingOf({ latency: DEFAULT_LATENCY }, 1);
    const limits = Array.from({ length: 1_000 }, drawIdleMs);
    expect(Math.min(...limits)).toBeGreaterThanOrEqual(30_000);
    expect(Math.min(...limits)).toBeLessThan(35_000);
    expect(Math.max(...limits)).toBeLessThan(90_000);
    expect(Math.max(...limits)).toBeGreaterThan(85_000);
    expect(handshakeMs).toBe(50);
    expect(Array.from({ length: 1_000 }, timingOf({}, 1).drawIdleMs)).toEqual(limits);
  });

  it('has no end where they do not', () => {
    const { drawIdleMs, handshakeMs } = timingOf({ latency: { medianMs: 0, p99Ms: 0 } }, 1);
    expect([drawIdleMs(), handshakeMs]).toEqual([Infinity, 0]);
  });
});

/** GOAWAY's debug data, when it comes. */
function goodbyeTo({ session }: Client): Promise<string> {
  return new Promise((resolve) => session.once('goaway', (_code, _lastStreamId, data) => resolve(String(data))));
}
