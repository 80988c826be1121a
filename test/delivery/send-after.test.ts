import { expect, test } from 'vitest';
import { makeNotification } from '../support/push.ts';
import { none, openBench, RECIPIENT } from './support.ts';

test('before its sendAfter it is put back until then, at no attempt and no ask', async () => {
  const { run, limiter, sandbox } = await openBench();
  const now = Date.now();
  const sendAfter = now + 3_600_000;
  const { outcome, progress } = await run(makeNotification({ sendAfter }), none, { now: () => now });
  expect(outcome).toEqual({ kind: 'requeued', waitMs: 3_600_000, delayMs: 3_600_000, rule: 'sendAfter' });
  expect(progress).toEqual({ ...none, dueAt: sendAfter, rule: 'sendAfter' });
  expect(await limiter.inspect(RECIPIENT)).toMatchObject({ sent: [], reserved: [] });
  expect(sandbox.journal.all).toEqual([]);
});

test('from its sendAfter on it is sent', async () => {
  const { run, sandbox } = await openBench();
  const now = Date.now();
  expect((await run(makeNotification({ sendAfter: now }), none, { now: () => now })).outcome).toEqual({
    kind: 'delivered',
  });
  expect(sandbox.journal.accepted).toHaveLength(1);
});

test('one that lies more than 366 days ahead is invalid: the queue could not keep its due time', async () => {
  const { run } = await openBench();
  const { outcome } = await run(makeNotification({ sendAfter: Date.now() + 367 * 86_400_000 }));
  expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'invalid' });
  expect(outcome).toHaveProperty('message', expect.stringMatching(/^sendAfter: expected an instant at most 366 days/));
});

test('neither does a job of another client with an expiresAt in microseconds go out', async () => {
  const { run, sandbox } = await openBench();
  const { outcome } = await run(makeNotification({ expiresAt: Date.now() * 1_000 }));
  expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'invalid' });
  expect(outcome).toHaveProperty('message', expect.stringMatching(/^expiresAt: expected an instant at most 366 days/));
  expect(sandbox.journal.all).toEqual([]);
});

test('what a producer with a clock a little ahead let pass, is sent', async () => {
  const { run } = await openBench();
  const expiresAt = Date.now() + 366 * 86_400_000 + 60_000;
  expect((await run(makeNotification({ expiresAt }))).outcome).toEqual({ kind: 'delivered' });
});
