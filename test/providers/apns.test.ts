import { describe, expect, test } from 'vitest';
import { createApnsProvider } from '../../src/providers/apns.ts';
import type { Reply } from '../../src/providers/provider.ts';
import { TRANSPORT_REPLIES } from '../../src/providers/transport-replies.ts';
import { apnsRefusal } from '../../src/sandbox/apns-reasons.ts';
import type { Answer } from '../../src/sandbox/answers.ts';
import { openGate } from '../support/gate.ts';
import { apnsOptions, openApns, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';

const tally = (replies: readonly Reply[]) => Object.groupBy(replies, ({ code, alerted }) => `${code} ${alerted}`);

describe('connections', () => {
  test('a burst on a cold connection keeps to the single stream that APNs allows at first', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox, { connections: 1 });
    const replies = await Promise.all(Array.from({ length: 200 }, () => sendPush(provider, makePush())));
    expect(Object.keys(tally(replies))).toEqual(['200 yes']);
    expect(sandbox.journal.accepted).toHaveLength(200);
  });

  test('GOAWAY: what the server took is reported as taken, what it did not is safe to repeat', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox);
    await provider.warm();
    sandbox.apns.setDefault({ kind: 'accept', delayMs: 5 });
    sandbox.apns.goAwayEvery(400);
    const replies: Reply[] = [];
    const run = async () => {
      for (let sent = 0; sent < 30; sent += 1) replies.push(await sendPush(provider, makePush()));
    };
    await Promise.all(Array.from({ length: 50 }, run));
    const { '200 yes': accepted = [], 'refused-stream no': refused = [], ...others } = tally(replies);
    expect(others).toEqual({});
    expect(accepted).toHaveLength(sandbox.journal.accepted.length);
    expect(accepted.length + refused.length).toBe(1_500);
    expect(sandbox.apns.counts.connections).toBeGreaterThan(2);
  });

  test('an answer that arrives after GOAWAY is not lost', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox);
    const push = makePush();
    sandbox.apns.script(push.device.token, [{ ...apnsRefusal('TooManyRequests'), delayMs: 100 }]);
    const reply = sendPush(provider, push);
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
    sandbox.apns.goAway();
    expect((await reply).code).toBe('TooManyRequests');
  });

  test('an internal error of APNs leaves the connection standing', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox, { connections: 1 });
    const push = makePush();
    sandbox.apns.script(push.device.token, [apnsRefusal('InternalServerError')]);
    expect((await sendPush(provider, push)).code).toBe('InternalServerError');
    expect((await sendPush(provider, push)).meaning).toBe('accepted');
    expect(sandbox.apns.counts.connections).toBe(1);
  });

  test('while one connection is replaced, sends take the other', async () => {
    const sandbox = await openSandbox();
    const gate = await openGate(sandbox.apns.url);
    const provider = await openApns(sandbox, { endpoint: gate.url, connections: 2 });
    await provider.warm();
    gate.holdNew();
    sandbox.apns.goAwayEvery(3); // the third request is the first push, after one to warm each connection
    expect((await sendPush(provider, makePush())).meaning).toBe('accepted');
    sandbox.apns.goAwayEvery(undefined);
    await waitFor(() => expect(sandbox.apns.counts.connections).toBe(3)); // the new one, which never gets through
    for (let sent = 0; sent < 4; sent += 1) expect((await sendPush(provider, makePush())).meaning).toBe('accepted');
  });
});

describe('warm', () => {
  test('opens the connections and their streams, and alerts nobody', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox, { connections: 2 });
    await provider.warm();
    expect(sandbox.apns.counts).toEqual({ requests: 2, accepted: 0, connections: 2 });
    sandbox.apns.setDefault({ kind: 'accept', delayMs: 200 });
    const startedAt = performance.now();
    await Promise.all(Array.from({ length: 50 }, () => sendPush(provider, makePush())));
    expect(performance.now() - startedAt).toBeLessThan(2_500); // one stream each would take 5,000
    expect(sandbox.apns.counts.connections).toBe(2);
  });

  test('connections that are lost come back before they are needed', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox, { connections: 2, keepWarmMs: 1_000 });
    await provider.warm();
    sandbox.apns.dropConnections();
    await waitFor(() => expect(sandbox.apns.counts.requests).toBeGreaterThanOrEqual(4));
    await waitFor(() => expect(sandbox.apns.openConnections).toBe(2));
    expect(sandbox.journal.accepted).toEqual([]);
  });

  test('a connection that swallows everything is replaced', async () => {
    const sandbox = await openSandbox();
    const gate = await openGate(sandbox.apns.url);
    const provider = await openApns(sandbox, { endpoint: gate.url, connections: 1, keepWarmMs: 1_000 });
    await provider.warm();
    gate.holdStanding();
    await waitFor(() => expect(sandbox.apns.counts).toEqual({ requests: 2, accepted: 0, connections: 2 }));
    expect((await sendPush(provider, makePush())).meaning).toBe('accepted');
  });

  test('a second call asks for nothing', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox, { connections: 1 });
    await Promise.all([provider.warm(), provider.warm()]);
    await provider.warm();
    expect(sandbox.apns.counts.requests).toBe(1);
  });

  test('never throws, also where nobody listens', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox, { requestTimeoutMs: 500 });
    await sandbox.apns.close();
    await expect(provider.warm()).resolves.toBeUndefined();
  });
});

