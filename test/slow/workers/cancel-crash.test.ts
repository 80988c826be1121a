import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { createProducer } from '../../../src/producer/producer.ts';
import { race, RACE_LIMITS } from '../../support/cancel-race.ts';
import { present } from '../../queue/support.ts';
import { makeNotification } from '../../support/push.ts';
import { connectRedis, testRedisUrl } from '../../support/redis.ts';
import { openReplicaBench } from '../../support/replica.ts';
import { ends } from '../../support/waiting.ts';
import { openWorkerBench } from '../../support/worker.ts';

/** Short, so that the jobs of a killed worker come back soon. */
const ENV = { ...RACE_LIMITS, LOCK_DURATION: '2s', METRICS_PORT: 'off' };

test('also while workers are killed, a notification is either canceled or received', async () => {
  const { sandbox, queue, prefix, startWorker } = await openWorkerBench();
  const producer = createProducer({ redisUrl: testRedisUrl(), prefix });
  onTestFinished(() => producer.close());
  const accepted = () => sandbox.journal.accepted.map(({ token }) => token);
  let [canceled, tooLate] = [0, 0];
  // Without workers nothing is sent, and a busy machine sends late: then most cancels come too early, and those of the next round later.
  for (let lateMs = 0; lateMs <= 2_000 && (canceled <= 20 || tooLate <= 20); lateMs += 400) {
    const [first, second] = [await startWorker(ENV), await startWorker(ENV)];
    const killing = sleep(600)
      .then(() => first.kill('SIGKILL'))
      .then(() => sleep(600))
      .then(() => second.kill('SIGKILL'))
      .then(() => startWorker(ENV));
    const round = { producer, queue, recipients: 20, notifications: 12, accepted, mayRepeat: true, lateMs };
    const result = await race(round);
    await killing;
    canceled += result.canceled;
    tooLate += result.tooLate;
  }
  expect(canceled).toBeGreaterThan(20);
  expect(tooLate).toBeGreaterThan(20);
}, 300_000);

test('one that an earlier cancel has left to its worker, while this one waited for that worker, is canceled', async () => {
  const bench = await openReplicaBench();
  const { queue, prefix, producer } = bench;
  const { id } = await producer.enqueue(makeNotification());
  const worker = new Worker(queue.name, null, { connection: connectRedis(), prefix, autorun: false });
  onTestFinished(() => worker.close(true));
  const job = present(await worker.getNextJob('a slow worker'));
  const earlier = producer.cancel({ id });
  await sleep(1_500); // the earlier one waits for two seconds
  const later = producer.cancel({ id });
  expect(await earlier).toEqual({ canceled: 0, tooLate: 1 });
  await job.moveToDelayed(Date.now() + 600_000, 'a slow worker');
  expect(await later).toEqual({ canceled: 1, tooLate: 0 });
  await bench.startHere();
  await ends(bench, id, 'canceled');
  expect(bench.sandbox.journal.accepted).toEqual([]);
});
