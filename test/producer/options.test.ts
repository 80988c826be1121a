import { expect, it, onTestFinished } from 'vitest';
import { InputError, type Fault } from '../../src/domain/faults.ts';
import { createProducer, type EnqueueManyOptions, type ProducerOptions } from '../../src/producer/producer.ts';
import { limiterTarget } from '../../src/producer/options.ts';
import { addressOf, openConnection } from '../../src/redis/target.ts';
import { connectRedis } from '../support/redis.ts';

const REDIS_URL =
  'redis:// or rediss:// URLs such as redis://127.0.0.1:6379, comma-separated, each with the number of a database or without a path';

function faultsOf(options: unknown): readonly Fault[] {
  try {
    createProducer(options as ProducerOptions);
  } catch (error) {
    if (error instanceof InputError) return error.faults;
    throw error;
  }
  return [];
}

it.each([{}, { redisUrl: undefined }, { redisUrl: '' }])(
  '%j is the Redis that a worker takes without REDIS_URL',
  (target) => {
    const connection = openConnection(target, { lazyConnect: true });
    onTestFinished(() => {
      connection.disconnect();
    });
    expect(addressOf(connection)).toBe('127.0.0.1:6379');
  },
);

it('needs no options at all', async () => {
  await createProducer().close();
});

it.each([
  ['localhost', 'a string of 9 characters'],
  ['localhost:6379', 'a string of 14 characters'],
  ['http://x', 'a string of 8 characters'],
  ['/var/run/redis.sock', 'a string of 19 characters'],
  ['redis://127.0.0.1:port', 'a string of 22 characters'],
  ['redis://:100%@127.0.0.1', 'a string of 23 characters'],
  ['redis://one,two', 'a string of 15 characters'],
  [6379, '6379'],
  [null, 'null'],
  [{ url: 'redis://127.0.0.1' }, 'an object'],
])('the URL %j is refused as a worker refuses it', (redisUrl, found) => {
  expect(faultsOf({ redisUrl })).toEqual([{ path: 'redisUrl', expected: REDIS_URL, found }]);
});

it('a fault of the URL does not show its password', () => {
  const redisUrl = 'http://app:s3cret@one';
  expect(() => createProducer({ redisUrl })).toThrow(/^unusable options: redisUrl: expected/);
  expect(JSON.stringify(faultsOf({ redisUrl }))).not.toContain('s3cret');
});

it('every other option is checked too, and all faults are reported at once', () => {
  expect(faultsOf({ redisUrl: 'x', prefix: 'a:b', shards: Number('none'), timeoutMs: 0 })).toEqual([
    { path: 'redisUrl', expected: REDIS_URL, found: 'a string of 1 characters' },
    { path: 'prefix', expected: 'up to 64 characters without spaces and colons, such as {pushpacer}', found: '"a:b"' },
    { path: 'shards', expected: 'an integer from 1 to 64', found: 'NaN' },
    { path: 'timeoutMs', expected: 'milliseconds, from 1 to 2147483647', found: '0' },
  ]);
});

it.each([
  [{ url: 'redis://:s3cret@one' }, 'url', 'redisUrl'],
  [{ redis: { url: 'redis://:s3cret@one' } }, 'redis', 'redisUrl'],
  [{ host: 'one' }, 'host', 'redisUrl'],
  [{ queuePrefix: '{app}' }, 'queuePrefix', 'prefix'],
  [{ timeout: 1_000 }, 'timeout', 'timeoutMs'],
  [{ redisUrl: 'redis://one', sentinel: { name: 'mymaster', pasword: 's3cret' } }, 'sentinel.pasword', 'password'],
])('%j has an option that does not exist', (options, path, meant) => {
  const expected = `no such field (did you mean ${meant}?)`;
  expect(faultsOf(options)).toEqual([{ path, expected, found: 'one' }]);
});

it('an option that is like none, and a bad value, are reported together', () => {
  expect(faultsOf({ concurrency: 7, shards: 0 })).toMatchObject([
    { path: 'concurrency', expected: 'no such field' },
    { path: 'shards' },
  ]);
});

it.each([
  ['redis://:s3cret@one', 'a string of 19 characters'],
  [null, 'null'],
  [['redis://one'], 'an array of 1'],
])('%j is no object of options', (options, found) => {
  expect(faultsOf(options)).toEqual([{ path: '', expected: 'an object with options', found }]);
});

it.each([
  [{ sentinel: 'mymaster', redisUrl: 'redis://one' }, 'sentinel'],
  [{ sentinel: {}, redisUrl: 'redis://one' }, 'sentinel.name'],
  [{ cluster: 'true' }, 'cluster'],
  [{ connection: 'redis://127.0.0.1' }, 'connection'],
  [{ connection: {} }, 'connection'],
  [{ connection: null }, 'connection'],
])('%j is refused', (options, path) => {
  expect(faultsOf(options)).toMatchObject([{ path }]);
});

it('the options of a long sequence are checked too', async () => {
  await using producer = createProducer();
  const options = { spread: 60_000 } as EnqueueManyOptions;
  await expect(producer.enqueueMany([], options)).rejects.toThrow(
    'unusable options: spread: expected no such field (did you mean spreadOverMs?), found one',
  );
});

it('a connection of the caller goes with no target', () => {
  const connection = connectRedis();
  const [fault] = faultsOf({ connection, redisUrl: 'redis://127.0.0.1' });
  expect(fault).toEqual({ path: 'redisUrl', expected: 'none, since connection is given', found: 'one' });
});

it('an empty prefix is the default one, as for a worker', () => {
  expect(faultsOf({ prefix: '', redisUrl: 'http://x' })).toMatchObject([{ path: 'redisUrl' }]);
});

it('the limiter of a cancel is checked like the queue', () => {
  const expected = REDIS_URL;
  expect(faultsOf({ limiterRedisUrl: 'x' })).toEqual([
    { path: 'limiterRedisUrl', expected, found: 'a string of 1 characters' },
  ]);
  const several = 'redis://one,redis://two';
  expect(faultsOf({ limiterRedisUrl: several })).toMatchObject([{ path: 'limiterRedisUrl', found: '2 URLs' }]);
});

it('the limiter of a cancel has the form of the queue, and its own master', () => {
  const sentinel = { name: 'queue', password: 'p' };
  expect(limiterTarget({ redisUrl: 'redis://a' })).toBeUndefined();
  expect(limiterTarget({ redisUrl: 'redis://a', limiterRedisUrl: '' })).toBeUndefined();
  expect(limiterTarget({ redisUrl: 'redis://a', cluster: true, limiterRedisUrl: 'redis://b' })).toMatchObject({
    redisUrl: 'redis://b',
    cluster: true,
  });
  expect(limiterTarget({ redisUrl: 'redis://a', sentinel, limiterSentinelName: 'limiter' })).toMatchObject({
    redisUrl: 'redis://a',
    sentinel: { name: 'limiter', password: 'p' },
  });
});
