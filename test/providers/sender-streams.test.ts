import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import { expect, test } from 'vitest';
import type { Permit, Reply } from '../../src/providers/provider.ts';
import { StreamPermit } from '../../src/providers/sender/pool.ts';
import type { SendResult } from '../../src/providers/sender/result.ts';
import type { Sender } from '../../src/providers/sender/sender.ts';
import { seededRandom } from '../../sandbox/loopback/timing.ts';
import { openApns, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import { accept, brief, type H2Server, openSender, openServer, post, postMany, tally } from './h2-server.ts';

/** Answers a request when `answerOne` is called. */
function silentServer(maxConcurrentStreams: number) {
  const streams: ServerHttp2Stream[] = [];
  const opened = openServer((stream) => streams.push(stream), { settings: { maxConcurrentStreams } });
  const answerOne = (): void => {
    const stream = streams.shift();
    if (stream) accept(stream);
  };
  return opened.then((server) => ({ ...server, streams, answerOne }));
}

async function permitOf(sender: Sender): Promise<Permit> {
  const permit = await sender.reserve();
  if (!('release' in permit)) throw new Error(`no permit: ${permit.code}`);
  return permit;
}

test('who waits longest is served first', async () => {
  const server = await silentServer(1);
  const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
  const all = postMany(sender, 5);
  for (let answered = 0; answered < 5; answered += 1) {
    await waitFor(() => expect(server.streams).toHaveLength(1));
    server.answerOne();
  }
  await all;
  expect(server.paths).toEqual(['/0', '/1', '/2', '/3', '/4']);
});

test('what was not handed over by sendBy is not sent: with a permit, without one, and where nobody is connected', async () => {
  const server = await openServer();
  const sender = openSender(server);
  const over = performance.now() - 1;
  expect(brief(await post(sender, '/cold', { sendBy: over }))).toBe('unsent too-late');
  expect(server.connectedAt).toHaveLength(0); // not even a connection
  const permit = await permitOf(sender);
  expect(brief(await post(sender, '/warm', { permit, sendBy: over }))).toBe('unsent too-late');
  expect(brief(await post(sender, '/warm', { sendBy: over }))).toBe('unsent too-late');
  expect(brief(await post(sender, '/in-time', { sendBy: performance.now() + 10_000 }))).toBe('answered 200');
  expect(server.paths).toEqual(['/in-time']);
});

test('every way in which a send can end gives its stream back', async () => {
  let answer: (stream: ServerHttp2Stream) => void = accept;
  const server = await openServer((stream) => answer(stream), { settings: { maxConcurrentStreams: 10 } });
  const sender = openSender(server, { minConnections: 1, maxConnections: 1, requestTimeoutMs: 2_000 });
  const endings: [string, (stream: ServerHttp2Stream) => void][] = [
    ['answered 200', accept],
    ['unsent refused-stream', (stream) => stream.close(7)],
    ['unknown reset', (stream) => stream.destroy(new Error('an error of the server'))],
    ['unknown timeout', () => undefined],
  ];
  for (const [name, end] of endings) {
    answer = end;
    expect(tally(await postMany(sender, 10))).toEqual({ [name]: 10 });
  }
  const permits = await Promise.all(Array.from({ length: 10 }, () => permitOf(sender)));
  for (const permit of permits.slice(5)) permit.release();
  for (const permit of permits.slice(0, 5)) {
    expect(brief(await post(sender, '/', { permit, sendBy: 0 }))).toBe('unsent too-late');
  }
  await Promise.all(Array.from({ length: 10 }, () => permitOf(sender))); // all ten streams are free again
  expect(server.load.peak).toBe(10);
});

test('SETTINGS that lower the number of streams count at once, and a higher number serves those who wait', async () => {
  const server = await silentServer(8);
  const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
  const first = postMany(sender, 8);
  await waitFor(() => expect(server.streams).toHaveLength(8));
  const [session] = server.sessions;
  await new Promise<void>((resolve) => session?.settings({ maxConcurrentStreams: 2 }, () => resolve()));
  const rest = postMany(sender, 12);
  for (let left = 8; left > 2; left -= 1) {
    server.answerOne();
    await waitFor(() => expect(server.load.now).toBe(left - 1));
  }
  server.answerOne();
  await waitFor(() => expect(server.paths).toHaveLength(9)); // one was answered, one more came
  expect(server.load.now).toBe(2);
  await new Promise<void>((resolve) => session?.settings({ maxConcurrentStreams: 50 }, () => resolve()));
  await waitFor(() => expect(server.paths).toHaveLength(20));
  while (server.streams.length > 0) server.answerOne();
  expect(tally([...(await first), ...(await rest)])).toEqual({ 'answered 200': 20 });
});

/** GOAWAY after every 150 requests. */
test('3,000 sends: what the server took is what is reported as taken, and nothing arrives twice', async () => {
  const sandbox = await openSandbox();
  const provider = await openApns(sandbox);
  await provider.connect();
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 5 });
  sandbox.apns.goAwayEvery(150);
  const replies: Reply[] = [];
  const run = async (): Promise<void> => {
    for (let sent = 0; sent < 30; sent += 1) replies.push(await sendPush(provider, makePush()));
  };
  await Promise.all(Array.from({ length: 100 }, run));
  const accepted = replies.filter(({ meaning }) => meaning === 'accepted').length;
  const others = new Set(replies.filter(({ meaning }) => meaning !== 'accepted').map(({ code }) => code));
  expect([...others].filter((code) => code !== 'refused-stream')).toEqual([]);
  expect(replies).toHaveLength(3_000);
  expect(sandbox.journal.accepted).toHaveLength(accepted);
  expect(new Set(sandbox.journal.accepted.map(({ token }) => token)).size).toBe(accepted);
  expect(accepted).toBeGreaterThan(2_900);
  expect(sandbox.apns.counts.connections).toBeGreaterThan(10);
});

