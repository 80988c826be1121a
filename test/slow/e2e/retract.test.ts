import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { createDice } from '../../../chaos/faults.ts';
import { shown } from '../../support/retracting.ts';
import { createProducer } from '../../../src/producer/producer.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { testTarget } from '../../support/redis.ts';
import { openWorkerBench, type TestWorker } from '../../support/worker.ts';

const RECIPIENTS = 8;
const EACH = 12;
const ENV = {
  LIMIT_RULES: '1000/1m',
  LIMIT_MIN_GAP: '300ms',
  LIMIT_BACKGROUND_RULES: '1000/1m',
  LOCK_DURATION: '3s',
  BACKOFF_BASE: '200ms',
  BACKOFF_MAX: '1s',
};
/** From before its notification is enqueued until after it was sent. */
const WHEN_MS = [-300, 0, 100, 400, 1_000, 2_500, 4_500];

test.each([1, 2])(
  'nobody keeps an alert that was taken back, although workers are killed (seed %i)',
  async (seed) => {
    const dice = createDice(seed, 7);
    const bench = await openWorkerBench({ seed });
    await using producer = createProducer({ ...testTarget(), prefix: bench.prefix });
    const workers: TestWorker[] = await Promise.all([bench.startWorker(ENV), bench.startWorker(ENV)]);
    const all = Array.from({ length: RECIPIENTS * EACH }, (_, index) => {
      const recipientId = `teacher-${index % RECIPIENTS}`;
      return { at: dice.between(0, 3_000), title: `Message ${index}`, recipientId, retracted: dice.chance(0.5) };
    });
    const devicesOf = new Map(all.map(({ recipientId }) => [recipientId, [makeDevice('apns'), makeDevice('fcm')]]));
    const acts = all.map(async ({ at, title, recipientId, retracted }) => {
      const { id, ...fields } = makeNotification({
        recipientId,
        devices: devicesOf.get(recipientId),
        alert: { title },
      });
      await sleep(500 + at);
      const enqueuing = sleep(0).then(() => producer.enqueue({ id, ...fields }));
      if (!retracted) return enqueuing;
      const whenMs = dice.pick(WHEN_MS);
      if (whenMs < 0) {
        expect(await producer.retract({ id })).toBeDefined(); // this or the enqueue comes first
        return enqueuing;
      }
      await enqueuing;
      await sleep(whenMs);
      const { unknown, ended } = await producer.retract({ id });
      expect({ unknown, ended }).toEqual({ unknown: 0, ended: 0 });
      return dice.chance(0.3) ? producer.retract({ id }) : undefined;
    });
    const kills = [1_200, 2_600, 4_000].map(async (atMs) => {
      await sleep(500 + atMs);
      const [victim] = workers.splice(0, 1);
      victim?.kill('SIGKILL');
      workers.push(await bench.startWorker(ENV));
    });
    await Promise.all([...acts, ...kills]);

    const left = () => bench.queue.getJobCountByTypes('active', 'prioritized', 'delayed', 'wait');
    await vi.waitFor(async () => expect(await left()).toBe(0), { timeout: 120_000, interval: 200 });
    const kept = all.filter(({ retracted }) => !retracted).flatMap(({ title }) => [title, title]);
    expect(shown(bench).toSorted()).toEqual(kept.toSorted());
    expect(await bench.deadQueue.getWaitingCount()).toBe(0);
    for (const worker of workers) worker.kill('SIGTERM');
  },
  240_000,
);
