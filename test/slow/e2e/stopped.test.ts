import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { openGate } from '../../support/gate.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { testRedisUrl } from '../../support/redis.ts';
import { openWorkerBench } from '../../support/worker.ts';

const LOCK = { LOCK_DURATION: '1s', BACKOFF_BASE: '10s', LIMIT_MIN_GAP: '100ms' };
const SOON = { timeout: 20_000, interval: 20 };

describe('a worker that was stopped for longer than its lock', () => {
  it('does not send on the admission that it was waiting for', async () => {
    const { queue, sandbox, startWorker } = await openWorkerBench();
    const gate = await openGate(testRedisUrl());
    const limiterUrl = gate.url.replace('https:', 'redis:');
    const stopped = await startWorker({ ...LOCK, LIMITER_REDIS_URL: limiterUrl });
    gate.hold();
    await queue.add('push', makeNotification(), { priority: 10 });
    await vi.waitFor(async () => expect(await queue.getActiveCount()).toBe(1), SOON);
    await sleep(100); // its ask is on the way
    stopped.kill('SIGSTOP');
    gate.release();

    const other = await startWorker(LOCK);
    await other.waitForLine(/"outcome":"delivered"/);
    stopped.kill('SIGCONT');
    await stopped.waitForLine(/"outcome":"yielded"|went to other workers/);
    await sleep(500);
    expect(sandbox.journal.accepted).toHaveLength(1);
    expect(await queue.getCompletedCount()).toBe(1);
  });

  it('does not write over what the new owner of its job has reached', async () => {
    const { queue, sandbox, startWorker } = await openWorkerBench();
    const stopped = await startWorker(LOCK);
    const [first, second] = [makeDevice(), makeDevice()];
    sandbox.apns.script(first.token, [
      { kind: 'accept', delayMs: 2_000 },
      { kind: 'refuse', status: 503, reason: 'ServiceUnavailable' },
    ]);
    sandbox.apns.script(second.token, [{ kind: 'accept', delayMs: 4_000 }]);
    const job = await queue.add('push', makeNotification({ devices: [first, second] }), { priority: 10 });
    await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(2), SOON);
    stopped.kill('SIGSTOP');

    const other = await startWorker(LOCK);
    await other.waitForLine(/"outcome":"retried"/);
    const reached = await queue.getJob(job.id ?? '');
    expect(reached?.progress).toMatchObject({ tries: 1, devices: { 'apns#1': 'delivered' } });
    stopped.kill('SIGCONT');
    await stopped.waitForLine(/went to other workers/);
    expect((await queue.getJob(job.id ?? ''))?.progress).toEqual(reached?.progress);
    expect(await job.getState()).toBe('delayed');
  });
});
