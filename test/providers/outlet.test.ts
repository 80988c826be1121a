import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { Outlet } from '../../src/providers/outlet.ts';
import type { Departure } from '../../src/providers/outlet.ts';
import { waitFor } from '../support/wait.ts';

/** An outlet and the other end of its connection, with what has come at both. */
async function openOutlet() {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const outlet = new Outlet({ host: '127.0.0.1', port: (server.address() as AddressInfo).port });
  const [peer] = await accepted;
  peer.on('error', () => undefined);
  onTestFinished(() => {
    outlet.destroy();
    peer.destroy();
    server.close();
  });
  const told = { arrived: '', read: '', errors: [] as (string | undefined)[] };
  peer.setEncoding('utf8').on('data', (text: string) => (told.arrived += text));
  outlet.setEncoding('utf8').on('data', (text: string) => (told.read += text));
  outlet.on('error', ({ code }: NodeJS.ErrnoException) => told.errors.push(code));
  const write = (text: string) => new Promise<unknown>((resolve) => outlet.write(text, resolve));
  return { outlet, peer, told, write };
}

/** A request that somebody looked at so long ago, and that must leave within `leaveInMs` of now. */
function departure(agoMs: number, leaveInMs: number) {
  const now = performance.now();
  const made = { kept: 0 };
  const given: Departure = { lookedAt: now - agoMs, leaveBy: now + leaveInMs, keepBack: () => (made.kept += 1) };
  return Object.assign(made, { given });
}

test('what was looked at a second ago, and whose time is over, is not written; nor is anything after it', async () => {
  const { outlet, peer, told, write } = await openOutlet();
  await write('before,');
  const late = departure(1_500, -1_000);
  const beside = departure(0, 5_000);
  outlet.expect(late.given);
  outlet.expect(beside.given);
  const shut = once(outlet, 'shut');
  await write('late');
  await shut;
  await write('after');
  expect([late.kept, beside.kept]).toEqual([1, 1]);
  peer.write('an answer');
  await waitFor(() => expect(told.read).toBe('an answer'));
  await waitFor(() => expect(peer.closed || peer.readableEnded).toBe(true));
  expect(told).toEqual({ arrived: 'before,', read: 'an answer', errors: ['ECONNRESET'] });
});

test('what may have left in part is not told that it has not', async () => {
  const { outlet, told, write } = await openOutlet();
  const half = departure(300, -200);
  outlet.expect(half.given);
  await write('its first half,');
  Object.assign(half.given, { lookedAt: half.given.lookedAt - 1_000 }); // as if it were a second later
  await write('its second half');
  await waitFor(() => expect(outlet.closed).toBe(true));
  expect(half.kept).toBe(0);
  expect(told).toMatchObject({ arrived: 'its first half,', errors: ['ECONNRESET'] });
});

test.each([
  { name: 'a hiccup of less than half a second', agoMs: 350, leaveInMs: -300 },
  { name: 'a stop that was over in good time', agoMs: 5_000, leaveInMs: 5_000 },
])('$name holds nothing up', async ({ agoMs, leaveInMs }) => {
  const { outlet, told, write } = await openOutlet();
  outlet.expect(departure(agoMs, leaveInMs).given);
  await write('in time');
  await waitFor(() => expect(told.arrived).toBe('in time'));
  expect(told.errors).toEqual([]);
});

test('what was written in full is forgotten', async () => {
  const { outlet, told, write } = await openOutlet();
  const { given } = departure(0, -1);
  const forget = outlet.expect(given);
  await write('all of it,');
  forget();
  Object.assign(given, { lookedAt: given.lookedAt - 5_000 });
  await write('more');
  await waitFor(() => expect(told.arrived).toBe('all of it,more'));
});

test('what the other side says before it hangs up is read to its end', async () => {
  const { outlet, peer, told } = await openOutlet();
  const long = 'x'.repeat(2 ** 20);
  outlet.pause();
  peer.end(long);
  await once(peer, 'finish');
  outlet.resume();
  await once(outlet, 'close');
  expect(told.read).toHaveLength(long.length);
  expect(told.errors).toEqual([]);
});

test('a reader that is slow slows the other side down', async () => {
  const { outlet, peer, told } = await openOutlet();
  outlet.pause();
  let taken = 0;
  const block = Buffer.alloc(2 ** 20, 'x');
  while (peer.write(block)) taken += 1;
  peer.on('drain', () => (taken += 1));
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(outlet.readableLength).toBeLessThan(2 ** 20);
  outlet.resume();
  await waitFor(() => expect(told.read).toHaveLength(peer.bytesWritten));
  expect(taken).toBeGreaterThan(0);
});

test('a writer is held back while the other side does not read', async () => {
  const { outlet, peer, told, write } = await openOutlet();
  peer.pause();
  const block = 'x'.repeat(2 ** 20);
  let written = 0;
  for (let count = 0; count < 64; count += 1) void write(block).then(() => (written += 1));
  expect(outlet.writableNeedDrain).toBe(true);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(written).toBeLessThan(64);
  peer.resume();
  await waitFor(() => expect(written).toBe(64));
  await waitFor(() => expect(told.arrived).toHaveLength(64 * block.length));
});

test('a connection that is reset says so', async () => {
  const { peer, outlet, told, write } = await openOutlet();
  await write('a request');
  peer.resetAndDestroy();
  await waitFor(() => expect(outlet.closed).toBe(true));
  expect(told.errors).toEqual(['ECONNRESET']);
});
