import type { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { connectProducer, connectWorker } from '../../../src/redis/connection.ts';
import { eventually } from '../../support/fault-bench.ts';
import { frozen, ownRedis } from '../../support/own-redis.ts';
import { openRedisProxy } from '../../support/redis-proxy.ts';
import { GROUP, openSentinelGroup, PASSWORDS } from '../../support/redis-sentinel.ts';
import { connectRedis } from '../../support/redis.ts';

/** A group whose Sentinels are behind proxies, and connections that are opened as those of workers and producers. */
async function openGroup(sentinels = 3) {
  const group = await openSentinelGroup({ sentinels });
  const ports = (group.env['REDIS_URL'] ?? '').split(',').map((url) => Number(new URL(url).port));
  const proxies = await Promise.all(ports.map((port) => openRedisProxy(port)));
  const target = {
    redisUrl: proxies.map(({ port }) => `redis://:${PASSWORDS.servers}@127.0.0.1:${port}`).join(','),
    sentinel: { name: GROUP, password: PASSWORDS.sentinels },
  };
  const opened: Redis[] = [];
  const keep = (connection: unknown): Redis => {
    const redis = connection as Redis;
    opened.push(redis.on('error', () => undefined));
    return redis;
  };
  onTestFinished(() => {
    for (const redis of opened) redis.disconnect();
  });
  return {
    ...group,
    proxies,
    keep,
    openWorker: () => keep(connectWorker(target)),
    openProducer: () => keep(connectProducer(target)),
    /** Directly to the replica. */
    successor: connectRedis(`redis://:${PASSWORDS.servers}@127.0.0.1:${group.replica.port}`),
    /** Each Sentinel has so many connections, those of the switch apart. */
    listening: (count: number) =>
      eventually(() => expect(proxies.map(({ open }) => open)).toEqual(proxies.map(() => count))),
  };
}

/** Resolves when it closes; an error may come first. */
const closed = (redis: Redis) => new Promise((resolve) => redis.once('close', resolve));

const portOf = async (redis: Redis): Promise<number> =>
  Number(/^tcp_port:(\d+)/m.exec(await redis.info('server'))?.[1]);

it('connections of every kind leave a master that stands still when another one takes over, by one listener for all', async () => {
  const { master, replica, proxies, keep, openWorker, openProducer, successor, listening } = await openGroup();
  const [worker, producer] = [openWorker(), openProducer()];
  const [blocking, subscriber] = [keep(worker.duplicate()), keep(worker.duplicate())];
  const all = [worker, producer, blocking, subscriber];
  for (const redis of all) await eventually(() => expect(redis.status).toBe('ready'));
  const popped = blocking.bzpopmin('jobs', 0);
  await subscriber.subscribe('news');
  const heard = new Promise((resolve) => subscriber.once('message', (...message) => resolve(message)));
  await listening(1);
  await proxies[1]?.refuse(); // a Sentinel that has died

  await frozen(master.pid, async () => {
    await Promise.all(all.map(closed));
    for (const redis of [worker, producer])
      await eventually(async () => expect(await portOf(redis)).toBe(replica.port));
    await successor.zadd('jobs', 1, 'a');
    expect(await popped).toEqual(['jobs', 'a', '1']);
    await eventually(async () => expect(await successor.publish('news', 'hello')).toBe(1));
    expect(await heard).toEqual(['news', 'hello']);
  });

  await proxies[1]?.admit();
  await listening(1);
  await blocking.quit();
  for (const redis of [worker, producer, subscriber]) redis.disconnect();
  await listening(0);
});

it('a switch that nobody could hear of is noticed when a Sentinel answers again', async () => {
  const { master, replica, sentinel, proxies, openProducer, listening } = await openGroup();
  const producer = openProducer();
  await eventually(() => expect(producer.status).toBe('ready'));
  await listening(1);
  await Promise.all(proxies.map((proxy) => proxy.refuse()));
  await frozen(master.pid, async () => {
    await eventually(async () => {
      const address = await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', GROUP);
      expect(address).toContain(String(replica.port));
    }, 90_000);
    expect(producer.status).toBe('ready');
    const left = closed(producer);
    await proxies[2]?.admit();
    await left;
    await eventually(async () => expect(await portOf(producer)).toBe(replica.port));
  });
});

it('a connection that waits to connect again, and is closed, leaves no listener', async () => {
  const { openProducer, listening, proxies, master, replica } = await openGroup(1);
  const producer = openProducer();
  await listening(1);
  process.kill(master.pid, 'SIGKILL');
  process.kill(replica.pid, 'SIGKILL');
  await eventually(() => expect(producer.status).toBe('reconnecting'));
  producer.disconnect();
  await listening(0);
  expect(proxies[0]?.accepted).toBeGreaterThan(1);
});

it('a master that the Sentinels are told anew, with no failover, is believed', async () => {
  const { sentinel, openProducer, listening } = await openGroup(1);
  const producer = openProducer();
  await listening(1);
  const other = await ownRedis();
  await connectRedis(other.url).config('SET', 'requirepass', PASSWORDS.servers);
  await sentinel.call('SENTINEL', 'REMOVE', GROUP);
  await sentinel.call('SENTINEL', 'MONITOR', GROUP, '127.0.0.1', other.port, 1);
  await sentinel.call('SENTINEL', 'SET', GROUP, 'auth-pass', PASSWORDS.servers);
  await eventually(() => producer.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'no'));
  await eventually(async () => expect(await portOf(producer)).toBe(other.port));
});
