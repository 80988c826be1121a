import { describe, expect, it, onTestFinished } from 'vitest';
import { outcomesKey, shardOf, shardPrefixes } from '../../src/queue/names.ts';
import { invalidTokensKey, reportInvalidToken, type OutcomesOptions } from '../../src/queue/outcomes.ts';
import { outcomesIn } from '../support/outcomes.ts';
import { ownRedis } from '../support/own-redis.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { ENQUEUED_AT, goneToken, openOutcomes, outcome } from './streams.ts';

it('an entry has a field for each fact, as text, and none for what is absent', async () => {
  const redis = connectRedis();
  const { prefix, outcomes } = openOutcomes(redis);
  await outcomes.write(outcome('msg-1', { category: 'messages' }));
  await outcomes.write({
    ...{ id: 'msg-2', outcome: 'dead-lettered', reason: 'invalid', by: 'msg-3', generation: 2 },
    ...{ enqueuedAt: ENQUEUED_AT, waitMs: 7, devices: {} },
  });
  expect(await outcomesIn(redis, prefix)).toEqual([
    {
      ...{ id: 'msg-1', recipientId: 'teacher-42', category: 'messages', outcome: 'delivered', generation: '0' },
      ...{ enqueuedAt: '1784000000000', sentAt: '1784000000040', waitMs: '40', devices: '{"apns#0":"delivered"}' },
    },
    {
      ...{ id: 'msg-2', outcome: 'dead-lettered', reason: 'invalid', by: 'msg-3', generation: '2' },
      ...{ enqueuedAt: '1784000000000', waitMs: '7', devices: '{}' },
    },
  ]);
});

it('with several shards each recipient has one stream', async () => {
  const redis = connectRedis();
  const { prefix, outcomes } = openOutcomes(redis, { shards: 3 });
  const recipients = Array.from({ length: 12 }, (_, index) => `teacher-${index}`);
  await Promise.all(recipients.map((recipientId) => outcomes.write(outcome(`to-${recipientId}`, { recipientId }))));
  const streams = shardPrefixes(prefix, 3);
  onTestFinished(() => void Promise.all(streams.map((stream) => redis.del(outcomesKey(stream)))));
  for (const [shard, own] of streams.entries()) {
    const found = (await outcomesIn(redis, own)).map(({ recipientId }) => recipientId);
    expect(found.length).toBeGreaterThan(0);
    expect(found).toEqual(recipients.filter((recipientId) => shardOf(recipientId, 3) === shard));
  }
});

/** Both streams: what writes an entry with this id, and where it is. At most 200 entries are kept. */
const STREAMS = [
  {
    stream: 'outcomes',
    keyOf: outcomesKey,
    writerOf: (redis: OutcomesOptions['redis'], prefix: string) => {
      const { outcomes } = openOutcomes(redis, { prefix, max: 200, onLost: () => expect.fail('lost') });
      return (id: string) => outcomes.write(outcome(id));
    },
  },
  {
    stream: 'invalid tokens',
    keyOf: invalidTokensKey,
    writerOf: (redis: OutcomesOptions['redis'], prefix: string) => (token: string) =>
      reportInvalidToken(redis, prefix, goneToken(token), { keep: 200 }),
  },
];

describe.each(STREAMS)('the stream of $stream', ({ keyOf, writerOf }) => {
  it('keeps about so many of the latest, and no more', async () => {
    const [redis, prefix] = [connectRedis(), testPrefix()];
    const write = writerOf(redis, prefix);
    await Promise.all(Array.from({ length: 1_000 }, (_, index) => write(`msg-${index}`)));
    const kept = await redis.xlen(keyOf(prefix));
    expect(kept).toBeGreaterThanOrEqual(200);
    expect(kept).toBeLessThanOrEqual(300); // Redis trims whole nodes of 100
    const [last] = await redis.xrevrange(keyOf(prefix), '+', '-', 'COUNT', 1);
    expect(last?.[1]).toContain('msg-999');
  });

  it('loses no entry where Redis is out of memory for a moment', async () => {
    const server = await ownRedis();
    const [redis, prefix] = [connectRedis(server.url), testPrefix()];
    await redis.config('SET', 'maxmemory', '1');
    const writing = Promise.all(['msg-1', 'msg-2'].map(writerOf(redis, prefix)));
    await expect.poll(async () => (await redis.info('errorstats')).includes('errorstat_OOM')).toBe(true);
    expect(await redis.xlen(keyOf(prefix))).toBe(0);
    await redis.config('SET', 'maxmemory', '0');
    await writing;
    expect(await redis.xlen(keyOf(prefix))).toBe(2);
  });
});

it('a connection that breaks in the middle of a write loses no entry', async () => {
  const server = await ownRedis();
  const [redis, operator] = [connectRedis(server.url), connectRedis(server.url)];
  const { prefix, lost, outcomes } = openOutcomes(redis);
  await outcomes.write(outcome('msg-0'));
  const client = await redis.client('ID');
  await operator.client('PAUSE', 20_000, 'WRITE');
  const writing = Promise.all(['msg-1', 'msg-2', 'msg-3'].map((id) => outcomes.write(outcome(id))));
  await expect.poll(() => operator.client('LIST')).toMatch(new RegExp(`^id=${client} .* flags=b .* cmd=xadd `, 'm'));
  await operator.client('KILL', 'ID', client);
  await operator.client('UNPAUSE');
  await writing;
  const ids = (await outcomesIn(operator, prefix)).map(({ id }) => id);
  expect(new Set(ids)).toEqual(new Set(['msg-0', 'msg-1', 'msg-2', 'msg-3']));
  expect(lost).toEqual([]);
});

it('an entry that Redis refuses is given up at once, and reported', async () => {
  const redis = connectRedis();
  const { prefix, lost, outcomes } = openOutcomes(redis);
  await redis.set(outcomesKey(prefix), 'of another program');
  await outcomes.write(outcome('msg-1'));
  expect(lost).toEqual([
    ['msg-1', expect.objectContaining({ message: expect.stringMatching(/^WRONGTYPE/) as string })],
  ]);
});

it('an entry that Redis cannot take for too long is given up, and reported', async () => {
  const server = await ownRedis();
  const redis = connectRedis(server.url);
  await redis.config('SET', 'maxmemory', '1');
  const { lost, outcomes } = openOutcomes(redis, { insistMs: 600 });
  await outcomes.write(outcome('msg-1'));
  await waitFor(() => expect(lost.map(([id]) => id)).toEqual(['msg-1']));
});
