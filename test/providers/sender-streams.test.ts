import type { ServerHttp2Stream } from 'node:http2';
import { expect, test } from 'vitest';
import type { Permit } from '../../src/providers/provider.ts';
import type { Sender } from '../../src/providers/sender/sender.ts';
import { waitFor } from '../support/wait.ts';
import { accept, brief, openSender, openServer, post, postMany, tally } from './h2-server.ts';

/** Answers as soon as it is told to. */
function heldServer(maxConcurrentStreams: number) {
  const held: ServerHttp2Stream[] = [];
  const opened = openServer((stream) => held.push(stream), { settings: { maxConcurrentStreams } });
  const answerOne = (): void => {
    const stream = held.shift();
    if (stream) accept(stream);
  };
  return opened.then((server) => ({ ...server, held, answerOne }));
}

async function permitOf(sender: Sender): Promise<Permit> {
  const permit = await sender.reserve();
  if (!('release' in permit)) throw new Error(`no permit: ${permit.code}`);
  return permit;
}

test('sends over the number of streams wait, and waiting is no failure', async () => {
  const server = await openServer((stream) => void setTimeout(accept, 20, stream), {
    settings: { maxConcurrentStreams: 2 },
  });
  const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
  expect(tally(await postMany(sender, 30))).toEqual({ 'answered 200': 30 });
  expect(server.load.peak).toBe(2);
  expect(server.connectedAt).toHaveLength(1);
});

test('who waits longest is served first', async () => {
  const server = await heldServer(1);
  const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
  const all = postMany(sender, 5);
  for (let answered = 0; answered < 5; answered += 1) {
    await waitFor(() => expect(server.held).toHaveLength(1));
    server.answerOne();
  }
  await all;
  expect(server.paths).toEqual(['/0', '/1', '/2', '/3', '/4']);
});

test('a permit keeps its stream free until it is used or released', async () => {
  const server = await openServer(accept, { settings: { maxConcurrentStreams: 1 } });
  const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
  const permit = await permitOf(sender);
  expect(brief(await post(sender, '/crowded-out', { sendBy: performance.now() + 50 }))).toBe('unsent no-stream');
  expect(brief(await post(sender, '/with', { permit }))).toBe('answered 200');
  const second = await permitOf(sender);
  const waiting = post(sender, '/after');
  second.release();
  expect(brief(await waiting)).toBe('answered 200');
  expect(server.paths).toEqual(['/with', '/after']);
});

test('a permit gives back one stream, however often it is used and released', async () => {
  const server = await heldServer(1);
  const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
  const permit = await permitOf(sender);
  const first = post(sender, '/first', { permit });
  permit.release();
  permit.release();
  const again = post(sender, '/again', { permit }); // the permit is used up: this one waits for a stream
  await waitFor(() => expect(server.held).toHaveLength(1));
  expect(server.paths).toEqual(['/first']);
  server.answerOne();
  await first;
  await waitFor(() => expect(server.held).toHaveLength(1));
  server.answerOne();
  await again;
  expect(server.load.peak).toBe(1);
});

test('a permit that outlives its connection is as good as none: the send takes another stream', async () => {
  const server = await openServer();
  const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
  const permits = [await permitOf(sender), await permitOf(sender), await permitOf(sender)];
  for (const socket of server.sockets) socket.destroy();
  await waitFor(() => expect(server.connectedAt.length).toBeGreaterThan(1));
  const replies = await Promise.all(permits.slice(0, 2).map((permit) => post(sender, '/', { permit })));
  expect(replies.map(brief)).toEqual(['answered 200', 'answered 200']);
  permits[2]?.release(); // of a connection that is no more
  expect(tally(await postMany(sender, 20))).toEqual({ 'answered 200': 20 });
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
  const server = await heldServer(8);
  const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
  const first = postMany(sender, 8);
  await waitFor(() => expect(server.held).toHaveLength(8));
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
  while (server.held.length > 0) server.answerOne();
  expect(tally([...(await first), ...(await rest)])).toEqual({ 'answered 200': 20 });
});

test('a server that names no number of streams is not asked to', async () => {
  const server = await openServer((stream) => void setTimeout(accept, 50, stream));
  const sender = openSender(server, { minConnections: 1 });
  expect(tally(await postMany(sender, 500))).toEqual({ 'answered 200': 500 });
  expect(server.connectedAt).toHaveLength(1);
});
