import { expect, test } from 'vitest';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { createKeeper, type KeeperOptions, type KeeperRedis } from '../../src/dead-letters/keeper.ts';
import { connectRedis } from '../support/redis.ts';
import { addDead, deadLetter } from './letters.ts';
import { openQueues } from '../queue/support.ts';

const DAY = 86_400_000;
const HOUR = 3_600_000;

const never = new AbortController().signal;

/** Redis, with a clock that the test moves, and no lease to wait for. */
function open() {
  const { prefix, queue, deadQueue } = openQueues();
  const deadLetters = createDeadLetters({ queue, deadQueue });
  const redis = connectRedis();
  let passedMs = 0;
  const clocked: KeeperRedis = {
    time: () => Promise.resolve([0, (Date.now() + passedMs) * 1_000]),
    get: (key) => redis.get(key),
    set: (key, value, unit, ms, condition) => redis.set(key, value, unit, ms, condition),
    pexpire: (key, ms) => redis.pexpire(key, ms),
    del: (key) => redis.del(key),
  };
  const keeper = (options: Partial<KeeperOptions> = {}) =>
    createKeeper({
      deadLetters: [deadLetters],
      redis: clocked,
      prefix,
      maxAgeMs: 0,
      maxCount: 0,
      everyMs: 1,
      ...options,
    });
  return {
    deadLetters,
    deadQueue,
    keeper,
    pass: (ms: number) => (passedMs += ms),
    /** As `pass`, also for the notes that Redis keeps for a time. */
    passForNotes: async (ms: number) => {
      passedMs += ms;
      for (const key of await redis.keys(`${prefix}:dead-letter-keeper:*`)) {
        await redis.pexpire(key, (await redis.pttl(key)) - ms); // none or less removes it
      }
    },
    look: async (options?: Partial<KeeperOptions>) => {
      await redis.del(`${prefix}:dead-letter-keeper:look`);
      return keeper(options).look(never);
    },
    /** Adds dead letters that died so long ago, the oldest first. */
    add: async (ages: readonly number[], name = 'n') => {
      const now = Date.now() + passedMs;
      const letters = ages.map((age, n) => {
        const fields = { deadAt: now - age, reason: n % 2 === 0 ? 'rejected' : 'stalled' } as const;
        return [`${name}${n}`, deadLetter(`${name}${n}`, fields)] as const;
      });
      await addDead(deadQueue, Object.fromEntries(letters));
    },
    ids: async () => (await deadLetters.page(0, 1_000)).map(({ id }) => id),
  };
}

test('what grows old is warned of in good time, and removed when its time has come', async () => {
  const { look, add, ids, pass } = open();
  const bounds = { maxAgeMs: 10 * DAY };
  await add([9 * DAY, 8.5 * DAY, 1 * DAY]);
  const now = Date.now();
  const warned = await look(bounds);
  expect(warned?.removals).toEqual([]);
  expect(warned?.warnings).toEqual([
    {
      bound: 'age',
      going: 2,
      firstAt: expect.closeTo(now + DAY, -4) as number,
      lastAt: expect.closeTo(now + 2 * DAY, -4) as number,
      diedUntil: expect.closeTo(now - 8 * DAY, -4) as number,
    },
  ]);
  expect((await look(bounds))?.warnings).toEqual([]); // once an hour at most
  pass(DAY + HOUR);
  expect((await look(bounds))?.removals).toEqual([{ bound: 'age', byReason: new Map([['rejected', 1]]) }]);
  pass(DAY);
  expect((await look(bounds))?.removals).toEqual([{ bound: 'age', byReason: new Map([['stalled', 1]]) }]);
  expect(await ids()).toEqual(['n2']);
});

test('what is too old already when the bound is set is warned of an hour before it goes', async () => {
  const { look, add, ids, pass } = open();
  await add([40 * DAY, 39 * DAY, DAY]);
  const first = await look({ maxAgeMs: 30 * DAY });
  expect(first).toMatchObject({ warnings: [{ bound: 'age', going: 2 }], removals: [] });
  pass(HOUR - 60_000);
  expect((await look({ maxAgeMs: 30 * DAY }))?.removals).toEqual([]);
  pass(2 * 60_000);
  expect((await look({ maxAgeMs: 30 * DAY }))?.removals).toHaveLength(1);
  expect(await ids()).toEqual(['n2']);
});

