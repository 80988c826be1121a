import { DelayedError, Worker, type Job } from 'bullmq';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { dueAtOfScore, onRedisTime } from '../../src/queue/bullmq-internals.ts';
import { createJobLock } from '../../src/queue/job-lock.ts';
import { redelay } from '../../src/queue/redelay.ts';
import { connectRedis } from '../support/redis.ts';
import { consume, notification, openQueues, present, putBack, stepClock } from './support.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { CANCEL, FORMER_HIGH, PRIORITY, QUEUE } from '../../src/queue/names.ts';
import { waitFor } from '../support/wait.ts';

const LOCK_MS = 600_000;

/** A job whose lock `owner` has, as after BullMQ's moveToActive. */
async function openJob(owner = 'us') {
  const { queue } = openQueues();
  const redis = connectRedis();
  const job = await queue.add('push', notification(), { jobId: 'one', priority: 10 });
  const lockKey = `${queue.toKey('one')}:lock`;
  await redis.set(lockKey, owner, 'PX', LOCK_MS);
  const lockSince = (agoMs: number) => {
    job.processedOn = Date.now() - agoMs;
    return createJobLock(job, 'us', { queue, lockMs: LOCK_MS });
  };
  const progressOf = async () => (present(await queue.getJob('one')) as Job).progress;
  return { redis, lockKey, lockSince, progressOf };
}

test('a young lock is believed without asking Redis', async () => {
  const { redis, lockKey, lockSince } = await openJob();
  const lock = lockSince(LOCK_MS / 4);
  await redis.del(lockKey);
  expect(await lock.isValid()).toBe(true);
  expect(lock.until - performance.now()).toBeGreaterThan(0);
  expect(lock.until - performance.now()).toBeLessThanOrEqual(LOCK_MS / 4);
});

test('one that may have run out is renewed, and sure again', async () => {
  const { redis, lockKey, lockSince } = await openJob();
  await redis.pexpire(lockKey, 0.1 * LOCK_MS);
  const lock = lockSince(0.8 * LOCK_MS);
  expect(lock.until).toBeLessThan(performance.now());
  expect(await lock.isValid()).toBe(true);
  expect(await redis.pttl(lockKey)).toBeGreaterThan(0.8 * LOCK_MS);
  expect(lock.until - performance.now()).toBeGreaterThan(0.3 * LOCK_MS);
});

test('one that has run out, or is another worker’s, is not valid', async () => {
  const { redis, lockKey, lockSince } = await openJob('them');
  expect(await lockSince(LOCK_MS).isValid()).toBe(false);
  expect(await redis.get(lockKey)).toBe('them');
  await redis.del(lockKey);
  expect(await lockSince(LOCK_MS).isValid()).toBe(false);
});

test('a clock that was set back is not believed', async () => {
  const { lockSince } = await openJob('them');
  expect(await lockSince(-60_000).isValid()).toBe(false);
});

test('one is not valid where Redis gives no answer', async () => {
  const { queue } = openQueues();
  vi.spyOn(queue.getBackend(), 'extendLock').mockRejectedValue(new Error('Connection is closed.'));
  const lock = createJobLock({ id: 'one', processedOn: 0, name: 'push', data: {}, priority: 10 }, 'us', {
    queue,
    lockMs: 1,
  });
  expect(await lock.isValid()).toBe(false);
});

test('progress is kept by the owner alone', async () => {
  const { redis, lockKey, lockSince, progressOf } = await openJob();
  const lock = lockSince(0);
  expect(await lock.save({ tries: 1 })).toBe(true);
  expect(await progressOf()).toEqual({ tries: 1 });
  await redis.set(lockKey, 'them');
  expect(await lock.save({ tries: 2 })).toBe(false);
  await redis.del(lockKey);
  expect(await lock.save({ tries: 3 })).toBe(false);
  expect(await progressOf()).toEqual({ tries: 1 });
});

const HOUR_MS = 3_600_000;

test('a requeued job comes back with its progress, not too early, and spends no attempt', async () => {
  const { prefix, queue } = openQueues();
  await queue.add('push', notification({ id: 'one' }), { jobId: 'one', priority: 10 });
  const passes: { at: number; attempts: number; progress: unknown }[] = [];
  let dueAt = 0;
  consume(prefix, async (job, token) => {
    passes.push({ at: Date.now(), attempts: job.attemptsMade, progress: job.progress });
    if (passes.length > 1) return;
    dueAt = await putBack(queue, job, token, 150.2, { requeues: 1 });
    throw new DelayedError();
  });
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
  expect(passes).toHaveLength(2);
  expect(present(passes[1]).at).toBeGreaterThanOrEqual(dueAt);
  expect(dueAt - present(passes[0]).at).toBeGreaterThanOrEqual(151);
  expect(passes[1]).toMatchObject({ attempts: 0, progress: { requeues: 1 } });
});