test.each(['ENHANCE_YOUR_CALM', 'REFUSED_STREAM'] as const)(
  'what is above the last stream of a GOAWAY with %s goes over another connection; what is below, nobody knows',
  async (code) => {
    const streams: ServerHttp2Stream[] = [];
    const server = await openServer((stream, headers) => {
      if (headers[':path'] === '/again' || server.connectedAt.length > 1) accept(stream);
      else streams.push(stream);
    });
    const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
    await post(sender, '/again');
    const all = ['/seen', '/unseen'].map((path) => post(sender, path));
    await waitFor(() => expect(streams).toHaveLength(2));
    streams[0]?.session?.goaway(constants[`NGHTTP2_${code}`], streams[0].id);
    expect((await Promise.all(all)).map(brief)).toEqual(['unknown reset', 'answered 200']);
    expect(server.paths).toEqual(['/again', '/seen', '/unseen', '/unseen']);
  },
);

test('a GOAWAY that names no last stream yet finishes all that is under way', async () => {
  const streams: ServerHttp2Stream[] = [];
  const server = await openServer((stream) =>
    server.sessions.size === 1 && streams.length < 5 ? void streams.push(stream) : accept(stream),
  );
  const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
  const all = postMany(sender, 5);
  await waitFor(() => expect(streams).toHaveLength(5));
  streams[0]?.session?.goaway(constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1);
  expect(brief(await post(sender, '/next'))).toBe('answered 200');
  streams.forEach(accept);
  expect(tally(await all)).toEqual({ 'answered 200': 5 });
  expect(server.connectedAt).toHaveLength(2);
});

/** What may happen to a server's sessions in the middle of everything. */
const STRIKES: readonly ((session: ServerHttp2Session, server: H2Server) => void)[] = [
  (session, server) => server.goAway(session),
  (session, server) => server.goAway(session, constants.NGHTTP2_ENHANCE_YOUR_CALM),
  (session) => session.destroy(),
  (session) => session.settings({ maxConcurrentStreams: 3 }),
  (session) => session.settings({ maxConcurrentStreams: 40 }),
];

test.each([1, 2, 3])('permits, GOAWAY, SETTINGS, losses and aborts at random (seed %i)', async (seed) => {
  const random = seededRandom(seed);
  const pick = (count: number): number => Math.floor(random() * count);
  const server = await openServer((stream) => void setTimeout(accept, pick(10), stream), {
    settings: { maxConcurrentStreams: 20 },
  });
  const sender = openSender(server, { requestTimeoutMs: 5_000, random });
  const results: SendResult[] = [];
  let isCalm = false;
  const run = async (name: number): Promise<void> => {
    for (let sent = 0; sent < 60; sent += 1) {
      const reserved = pick(3) === 0 ? await sender.reserve() : undefined;
      const permit = reserved instanceof StreamPermit ? reserved : undefined;
      if (permit && pick(4) === 0) permit.release();
      const sendBy = pick(5) === 0 ? performance.now() + pick(20) : undefined;
      results.push(await post(sender, `/${name}-${sent}`, { permit, sendBy }));
    }
  };
  const strike = async (): Promise<void> => {
    while (!isCalm) {
      await new Promise((resolve) => setTimeout(resolve, pick(30)));
      const session = [...server.sessions][pick(server.sessions.size)];
      if (session && !session.destroyed) STRIKES[pick(STRIKES.length)]?.(session, server);
      if (pick(20) === 0) sender.abort();
    }
  };
  const striking = strike();
  await Promise.all(Array.from({ length: 40 }, (_, name) => run(name)));
  isCalm = true;
  await striking;
  expect(results).toHaveLength(2_400); // every send came to an end
  expect(new Set(server.paths).size).toBe(server.paths.length); // what may have been looked at was never sent again
  const { answered = [], unknown = [], unsent = [] } = Object.groupBy(results, ({ kind }) => kind);
  expect(answered.length).toBeGreaterThan(500);
  expect(answered.length + unknown.length + unsent.length).toBe(2_400);
  expect(server.paths.length).toBeGreaterThanOrEqual(answered.length);
  expect(server.paths.length).toBeLessThanOrEqual(answered.length + unknown.length);
  // No stream was lost: a new burst is served by as many at once as the sessions have.
  expect(tally(await postMany(sender, 400))).toEqual({ 'answered 200': 400 });
});
