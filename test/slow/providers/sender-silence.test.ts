import { expect, test } from 'vitest';
import { openGate } from '../../support/gate.ts';
import { waitFor } from '../../support/wait.ts';
import {
  brief,
  openSender,
  openServer,
  post,
  postMany,
  secureContext,
  tally,
  accept,
} from '../../providers/h2-server.ts';
import type { SenderOptions } from '../../../src/providers/sender/sender.ts';

/** A server behind a network that can fall silent. */
async function openSilent(options: Partial<SenderOptions> = {}) {
  const server = await openServer();
  const gate = await openGate(server.url);
  const endpoint = { host: '127.0.0.1', port: Number(new URL(gate.url).port) };
  const sender = openSender({ endpoint, secureContext }, { requestTimeoutMs: 300, ...options });
  return { server, gate, sender };
}

test('a connection that falls silent: a send times out, a PING ends the connection, the next send takes a new one', async () => {
  const { server, gate, sender } = await openSilent({ minConnections: 1, maxConnections: 1 });
  expect(brief(await post(sender))).toBe('answered 200');
  gate.pauseStanding();
  expect(brief(await post(sender))).toBe('unknown timeout');
  await waitFor(() => expect(server.connectedAt).toHaveLength(2)); // the PING had no answer for 5 s
  expect(brief(await post(sender))).toBe('answered 200');
});

test('while nothing is sent a PING now and then finds out as well', async () => {
  const { server, gate, sender } = await openSilent({ pingEveryMs: 200 });
  await sender.connect();
  await waitFor(() => expect(server.sessions.size).toBe(2));
  gate.pauseStanding();
  await waitFor(() => expect(server.connectedAt).toHaveLength(4));
  expect(tally(await postMany(sender, 10))).toEqual({ 'answered 200': 10 });
});

test('a slow server that answers PINGs keeps its connection', async () => {
  let waitMs = 0;
  const server = await openServer((stream) => void setTimeout(accept, waitMs, stream));
  const sender = openSender(server, { requestTimeoutMs: 200, pingEveryMs: 100 });
  expect(tally(await postMany(sender, 20))).toEqual({ 'answered 200': 20 });
  waitMs = 6_500;
  expect(tally(await postMany(sender, 20))).toEqual({ 'unknown timeout': 20 });
  await new Promise((resolve) => setTimeout(resolve, 6_000)); // longer than a PING may take
  waitMs = 0;
  expect(tally(await postMany(sender, 20))).toEqual({ 'answered 200': 20 });
  expect(server.connectedAt).toHaveLength(2);
});

test('a silent network with full buffers: each send times out, and abort and close wait for nobody', async () => {
  const { gate, sender } = await openSilent({ requestTimeoutMs: 1_000 });
  expect(tally(await postMany(sender, 20))).toEqual({ 'answered 200': 20 });
  gate.pause();
  const big = 'x'.repeat(60_000);
  const lost = Promise.all(Array.from({ length: 300 }, () => post(sender, '/', {}, big)));
  expect(tally(await lost)).toEqual({ 'unknown timeout': 300 });
  const given = Promise.all(Array.from({ length: 100 }, () => post(sender, '/', {}, big)));
  await new Promise((resolve) => setImmediate(resolve));
  sender.abort();
  expect(Object.keys(tally(await given))).toEqual(['unknown aborted']);
  const startedAt = performance.now();
  await sender.close();
  expect(performance.now() - startedAt).toBeLessThan(4_000); // not the 5 s of a PING, nor TCP's minutes
});
