import type { Job } from 'bullmq';
import { describe, expect, test, vi } from 'vitest';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { present } from '../queue/support.ts';
import { makeNotification } from '../support/push.ts';
import { openReplicaBench } from '../support/replica.ts';
import { blocked, ends, SLOW, WITHIN } from '../support/waiting.ts';

describe('a job named cancel', () => {
  test('cancels by id and by key, and its return value says what came of it', async () => {
    const bench = await openReplicaBench();
    await bench.startHere(SLOW);
    const [one, two] = await blocked(bench, [{}, { cancellationKey: 'trip-77' }]);
    const targets = [{ id: one.id }, { recipientId: 'teacher-42', cancellationKey: 'trip-77' }];
    for (const target of targets) {
      const { id = '' } = await bench.queue.add('cancel', target, { priority: 1 });
      await vi.waitFor(async () => {
        const job = (await bench.queue.getJob(id)) as Job | undefined;
        expect(job?.returnvalue).toEqual({ canceled: 1, tooLate: 0 });
      }, WITHIN);
    }
    await ends(bench, one.id, 'canceled');
    await ends(bench, two.id, 'canceled');
    expect(bench.lines.join('')).toContain('canceled what waits');
  });

  test('overtakes the backlog', async () => {
    const bench = await openReplicaBench();
    const [first, ...others] = Array.from({ length: 20 }, (_, n) => makeNotification({ recipientId: `teacher-${n}` }));
    await bench.producer.enqueueMany([present(first), ...others]);
    await bench.queue.add('cancel', { id: first?.id }, { priority: 1 });
    await bench.startHere({ WORKER_CONCURRENCY: '1' });
    for (const { id } of others) await ends(bench, id, 'delivered');
    await ends(bench, present(first).id, 'canceled');
  });

  test('that does not fit becomes a dead letter', async () => {
    const bench = await openReplicaBench();
    await bench.startHere();
    await bench.queue.add('cancel', { id: 'msg-1', recipientId: 'teacher-42' }, { jobId: 'bad', priority: 1 });
    const letters = createDeadLetters({ queue: bench.queue, deadQueue: bench.deadQueue });
    await vi.waitFor(async () => {
      expect((await letters.find('bad'))?.letter).toMatchObject({
        reason: 'invalid',
        message: 'recipientId: expected no such field, found one',
      });
    }, WITHIN);
  });
});
