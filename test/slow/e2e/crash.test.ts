import { setTimeout as sleep } from 'node:timers/promises';
import type { Queue } from 'bullmq';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createRedisLimiter } from '../../../src/limiter/redis/redis-limiter.ts';
import { tokenOf } from '../../../src/notification/device.ts';
import type { DeadLetter } from '../../../src/notification/outcome.ts';
import { createProducer } from '../../../src/producer/producer.ts';
import { outcomesIn } from '../../support/outcomes.ts';
import { stoppedAt, type TestProcess } from '../../support/process.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { connectRedis, testTarget } from '../../support/redis.ts';
import { openWorkerBench } from '../../support/worker.ts';

const LOCK = { LOCK_DURATION: '1s', BACKOFF_BASE: '100ms' };
const SOON = { timeout: 60_000, interval: 20 };

describe('a worker that is killed', () => {
  it('while one device is acknowledged and another hangs: only the other is tried again, under the same id', async () => {
    const { queue, sandbox, startWorker } = await openWorkerBench();
    const [phone, tablet] = [makeDevice(), makeDevice()];
    sandbox.apns.script(tablet.token, [{ kind: 'hang', accepted: true }]);
    const worker = await startWorker(LOCK);
    const job = await queue.add('push', makeNotification({ devices: [phone, tablet] }), { priority: 10 });
    await vi.waitFor(async () => {
      const { progress } = (await queue.getJob(job.id ?? '')) ?? {};
      expect(progress).toMatchObject({ devices: { 'apns#0': 'delivered' } });
    }, SOON);
    worker.kill('SIGKILL');
    await worker.waitForExit();

    await startWorker(LOCK);
    await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1), SOON);
    const alertsTo = (token: string) => sandbox.journal.accepted.filter((entry) => entry.token === token);
    expect(alertsTo(phone.token)).toHaveLength(1);
    const copies = alertsTo(tablet.token);
    expect(copies).toHaveLength(2); // the window that cannot be closed
    expect(copies[1]).toMatchObject({ apnsId: copies[0]?.apnsId, collapseId: copies[0]?.collapseId });
  });

  it('while a blocked notification waits for its slot: it is alerted once, at that slot', async () => {
    const { queue, prefix, sandbox, startWorker } = await openWorkerBench();
    const env = { ...LOCK, LIMIT_MIN_GAP: '3s', LIMIT_RULES: '10/1m' };
    const worker = await startWorker(env);
    await queue.add('push', makeNotification(), { priority: 10 });
    await queue.add('push', makeNotification(), { priority: 10 });
    await vi.waitFor(async () => {
      expect(await queue.getDelayedCount()).toBe(1);
      expect(await queue.getCompletedCount()).toBe(1); // else the first may be alerted again
    }, SOON);
    worker.kill('SIGKILL');
    await startWorker(env);
    await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(2), SOON);
    const policy = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 };
    const { sent } = await createRedisLimiter({ redis: connectRedis(), policy, prefix }).inspect('teacher-42');
    const [first = NaN, second = NaN] = sent.map(({ at }) => at).toSorted((a, b) => a - b);
    expect(second - first).toBeGreaterThanOrEqual(3_000);
    expect(sent).toHaveLength(2);
    expect(sandbox.journal.accepted).toHaveLength(2);
    expect(sandbox.journal.accepted[1]?.at).toBeGreaterThan(second - 25);
  });

  it(
    'again and again, under load: each has an alert and an outcome, and only what was in flight has several',
    { timeout: 240_000 },
    async () => {
      const { queue, deadQueue, prefix, sandbox, startWorker } = await openWorkerBench();
      const load = { LIMIT_MIN_GAP: '5ms', LIMIT_RULES: '1000/1s', WORKER_CONCURRENCY: '10', OUTCOMES_MAX: '10000' };
      sandbox.apns.setDefault({ kind: 'accept', delayMs: 40 });
      const refusal = { kind: 'refuse', status: 400, reason: 'BadTopic' } as const;
      const kinds = ['refused', 'expired', ...Array.from({ length: 10 }, () => 'alerted' as const)] as const;
      const notifications = Array.from({ length: 360 }, (_, index) => {
        const kind = kinds[index % kinds.length];
        const device = makeDevice();
        // Also when its worker was killed, as often as one is.
        if (kind === 'refused') sandbox.apns.script(device.token, Array<typeof refusal>(5).fill(refusal));
        return makeNotification({
          id: `${kind}-${index}`,
          recipientId: `teacher-${index % 40}`,
          devices: [device],
          ...(kind === 'expired' && { expiresAt: Date.now() - 1 }),
        });
      });
      await queue.addBulk(
        notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } })),
      );
      const inFlight = await killAgainAndAgain(queue, () => startWorker({ ...LOCK, ...load }));
      expect(inFlight.size).toBeGreaterThan(0);
      await startWorker({ ...LOCK, ...load });
      await vi.waitFor(async () => {
        expect(await deadQueue.getJobCountByTypes('wait')).toBe(30);
        expect(await queue.getCompletedCount()).toBe(330);
      }, SOON);
      const several = (byId: ReadonlyMap<string, readonly unknown[]>): string[] =>
        [...byId].filter(([id, all]) => all.length > 1 && !inFlight.has(id)).map(([id]) => id);

      const idOf = new Map(notifications.map(({ id, devices }) => [devices.map(tokenOf).join(), id]));
      const alerts = Map.groupBy(sandbox.journal.accepted, ({ token }) => idOf.get(token) ?? '');
      const toAlert = notifications.map(({ id }) => id).filter((id) => id.startsWith('alerted-'));
      expect(toAlert).toHaveLength(300);
      expect([...alerts.keys()].toSorted()).toEqual(toAlert.toSorted());
      expect(several(alerts)).toEqual([]);

      const outcomes = Map.groupBy(await outcomesIn(connectRedis(), prefix), ({ id }) => id ?? '');
      expect([...outcomes.keys()].toSorted()).toEqual(notifications.map(({ id }) => id).toSorted());
      expect(several(outcomes)).toEqual([]);
      const lastOf = (id = '') => outcomes.get(id)?.at(-1)?.['outcome'];
      for (const { id, returnvalue } of await queue.getCompleted(0, -1)) {
        expect(returnvalue).toMatchObject({ outcome: lastOf(id) });
        if (id?.startsWith('alerted-')) expect(returnvalue).toHaveProperty('devices');
      }
      for (const { id } of await deadQueue.getJobs()) expect(lastOf(id)).toBe('dead-lettered');
    },
  );
});

