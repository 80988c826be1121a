import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Provider, Push, Reply } from '../../src/providers/provider.ts';
import { TRANSPORT_REPLIES } from '../../src/providers/transport-replies.ts';
import { tryOnce } from '../../src/providers/wire.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import { startSender } from './sender.ts';

const PLATFORMS = ['apns', 'fcm'] as const;
const NOT_IN_TIME = { ...TRANSPORT_REPLIES['not-in-time'], code: 'not-in-time' };
const TOO_LATE = { ...TRANSPORT_REPLIES['too-late'], code: 'too-late' };

/** Either for want of a connection, or because this process was held up itself: the machine may be busy. */
function expectKeptBack(reply: Reply): void {
  expect([NOT_IN_TIME, TOO_LATE]).toContainEqual(reply);
}

/** Sends what must leave within `leaveInMs`. */
async function sendSoon(provider: Provider, push: Push, leaveInMs: number): Promise<Reply> {
  const prepared = provider.prepare(push);
  if (prepared.kind === 'refused') return prepared.reply;
  return prepared.send({ leaveBy: performance.now() + leaveInMs });
}

const open = { apns: openApns, fcm: openFcm } as const;

describe.each(PLATFORMS)('%s: what has not left by leaveBy does not leave', (platform) => {
  test('in good time it does', async () => {
    const sandbox = await openSandbox();
    const provider = await open[platform](sandbox);
    expect((await sendSoon(provider, makePush({ platform }), 5_000)).meaning).toBe('accepted');
  });

  test('too late before it began: no connection is even opened', async () => {
    const sandbox = await openSandbox();
    const provider = await open[platform](sandbox);
    expect(await sendSoon(provider, makePush({ platform }), -1)).toEqual(TOO_LATE);
    await sleep(100);
    expect(sandbox[platform].counts.connections).toBe(0);
  });

  test('while a handshake takes too long: answered at leaveBy, and the connection serves the next one', async () => {
    const sandbox = await openSandbox();
    const provider = await open[platform](sandbox, { connections: 1 });
    sandbox[platform].slowHandshakes(2_000);
    const startedAt = performance.now();
    const replies = Array.from({ length: 5 }, () => sendSoon(provider, makePush({ platform }), 100));
    for (const reply of await Promise.all(replies)) expectKeptBack(reply);
    expect(performance.now() - startedAt).toBeLessThan(1_500);
    const next = makePush({ platform });
    expect((await sendSoon(provider, next, 5_000)).meaning).toBe('accepted');
    expect(sandbox[platform].counts.connections).toBe(1);
    expect(sandbox.journal.all.map(({ token }) => token)).toEqual([next.device.token]);
  });

  test('while a lost server is away: nothing of it arrives when it is back', async () => {
    const sandbox = await openSandbox();
    const provider = await open[platform](sandbox, { connections: 1 });
    await provider.warm();
    await sandbox[platform].down();
    await waitFor(async () => expect((await sendPush(provider, makePush({ platform }))).unreached).toBe(true));
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => sendSoon(provider, makePush({ platform }), 200)),
    );
    for (const reply of replies) expect(reply).toMatchObject({ alerted: 'no', unreached: true, trouble: 'outage' });
    await sandbox[platform].up();
    const next = makePush({ platform });
    expect((await sendPush(provider, next)).meaning).toBe('accepted');
    expect(sandbox.journal.accepted.map(({ token }) => token)).toEqual([next.device.token]);
  });

  test('a process that was stopped during the handshake does not send when it goes on', async () => {
    const sandbox = await openSandbox();
    const sender = await startSender(sandbox, platform);
    sandbox[platform].slowHandshakes(400);
    const { reply } = await sender.send({ leaveInMs: 1_000 });
    await waitFor(() => expect(sandbox[platform].openConnections).toBe(1));
    sender.stop();
    await sleep(1_500); // the handshake's answer is there, and the time to leave is over
    sender.resume();
    expect(await reply).toEqual(TOO_LATE);
    sandbox[platform].slowHandshakes(0);
    expect((await (await sender.send()).reply).meaning).toBe('accepted');
    expect(sandbox.journal.all).toHaveLength(1);
  });

  test('a process that was stopped between its slot and the send does not send', async () => {
    const sandbox = await openSandbox();
    const sender = await startSender(sandbox, platform);
    sender.stop();
    const sending = sender.send({ leaveInMs: 300, since: Date.now() });
    await sleep(600);
    sender.resume();
    expect(await (await sending).reply).toEqual(TOO_LATE);
    expect(sandbox.journal.all).toEqual([]);
  });

  test('an answer that came while the process was stopped counts, also beyond the time limit', async () => {
    const sandbox = await openSandbox();
    const sender = await startSender(sandbox, platform, { REQUEST_TIMEOUT_MS: '1000' });
    sandbox[platform].setDefault({ kind: 'accept', delayMs: 200 });
    const { reply } = await sender.send({ leaveInMs: 900 });
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
    sender.stop();
    await sleep(1_500);
    sender.resume();
    expect(await reply).toMatchObject({ meaning: 'accepted' });
  });
});

