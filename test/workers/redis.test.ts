import { expect, it, onTestFinished } from 'vitest';
import { createLog } from '../../src/observe/log.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { connect } from '../../workers/redis.ts';
import { connectRedis } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

type Line = Readonly<Record<string, unknown>>;

function open(redisUrl: string, timeoutMs: number) {
  const logged: Line[] = [];
  const log = createLog('info', { write: (line) => void logged.push(JSON.parse(line) as Line) });
  const closing = new AsyncDisposableStack();
  onTestFinished(() => closing.disposeAsync());
  const target = { redisUrl, cluster: false };
  const { signal } = new AbortController();
  const connecting = connect({ redis: target, limiterRedis: target }, log, { signal, timeoutMs }, closing);
  return { logged, connecting };
}

it('a Redis that cannot be reached ends the start with the reason of the last try', async () => {
  const { logged, connecting } = open('redis://127.0.0.1:1', 1_200);
  await expect(connecting).rejects.toThrow(/^Redis is away: 127\.0\.0\.1:1 \(.*ECONNREFUSED/);
  expect(logged[0]).toMatchObject({ redis: '127.0.0.1:1', reason: expect.stringContaining('ECONNREFUSED') as string });
});

it('a Redis that is lost is logged, and once when it is back', async () => {
  const redis = await startEmbeddedRedis();
  const { logged, connecting } = open(redis.url, 5_000);
  await connecting;
  await redis.close();
  await waitFor(() => expect(logged[0]?.['msg']).toContain('no connection to Redis'));
  const again = await startEmbeddedRedis({ port: Number(new URL(redis.url).port) });
  onTestFinished(() => again.close());
  const back = (): Line[] => logged.filter(({ msg }) => String(msg).startsWith('connected to Redis again'));
  await waitFor(() => expect(back()).toHaveLength(1));
  expect(back()[0]).toMatchObject({ level: 'info', awayMs: expect.any(Number) as number });
});

it('a password that is changed under a running worker is logged as such, and it goes on when it may', async () => {
  const redis = await startEmbeddedRedis();
  onTestFinished(() => redis.close());
  const admin = connectRedis(redis.url);
  const { logged, connecting } = open(redis.url, 5_000);
  await connecting;
  await admin.config('SET', 'requirepass', 's3cret');
  await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  const refused = (): Line[] => logged.filter(({ msg }) => String(msg).startsWith('Redis refuses the credentials'));
  await waitFor(() => expect(refused().length).toBeGreaterThan(0));
  expect(refused()[0]).toMatchObject({
    level: 'error',
    reason: expect.stringContaining('NOAUTH: it asks for a password') as string,
  });
  await admin.auth('s3cret'); // it may have been reconnected by then
  await admin.config('SET', 'requirepass', '');
  await waitFor(() => expect(logged.at(-1)?.['msg']).toContain('connected to Redis again'));
  expect(JSON.stringify(logged)).not.toContain('s3cret');
});