test('a bound that is lowered is a new one, and warned of anew', async () => {
  const { look, add, ids, pass } = open();
  await add([9 * DAY, 5 * DAY]);
  await look({ maxAgeMs: 10 * DAY });
  pass(2 * HOUR);
  expect(await look({ maxAgeMs: 2 * DAY })).toMatchObject({ warnings: [{ going: 2 }], removals: [] });
  expect(await ids()).toHaveLength(2);
});

test('where nobody comes near the bound any more, the next time is warned of anew', async () => {
  const { look, add, deadLetters, pass } = open();
  await add([9 * DAY]);
  await look({ maxAgeMs: 10 * DAY });
  await deadLetters.discard('n0');
  await look({ maxAgeMs: 10 * DAY });
  pass(3 * DAY);
  await add([11 * DAY], 'late');
  expect((await look({ maxAgeMs: 10 * DAY }))?.removals).toEqual([]);
});

test('after a time without workers, what no warning has named is warned of before it is removed', async () => {
  const { look, add, ids, passForNotes } = open();
  const bounds = { maxAgeMs: 2 * DAY };
  await add([1.7 * DAY]);
  expect(await look(bounds)).toMatchObject({ warnings: [{ going: 1 }], removals: [] });
  await passForNotes(60 * HOUR);
  await add(
    Array.from({ length: 500 }, () => 2.1 * DAY),
    'm',
  );
  expect(await look(bounds)).toMatchObject({ warnings: [{ going: 501 }], removals: [] });
  await passForNotes(HOUR + 60_000);
  expect((await look(bounds))?.removals).toHaveLength(1);
  expect(await ids()).toEqual([]);
});

test('if workers are away for less time than a warning is before a removal, what none has named stays too', async () => {
  const { look, add, ids, passForNotes } = open();
  const bounds = { maxAgeMs: 2 * DAY }; // warned of 9.6 h before its removal
  await add([1.7 * DAY]);
  await look(bounds);
  await passForNotes(0.9 * HOUR);
  await add([1.601 * DAY], 'unnamed');
  expect((await look(bounds))?.warnings).toEqual([]);
  await passForNotes(9.58 * HOUR);
  expect(await look(bounds)).toMatchObject({ warnings: [{ going: 2 }], removals: [] });
  expect(await ids()).toHaveLength(2);
});

test('if they are kept for an hour only, those that come after the first warning are warned of too', async () => {
  const { look, add, passForNotes } = open();
  const bounds = { maxAgeMs: HOUR };
  await add([0.81 * HOUR, 0.7 * HOUR]);
  expect((await look(bounds))?.warnings).toMatchObject([{ going: 1 }]);
  const after = async (hours: number) => {
    await passForNotes(hours * HOUR);
    return look(bounds);
  };
  expect((await after(0.06))?.warnings).toEqual([]);
  expect((await after(0.06))?.warnings).toMatchObject([{ going: 2 }]);
  expect((await after(0.06))?.removals).toEqual([]);
  expect((await after(0.06))?.removals).toMatchObject([{ byReason: new Map([['rejected', 1]]) }]);
});

test('if they are kept for some minutes only, they are removed too, although the looks are far apart', async () => {
  const { look, add, ids, passForNotes } = open();
  const bounds = { maxAgeMs: 120_000, everyMs: 30_000 };
  await add([100_000]);
  const looks = [await look(bounds)];
  while (looks.length < 3) {
    await passForNotes(30_000);
    looks.push(await look(bounds));
  }
  expect(looks.map((each) => each?.removals.length)).toEqual([0, 1, 0]);
  expect(looks[0]?.warnings).toMatchObject([{ bound: 'age', going: 1 }]);
  expect(await ids()).toEqual([]);
});

