import { expect, onTestFinished, test } from 'vitest';
import { createProducer } from '../../src/producer/producer.ts';
import { notification } from '../queue/support.ts';
import { ownRedis } from '../support/own-redis.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

test('after SCRIPT FLUSH, of two producers with the same id exactly one has added it', async () => {
  const server = await ownRedis(); // the flush would reach all tests
  const redis = connectRedis(server.url);
  const prefix = testPrefix();
  const producers = [1, 2].map(() => createProducer({ redisUrl: server.url, prefix }));
  onTestFinished(async () => {
    await Promise.all(producers.map((producer) => producer.close()));
  });
  for (const producer of producers) await producer.enqueue(notification());
  for (let round = 0; round < 10; round++) {
    await redis.script('FLUSH');
    const ids = ['a', 'b'].map((name) => `${name}-${round}`);
    const answers = await Promise.all(
      producers.map((producer) => producer.enqueueMany(ids.map((id) => notification({ id, cancellationKey: 'trip' })))),
    );
    for (const [index, id] of ids.entries()) {
      expect(answers.map((answer) => answer[index]?.kind).toSorted(), id).toEqual(['added', 'duplicate']);
    }
  }
});
