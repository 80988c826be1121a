import { expect, test, vi } from 'vitest';
import { CANCEL, PRIORITY } from '../../src/queue/names.ts';
import { outcomesIn } from '../support/outcomes.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { WITHIN, deliver } from '../support/waiting.ts';

// Jobs named `cancel` and `retract` whose workers died.

/** Adds a job, and leaves it as BullMQ does one whose workers died too often. No worker runs. */
async function addStalled({ queue }: ReplicaBench, name: string, data: object, jobId: string): Promise<void> {
  await queue.add(name, data, { jobId, priority: PRIORITY.high });
  const failedReason = 'job stalled more than allowable limit';
  const redis = connectRedis();
  await redis.zrem(queue.toKey('prioritized'), jobId);
  await redis.hset(queue.toKey(jobId), { failedReason, finishedOn: Date.now() });
  await redis.zadd(queue.toKey('failed'), Date.now(), jobId);
}

const isDead = (bench: ReplicaBench, jobId: string) =>
  vi.waitFor(async () => expect(await bench.deadQueue.getJob(jobId)).toBeDefined(), WITHIN);

test('a cancel that became a dead letter is no notification that did', async () => {
  const bench = await openReplicaBench();
  const one = makeNotification();
  await addStalled(bench, CANCEL, { id: one.id }, 'the-cancel');
  const { url } = await bench.startHere({ OUTCOMES_MAX: '100', METRICS_PORT: '0' });
  await isDead(bench, 'the-cancel');
  await deliver(bench, one);
  await vi.waitFor(async () => {
    const entries = await outcomesIn(connectRedis(), bench.prefix);
    expect(entries.map(({ id, outcome }) => ({ id, outcome }))).toEqual([{ id: one.id, outcome: 'delivered' }]);
  }, WITHIN);
  const page = await (await fetch(`${url}/metrics`)).text();
  expect(page).toMatch(/^pushpacer_outcomes_total\{.*outcome="delivered"/m);
  expect(page).not.toMatch(/^pushpacer_outcomes_total\{.*reason="stalled".*[1-9]\d*$/m);
  expect(await bench.line(/a job named cancel became a dead letter/)).toContain('"reason":"stalled"');
});
