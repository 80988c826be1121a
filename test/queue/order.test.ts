import { expect, onTestFinished, test } from 'vitest';
import { createProducer } from '../../src/queue/producer.ts';
import { testRedisUrl } from '../support/redis.ts';
import { notification, openQueues, present } from './support.ts';

test('of those that give way to the newest, the timestamps tell which was added later, within a millisecond too', async () => {
  const { prefix, queue } = openQueues();
  const producer = createProducer({ redisUrl: testRedisUrl(), prefix });
  onTestFinished(() => producer.close());
  const ids = Array.from({ length: 50 }, (_, index) => `n${index}`);
  await producer.enqueueMany(
    ids.map((id) => notification({ id, onThrottle: 'latest', collapseId: 'score', recipientId: 'teacher-42' })),
  );
  await producer.enqueueMany([notification({ id: 'other', onThrottle: 'latest', collapseId: 'other' })]);
  const jobs = await Promise.all(ids.map(async (id) => present(await queue.getJob(id))));
  const timestamps = jobs.map(({ timestamp }) => timestamp);
  expect(timestamps).toEqual([...new Set(timestamps)].toSorted((a, b) => a - b));
  expect(present(await queue.getJob('other')).timestamp).toBeLessThan((timestamps[0] ?? 0) + 1_000);
});
