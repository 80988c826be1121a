import { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { startProcess } from '../../support/process.ts';

test('Ctrl-C ends the demo in order: in a Redis that was there before, only what expires by itself is left', async () => {
  const server = await startEmbeddedRedis();
  onTestFinished(() => server.close());
  const demo = startProcess({ args: ['demo/demo.ts'], env: { REDIS_URL: server.url } });
  await demo.waitForLine(/^enqueuing 440 notifications/);
  const redis = new Redis(server.url);
  onTestFinished(() => {
    redis.disconnect();
  });
  await expect.poll(() => redis.keys('*:notifications:completed')).not.toEqual([]);
  demo.kill('SIGINT');
  expect(await demo.waitForExit()).toMatchObject({ code: 130 });
  const keys = await redis.keys('*');
  const lasting = await Promise.all(keys.map(async (key) => ((await redis.ttl(key)) === -1 ? [key] : [])));
  expect(lasting.flat()).toEqual([]);
});
