import type { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { createProducer } from '../../src/queue/producer.ts';
import { addressOf, openConnection, type RedisTarget } from '../../src/queue/redis-target.ts';

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
])('a producer with a target that contradicts itself is refused: %j', (target, fault) => {
  expect(() => createProducer(target)).toThrow(InputError);
  expect(() => createProducer(target)).toThrow(fault);
});
