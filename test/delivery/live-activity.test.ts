import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { makeDevice, makeNotification } from '../support/push.ts';
import { openBench, RECIPIENT } from './support.ts';

const device = makeDevice('apns');
const update = (fields: Parameters<typeof makeNotification>[0] = {}) =>
  makeNotification({
    devices: [device],
    pushType: 'liveactivity',
    alert: undefined,
    liveActivity: { event: 'update', contentState: { score: '2 : 1' } },
    ...fields,
  });
const goal = { title: 'Goal' };

test('an update without an alert takes no slot of an alert, nor of a background push', async () => {
  const { run, limiter, backgroundLimiter, liveActivityLimiter, sandbox } = await openBench({ platforms: ['apns'] });
  expect(await run(makeNotification())).toMatchObject({ outcome: { kind: 'delivered' } });
  expect(await run(update())).toMatchObject({ outcome: { kind: 'delivered' } });
  expect(await run(update())).toMatchObject({ outcome: { kind: 'requeued', rule: '1/2s' } });
  expect(await run(update({ onThrottle: 'drop' }))).toMatchObject({ outcome: { kind: 'dropped', rule: '1/2s' } });
  expect(sandbox.journal.accepted.map(({ pushType }) => pushType)).toEqual(['alert', 'liveactivity']);
  const standings = await Promise.all(
    [limiter, backgroundLimiter, liveActivityLimiter].map((each) => each.inspect(RECIPIENT)),
  );
  expect(standings.map(({ sent, reserved }) => [sent.length, reserved.length])).toEqual([
    [1, 0],
    [0, 0],
    [1, 1],
  ]);
});

test('one with an alert takes a slot of an alert, and is held back by alerts', async () => {
  const { run, limiter, liveActivityLimiter } = await openBench({ platforms: ['apns'] });
  expect(await run(update({ alert: goal }))).toMatchObject({ outcome: { kind: 'delivered' } });
  expect(await run(makeNotification())).toMatchObject({ outcome: { kind: 'requeued', rule: 'gap' } });
  expect(await run(update({ alert: goal }))).toMatchObject({ outcome: { kind: 'requeued', rule: 'gap' } });
  expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
  expect((await liveActivityLimiter.inspect(RECIPIENT)).sent).toEqual([]);
});

test('silenced, one with an alert is delivered at once without it', async () => {
  const { run, sandbox } = await openBench({ platforms: ['apns'] });
  await run(makeNotification());
  const { outcome } = await run(update({ alert: goal, onThrottle: 'silence' }));
  expect(outcome).toMatchObject({ kind: 'delivered' });
  const aps = (sandbox.journal.accepted[1]?.payload as { aps: object }).aps;
  expect(aps).toMatchObject({ event: 'update' });
  expect(aps).not.toHaveProperty('alert');
});

test('it can be blocked for itself', async () => {
  const { run, liveActivityLimiter } = await openBench({ platforms: ['apns'] });
  await liveActivityLimiter.block(RECIPIENT, { until: Date.now() + 600_000, reason: 'on leave' });
  expect(await run(update())).toMatchObject({ outcome: { kind: 'requeued', rule: 'block' } });
  expect(await run(makeNotification())).toMatchObject({ outcome: { kind: 'delivered' } });
});

test('of those that wait only the newest goes, in the slot of the first', async () => {
  const { run, sandbox } = await openBench({ platforms: ['apns'] });
  const latest = (score: string) =>
    update({
      onThrottle: 'latest',
      collapseId: 'match-12',
      liveActivity: { event: 'update', contentState: { score } },
    });
  await run(latest('0 : 0'));
  const waiting = [];
  for (const score of ['1 : 0', '1 : 1']) {
    const notification = latest(score);
    waiting.push({ notification, passed: await run(notification) });
    await sleep(5); // so that it is the newer one
  }
  const [older, newer] = waiting;
  if (older?.passed.outcome.kind !== 'requeued' || newer?.passed.outcome.kind !== 'requeued') throw new Error('waits');
  expect(newer.passed.outcome.waitMs).toBeLessThanOrEqual(older.passed.outcome.waitMs);
  await sleep(newer.passed.outcome.delayMs);
  expect(await run(newer.notification, newer.passed.progress)).toMatchObject({ outcome: { kind: 'delivered' } });
  expect(await run(older.notification, older.passed.progress)).toMatchObject({
    outcome: { kind: 'superseded' },
  });
  const scores = sandbox.journal.accepted.map(
    ({ payload }) => (payload as { aps: { 'content-state': object } }).aps['content-state'],
  );
  expect(scores).toEqual([{ score: '0 : 0' }, { score: '1 : 1' }]);
});