describe('AT_MOST_ONCE', () => {
  it('makes what was being sent when its worker was killed a dead letter, and never alerts it again', async () => {
    const { queue, deadQueue, sandbox, startWorker } = await openWorkerBench();
    const env = { ...LOCK, AT_MOST_ONCE: 'true' };
    const device = makeDevice();
    sandbox.apns.script(device.token, [{ kind: 'hang', accepted: true }]);
    const worker = await startWorker(env);
    const notification = makeNotification({ devices: [device] });
    await queue.add('push', notification, { priority: 10 });
    await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1), SOON);
    worker.kill('SIGKILL');

    await startWorker(env);
    await vi.waitFor(async () => expect(await deadQueue.getJobCountByTypes('wait')).toBe(1), SOON);
    const [letter] = await deadQueue.getJobs();
    expect(letter?.data).toMatchObject({ notification, reason: 'ambiguous' } satisfies Partial<DeadLetter>);
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('makes an answer that leaves it open a dead letter at once, and alerts the rest', async () => {
    const { queue, deadQueue, sandbox, startWorker } = await openWorkerBench();
    await startWorker({ ...LOCK, AT_MOST_ONCE: 'true', LIMIT_MIN_GAP: '0' });
    const [cut, well, busy] = [makeDevice(), makeDevice(), makeDevice()];
    sandbox.apns.script(cut.token, [{ kind: 'reset', scope: 'stream', accepted: true }]);
    sandbox.apns.script(busy.token, [{ kind: 'refuse', status: 503, reason: 'ServiceUnavailable' }]);
    for (const device of [cut, well, busy])
      await queue.add('push', makeNotification({ devices: [device] }), { priority: 10 });
    await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(2), SOON);
    await vi.waitFor(async () => expect(await deadQueue.getJobCountByTypes('wait')).toBe(1), SOON);
    const [letter] = await deadQueue.getJobs();
    expect(letter?.data).toMatchObject({ reason: 'ambiguous' });
    const { attempts } = letter?.data as DeadLetter;
    expect(attempts.at(-1)).toMatchObject({ device: 'apns#0', error: expect.stringMatching(/^reset/) as string });
    expect(sandbox.journal.accepted.map(({ token }) => token).toSorted()).toEqual(
      [cut, well, busy].map(({ token }) => token).toSorted(),
    );
  });
});