test('APNs: what is over the number of streams that the server takes is kept back, and no stream is lost for it', async () => {
  const sandbox = await openSandbox({ apnsMaxStreams: 2 });
  const provider = await openApns(sandbox, { connections: 1 });
  await provider.warm();
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 400 });
  const replies = await Promise.all(Array.from({ length: 6 }, () => sendSoon(provider, makePush(), 200)));
  expect(replies.slice(0, 2).map(({ code }) => code)).toEqual(['200', '200']);
  for (const reply of replies.slice(2)) expectKeptBack(reply);
  sandbox.apns.setDefault(undefined);
  const again = await Promise.all(Array.from({ length: 6 }, () => sendSoon(provider, makePush(), 5_000)));
  expect(again.every(({ meaning }) => meaning === 'accepted')).toBe(true);
  expect(sandbox.journal.accepted).toHaveLength(8);
});

test('APNs: a send that is given up at the last moment leaves its stream to the next one', async () => {
  const sandbox = await openSandbox({ apnsMaxStreams: 2 });
  const provider = await openApns(sandbox, { connections: 1, requestTimeoutMs: 2_000 });
  await provider.warm();
  await sleep(50); // so that the streams of the warm-up have closed
  for (let given = 0; given < 5; given += 1) {
    const abort = new AbortController();
    const reply = sendPush(provider, makePush(), abort.signal);
    abort.abort();
    expect((await reply).code).toBe('cancelled');
  }
  const replies = await Promise.all([sendPush(provider, makePush()), sendPush(provider, makePush())]);
  expect(replies.map(({ code }) => code)).toEqual(['200', '200']);
  expect(sandbox.journal.accepted).toHaveLength(2);
});

test('FCM: all connections busy with answers that never come: the next ones are kept back, and freed with them', async () => {
  const sandbox = await openSandbox();
  const provider = await openFcm(sandbox, { connections: 2, requestTimeoutMs: 1_500 });
  sandbox.fcm.setDefault({ kind: 'hang' });
  const busy = [sendPush(provider, makePush({ platform: 'fcm' })), sendPush(provider, makePush({ platform: 'fcm' }))];
  await waitFor(() => expect(sandbox.journal.all).toHaveLength(2));
  const late = await Promise.all(
    Array.from({ length: 10 }, () => sendSoon(provider, makePush({ platform: 'fcm' }), 150)),
  );
  for (const reply of late) expectKeptBack(reply);
  expect((await Promise.all(busy)).map(({ code }) => code)).toEqual(['timeout', 'timeout']);
  sandbox.fcm.setDefault(undefined);
  expect((await sendPush(provider, makePush({ platform: 'fcm' }))).meaning).toBe('accepted');
  expect(sandbox.journal.all).toHaveLength(3);
});

test('what has left is waited for, whatever leaveBy says', async () => {
  const sandbox = await openSandbox();
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 300 });
  sandbox.fcm.setDefault({ kind: 'accept', delayMs: 300 });
  for (const platform of PLATFORMS) {
    const provider = await open[platform](sandbox);
    await provider.warm();
    expect((await sendSoon(provider, makePush({ platform }), 150)).meaning).toBe('accepted');
  }
});

test('a timer is not what keeps it back: the last look before it leaves is', async () => {
  const leaveBy = performance.now() + 20;
  const reply = await tryOnce(
    (wire) => {
      while (performance.now() <= leaveBy); // as a process that was stopped: no timer has had its turn
      return Promise.resolve(wire.mayLeave() ? { meaning: 'accepted', code: '200', alerted: 'yes' } : NOT_IN_TIME);
    },
    { timeoutMs: 1_000, leaveBy },
  );
  expect(reply).toEqual(TOO_LATE);
});
