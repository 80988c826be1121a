import type { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { createProducer } from '../../src/queue/producer.ts';
import { addressOf, openConnection, type RedisTarget } from '../../src/redis/target.ts';
import { testPrefix, testRedisUrl } from '../support/redis.ts';

/** Never connects. */
function open(target: RedisTarget): Redis {
  const connection = openConnection(target, { lazyConnect: true });
  onTestFinished(() => {
    connection.disconnect();
  });
  return connection as Redis;
}

it('credentials and database in the URLs of Sentinels are those of Redis, the password beside them that of the Sentinels', () => {
  const redisUrl = 'redis://app:s3cr%40t@one/2, redis://[::1]:5000';
  const { options } = open({ redisUrl, sentinel: { name: 'mymaster', password: 'theirs' } });
  expect(options).toMatchObject({
    ...{ name: 'mymaster', role: 'master', username: 'app', password: 's3cr@t', db: 2, sentinelPassword: 'theirs' },
    sentinels: [
      { host: 'one', port: 26_379 },
      { host: '::1', port: 5_000 },
    ],
  });
  expect(options.tls).toBeUndefined();
});

it('rediss:// speaks TLS with the Sentinels and with Redis', () => {
  const { options } = open({ redisUrl: 'rediss://one', sentinel: { name: 'mymaster' } });
  expect(options).toMatchObject({
    enableTLSForSentinelMode: true,
    tls: {},
    sentinelTLS: {},
  });
});

it('an address names no credentials', () => {
  expect(addressOf(open({ redisUrl: 'redis://app:s3cret@one:7000/2' }))).toBe('one:7000');
  const target = {
    redisUrl: 'redis://:s3cret@one,redis://two:7000',
    sentinel: { name: 'mymaster', password: 'theirs' },
  };
  expect(addressOf(open(target))).toBe('mymaster by Sentinel one:26379, two:7000');
});

it.each([
  [{ redisUrl: 'redis://one,redis://two' }, /redisUrl: expected one URL, or cluster, or sentinel, found 2 URLs/],
  [
    { redisUrl: 'redis://one', cluster: true, sentinel: { name: 'mymaster' } },
    /sentinel: expected none, since cluster is true, found "mymaster"/,
  ],
  [{ sentinel: { name: 'mymaster' } }, /redisUrl: expected Sentinels, since sentinel is given, found nothing/],
  [{ cluster: true, prefix: 'app' }, /prefix: expected a prefix with a {tag}, since cluster is true, found "app"/],
])('a producer with a target that contradicts itself is refused: %j', (target, fault) => {
  expect(() => createProducer(target)).toThrow(InputError);
  expect(() => createProducer(target)).toThrow(fault);
});

it('what is asked in one turn of the event loop is written at once, and answered in order', async () => {
  const connection = open({ redisUrl: testRedisUrl() });
  await connection.connect();
  const key = testPrefix();
  const replies = [connection.set(key, '1'), connection.get(key), connection.del(key)];
  const pipelined = connection.pipeline().set(key, '2').del(key).exec();
  expect(connection.stream.writableCorked).toBe(1);
  expect(await Promise.all(replies)).toEqual(['OK', '1', 1]);
  expect(await pipelined).toEqual([
    [null, 'OK'],
    [null, 1],
  ]);
  expect(connection.stream.writableCorked).toBe(0);
  connection.set(key, '3').catch(() => undefined);
  connection.disconnect(); // what was written before it is still carried out
  const other = open({ redisUrl: testRedisUrl() });
  await other.connect();
  expect(await other.getdel(key)).toBe('3');
});