it(
  'poison that ends each worker which takes it becomes a dead letter, and its companions are delivered',
  { timeout: 180_000 },
  async () => {
    const { queue, deadQueue, sandbox, startWorker } = await openWorkerBench();
    const env = { ...LOCK, MAX_STALLS: '2', LIMIT_MIN_GAP: '0' };
    const poison = makeNotification();
    sandbox.apns.script(
      poison.devices.map(tokenOf).join(),
      Array.from({ length: 9 }, () => ({ kind: 'hang' }) as const),
    );
    await queue.add('push', poison, { jobId: 'poison', priority: 10 });
    let taken = 0;
    for (let kills = 0; kills < 3; kills++) {
      const worker = await startWorker(env);
      taken = await vi.waitFor(() => {
        const { length } = sandbox.journal.all.filter(({ token }) => token === poison.devices.map(tokenOf).join());
        expect(length).toBeGreaterThan(taken);
        return length;
      }, SOON);
      worker.kill('SIGKILL');
    }
    const worker = await startWorker(env);
    await queue.add('push', makeNotification({ recipientId: 'somebody else' }), { priority: 10 });
    await worker.waitForLine(/"outcome":"delivered"/);
    await vi.waitFor(async () => expect(await deadQueue.getJobCountByTypes('wait')).toBe(1), SOON);
    const [letter] = await deadQueue.getJobs();
    expect(letter?.data).toMatchObject({ notification: poison, reason: 'stalled', generation: 0 });
  },
);

const STOPPED = { ...LOCK, BACKOFF_BASE: '10s', LIMIT_MIN_GAP: '100ms' };

