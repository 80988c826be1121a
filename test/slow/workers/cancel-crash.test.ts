import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { createProducer } from '../../../src/producer/producer.ts';
import { race, RACE_LIMITS } from '../../support/cancel-race.ts';
import { testRedisUrl } from '../../support/redis.ts';
import { openWorkerBench } from '../../support/worker.ts';

/** Short, so that the jobs of a killed worker come back soon. */
const ENV = { ...RACE_LIMITS, LOCK_DURATION: '2s', METRICS_PORT: 'off' };

test('also while workers are killed, a notification is either canceled or received', async () => {
  const { sandbox, queue, prefix, startWorker } = await openWorkerBench();
  const producer = createProducer({ redisUrl: testRedisUrl(), prefix });
  onTestFinished(() => producer.close());
  const [first, second] = [await startWorker(ENV), await startWorker(ENV)];
  const killing = sleep(600)
    .then(() => first.kill('SIGKILL'))
    .then(() => sleep(600))
    .then(() => second.kill('SIGKILL'))
    .then(() => startWorker(ENV));
  const accepted = () => sandbox.journal.accepted.map(({ token }) => token);
  const result = await race({ producer, queue, recipients: 20, notifications: 12, accepted, mayRepeat: true });
  await killing;
  expect(result.canceled).toBeGreaterThan(20);
  expect(result.tooLate).toBeGreaterThan(5);
});
