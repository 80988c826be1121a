import { expect, it } from 'vitest';
import type { Admission } from '../../src/limiter/limiter.ts';
import { createSlotReasons, idOfSlot } from '../../src/limiter/redis/slot-reasons.ts';
import type { RedisLimiterOptions } from '../../src/limiter/redis/redis-limiter.ts';
import { createRedisLimiter } from '../support/limiters.ts';
import { onClock } from '../support/redis-clock.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { AHEAD_MS, recipientId } from './support.ts';

const GAP = 3_000;
const MINUTE = 60_000;

/** A limiter and a reader of its holds, on a clock that stands still; `after` names the slot that fixes one. */
function open(options: Pick<RedisLimiterOptions, 'policy' | 'categories' | 'quietHours'>) {
  const now = Math.ceil(Date.now() / 60_000) * 60_000 + AHEAD_MS;
  const own = { redis: onClock(connectRedis(), () => now), prefix: testPrefix(), ...options };
  const limiter = createRedisLimiter(own);
  const reader = createSlotReasons(own);
  const asked: string[] = [];
  const ask = (id: string, category?: string): Promise<Admission> => {
    asked.push(id);
    return limiter.admit({ recipientId, id, ...(category !== undefined && { category }) });
  };
  const reason = async (id: string) => {
    const found = await reader.read({ recipientId, id });
    const after = found?.fixed && 'after' in found.fixed ? found.fixed.after : undefined;
    return found && { ...found, after: after && [idOfSlot(after.entry ?? '', asked), after.isSent, after.at - now] };
  };
  return { limiter, ask, reason, now };
}

it('names the slot right before for the gap, and the oldest one of a full window', async () => {
  const { ask, reason, now } = open({ policy: { rules: [{ max: 3, perMs: MINUTE }], minGapMs: GAP } });
  for (const id of ['a/0', 'b/0', 'c/0', 'd/0', 'e/0']) await ask(id);
  expect(await reason('a/0')).toBeUndefined(); // it was sent
  expect(await reason('b/0')).toMatchObject({
    at: now + GAP,
    fixed: { rule: 'gap' },
    after: ['a/0', true, 0],
    before: 0,
  });
  expect(await reason('c/0')).toMatchObject({ fixed: { rule: 'gap' }, after: ['b/0', false, GAP], before: 1 });
  expect(await reason('d/0')).toMatchObject({
    ...{ at: now + MINUTE, fixed: { rule: '3/1m', max: 3, perMs: MINUTE }, after: ['a/0', true, 0], before: 2 },
  });
  expect(await reason('e/0')).toMatchObject({ fixed: { rule: '3/1m' }, after: ['b/0', false, GAP] });
  expect(await reason('unknown/0')).toBeUndefined();
});

it('says that nothing fixes a slot any more when what was before it is gone', async () => {
  const { limiter, ask, reason } = open({ policy: { rules: [{ max: 2, perMs: MINUTE }], minGapMs: 0 } });
  for (const id of ['a/0', 'b/0', 'c/0']) await ask(id);
  expect(await reason('c/0')).toMatchObject({ after: ['a/0', true, 0] });
  await limiter.refund({ recipientId, id: 'a/0' });
  expect(await reason('c/0')).not.toHaveProperty('fixed');
});

it('names the ends of a block and of quiet hours; behind them the gap, and the longest cause beside it', async () => {
  const { limiter, ask, reason, now } = open({ policy: { rules: [], minGapMs: GAP } });
  await limiter.block(recipientId, { until: now + MINUTE, reason: 'exam week' });
  for (const id of ['a/0', 'b/0']) await ask(id);
  expect(await reason('a/0')).toMatchObject({
    at: now + MINUTE,
    rule: 'block',
    fixed: { rule: 'block', until: now + MINUTE },
    block: { reason: 'exam week' },
  });
  expect(await reason('b/0')).toMatchObject({ rule: 'block', fixed: { rule: 'gap' }, after: ['a/0', false, MINUTE] });

  await limiter.unblock(recipientId);
  const time = (at: number) => new Date(at).toISOString().slice(11, 16);
  const hours = { timezone: 'UTC', quietHours: [{ from: time(now - MINUTE), until: time(now + 5 * MINUTE) }] };
  await limiter.quiet(recipientId, hours);
  const until = now + 5 * MINUTE;
  expect(await reason('a/0')).toMatchObject({ at: until, rule: 'quiet', fixed: { rule: 'quiet', until } });
  expect(await reason('b/0')).toMatchObject({
    rule: 'quiet',
    fixed: { rule: 'gap' },
    after: ['a/0', false, 5 * MINUTE],
  });
});

it('names the end of stored limits, and behind it the limits that hold then', async () => {
  const { limiter, ask, reason, now } = open({ policy: { rules: [{ max: 2, perMs: MINUTE }], minGapMs: GAP } });
  const until = now + 5 * MINUTE;
  await limiter.limit(recipientId, { rules: [{ max: 1, perMs: 60 * MINUTE }], minGapMs: 0 }, { until });
  for (const id of ['a/0', 'b/0', 'c/0', 'd/0']) await ask(id);
  expect(await reason('b/0')).toMatchObject({ at: until, rule: '1/1h', fixed: { rule: 'limits', until } });
  expect(await reason('b/0')).not.toHaveProperty('longest'); // by then its window counts no more
  expect(await reason('c/0')).toMatchObject({ fixed: { rule: 'gap' }, after: ['b/0', false, 5 * MINUTE] });
  expect(await reason('d/0')).toMatchObject({
    ...{ at: until + MINUTE, fixed: { rule: '2/1m', max: 2 }, after: ['b/0', false, 5 * MINUTE] },
  });
});

it('knows the limits of a category, and those that do not reason for it', async () => {
  const { ask, reason } = open({
    policy: { rules: [], minGapMs: GAP },
    categories: {
      news: { rules: [{ max: 1, perMs: MINUTE }], minGapMs: 0 },
      urgent: { rules: [], minGapMs: 1_000, exempt: ['gap', 'rules'] },
    },
  });
  await ask('n1/0', 'news');
  await ask('n2/0', 'news');
  await ask('plain/0');
  expect(await reason('n2/0')).toMatchObject({ fixed: { rule: 'news:1/1m' }, after: ['n1/0', true, 0] });
  // One that its category holds back makes nobody wait in the overall line.
  expect(await reason('plain/0')).toMatchObject({ fixed: { rule: 'gap' }, after: ['n1/0', true, 0] });
  await ask('u1/0', 'urgent');
  await ask('u2/0', 'urgent');
  expect(await reason('u2/0')).toMatchObject({ fixed: { rule: 'urgent:gap' }, after: ['u1/0', true, 0] });
});

it('finds the name of an id that is stored as a digest', async () => {
  const { ask, reason } = open({ policy: { rules: [], minGapMs: GAP } });
  const long = `${'ü'.repeat(200)}/0`;
  for (const id of ['a/0', long, 'c/0']) await ask(id);
  expect(await reason('c/0')).toMatchObject({ after: [long, false, GAP] });
  expect(await reason(long)).toMatchObject({ after: ['a/0', true, 0] });
});