describe('a worker that was stopped for longer than its lock', () => {
  it('does not send on the admission that it was waiting for', async () => {
    const { queue, sandbox, startWorker } = await openWorkerBench();
    const atAsk = stoppedAt(':{teacher-42}:settings'); // the ask is admitted, and its answer is not read yet
    const stopped = await startWorker({ ...STOPPED, ...atAsk.env }, atAsk.flags);
    await queue.add('push', makeNotification({ recipientId: 'teacher-42' }), { priority: 10 });

    const other = await startWorker(STOPPED);
    await other.waitForLine(/"outcome":"delivered"/);
    stopped.kill('SIGCONT');
    await stopped.waitForLine(/"outcome":"yielded"|went to other workers/);
    await sleep(500);
    expect(sandbox.journal.accepted).toHaveLength(1);
    expect(await queue.getCompletedCount()).toBe(1);
  });

  it('does not write over what the new owner of its job has reached', async () => {
    const { queue, sandbox, startWorker } = await openWorkerBench();
    const stopped = await startWorker(STOPPED);
    const [first, second] = [makeDevice(), makeDevice()];
    sandbox.apns.script(first.token, [
      { kind: 'accept', delayMs: 2_000 },
      { kind: 'refuse', status: 503, reason: 'ServiceUnavailable' },
    ]);
    sandbox.apns.script(second.token, [{ kind: 'accept', delayMs: 4_000 }]);
    const job = await queue.add('push', makeNotification({ devices: [first, second] }), { priority: 10 });
    await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(2), SOON);
    stopped.kill('SIGSTOP');

    const other = await startWorker(STOPPED);
    await other.waitForLine(/"outcome":"retried"/);
    const reached = await queue.getJob(job.id ?? '');
    expect(reached?.progress).toMatchObject({ tries: 1, devices: { 'apns#1': 'delivered' } });
    stopped.kill('SIGCONT');
    await stopped.waitForLine(/went to other workers/);
    expect((await queue.getJob(job.id ?? ''))?.progress).toEqual(reached?.progress);
    expect(await job.getState()).toBe('delayed');
  });

  it('gives back no slot in which the new owner of its job has sent, and writes no end over its end', async () => {
    const { queue, prefix, sandbox, startWorker } = await openWorkerBench();
    const WINDOW_MS = 4_000;
    const env = { ...STOPPED, LIMIT_RULES: '1/4s', LIMIT_MIN_GAP: '0', OUTCOMES_MAX: '100' };
    const limiter = createRedisLimiter({
      redis: connectRedis(),
      policy: { rules: [{ max: 1, perMs: WINDOW_MS }], minGapMs: 0 },
      prefix,
    });
    const producer = createProducer({ ...testTarget(), prefix });
    onTestFinished(() => producer.close());
    const [recipientId, cancellationKey] = ['teacher-42', 'trip-77'];
    const one = makeNotification({ recipientId, cancellationKey, onThrottle: 'drop' });
    const slots = async () => (await limiter.inspect(recipientId)).sent;

    const atToken = stoppedAt(':quota:{apns}:'); // it has its slot by then, and sends when it has a token too
    const stopped = await startWorker({ ...env, ...atToken.env, APNS_QUOTA: '1000/1m' }, atToken.flags);
    await producer.enqueue(one);
    await vi.waitFor(async () => expect(await slots()).toHaveLength(1), SOON);
    // Only then is the other worker given a slot under the same id.
    await vi.waitFor(async () => expect(await slots()).toEqual([]), SOON);

    const other = await startWorker(env);
    await other.waitForLine(/"outcome":"delivered"/);
    await limiter.block(recipientId, { until: Date.now() + 600_000, reason: 'on leave' });
    stopped.kill('SIGCONT'); // it has missed its slot, and is given no other one now
    await stopped.waitForLine(/went to other workers/);
    await limiter.unblock(recipientId);
    await producer.enqueue(makeNotification({ recipientId }));
    await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(2), SOON);

    const [first, second, ...more] = sandbox.journal.accepted;
    expect((second?.at ?? NaN) - (first?.at ?? NaN)).toBeGreaterThan(WINDOW_MS - 50);
    expect(more).toEqual([]);
    expect(await producer.status(one.id)).toMatchObject({ state: 'ended', outcome: 'delivered' });
    const outcomes = await outcomesIn(connectRedis(), prefix);
    expect(outcomes.filter(({ id }) => id === one.id)).toMatchObject([{ outcome: 'delivered' }]);
    expect(await producer.retract({ recipientId, cancellationKey })).toMatchObject({ retracting: 1 });
  });
});

/** Starts a worker and kills it in mid-work, four times. Answers the ids of the jobs that the workers had then. */
async function killAgainAndAgain(queue: Queue, startWorker: () => Promise<TestProcess>): Promise<Set<string>> {
  const inFlight = new Set<string>();
  for (let round = 0; round < 4; round++) {
    const worker = await startWorker();
    await vi.waitFor(async () => expect(await queue.getActiveCount()).toBeGreaterThan(0), SOON);
    await sleep(90 * round);
    worker.kill('SIGSTOP');
    for (const { id } of await queue.getActive()) inFlight.add(id ?? '');
    worker.kill('SIGKILL');
    await worker.waitForExit();
  }
  return inFlight;
}
