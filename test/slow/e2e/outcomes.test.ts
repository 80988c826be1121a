import { expect, it, vi } from 'vitest';
import { killAgainAndAgain } from '../../support/kills.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { outcomesIn } from '../../support/outcomes.ts';
import { connectRedis } from '../../support/redis.ts';
import { openWorkerBench } from '../../support/worker.ts';

const SOON = { timeout: 30_000, interval: 50 };

it('workers are killed again and again: each id has an outcome, and only what was in flight has several', async () => {
  const { queue, deadQueue, prefix, sandbox, startWorker } = await openWorkerBench();
  const redis = connectRedis();
  const env = {
    ...{ OUTCOMES_MAX: '10000', LOCK_DURATION: '1s', BACKOFF_BASE: '100ms' },
    ...{ LIMIT_MIN_GAP: '5ms', LIMIT_RULES: '1000/1s', WORKER_CONCURRENCY: '10' },
  };
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 40 });
  const refused = (token: string) => sandbox.apns.script(token, [{ kind: 'refuse', status: 400, reason: 'BadTopic' }]);
  const notifications = Array.from({ length: 300 }, (_, index) => {
    const device = makeDevice();
    if (index % 10 === 0) refused(device.token); // a dead letter
    const expiresAt = index % 10 === 1 ? Date.now() - 1 : undefined;
    return makeNotification({
      recipientId: `teacher-${index % 40}`,
      devices: [device],
      ...(expiresAt && { expiresAt }),
    });
  });
  await queue.addBulk(notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } })));

  const inFlight = await killAgainAndAgain(queue, () => startWorker(env));
  expect(inFlight.size).toBeGreaterThan(0);
  await startWorker(env);
  await vi.waitFor(async () => {
    const dead = await deadQueue.getJobCountByTypes('wait');
    expect((await queue.getCompletedCount()) + dead).toBe(notifications.length);
  }, SOON);

  const byId = Map.groupBy(await outcomesIn(redis, prefix), ({ id }) => id ?? '');
  expect([...byId.keys()].toSorted()).toEqual(notifications.map(({ id }) => id).toSorted());
  const repeated = [...byId].filter(([, entries]) => entries.length > 1).map(([id]) => id);
  expect(repeated.filter((id) => !inFlight.has(id))).toEqual([]);
  const [ended] = await queue.getCompleted(0, 0);
  expect(ended?.returnvalue).toHaveProperty('devices');
  for (const job of await queue.getCompleted(0, -1)) {
    const { outcome } = job.returnvalue as { outcome: string };
    expect(byId.get(job.id ?? '')?.at(-1)?.['outcome']).toBe(outcome);
  }
  for (const job of await deadQueue.getJobs()) {
    const outcomes = byId.get(job.id ?? '')?.map(({ outcome }) => outcome);
    expect(outcomes?.at(-1)).toBe('dead-lettered');
  }
});
