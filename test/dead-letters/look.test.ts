import { expect, test } from 'vitest';
import { lookAtNewest, type LookOptions } from '../../src/dead-letters/look.ts';
import { preview } from '../../src/dead-letters/outlook.ts';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import type { DeadLetter } from '../../src/notification/outcome.ts';
import { shardPrefixes } from '../../src/queue/names.ts';
import { notification, openQueues } from '../queue/support.ts';
import { testPrefix } from '../support/redis.ts';
import { addDead, deadLetter } from './letters.ts';

const [MINUTE, HOUR] = [60_000, 3_600_000];
const now = Date.UTC(2026, 10, 21, 12, 30, 30);

/** Each shard's dead letters, the oldest first. */
async function open(...shards: readonly Record<string, Partial<DeadLetter>>[]) {
  const prefixes = shardPrefixes(testPrefix(), shards.length);
  return Promise.all(
    shards.map(async (letters, shard) => {
      const queues = openQueues(prefixes[shard]);
      const data = Object.entries(letters).map(([id, fields]) => [id, deadLetter(id, fields)]);
      await addDead(queues.deadQueue, Object.fromEntries(data) as Record<string, DeadLetter>);
      return createDeadLetters(queues);
    }),
  );
}

const ago = (ms: number, fields: Partial<DeadLetter> = {}) => ({ deadAt: now - ms, ...fields });
const options: LookOptions = { filter: {}, offset: 0, limit: 10, most: 1_000, now };

test('shows the newest of all shards first, a page at a time, and which shard has each', async () => {
  const shards = await open({ a: ago(5_000), c: ago(3_000), e: ago(1_000) }, { b: ago(4_000), d: ago(2_000) });
  const look = await lookAtNewest(shards, { ...options, limit: 2 });
  expect(look.found.map(({ id, shard }) => [id, shard])).toEqual([['e', 0], ['d', 1]]); // prettier-ignore
  expect(look).toMatchObject({ matched: 5, lookedAt: 5, of: 5 });
  expect(look).not.toHaveProperty('lookedBackTo');
  const last = await lookAtNewest(shards, { ...options, limit: 2, offset: 4 });
  expect(last.found.map(({ id }) => id)).toEqual(['a']);
});

test('counts by reason and by time what the filter matches', async () => {
  const stalled = { reason: 'stalled' } as const;
  const [shard] = await open({
    ...{ foreign: { deadAt: 0 }, old: ago(30 * HOUR), early: ago(23 * HOUR, stalled), hour: ago(59 * MINUTE, stalled) },
    ...{ minute: ago(MINUTE), last: ago(10_000), ahead: ago(-5 * MINUTE) },
  });
  if (shard === undefined) throw new Error('expected a shard');
  const { times, reasons } = await lookAtNewest([shard], options);
  expect(times.older).toBe(2);
  expect(times.minutes.map((count, at) => [at, count]).filter(([, count]) => count !== 0)).toEqual([
    ...[[0, 1], [58, 1], [59, 2]], // prettier-ignore
  ]);
  expect(times.hours.map((count, at) => [at, count]).filter(([, count]) => count !== 0)).toEqual([
    ...[[0, 1], [22, 1], [23, 3]], // prettier-ignore
  ]);
  expect(reasons.map(({ reason, count, older, newestAt }) => ({ reason, count, older, newestAt }))).toEqual([
    { reason: 'rejected', count: 5, older: 2, newestAt: now + 5 * MINUTE },
    { reason: 'stalled', count: 2, older: 0, newestAt: now - 59 * MINUTE },
  ]);
  const filtered = await lookAtNewest([shard], { ...options, filter: stalled });
  expect(filtered).toMatchObject({ matched: 2, lookedAt: 7, times: { older: 0 } });
});

test('looks at so many only, and says how far back', async () => {
  const shards = await open({ a: ago(4_000), b: ago(3_000) }, { c: ago(2_000), d: ago(1_000) });
  const look = await lookAtNewest(shards, { ...options, most: 3 });
  expect(look).toMatchObject({ matched: 3, lookedAt: 3, of: 4, lookedBackTo: now - 3_000 });
  expect(look.found.map(({ id }) => id)).toEqual(['d', 'c', 'b']);
  const rest = await lookAtNewest(shards, { ...options, most: 1, filter: { untilMs: now - 3_001 } });
  expect(rest).toMatchObject({ matched: 1, lookedAt: 1, of: 4, found: [{ id: 'a' }] });
});

test('a preview says what a replay comes to, or what it has seen when it may look no longer', async () => {
  const to = (recipientId: string, fields: Partial<DeadLetter> = {}) => ago(0, { ...fields, notification: notification({ recipientId }) }); // prettier-ignore
  const shards = await open({ a: to('busy'), b: to('busy', { reason: 'stalled' }), c: to('other') });
  const terms = { perSecond: 50, policy: { rules: [], minGapMs: 3_000 }, now };
  const choice = { which: {}, buriedUntilMs: Infinity };
  expect(await preview(shards, choice, { ...terms, signal: new AbortController().signal })).toEqual({
    ...{ count: 3, recipients: 2, busiest: { recipientId: 'busy', count: 2 }, expired: 0, lastAfterMs: 3_000 },
    ...{ byReason: { rejected: 2, stalled: 1 }, newer: 0, isWhole: true },
  });
  expect(await preview(shards, choice, { ...terms, signal: AbortSignal.abort() })).toMatchObject({
    ...{ count: 0, isWhole: false },
  });
  const which = [{ shard: 0, id: 'b' }];
  expect(await preview(shards, { ...choice, which }, { ...terms, signal: new AbortController().signal })).toMatchObject(
    {
      ...{ count: 1, byReason: { stalled: 1 } },
    },
  );
});
