import { expect, test } from 'vitest';
import {
  hasQueue,
  consumedPrefixes,
  findLayout,
  followLayout,
  formerHomeOf,
  homeOf,
  homesOf,
  movingLayout,
  newLayout,
  openLayout,
  preparedLayout,
  prefixesBefore,
  prefixesOf,
  readLayout,
  steadyLayout,
  takeLease,
  type Layout,
} from '../../src/queue/shards/layout.ts';
import { layoutKey, shardPrefixes } from '../../src/queue/names.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { openQueues } from './support.ts';

const ONE = '{push}';
const TWO = shardPrefixes(ONE, 2);
const FOUR = shardPrefixes(ONE, 4);
const at = (layout: Partial<Layout>): Layout => ({
  ...{ version: 1, phase: 'steady', prefixes: [ONE], former: [] },
  ...layout,
});

test('one shard needs no record, and gets none', async () => {
  const redis = connectRedis();
  const prefix = testPrefix();
  const layout = { version: 0, phase: 'steady', prefixes: [prefix], former: [] };
  expect(await openLayout(redis, { prefix, shards: 1 })).toEqual(layout);
  expect(await redis.exists(layoutKey(prefix))).toBe(0);
});

test('the first that needs several shards makes the record, which then holds whatever QUEUE_SHARDS says', async () => {
  const redis = connectRedis();
  const prefix = testPrefix();
  expect(await findLayout(redis, { prefix, shards: 3 })).toMatchObject({ version: 0 });
  expect(await redis.exists(layoutKey(prefix))).toBe(0);
  const three = { version: 1, phase: 'steady', prefixes: shardPrefixes(prefix, 3), former: [[prefix]] };
  const all = await Promise.all([2, 3].map(() => openLayout(redis, { prefix, shards: 3 })));
  expect(all).toEqual([three, three]);
  for (const shards of [1, 2, 3]) expect(await openLayout(redis, { prefix, shards })).toEqual(three);
});

test('queues of a version without a record keep their tags', async () => {
  const redis = connectRedis();
  const prefix = testPrefix();
  const before = prefixesBefore({ prefix, shards: 2 });
  expect(before).not.toEqual(shardPrefixes(prefix, 2));
  openQueues(before[0]);
  await waitFor(async () => expect(await hasQueue(redis, before[0] ?? '')).toBe(true)); // BullMQ writes it a little later
  expect(await openLayout(redis, { prefix, shards: 2 })).toMatchObject({ version: 1, prefixes: before });
});

test('the prefixes of a version without a record are those that it gave', () => {
  // As that version made them: they must never change.
  expect(prefixesBefore({ prefix: '{pushpacer}', shards: 3 })).toEqual([
    '{pushpacer-0-2}',
    '{pushpacer-1-0}',
    '{pushpacer-2-3}',
  ]);
});

test('a queue of one shard that has jobs stays one, whatever QUEUE_SHARDS says', async () => {
  const redis = connectRedis();
  const { prefix, queue } = openQueues();
  await queue.add('push', {}, { jobId: 'x' });
  expect(await openLayout(redis, { prefix, shards: 4 })).toMatchObject({ version: 0, prefixes: [prefix] });
  expect(await redis.exists(layoutKey(prefix))).toBe(0);
  await queue.remove('x');
  expect((await openLayout(redis, { prefix, shards: 4 })).prefixes).toHaveLength(4);
});

test.each([
  'no JSON',
  '[]',
  '{"version":1,"phase":"steady","prefixes":[],"former":[]}',
  '{"version":1,"phase":"move"}',
])('a record that is none is refused: %s', async (text) => {
  const redis = connectRedis();
  const prefix = testPrefix();
  await redis.set(layoutKey(prefix), text);
  await expect(readLayout(redis, prefix)).rejects.toThrow(`${prefix}:shards: expected the record of the queues`);
});