describe('without an answer', () => {
  const reset = (scope: 'connection' | 'stream' | 'refused-stream'): Answer => ({ kind: 'reset', scope });

  test.each([
    ['a lost connection', reset('connection'), 'reset', 'maybe'],
    ['a lost stream', reset('stream'), 'reset', 'maybe'],
    ['a refused stream', reset('refused-stream'), 'refused-stream', 'no'],
    ['silence', { kind: 'hang' }, 'timeout', 'maybe'],
  ] as const)('%s', async (_name, answer, code, alerted) => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox, { requestTimeoutMs: 300 });
    const push = makePush();
    sandbox.apns.script(push.device.token, [answer]);
    expect(await sendPush(provider, push)).toMatchObject({ ...TRANSPORT_REPLIES[code], code, alerted });
    expect(sandbox.apns.counts.requests).toBe(1);
  });

  test('nobody listens: certainly not processed', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox);
    await sandbox.apns.close();
    expect(await sendPush(provider, makePush())).toMatchObject({ code: 'connection-refused', alerted: 'no' });
  });

  test('a certificate that is not trusted: certainly not processed', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox, { ca: undefined });
    expect(await sendPush(provider, makePush())).toMatchObject({ code: 'tls-failed', alerted: 'no' });
  });

  test('a connection that never gets through: not processed, and not sent when it does', async () => {
    const sandbox = await openSandbox();
    const gate = await openGate(sandbox.apns.url);
    const provider = await openApns(sandbox, { endpoint: gate.url, connections: 1, requestTimeoutMs: 500 });
    gate.hold();
    const late = makePush();
    expect(await sendPush(provider, late)).toMatchObject({ code: 'connect-timeout', alerted: 'no' });
    gate.release();
    const next = makePush();
    expect((await sendPush(provider, next)).meaning).toBe('accepted');
    expect(sandbox.journal.all.map(({ token }) => token)).toEqual([next.device.token]);
  });

  test('a signal ends the wait: before the send nothing leaves, after it nobody knows', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox);
    expect(await sendPush(provider, makePush(), AbortSignal.abort())).toMatchObject({
      code: 'cancelled',
      alerted: 'no',
    });
    expect(sandbox.apns.counts.requests).toBe(0);
    sandbox.apns.setDefault({ kind: 'hang' });
    const abort = new AbortController();
    const reply = sendPush(provider, makePush(), abort.signal);
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
    abort.abort();
    expect(await reply).toMatchObject({ code: 'aborted', alerted: 'maybe', ambiguous: true });
  });
});

describe('credentials', () => {
  test('a token that APNs calls expired is renewed, and the push sent once more at once', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox);
    await sendPush(provider, makePush());
    await sandbox.apns.expireTokens();
    const push = makePush();
    expect((await sendPush(provider, push)).meaning).toBe('accepted');
    const tries = sandbox.journal.all.filter(({ token }) => token === push.device.token);
    expect(tries.map(({ status, apnsId }) => [status, apnsId])).toEqual([
      [403, push.pushId],
      [200, push.pushId],
    ]);
  });

  test('all connections share one token, so one renewal is enough', async () => {
    const sandbox = await openSandbox({ apnsTokenUpdateMs: 0 });
    const provider = await openApns(sandbox, { connections: 3 });
    await provider.warm();
    await sandbox.apns.expireTokens();
    for (let sent = 0; sent < 6; sent += 1) expect((await sendPush(provider, makePush())).meaning).toBe('accepted');
    expect(sandbox.journal.all.filter(({ status }) => status === 403)).toHaveLength(1);
  });

  test('a revoked key is not the fault of a notification', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox);
    sandbox.apns.revokeKey();
    expect(await sendPush(provider, makePush())).toMatchObject({
      meaning: 'auth',
      code: 'InvalidProviderToken',
      trouble: 'auth',
    });
  });

  test.each([
    ['key', 'no key at all', /apns\.key: expected a private EC key on P-256, as PEM, found a string of 13 characters/],
    ['connections', 0, /apns\.connections: expected an integer of 1 or more, found 0/],
    ['endpoint', 'http://127.0.0.1', /apns\.endpoint: expected an address such as https:/],
    ['endpoint', 'https://user:hunter2@127.0.0.1', /^(?!.*hunter2).*apns\.endpoint/],
  ])('%s %s stops the start', async (name, value, message) => {
    const options = await apnsOptions(await openSandbox());
    expect(() => createApnsProvider({ ...options, [name]: value })).toThrow(message);
  });
});

test('close waits for what is under way, and takes no more', async () => {
  const sandbox = await openSandbox();
  const provider = await openApns(sandbox);
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 200 });
  const reply = sendPush(provider, makePush());
  await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
  await provider.close();
  expect((await reply).meaning).toBe('accepted');
  expect(await sendPush(provider, makePush())).toMatchObject({ code: 'closed', alerted: 'no' });
  await waitFor(() => expect(sandbox.apns.openConnections).toBe(0));
});
