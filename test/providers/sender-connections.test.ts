import type { ServerHttp2Stream } from 'node:http2';
import { createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { backoffMs } from '../../src/providers/sender/pool.ts';
import { portOf } from '../support/listen.ts';
import { openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import {
  accept,
  brief,
  certificate,
  openSender,
  openServer,
  post,
  postMany,
  secureContext,
  tally,
} from './h2-server.ts';

test('a cold burst of 200 keeps to the one stream that APNs allows at first, and then to its thousand', async () => {
  const raised = new Set<unknown>();
  const early: string[] = [];
  const openOn = new Map<unknown, number>();
  const held: ServerHttp2Stream[] = [];
  const server = await openServer(
    (stream) => {
      const { session } = stream;
      const open = (openOn.get(session) ?? 0) + 1;
      openOn.set(session, open);
      stream.once('close', () => openOn.set(session, (openOn.get(session) ?? 0) - 1));
      if (!raised.has(session) && open > 1) early.push(`${open} streams at once`);
      setTimeout(() => {
        if (!raised.has(session)) session?.settings({ maxConcurrentStreams: 1_000 });
        raised.add(session);
        if (server.paths.length <= 200) accept(stream);
        else if (held.push(stream) === 1_500) held.forEach(accept);
      }, 30);
    },
    { settings: { maxConcurrentStreams: 1 } },
  );
  const sender = openSender(server);
  expect(tally(await postMany(sender, 200))).toEqual({ 'answered 200': 200 });
  expect(early).toEqual([]);
  expect(server.connectedAt).toHaveLength(2);
  expect(server.paths).toHaveLength(200); // none was refused and sent again
  expect(tally(await postMany(sender, 1_500))).toEqual({ 'answered 200': 1_500 });
  expect(server.load.peak).toBeGreaterThan(500);
  expect(server.connectedAt).toHaveLength(2);
});

test('FCM: 400 sends at once open 3 to 6 connections of 100 streams', async () => {
  const sandbox = await openSandbox();
  const provider = await openFcm(sandbox);
  sandbox.fcm.setDefault({ kind: 'accept', delayMs: 250 });
  await provider.connect();
  const all = await Promise.all(Array.from({ length: 400 }, () => sendPush(provider, makePush({ platform: 'fcm' }))));
  expect(all.filter(({ meaning }) => meaning === 'accepted')).toHaveLength(400);
  expect(sandbox.fcm.counts.accepted).toBe(400);
  expect(sandbox.fcm.counts.connections).toBeGreaterThanOrEqual(3);
  expect(sandbox.fcm.counts.connections).toBeLessThanOrEqual(6);
});

test('never more than the most that is allowed, whatever waits', async () => {
  const server = await openServer((stream) => void setTimeout(accept, 20, stream), {
    settings: { maxConcurrentStreams: 5 },
  });
  const sender = openSender(server, { maxConnections: 4 });
  expect(tally(await postMany(sender, 400))).toEqual({ 'answered 200': 400 });
  expect(server.connectedAt).toHaveLength(4);
});

test('the wait before the next try to connect doubles from 250 ms up to 15 s, the upper half of it by chance', () => {
  expect([1, 2, 3, 6, 7, 8, 10_000].map((failures) => backoffMs(failures, 1))).toEqual([
    250, 500, 1_000, 8_000, 15_000, 15_000, 15_000,
  ]);
  expect([1, 2, 10_000].map((failures) => backoffMs(failures, 0))).toEqual([125, 250, 7_500]);
});

test('a server that takes no more connections is not asked for more with every answer', async () => {
  const server = await openServer((stream) => void setTimeout(accept, 2, stream), {
    settings: { maxConcurrentStreams: 2 },
    maxConnections: 2,
  });
  const sender = openSender(server, { random: () => 0 });
  expect(tally(await postMany(sender, 2_000))).toEqual({ 'answered 200': 2_000 });
  const [first = 0] = server.connectedAt;
  const lastedMs = performance.now() - first;
  // With the wait doubled from 125 ms, n tries take 125 * (2^n - 1).
  const tries = Math.ceil(Math.log2(lastedMs / 125 + 1)) + 1;
  expect(server.connectedAt.length).toBeLessThanOrEqual(2 + 14 * tries);
  expect(server.connectedAt.length).toBeGreaterThan(2);
});

test('connections that are refused together are one failure: the next try comes soon', async () => {
  const options = { settings: { maxConcurrentStreams: 2 }, maxConnections: 2 };
  const server = await openServer((stream) => void setTimeout(accept, 50, stream), options);
  const sender = openSender(server);
  const all = postMany(sender, 1_000);
  await waitFor(() => expect(server.connectedAt.length).toBeGreaterThan(20)); // the second round of 14
  options.maxConnections = 100;
  await waitFor(() => expect(server.connectedAt.length).toBeGreaterThan(30)); // the third
  // Two connections carry at most 80 requests a second: at least 600 in the 7.5 s or more that a wait for each refusal would last.
  expect(server.paths.length).toBeLessThan(300);
  await all;
  expect(server.sessions.size).toBeGreaterThan(10);
});

test('while there is no connection a send fails at once, but brings on the next try after half a second', async () => {
  const closed = await openServer();
  const { server, ...at } = closed;
  await new Promise((resolve) => server.close(resolve));
  const sender = openSender(at, { random: () => 1 });
  for (let round = 0; round < 3; round += 1) {
    const replies = await postMany(sender, 20);
    expect(tally(replies)).toEqual({ 'unsent connection-refused': 20 });
  }
  await new Promise<void>((resolve) => server.listen(at.endpoint.port, '127.0.0.1', resolve));
  await waitFor(async () => expect(brief(await post(sender))).toBe('answered 200'));
});

async function serve(server: ReturnType<typeof createServer>) {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => undefined)));
  const port = await portOf(server);
  onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
  return { endpoint: { host: '127.0.0.1', port }, secureContext, sockets };
}

