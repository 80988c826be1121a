import { Redis, type RedisOptions } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { breakerKeys } from '../../../src/breaker/redis-breakers.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../../support/redis.ts';
import { openRedisProxy, type RedisProxy } from '../../support/redis-proxy.ts';
import { waitFor } from '../../support/wait.ts';
import {
  accepted,
  BASE_MS,
  countAnswers,
  LONG,
  openBreakers,
  openOf,
  refused,
  reportTimes,
  trialOf,
  unreached,
  untilClosed,
  untilRead,
} from '../../breaker/support.ts';

/** Both ways in which workers use ioredis: commands wait for the connection, or fail at once without one. */
const CLIENTS = {
  'that wait for it': { maxRetriesPerRequest: null },
  'that fail at once': { enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false },
} satisfies Record<string, Omit<RedisOptions, 'replyMapping'>>;

function openProxy(): Promise<RedisProxy> {
  return openRedisProxy(Number(new URL(testRedisUrl()).port));
}

async function connect(proxy: RedisProxy, options: Omit<RedisOptions, 'replyMapping'> = {}): Promise<Redis> {
  const client = new Redis(proxy.url, { retryStrategy: () => 50, ...options });
  client.on('error', () => undefined); // refused while it is away
  onTestFinished(() => {
    client.disconnect();
  });
  await waitFor(() => expect(client.status).toBe('ready'));
  await client.ping();
  return client;
}

describe.each(Object.entries(CLIENTS))('without Redis, for clients %s, a worker', (_, options) => {
  it('keeps what it met itself, tries nothing, and shares it when Redis is back', async () => {
    const proxy = await openProxy();
    const prefix = testPrefix();
    const worker = openBreakers(prefix, {}, await connect(proxy, options));
    const other = openBreakers(prefix);
    await proxy.refuse();
    worker.breakers.report(refused());
    await waitFor(() => expect(openOf(worker).until).toBeLessThan(Date.now()));
    expect((await worker.breakers.enter('apns', 'msg')).kind).toBe('open');
    expect(other.breakers.current('apns')).toBeUndefined();

    const { since } = openOf(worker);
    await proxy.admit();
    await waitFor(() => expect(openOf(other)).toMatchObject({ trouble: 'auth', since }));
    await Promise.any([trialOf(worker, 'one'), trialOf(other, 'another')]);
    expect(worker.changes).toHaveLength(1);
  });

  it('closes by the answer to its trial, and all close when Redis is back', async () => {
    const proxy = await openProxy();
    const prefix = testPrefix();
    const worker = openBreakers(prefix, {}, await connect(proxy, options));
    const other = openBreakers(prefix);
    worker.breakers.report(refused());
    await waitFor(() => openOf(other));
    const trial = await trialOf(worker);
    await proxy.refuse();
    worker.breakers.report(accepted(), trial);
    expect(await worker.breakers.enter('apns', 'msg')).toEqual({ kind: 'closed' });
    await proxy.admit();
    await Promise.all([worker, other].map(untilClosed));
    expect(worker.changes.map(({ open }) => open?.trouble)).toEqual(['auth', undefined]);
  });

  it('learns what Redis has when it is back', async () => {
    const proxy = await openProxy();
    const prefix = testPrefix();
    const worker = openBreakers(prefix, LONG, await connect(proxy, options));
    const other = openBreakers(prefix, LONG);
    worker.breakers.report(refused());
    await waitFor(() => openOf(other));
    await proxy.refuse();
    await connectRedis().del(breakerKeys(prefix, 'apns'));
    await untilClosed(other);
    expect(openOf(worker).trouble).toBe('auth');
    await proxy.admit();
    await untilClosed(worker);
  });
});

it('a Redis that freezes delays nobody', async () => {
  const proxy = await openProxy();
  const connection = countAnswers(await connect(proxy));
  const worker = openBreakers(testPrefix(), {}, connection.redis);
  worker.breakers.report(refused());
  await untilRead(connection);
  const trial = await trialOf(worker);
  proxy.silence();
  worker.breakers.report(refused(), trial);
  expect(openOf(worker).until - Date.now()).toBeGreaterThan(BASE_MS);
  await waitFor(() => expect(openOf(worker).until).toBeLessThan(Date.now()));
  expect((await worker.breakers.enter('apns', 'msg')).kind).toBe('open'); // its wait has a limit
  expect(worker.trialEnds.map(({ result }) => result)).toEqual(['failure']);
  await worker.breakers.close();
});

it('an outage is tried without Redis: it is of this worker alone', async () => {
  const worker = openBreakers(testPrefix(), {}, { eval: () => Promise.reject(new Error('away')) });
  reportTimes(5, worker, unreached);
  worker.breakers.report(accepted(), await trialOf(worker));
  expect(worker.breakers.current('apns')).toBeUndefined();
});

it('leaves nothing on the event loop, and nothing hangs, where Redis never answers', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const worker = openBreakers(testPrefix(), {}, { eval: () => new Promise(() => undefined) });
  worker.breakers.report(refused());
  expect(timers()).toBe(before);
  await waitFor(() => expect(openOf(worker).until).toBeLessThan(Date.now()));
  expect((await worker.breakers.enter('apns', 'msg')).kind).toBe('open');
  await worker.breakers.close();
});
