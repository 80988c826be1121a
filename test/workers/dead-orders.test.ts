import { expect, test, vi } from 'vitest';
import { main as deadLetters } from '../../scripts/dead-letters.ts';
import { main as status } from '../../scripts/status.ts';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { CANCEL, PRIORITY, RETRACT } from '../../src/queue/names.ts';
import { present } from '../queue/support.ts';
import { jsonOf, runMain } from '../support/command.ts';
import { outcomesIn } from '../support/outcomes.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis, queueEnv } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { waitFor } from '../support/wait.ts';
import { deliver, ends } from '../support/waiting.ts';

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
  waitFor(async () => expect(await bench.deadQueue.getJob(jobId)).toBeDefined());

test('a cancel that became a dead letter is no notification that did', async () => {
  const bench = await openReplicaBench();
  const one = makeNotification();
  await addStalled(bench, CANCEL, { id: one.id }, 'the-cancel');
  const { url } = await bench.startHere({ OUTCOMES_MAX: '100', METRICS_PORT: '0' });
  await isDead(bench, 'the-cancel');
  await deliver(bench, one);
  await waitFor(async () => {
    const entries = await outcomesIn(connectRedis(), bench.prefix);
    expect(entries.map(({ id, outcome }) => ({ id, outcome }))).toEqual([{ id: one.id, outcome: 'delivered' }]);
  });
  const page = await (await fetch(`${url}/metrics`)).text();
  expect(page).toMatch(/^pushpacer_outcomes_total\{.*outcome="delivered"/m);
  expect(page).not.toMatch(/^pushpacer_outcomes_total\{.*reason="stalled".*[1-9]\d*$/m);
  expect(await bench.line(/a job named cancel became a dead letter/)).toContain('"reason":"stalled"');
});

test('a dead order counts among the dead letters in the metric, in the command and in status alike', async () => {
  const bench = await openReplicaBench();
  await addStalled(bench, CANCEL, { id: 'msg-1' }, 'the-cancel');
  const { url } = await bench.startHere({ METRICS_PORT: '0' });
  await isDead(bench, 'the-cancel');
  await waitFor(async () => {
    const page = await (await fetch(`${url}/metrics`)).text();
    expect(page).toMatch(/^pushpacer_dead_letters\{reason="stalled"\} 1$/m);
  });
  const env = queueEnv(bench.prefix);
  expect(await jsonOf(runMain(deadLetters, ['--json'], env))).toMatchObject({ total: 1, byReason: { stalled: 1 } });
  expect(await jsonOf(runMain(status, ['--json'], env))).toMatchObject({
    deadLetters: { total: 1, byReason: { stalled: 1 } },
  });
});

/** Makes dead letters of what has failed, and replays them all. */
async function buryAndReplay({ queue, deadQueue }: ReplicaBench): Promise<void> {
  const letters = createDeadLetters({ queue, deadQueue });
  await letters.sweep();
  for (const stored of await letters.page(0, 10)) present(await letters.replay(stored));
}

test('a cancel that is replayed cancels what waits', async () => {
  const bench = await openReplicaBench();
  const one = makeNotification({ sendAfter: Date.now() + 3_600_000 });
  await bench.producer.enqueue(one);
  await addStalled(bench, CANCEL, { id: one.id }, 'the-cancel');
  await buryAndReplay(bench);
  await bench.startHere();
  await ends(bench, one.id, 'canceled');
  expect(await bench.deadQueue.getWaitingCount()).toBe(0);
});

test('a retract that is replayed, by its key, leaves what was enqueued after it', async () => {
  const bench = await openReplicaBench();
  const [before, after] = [1, 2].map(() => makeNotification({ cancellationKey: 'trip-77' }));
  await bench.producer.enqueue(present(before));
  const { recipientId, cancellationKey } = present(before);
  await addStalled(bench, RETRACT, { recipientId, cancellationKey }, 'the-retract');
  const retractedAt = present(await bench.queue.getJob('the-retract')).timestamp;
  await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(retractedAt));
  await bench.producer.enqueue(present(after));
  await buryAndReplay(bench);
  await bench.startHere({ WORKER_CONCURRENCY: '1' }); // so that the retract is over before the others begin
  await ends(bench, present(before).id, 'canceled');
  await ends(bench, present(after).id, 'delivered');
});

test('a dead letter of a cancel that an earlier version wrote is replayed as before, and so is one of another name', async () => {
  const bench = await openReplicaBench();
  const { queue, deadQueue } = bench;
  const dead = {
    notification: { id: 'msg-1' },
    reason: 'stalled',
    message: 'no',
    attempts: [],
    deadAt: 1,
    generation: 0,
  };
  await deadQueue.add('push', dead, { jobId: 'older' });
  await deadQueue.add('push', { ...dead, order: 'delete all' }, { jobId: 'foreign' });
  await buryAndReplay(bench);
  const jobs = await Promise.all(['older#r1', 'foreign#r1'].map((id) => queue.getJob(id)));
  expect(jobs.map((job) => present(job).name)).toEqual(['push', 'push']);
});
