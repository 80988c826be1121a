import { expect, onTestFinished, test } from 'vitest';
import { connectProducer, type RedisTarget } from '../../src/redis/connection.ts';
import { readInfo } from '../../src/redis/info.ts';
import { ownRedis } from '../support/own-redis.ts';
import { connectRedis, testRedisUrl } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

function connect(target: RedisTarget) {
  const connection = connectProducer(target);
  connection.on('error', () => undefined);
  onTestFinished(() => connection.disconnect());
  return connection;
}

test('what a server says of itself', async () => {
  const { url } = await ownRedis({ extraArgs: ['--maxmemory', '64mb'] });
  const connection = connect({ redisUrl: url });
  const found = await waitFor(() => readInfo(connection));
  expect(found).toHaveLength(1);
  const [info] = found;
  expect(info).toMatchObject({ maxBytes: 64 * 1024 * 1024, mayEvict: false, evictedKeys: 0, clients: 1 });
  expect(info).not.toHaveProperty('node');
  expect(info?.usedBytes).toBeGreaterThan(100_000);
  await connectRedis(url).config('SET', 'maxmemory-policy', 'volatile-ttl');
  const [later] = await readInfo(connection);
  expect(later?.mayEvict).toBe(true);
  expect(later?.commands).toBeGreaterThan(info?.commands ?? Infinity);
});

test('of a cluster each master, by its address', async () => {
  const url = testRedisUrl();
  const connection = connect({ redisUrl: url, cluster: true });
  const found = await waitFor(async () => {
    const each = await readInfo(connection);
    expect(each).toHaveLength(1);
    return each;
  });
  expect(found[0]).toMatchObject({ node: new URL(url).host, maxBytes: 0 });
  expect(found[0]?.usedBytes).toBeGreaterThan(100_000);
});
