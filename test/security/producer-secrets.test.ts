import { inspect } from 'node:util';
import type { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { createProducer, type EnqueueInput } from '../../src/producer/producer.ts';
import { ownRedis } from '../support/own-redis.ts';
import { connectRedis } from '../support/redis.ts';
import { leaksIn, MARKS } from './marks.ts';

const { title, body, data, apnsToken, fcmToken, password } = MARKS;

const NOTIFICATION: EnqueueInput = {
  recipientId: 'teacher-42',
  devices: [{ platform: 'apns', token: apnsToken }],
  alert: { title, body },
  data: { note: data },
};

async function openProducer(credentials = '') {
  const { url, port } = await ownRedis();
  const redis = connectRedis(url);
  const redisUrl = `redis://${credentials}127.0.0.1:${port}`;
  const producer = createProducer({ redisUrl, timeoutMs: 2_000 });
  onTestFinished(() => producer.close());
  return { redis, producer };
}

/** What a log shows of an error, with its causes and all that hangs on it. */
const shown = (error: unknown): string => inspect(error, { depth: 20, maxStringLength: null, showHidden: true });

const failureOf = async (work: Promise<unknown>): Promise<string> => {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(Error);
  return shown(error);
};

it('a producer hears what is wrong with a notification without its token and its texts', async () => {
  const { producer } = await openProducer();
  const bad: unknown[] = [
    { ...NOTIFICATION, devices: [{ platform: 'apns', token: fcmToken }], priority: 'urgent' },
    { ...NOTIFICATION, alert: title, data: [data] },
    { ...NOTIFICATION, devices: apnsToken },
    JSON.stringify(NOTIFICATION),
  ];
  for (const input of bad) {
    const message = await failureOf(producer.enqueue(input as EnqueueInput));
    expect(message).toContain('invalid notification');
    expect(leaksIn(message)).toEqual([]);
    expect(leaksIn(shown(await producer.enqueueMany([input as EnqueueInput])))).toEqual([]);
  }
});

it.each([
  ['is out of memory', (redis: Redis) => redis.config('SET', 'maxmemory', '1')],
  ['lacks a command', (redis: Redis) => redis.call('ACL', 'SETUSER', 'default', '-evalsha', '-eval')],
  ['wants another password', (redis: Redis) => redis.config('SET', 'requirepass', 'another')],
])('a Redis that %s is reported without the notification', async (_, spoil) => {
  const { redis, producer } = await openProducer();
  await producer.enqueue({ ...NOTIFICATION, alert: { title: 'first' } });
  await spoil(redis);
  if (_ === 'wants another password') await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  expect(leaksIn(await failureOf(producer.enqueue(NOTIFICATION)))).toEqual([]);
});

it('a password that Redis refuses is not in the error of the producer', async () => {
  const { producer } = await openProducer(`worker:${password}@`);
  const message = await failureOf(producer.enqueue(NOTIFICATION));
  expect(message).toContain('RedisAwayError');
  expect(leaksIn(message)).toEqual([]);
});
