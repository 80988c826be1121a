import { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { startEmbeddedRedis, openRedis } from '../../sandbox/redis/embedded-redis.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';

const say = () => undefined;

test.each([undefined, ''])('without a URL (%j) one of our own is started, and ends with close', async (url) => {
  const opened = await openRedis({ url, say });
  expect(opened.isEmbedded).toBe(true);
  const redis = new Redis(opened.url);
  expect(await redis.ping()).toBe('PONG');
  redis.disconnect();
  await opened.close();
  await expect(openRedis({ url: opened.url, say })).rejects.toThrow('ECONNREFUSED');
});

test('a Redis that was given is left as it is', async () => {
  const key = `${testPrefix()}:theirs`;
  const redis = connectRedis();
  await redis.set(key, 'kept', 'EX', 60);
  const opened = await openRedis({ url: testRedisUrl(), say });
  expect(opened).toMatchObject({ url: testRedisUrl(), isEmbedded: false });
  await opened.close();
  expect(await redis.get(key)).toBe('kept');
});

test('a Redis that refuses is told, without its password', async () => {
  const locked = await startEmbeddedRedis();
  onTestFinished(() => locked.close());
  await connectRedis(locked.url).config('SET', 'requirepass', 'right');
  const url = `redis://:wr0ng@127.0.0.1:${locked.port}`;
  const failed = openRedis({ url, say });
  await expect(failed).rejects.toThrow(
    /^no Redis: REDIS_URL: expected the URL of a Redis that answers, found one that refuses the credentials \(WRONGPASS\)$/,
  );
  await expect(failed).rejects.not.toThrow('wr0ng');
});

test('a URL of something else is refused', async () => {
  await expect(openRedis({ url: 'http://127.0.0.1', say })).rejects.toThrow('found something that does not begin with');
});
