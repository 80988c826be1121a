import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { TRANSPORT_REPLIES } from '../../src/providers/transport-replies.ts';
import { openSandbox } from '../support/providers.ts';
import { waitFor } from '../support/wait.ts';
import { startSender } from './sender.ts';

const TOO_LATE = { ...TRANSPORT_REPLIES['too-late'], code: 'too-late' };
const STOP_MS = 1_500;
/** What a hiccup below a second may cost, and this machine's own delays; far below a stop. */
const TOLERANCE_MS = 600;
const STOPS = 5;

describe.each(['apns', 'fcm'] as const)('%s: a process that is stopped after the last look', (platform) => {
  test('and before anything is written sends nothing of it, and the next one on a new connection', async () => {
    const sandbox = await openSandbox();
    const sender = await startSender(sandbox, platform);
    expect((await (await sender.send()).reply).meaning).toBe('accepted');
    const { reply } = await sender.send({ leaveInMs: 200, stallMs: STOP_MS });
    expect(await reply).toEqual(TOO_LATE);
    expect((await (await sender.send({ leaveInMs: 2_000 })).reply).meaning).toBe('accepted');
    expect(sandbox.journal.all).toHaveLength(2);
    expect(sandbox[platform].counts.connections).toBe(2);
    await waitFor(() => expect(sandbox[platform].openConnections).toBe(1));
  });

  test('on a connection that is new', async () => {
    const sandbox = await openSandbox();
    const sender = await startSender(sandbox, platform);
    const { reply } = await sender.send({ leaveInMs: 1_000, stallMs: STOP_MS });
    expect(await reply).toEqual(TOO_LATE);
    expect((await (await sender.send()).reply).meaning).toBe('accepted');
    expect(sandbox.journal.all).toHaveLength(1);
  });

  test('for a moment only, as by garbage collection, goes on with the same connection', async () => {
    const sandbox = await openSandbox();
    const sender = await startSender(sandbox, platform);
    expect((await (await sender.send()).reply).meaning).toBe('accepted');
    const { reply } = await sender.send({ leaveInMs: 100, stallMs: 300 });
    expect((await reply).meaning).toBe('accepted');
    expect((await (await sender.send()).reply).meaning).toBe('accepted');
    expect(sandbox[platform].counts.connections).toBe(1);
  });

  test('and whose time to leave is not over yet goes on with the same connection', async () => {
    const sandbox = await openSandbox();
    const sender = await startSender(sandbox, platform);
    const { reply } = await sender.send({ leaveInMs: 60_000, stallMs: STOP_MS });
    expect((await reply).meaning).toBe('accepted');
    expect(sandbox[platform].counts.connections).toBe(1);
  });

  test('again and again, at any instant, sends nothing late', async () => {
    const sandbox = await openSandbox();
    const sender = await startSender(sandbox, platform);
    await sender.sendForever(200, 100);
    for (let stop = 0; stop < STOPS; stop += 1) {
      const before = sandbox.journal.all.length;
      await waitFor(() => expect(sandbox.journal.all.length).toBeGreaterThan(before + 100));
      await sleep(50 * Math.random());
      sender.stop();
      await sleep(STOP_MS);
      sender.resume();
    }
    const before = sandbox.journal.all.length;
    await waitFor(() => expect(sandbox.journal.all.length).toBeGreaterThan(before + 100));
    const late = sandbox.journal.all.map(({ at, body }) => at - Number(body)).filter((ms) => ms > TOLERANCE_MS);
    expect(late).toEqual([]);
  });
});

test('APNs: what is under way on its connection may still be answered, and is given up if it is not', async () => {
  const sandbox = await openSandbox();
  const sender = await startSender(sandbox, 'apns');
  expect((await (await sender.send()).reply).meaning).toBe('accepted');
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 700 });
  const answered = await sender.send();
  await waitFor(() => expect(sandbox.journal.all).toHaveLength(2));
  sandbox.apns.setDefault({ kind: 'hang' });
  const unanswered = await sender.send();
  await waitFor(() => expect(sandbox.journal.all).toHaveLength(3));
  sandbox.apns.setDefault(undefined);
  const late = await sender.send({ leaveInMs: 200, stallMs: STOP_MS });
  const beside = await sender.send({ leaveInMs: 30_000 });
  expect(await late.reply).toEqual(TOO_LATE);
  expect(await answered.reply).toMatchObject({ meaning: 'accepted' });
  expect(await unanswered.reply).toMatchObject({ code: 'reset', alerted: 'maybe', ambiguous: true });
  expect((await beside.reply).meaning).toBe('accepted');
  expect(sandbox.journal.all).toHaveLength(4);
});
