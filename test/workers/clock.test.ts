import { expect, onTestFinished, test } from 'vitest';
import { NO_LATENCY } from '../../sandbox/loopback/timing.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { testTarget } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { openWorkerBench } from '../support/worker.ts';

/** The flags of a process whose clock is wrong by so much. `performance.now()` is right. */
function wrongBy(ms: number): readonly string[] {
  const program = `const now = Date.now; Date.now = () => now() + ${ms};`;
  return ['--import', `data:text/javascript,${encodeURIComponent(program)}`];
}

const HOUR_MS = 3_600_000;

test.for([-HOUR_MS / 2, HOUR_MS / 2])(
  'sendAfter and expiresAt are judged by Redis’s clock, where the worker’s is wrong by %i ms',
  async (wrongMs) => {
    const { startWorker, queue, sandbox, prefix } = await openWorkerBench({ latency: NO_LATENCY });
    const producer = createProducer({ ...testTarget(), prefix });
    onTestFinished(() => producer.close());
    await startWorker({ LIMIT_MIN_GAP: '0' }, wrongBy(wrongMs));
    const one = (fields: object) => makeNotification({ devices: [makeDevice('fcm')], ...fields });
    const endOf = (id: string) =>
      waitFor(async () => {
        const job = await queue.getJob(id);
        expect(job?.finishedOn).toBeDefined();
        return { ...job?.returnvalue, ...(job?.progress as object) } as Record<string, unknown>;
      });

    const sendAfter = Date.now() + 1_000;
    await producer.enqueue(one({ id: 'later', sendAfter }));
    await queue.add('push', one({ id: 'of-another-client', sendAfter }), { jobId: 'of-another-client' });
    await producer.enqueue(one({ id: 'young', expiresAt: Date.now() + HOUR_MS / 4 }));
    await queue.add('push', one({ id: 'old', expiresAt: Date.now() - HOUR_MS / 4 }), { jobId: 'old' });

    expect(await endOf('old')).toMatchObject({ outcome: 'expired' });
    expect(await endOf('young')).toMatchObject({ outcome: 'delivered' });
    for (const [id, requeues] of [
      ['later', undefined],
      ['of-another-client', 'sendAfter'],
    ] as const) {
      const end = await endOf(id);
      expect(end).toMatchObject({ outcome: 'delivered' });
      expect(end['rule'], id).toBe(requeues);
      expect(Number(end['sentAt'])).toBeGreaterThanOrEqual(sendAfter);
      expect(Number(end['sentAt'])).toBeLessThan(sendAfter + HOUR_MS / 4);
    }
    expect(sandbox.journal.accepted).toHaveLength(3);
  },
);