test('too many: the oldest go, one look after the warning', async () => {
  const { look, add, ids, pass } = open();
  await add(Array.from({ length: 8 }, () => HOUR));
  expect(await look({ maxCount: 10 })).toEqual({ warnings: [{ bound: 'count', count: 8, going: 0 }], removals: [] });
  await add(
    Array.from({ length: 6 }, () => 0),
    'm',
  );
  pass(30_000);
  expect(await look({ maxCount: 10 })).toEqual({
    warnings: [],
    removals: [
      {
        bound: 'count',
        byReason: new Map([
          ['rejected', 2],
          ['stalled', 2],
        ]),
      },
    ],
  });
  expect(await ids()).toEqual(['n4', 'n5', 'n6', 'n7', 'm0', 'm1', 'm2', 'm3', 'm4', 'm5']);
});

test('far too many go in batches, and never more than are too many', async () => {
  const { look, add, ids, pass } = open();
  await add(Array.from({ length: 450 }, (_, n) => HOUR - n));
  const warned = await look({ maxCount: 100 });
  expect(warned).toEqual({ warnings: [{ bound: 'count', count: 450, going: 350 }], removals: [] });
  pass(30_000);
  await look({ maxCount: 100 });
  expect(await ids()).toEqual(Array.from({ length: 100 }, (_, n) => `n${350 + n}`));
});

test('the bound on their number is over all shards, and the oldest of all go', async () => {
  const [one, two] = [open(), open()];
  await one.add([10 * HOUR, 8 * HOUR, HOUR], 'a');
  await two.add([9 * HOUR, 7 * HOUR, 6 * HOUR], 'b');
  const options = { maxCount: 3, deadLetters: [one.deadLetters, two.deadLetters] };
  await one.look(options);
  one.pass(30_000);
  await one.look(options);
  expect([await one.ids(), await two.ids()]).toEqual([['a2'], ['b1', 'b2']]);
});

test('what a replay takes meanwhile is not one too many any more', async () => {
  const { look, add, deadLetters, pass } = open();
  await add(Array.from({ length: 300 }, (_, n) => HOUR - n));
  await look({ maxCount: 200 });
  pass(30_000);
  const newest = (await deadLetters.page(0, 300)).slice(-60);
  await Promise.all([look({ maxCount: 200 }), ...newest.map((stored) => deadLetters.replay(stored))]);
  await look({ maxCount: 200 });
  expect(await deadLetters.count()).toBe(200);
});

test('of many workers one looks, and another one when its time is over', async () => {
  const { keeper, add } = open();
  await add([9 * DAY]);
  const options = { maxAgeMs: 10 * DAY, everyMs: 200 };
  const looks = await Promise.all(Array.from({ length: 8 }, () => keeper(options).look(never)));
  expect(looks.filter((look) => look !== undefined)).toHaveLength(1);
  await expect.poll(() => keeper(options).look(never)).toEqual({ warnings: [], removals: [] });
});

test('a worker that stops ends between two batches', async () => {
  const { keeper, look, add, ids, pass } = open();
  await add(Array.from({ length: 300 }, () => 11 * DAY));
  await look({ maxAgeMs: 10 * DAY });
  pass(2 * HOUR);
  await expect.poll(() => keeper({ maxAgeMs: 10 * DAY }).look(AbortSignal.abort())).toBeUndefined();
  expect(await ids()).toHaveLength(300);
});

test.each([
  ['another program', { anything: 1 }],
  ['another program, in part as a worker would', { notification: {}, reason: 'rejected', deadAt: 'today' }],
])('a dead letter of %s is as old as its job', async (_, data) => {
  const { deadLetters, deadQueue, look, pass } = open();
  const bounds = { maxAgeMs: 30 * DAY };
  await deadQueue.add('push', data, { jobId: 'foreign' });
  expect(await look(bounds)).toEqual({ warnings: [], removals: [] });
  pass(2 * HOUR); // longer than from a warning to the removal
  expect(await look(bounds)).toEqual({ warnings: [], removals: [] });
  expect(await deadLetters.count()).toBe(1);

  pass(29 * DAY);
  expect(await look(bounds)).toMatchObject({ warnings: [{ bound: 'age', going: 1 }], removals: [] });
  pass(DAY);
  await look(bounds);
  expect(await deadLetters.count()).toBe(0);
});
