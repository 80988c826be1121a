import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { createHistory, findKeptStory, hasHistory, type KeptStory } from '../../src/queue/history.ts';
import { historyKeys, shardOf, shardPrefixes } from '../../src/queue/names.ts';
import { newLayout } from '../../src/queue/shards/layout.ts';
import { onClock } from '../support/redis-clock.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

const storyOf = (id: string, recipientId = 'teacher-42'): KeptStory => ({
  ...{ id, recipientId, outcome: 'delivered', generation: 0, enqueuedAt: 1, endedAt: 3, waitMs: 2 },
  devices: { 'apns#0': 'delivered' },
  passes: [{ at: 1, worker: 'web-1:7', result: 'delivered' }],
});

/** A history on a clock of the test's, a day ahead of Redis's own, so that no key expires meanwhile. */
function openHistory({ max = 5, maxAgeMs = 60_000, shards = 1 } = {}) {
  const redis: Redis = connectRedis();
  const prefix = testPrefix();
  let now = Date.now() + 86_400_000;
  const lost: unknown[] = [];
  const layout = newLayout({ prefix, shards });
  const history = createHistory({
    ...{ redis: onClock(redis, () => now), layout: () => layout, max, maxAgeMs, insistMs: 100 },
    onLost: (_, error) => void lost.push(error),
  });
  const prefixes = shardPrefixes(prefix, shards);
  const ids = async (of = prefix) => ({
    stories: (await redis.hkeys(historyKeys(of).stories)).toSorted(),
    ends: (await redis.zrange(historyKeys(of).ends, '0', '-1')).toSorted(),
  });
  const advance = (ms: number) => void (now += ms);
  return { redis, prefix, prefixes, history, lost, ids, advance, now: () => now };
}

const found = (redis: Redis, prefixes: readonly string[], id: string) => findKeptStory(redis, prefixes, id);

describe('the history', () => {
  it('keeps the newest so many, and writes a story anew under its id', async () => {
    const { redis, prefixes, history, ids, advance } = openHistory({ max: 3 });
    for (const id of ['a', 'b', 'c', 'd', 'c', 'e']) {
      await history.write(storyOf(id));
      advance(1);
    }
    expect(await ids()).toEqual({ stories: ['c', 'd', 'e'], ends: ['c', 'd', 'e'] });
    await history.write({ ...storyOf('d'), waitMs: 7 });
    expect(await found(redis, prefixes, 'd')).toEqual({ ...storyOf('d'), waitMs: 7 });
    expect(await found(redis, prefixes, 'a')).toBeUndefined();
  });

  it('removes what is too old with the next write, and expires when no more come', async () => {
    const { redis, prefix, history, ids, advance, now } = openHistory({ maxAgeMs: 60_000 });
    await history.write(storyOf('old'));
    advance(59_000);
    await history.write(storyOf('young'));
    expect((await ids()).stories).toEqual(['old', 'young']);
    advance(1_000);
    await history.write(storyOf('new'));
    expect(await ids()).toEqual({ stories: ['new', 'young'], ends: ['new', 'young'] });
    for (const key of Object.values(historyKeys(prefix))) expect(await redis.pexpiretime(key)).toBe(now() + 60_000);
  });

  it('removes at most a hundred with one write, whatever is over the bounds', async () => {
    const { redis, prefix, history, ids, now } = openHistory({ max: 10 });
    const { stories, ends } = historyKeys(prefix);
    const many = Array.from({ length: 250 }, (_, index) => `old-${String(index).padStart(3, '0')}`);
    await redis.hset(stories, Object.fromEntries(many.map((id) => [id, '{}'])));
    await redis.zadd(ends, ...many.flatMap((id, index) => [now() - 300 + index, id]));
    const counts: number[] = [];
    for (const id of ['a', 'b', 'c']) {
      await history.write(storyOf(id));
      const { stories: left, ends: inOrder } = await ids();
      expect(left).toEqual(inOrder);
      counts.push(left.length);
    }
    expect(counts).toEqual([151, 52, 10]);
    expect((await ids()).stories).toEqual(['a', 'b', 'c', ...many.slice(-7)]);
  });

  it('shares its bound among the shards, each with keys in its own hash slot', async () => {
    const { redis, prefixes, history, ids, advance } = openHistory({ max: 4, shards: 2 });
    const recipients = Array.from({ length: 12 }, (_, index) => `teacher-${index}`);
    for (const recipientId of recipients) {
      await history.write(storyOf(`to-${recipientId}`, recipientId));
      advance(1);
    }
    for (const [shard, prefix] of prefixes.entries()) {
      const own = recipients.filter((recipientId) => shardOf(recipientId, 2) === shard).map((each) => `to-${each}`);
      expect((await ids(prefix)).stories).toEqual(own.slice(-2).toSorted());
    }
    const last = recipients.at(-1) ?? '';
    expect(await found(redis, prefixes, `to-${last}`)).toMatchObject({ recipientId: last });
    expect(await hasHistory(redis, prefixes)).toBe(true);
  });

  it('loses a story that Redis does not take, and the notification goes on', async () => {
    const { redis, prefix, history, lost } = openHistory();
    await redis.set(historyKeys(prefix).stories, 'of another program');
    await history.write(storyOf('a'));
    expect(String(lost[0])).toContain('WRONGTYPE');
  });

  it('reads nothing but what a worker wrote', async () => {
    const { redis, prefix, prefixes } = openHistory();
    for (const text of ['', 'x', '[]', '{"id":1}', '{"id":"a","outcome":"delivered"}']) {
      await redis.hset(historyKeys(prefix).stories, 'a', text);
      expect(await found(redis, prefixes, 'a')).toBeUndefined();
    }
    const odd = {
      ...storyOf('a'),
      devices: null,
      passes: [{ at: 'x' }, { at: 1, result: 'delivered', more: 1 }],
      enqueuedBy: '\u001b[2J',
    };
    await redis.hset(historyKeys(prefix).stories, 'a', JSON.stringify(odd));
    const read = await found(redis, prefixes, 'a');
    expect(read).toMatchObject({ devices: {}, passes: [{ at: 1, result: 'delivered' }] });
    expect(read?.enqueuedBy).toBeUndefined();
  });
});
