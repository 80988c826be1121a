import { expect, onTestFinished, test } from 'vitest';
import { createProducer } from '../../../src/queue/producer.ts';
import { connectLimiter, connectProducer, whenReady, type Connection } from '../../../src/redis/connection.ts';
import { testCluster } from '../../support/cluster.ts';
import { makeNotification } from '../../support/push.ts';
import { testPrefix } from '../../support/redis.ts';

const cluster = testCluster();

const target = () => ({ redisUrl: cluster.url, cluster: true });

test.each([
  ['a limiter', (): Connection => connectLimiter(target(), 5_000)],
  ['a producer', (): Connection => connectProducer(target())],
])('the first commands of %s are carried out in their order, on every master', async (_, connect) => {
  const connection = connect().on('error', () => undefined);
  onTestFinished(() => connection.disconnect());
  await whenReady(connection, 5_000);
  const [prefix, places] = [testPrefix(), Array.from({ length: 20 }, (_, at) => at + 1)];
  const lists = Array.from({ length: 12 }, (_, list) => `${prefix.slice(1, -1)}:{${list}}`);
  const lengths = lists.map((list) => Promise.all(places.map((place) => connection.rpush(list, place))));
  expect(await Promise.all(lengths)).toEqual(lists.map(() => places));
});

test('the first calls of a producer may be many at once, for all shards', async () => {
  const producer = createProducer({ ...target(), prefix: testPrefix(), shards: 4 });
  onTestFinished(() => producer.close());
  const inputs = Array.from({ length: 40 }, (_, at) => makeNotification({ recipientId: `r${at}` }));
  const answers = await Promise.all(inputs.map((input) => producer.enqueue(input)));
  expect(answers.map(({ added }) => added)).toEqual(inputs.map(() => true));
});