test('a job that is due goes ahead of 6,000 that wait', async () => {
  const { prefix, queue } = openQueues();
  const jobs = Array.from({ length: 6_000 }, (_, n) => ({
    name: 'push',
    data: {},
    opts: { jobId: `w${n}`, priority: 5 },
  }));
  await queue.add('push', {}, { jobId: 'first', priority: 10 });
  const order: string[] = [];
  consume(prefix, async (job, token) => {
    order.push(present(job.id));
    if (order.length === 1) {
      await queue.addBulk(jobs);
      await putBack(queue, job, token, 100);
      throw new DelayedError();
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  });
  await waitFor(() => expect(order.filter((id) => id === 'first')).toHaveLength(2));
  // 20 ms each: it is due after five or so, and would be the 6,001st by its own priority.
  expect(order.lastIndexOf('first')).toBeLessThan(200);
});

test('of a job that is another worker’s by now, nothing changes', async () => {
  const { prefix, queue } = openQueues();
  const added = await queue.add('push', {}, { jobId: 'lost', priority: 10 });
  let taken: Job | undefined;
  const done = Promise.withResolvers<undefined>();
  consume(prefix, (job) => {
    taken = job;
    return done.promise;
  });
  await waitFor(() => expect(taken).toBeDefined());
  await expect(putBack(queue, present(taken), 'not its token', 1_000)).rejects.toThrow(/lock/i);
  expect(await queue.getDelayedCount()).toBe(0);
  expect(present(await queue.getJob(present(added.id))).priority).toBe(10);
  done.resolve(undefined);
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
});

test('the rejection does not fail the job that it could not delay', async () => {
  const { prefix, queue } = openQueues();
  await queue.add('push', {}, { jobId: 'twice', priority: 10, attempts: 1 });
  let passes = 0;
  consume(prefix, async (job, token) => {
    if (++passes > 1) return;
    await putBack(queue, job, token, 300);
    await putBack(queue, job, token, 300); // as ioredis does when a reply is lost: it sends the script again
  });
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
  expect(passes).toBe(2);
  expect(await queue.getFailedCount()).toBe(0);
});

test('jobs are taken in this order: high ones that are due, new high ones, others that are due, other new ones', async () => {
  const { prefix, queue } = openQueues();
  const redis = connectRedis();
  const due = ['due high 1', 'due 1', 'due high 2', 'due 2'];
  for (const id of due) {
    await queue.add('push', notification({ id, priority: priorityOf(id) }), { jobId: id, priority: 10 });
  }
  const before = consume(prefix, async (job, token) => {
    await putBack(queue, job, token, HOUR_MS);
    throw new DelayedError();
  });
  await waitFor(async () => expect(await queue.getDelayedCount()).toBe(due.length));
  await before.close();
  const producer = createProducer({ connection: redis, prefix });
  onTestFinished(() => producer.close());
  for (const id of ['new-1', 'new-high-1', 'new-2', 'new-high-2']) {
    await producer.enqueue(notification({ id, priority: priorityOf(id) }));
  }
  // As clients in other languages add them.
  await queue.add('push', notification({ priority: 'high' }), { jobId: 'new with 5', priority: FORMER_HIGH });
  await redelay(
    [queue],
    due.map((jobId) => ({ jobId, at: Date.now() - 1_000 })),
  );
  const order: string[] = [];
  consume(prefix, (job) => Promise.resolve(void order.push(present(job.id))));
  await waitFor(() => expect(order).toHaveLength(9));
  expect(order).toEqual([
    ...['due high 1', 'due high 2', 'new-high-1', 'new-high-2'],
    ...['due 1', 'due 2', 'new with 5', 'new-1', 'new-2'],
  ]);
});

function priorityOf(id: string): 'high' | 'normal' {
  return id.includes('high') ? 'high' : 'normal';
}

test('a high one stays high, however often it is put back or moved; of what a newer version wrote, nothing is guessed', async () => {
  const { prefix, queue } = openQueues();
  const jobs = [
    { jobId: 'high', data: notification({ priority: 'high' }), added: FORMER_HIGH, putBackAs: PRIORITY.dueHigh },
    { jobId: 'normal', data: notification(), added: PRIORITY.normal, putBackAs: PRIORITY.due },
    { jobId: 'raised', data: notification(), added: PRIORITY.high, putBackAs: PRIORITY.due },
    { jobId: 'cancel', name: CANCEL, data: { id: 'msg-1' }, added: 1, putBackAs: PRIORITY.dueHigh },
    { jobId: 'text', data: 'high', added: 0, putBackAs: PRIORITY.due },
    { jobId: 'newer', data: { format: 2, urgent: true }, added: PRIORITY.high, putBackAs: PRIORITY.high },
    { jobId: 'newer, plain', data: { format: 2, urgent: true }, added: 0, putBackAs: PRIORITY.due },
  ];
  await queue.addBulk(
    jobs.map(({ jobId, name = 'push', data, added: priority }) => ({ name, data, opts: { jobId, priority } })),
  );
  const passes = new Map<string, number>();
  consume(prefix, async (job, token) => {
    const id = present(job.id);
    passes.set(id, (passes.get(id) ?? 0) + 1);
    await putBack(queue, job, token, passes.get(id) === 1 ? 0 : HOUR_MS);
    throw new DelayedError();
  });
  await waitFor(async () => expect(await queue.getDelayedCount()).toBe(jobs.length));
  await waitFor(() => expect([...passes.values()]).toEqual(jobs.map(() => 2)));
  await redelay(
    [queue],
    jobs.map(({ jobId }) => ({ jobId, at: Date.now() + 2 * HOUR_MS })),
  );
  for (const { jobId, putBackAs } of jobs) expect(present(await queue.getJob(jobId)).priority, jobId).toBe(putBackAs);
});

describe.each([-30_000, 30_000])('where this machine’s clock is %i ms from Redis’s', (aheadMs) => {
  test('a due time is exact on Redis’s clock, whether it is past or not', async () => {
    const { queue } = openQueues();
    const redis = connectRedis();
    const [seconds = 0, micros = 0] = await redis.time();
    const now = 1_000 * seconds + Math.floor(micros / 1_000);
    stepClock()(aheadMs);
    const due = [-1_000, 5_000, 40_000.25, HOUR_MS].map((inMs) => ({ jobId: `in ${inMs}`, at: now + inMs }));
    for (const { jobId } of due) await queue.add('push', {}, { jobId, delay: 2 * HOUR_MS });
    expect(await redelay([queue], due)).toMatchObject({ moved: 4 });
    for (const { jobId, at } of due) {
      expect(dueAtOfScore(Number(await redis.zscore(queue.toKey('delayed'), jobId))), jobId).toBe(Math.ceil(at));
    }
  });

  test('a job whose due time is past comes to a worker that waits, at once', async () => {
    const { prefix, queue } = openQueues();
    stepClock()(aheadMs);
    for (const jobId of ['one', 'two']) await queue.add('push', {}, { jobId, delay: HOUR_MS });
    const taken: string[] = [];
    const process = (job: Job) => Promise.resolve(void taken.push(present(job.id)));
    const options = { connection: connectRedis(), prefix, drainDelay: 60 };
    const onItsTime = onRedisTime(() => -aheadMs);
    const worker = new Worker(QUEUE, process, options, onItsTime);
    onTestFinished(() => worker.close());
    await worker.waitUntilReady();
    for (const [n, jobId] of ['one', 'two'].entries()) {
      await redelay([queue], [{ jobId, at: Date.now() - aheadMs - 1_000 }]);
      await vi.waitFor(() => expect(taken).toHaveLength(n + 1), { timeout: 30_000 });
    }
    expect(taken).toEqual(['one', 'two']);
  });
});

test('thousands are moved', async () => {
  const { queue } = openQueues();
  const ids = Array.from({ length: 3_000 }, (_, n) => `w${n}`);
  await queue.addBulk(ids.map((jobId) => ({ name: 'push', data: {}, opts: { jobId, delay: HOUR_MS } })));
  const at = Date.now() + 2 * HOUR_MS;
  const { moved } = await redelay(
    [queue],
    ids.map((jobId) => ({ jobId, at })),
  );
  expect(moved).toBe(3_000);
  expect(present(await queue.getJob('w2999')).delay).toBeGreaterThan(1.9 * HOUR_MS);
});