test('the phases of a change say where a recipient’s notifications are', () => {
  const steady = at({ prefixes: TWO });
  const prepare = preparedLayout(steady, { prefix: ONE, shards: 4 });
  expect(prepare).toEqual({ version: 2, phase: 'prepare', prefixes: TWO, next: FOUR, former: [] });
  const move = movingLayout(prepare);
  expect(move).toEqual({ version: 3, phase: 'move', prefixes: FOUR, former: [TWO] });
  const after = steadyLayout(move);
  expect(after).toEqual({ version: 4, phase: 'steady', prefixes: FOUR, former: [TWO] });

  const id = 'teacher-42';
  const [home2, home4] = [homeOf(id, { prefixes: TWO }), homeOf(id, { prefixes: FOUR })];
  expect([steady, prepare, move, after].map((layout) => homesOf(id, layout))).toEqual([
    [home2],
    [home2, home4],
    [home4, home2],
    [home4, home2],
  ]);
  expect([steady, prepare, move, after].map((layout) => formerHomeOf(id, layout))).toEqual([
    ...[undefined, undefined, home2, undefined],
  ]);
  const both = [...TWO, ...FOUR].toSorted();
  const consumed = [steady, prepare, move, after].map((layout) => consumedPrefixes(layout).toSorted());
  expect(consumed).toEqual([TWO, both, both, FOUR].map((each) => each.toSorted()));
  expect(prefixesOf(after)).toEqual([...FOUR, ...TWO]);
});

test('a number that was in use before gets its queues again, and others get new ones', () => {
  const back = preparedLayout(at({ version: 5, prefixes: FOUR, former: [[ONE], TWO] }), { prefix: ONE, shards: 2 });
  expect(back.next).toEqual(TWO);
  expect(movingLayout(back).former).toEqual([FOUR, [ONE]]);
  const one = preparedLayout(at({ prefixes: FOUR, former: [[ONE]] }), { prefix: ONE, shards: 1 });
  expect(movingLayout(one)).toMatchObject({ prefixes: [ONE], former: [FOUR] });
  // Where one of the prefixes has another place in a former layout.
  const [first = ''] = TWO;
  const other = preparedLayout(at({ prefixes: ['{x}', first, '{y}'] }), { prefix: ONE, shards: 2 });
  expect(other.next).not.toContain(first);
  expect(other.next?.[1]).toBe(TWO[1]);
});

test('no more than eight former layouts are remembered', () => {
  let layout = newLayout({ prefix: ONE, shards: 1 });
  for (let shards = 2; shards < 14; shards++) {
    layout = steadyLayout(movingLayout(preparedLayout(layout, { prefix: ONE, shards })));
  }
  expect(layout.former.map(({ length }) => length)).toEqual([12, 11, 10, 9, 8, 7, 6, 5]);
});

test('a layout is read when it is needed, and not again within the time', async () => {
  let reads = 0;
  const followed = followLayout(() => Promise.resolve(at({ version: ++reads })), { everyMs: 60_000 });
  expect(reads).toBe(0);
  const [one, two] = await Promise.all([followed.look(), followed.look()]);
  expect([one.version, two.version, (await followed.look()).version]).toEqual([1, 1, 1]);
  expect((await followed.look(true)).version).toBe(2);
  expect((await followed.look()).version).toBe(2);
});

test('one process has the lease; what another one writes after it was lost is refused', async () => {
  const redis = connectRedis();
  const prefix = testPrefix();
  const first = await takeLease(redis, prefix, 60_000);
  expect(await takeLease(redis, prefix, 60_000)).toBeUndefined();
  expect(await first?.renew()).toBe(true);
  expect(await first?.write(at({ version: 1 }))).toBe(true);
  expect(await first?.write(at({ version: 3 }))).toBe(false); // the record has 1
  await redis.del(`${layoutKey(prefix)}:lease`); // it ran out
  const second = await takeLease(redis, prefix, 60_000);
  expect(second?.fence).toBeGreaterThan(first?.fence ?? Infinity);
  expect(await first?.renew()).toBe(false);
  expect(await first?.write(at({ version: 2 }))).toBe(false);
  await first?.release();
  expect(await second?.write(at({ version: 2, phase: 'prepare', next: TWO }))).toBe(true);
  expect(await readLayout(redis, prefix)).toMatchObject({ version: 2, phase: 'prepare' });
  await second?.release();
  expect(await takeLease(redis, prefix, 1_000)).toBeDefined();
});
