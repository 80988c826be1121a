import { expect, it, onTestFinished } from 'vitest';
import { main as cancelMain } from '../../scripts/cancel.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { openApi } from '../support/api.ts';
import { runMain } from '../support/command.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis, queueEnv, testRedisUrl } from '../support/redis.ts';

/** The address of a user whose cancels Redis refuses, though it lets it read, enqueue and write the audit. */
async function withoutHashes(): Promise<string> {
  const admin = connectRedis();
  const user = `without-hashes-${process.pid}`;
  await admin.call('ACL', 'SETUSER', user, 'on', '>secret', '~*', '&*', '+@all', '-hset');
  onTestFinished(async () => {
    await admin.call('ACL', 'DELUSER', user);
  });
  const url = new URL(testRedisUrl());
  [url.username, url.password] = [user, 'secret'];
  return url.href;
}

it('a cancel that fails is in the audit, from the terminal and over HTTP', async () => {
  const REDIS_URL = await withoutHashes();
  const api = await openApi({ REDIS_URL });
  const call: typeof api.call = (...args) => api.call(...args);
  const producer = createProducer({ redisUrl: testRedisUrl(), prefix: api.prefix });
  onTestFinished(() => producer.close());
  await producer.enqueue(makeNotification({ id: 'msg-1', recipientId: 'ana', cancellationKey: 'trip-77' }));

  const env = { ...queueEnv(api.prefix), REDIS_URL };
  const byId = await runMain(cancelMain, ['--id', 'msg-1'], env);
  expect(byId).toMatchObject({ code: 1, stderr: expect.stringContaining('NOPERM') as string });
  const byKey = await call('POST', '/v1/recipients/ana/cancel', { body: { key: 'trip-77' } });
  expect(byKey.status).toBe(503);

  expect(await createAudit(connectRedis(), api.prefix).read({ count: 9 })).toMatchObject([
    { who: 'all', action: 'recipient cancel', on: 'ana', facts: { key: 'trip-77', failed: true } },
    { action: 'notification cancel', on: 'msg-1', facts: { failed: true } },
  ]);
  expect(await producer.status('msg-1')).toMatchObject({ state: 'waiting' });
});
