import { describe, expect, it } from 'vitest';
import { countBalance } from '../../chaos/balance.ts';
import { slotOfRecipient, slotOfShard } from '../../chaos/cluster.ts';
import { underWay, whatWasForgotten, type Forgetting } from '../../chaos/forgotten.ts';
import { countDuplicates, judgePacing } from '../../chaos/judge.ts';
import type { Span } from '../../chaos/queue.ts';
import { shardOf } from '../../src/queue/names.ts';
import { enqueuedOf, entryOf } from './facts.ts';

const PREFIX = '{pushpacer-chaos}';
const slotOfRs = slotOfShard(PREFIX, shardOf('r', 4));
/** Of the master with the queue and the slots of recipient `r`; it was killed at 10,000, and kept all until 9,800. */
const failover: Forgetting = {
  ...{ at: 10_000, until: 13_000, keptUntil: 9_800, lagMs: 150, admissions: [] },
  ranges: [slotOfRs, slotOfRecipient('r')].map((slot) => [slot, slot] as const),
};
/** The same at a time when another master had them. */
const elsewhere: Forgetting = { ...failover, ranges: [[1, 1]] };

interface Given {
  readonly failovers?: readonly Forgetting[];
  readonly acknowledgedAt?: number;
  /** When a worker logged a pass of it. */
  readonly passAt?: number;
  readonly canceledAt?: number | Span;
  readonly waits?: boolean;
}

const spanOf = (at: number | Span): Span => (typeof at === 'number' ? { from: at, until: at } : at);

function given({ failovers = [failover], acknowledgedAt = 0, passAt, canceledAt, waits = false }: Given) {
  const enqueued = new Map(
    [...enqueuedOf({ id: 'a' }, { id: 'b' })].map(([id, one]) => [id, { ...one, acknowledgedAt }]),
  );
  const lines = passAt === undefined ? [] : [{ at: passAt, id: 'a' }];
  const forgotten = whatWasForgotten({
    ...{ failovers, prefix: PREFIX, enqueued, logs: new Map([['worker-0.log', lines]]), waits },
    canceledAt: new Map(canceledAt === undefined ? [] : [['a', spanOf(canceledAt)]]),
  });
  return { enqueued, forgotten };
}

describe('a notification that is found nowhere', () => {
  const balanceOf = (what: Given) => {
    const { enqueued, forgotten } = given({ acknowledgedAt: 9_900, ...what });
    return countBalance(enqueued, [], { completed: [], dead: [], queued: ['b'] }, forgotten);
  };

  it('was forgotten, if Redis acknowledged it after the last write that the new master has', () => {
    expect(balanceOf({})).toMatchObject({ forgotten: ['a'], lost: 0, unaccounted: 0, suspects: [] });
  });

  it.each<[string, Given]>([
    ['was acknowledged before that', { acknowledgedAt: 9_799 }],
    ['was acknowledged by the new master', { acknowledgedAt: 13_001 }],
    ['was on another master', { failovers: [elsewhere] }],
    ['met no failover', { failovers: [] }],
  ])('is lost, if it %s', (_, what) => {
    expect(balanceOf(what)).toMatchObject({ forgotten: [], lost: 1, unaccounted: 1 });
  });
});

describe('alerts too close', () => {
  const policies = {
    ...{ policy: { rules: [], minGapMs: 4_000 }, categories: {} },
    background: { rules: [], minGapMs: 0 },
  };
  const judged = (first: number, what: Given = {}, second = first + 3_500) => {
    const { enqueued, forgotten } = given(what);
    return judgePacing(enqueued, [entryOf('a', first), entryOf('b', second)], policies, [], forgotten);
  };

  it('were forgotten, if the first one has a slot of the window', () => {
    const { gapViolations, bursts, burstsAfterFailover } = judged(9_900);
    expect({ gapViolations, bursts }).toEqual({ gapViolations: 0, bursts: [] });
    expect(burstsAfterFailover).toHaveLength(1);
  });

  it.each<[string, number, Given, number?]>([
    ['the slot is older', 9_799, {}],
    ['the slot is the new master’s', 10_501, {}],
    ['only the second one is of the window', 6_500, {}, 9_900],
    ['it was another master', 9_900, { failovers: [elsewhere] }],
    ['the workers wait for replicas', 9_900, { waits: true }],
  ])('are a violation, if %s', (_, first, what, second) => {
    expect(judged(first, what, second)).toMatchObject({ gapViolations: 1, burstsAfterFailover: [] });
  });
});

describe('a second acceptance', () => {
  const counted = (first: number, second: number, what: Given) => {
    const { enqueued, forgotten } = given(what);
    const entries = [entryOf('a', first), entryOf('a', second)];
    const incidents = underWay(what.failovers ?? [failover], PREFIX, enqueued, entries);
    const parts = { enqueued, entries, ends: { completed: [], dead: [] }, incidents, thaws: [], cuts: [] };
    const { forgottenEnds, unexplainedDuplicates, explainedBy } = countDuplicates({ ...parts, forgotten });
    return { forgottenEnds, unexplainedDuplicates, redis: explainedBy.redis };
  };

  it('comes of a forgotten end, if its pass ended in the window', () => {
    const forgotten = { forgottenEnds: 1, unexplainedDuplicates: 0, redis: 0 };
    expect(counted(9_900, 14_000, {})).toEqual(forgotten);
    expect(counted(9_000, 14_000, { passAt: 9_850 })).toEqual(forgotten);
  });

  it('was under way at the kill, if the first one arrived after it', () => {
    expect(counted(10_001, 16_000, {})).toEqual({ forgottenEnds: 0, unexplainedDuplicates: 0, redis: 1 });
  });

  it.each<[string, number, number, Given]>([
    ['the pass ended before the window', 9_000, 14_000, { passAt: 9_299 }],
    ['no pass of it is known', 9_000, 14_000, {}],
    ['both came before the kill', 9_850, 9_950, {}],
    ['both came after the failover', 13_501, 14_000, {}],
    ['it was another master', 9_900, 14_000, { failovers: [elsewhere] }],
  ])('has no reason, if %s', (_, first, second, what) => {
    expect(counted(first, second, what)).toEqual({ forgottenEnds: 0, unexplainedDuplicates: 1, redis: 0 });
  });
});

describe('what waits together', () => {
  it.each<[Given, boolean]>([
    [{ passAt: 9_900 }, true],
    [{ passAt: 9_299 }, false],
    [{ passAt: 10_501 }, false],
    [{ canceledAt: 9_900 }, true],
    [{ canceledAt: 9_299 }, false],
    [{ canceledAt: { from: 9_000, until: 15_000 } }, true],
    [{ canceledAt: { from: 10_501, until: 15_000 } }, false],
    [{ canceledAt: 14_000, failovers: [{ ...failover, admissions: [{ id: 'a', at: 9_900 }] }] }, true],
    [{ canceledAt: 14_000, failovers: [{ ...failover, admissions: [{ id: 'c', at: 9_900 }] }] }, false],
    [{ passAt: 9_900, failovers: [elsewhere] }, false],
    [{}, false],
  ])('may be otherwise after %j: %s', (what, isForgotten) => {
    expect(given(what).forgotten.waiting('b')).toBe(isForgotten);
  });
});