test.each([
  ['says nothing at all', () => createServer((socket) => void socket.resume()), 'connect-timeout'],
  [
    'stands after TLS and never sends SETTINGS',
    () => createTlsServer({ ...certificate, ALPNProtocols: ['h2'] }, (socket) => void socket.resume()),
    'connect-timeout',
  ],
  [
    'hangs up after TLS',
    () => createTlsServer({ ...certificate, ALPNProtocols: ['h2'] }, (socket) => void socket.destroy()),
    'connection-failed',
  ],
  [
    'speaks HTTP/1.1',
    () => createTlsServer(certificate, (socket) => void socket.resume().end('HTTP/1.1 400 Bad Request\r\n\r\n')),
    'no-http2',
  ],
  [
    'speaks no TLS',
    () => createServer((socket) => void socket.resume().end('220 mail.example ESMTP\r\n')),
    'tls-failed',
  ],
] as const)(
  'a server that %s: nothing was sent, and neither a send nor connect waits for ever',
  async (_n, make, code) => {
    const at = await serve(make());
    const sender = openSender(at, { connectTimeoutMs: code === 'connect-timeout' ? 300 : 60_000 });
    await sender.connect();
    expect(brief(await post(sender))).toBe(`unsent ${code}`);
    await sender.close();
    await waitFor(() => expect([...at.sockets].every(({ destroyed }) => destroyed)).toBe(true));
  },
);

test('a handshake slower than a send may wait serves the next one', async () => {
  const sandbox = await openSandbox();
  const provider = await openFcm(sandbox);
  sandbox.fcm.slowHandshakes(1_000);
  const late = await Promise.all(
    Array.from({ length: 5 }, () =>
      sendPush(provider, makePush({ platform: 'fcm' }), { sendBy: performance.now() + 100 }),
    ),
  );
  expect(late.map(({ code }) => code)).toEqual(late.map(() => 'no-stream'));
  expect((await sendPush(provider, makePush({ platform: 'fcm' }))).meaning).toBe('accepted');
  expect(sandbox.fcm.counts).toMatchObject({ requests: 1, connections: 2 });
});

test('the server says goodbye to idle connections: the next sends go through at once, each once', async () => {
  const server = await openServer();
  const sender = openSender(server);
  for (let round = 0; round < 10; round += 1) {
    expect(tally(await postMany(sender, 10))).toEqual({ 'answered 200': 10 });
    for (const session of server.sessions) server.goAway(session);
  }
  expect(server.paths).toHaveLength(100);
});

test('idle connections end without a word: once that has arrived, the next sends go through, each once', async () => {
  const server = await openServer();
  const sender = openSender(server);
  for (let round = 0; round < 10; round += 1) {
    expect(tally(await postMany(sender, 10))).toEqual({ 'answered 200': 10 });
    await waitFor(() => expect(server.sessions.size).toBe(2));
    const opened = server.connectedAt.length;
    for (const socket of server.sockets) socket[round % 2 === 0 ? 'end' : 'resetAndDestroy']();
    await waitFor(() => expect(server.connectedAt).toHaveLength(opened + 2));
  }
  expect(server.paths).toHaveLength(100);
});

test('no warning, no listener and no timer is left by thousands of sends', async () => {
  const warnings: string[] = [];
  const onWarning = (warning: Error): void => void warnings.push(`${warning.name}: ${warning.message}`);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  const server = await openServer();
  const sender = openSender(server, { requestTimeoutMs: 60_000 });
  for (let round = 0; round < 20; round += 1) {
    const results = await postMany(sender, 100, () => ({ sendBy: performance.now() + 20_000 }));
    expect(tally(results)).toEqual({ 'answered 200': 100 });
  }
  expect(process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length).toBeLessThan(50);
  expect(server.connectedAt).toHaveLength(2);
  expect(warnings).toEqual([]);
});
