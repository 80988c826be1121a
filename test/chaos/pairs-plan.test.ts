import { describe, expect, it } from 'vitest';
import { describe as textOf, planPairs, type PairsPlan } from '../../chaos/pairs/acts.ts';
import {
  ASIDE,
  devicesOf,
  LIMITS,
  named,
  planItems,
  POLICY,
  recipientIdsOf,
  STRICT_POLICY,
} from '../../chaos/pairs/workload.ts';
import { main } from '../../chaos/chaos.ts';
import { parseNotification } from '../../src/notification/notification.ts';
import { runMain } from '../support/command.ts';

const marker = '0123456789ab';
const itemsOf = (seed: number) => planItems({ seed, seconds: 25, marker });
const planOf = (seed: number, hasEarlier = false): PairsPlan =>
  planPairs({ seed, seconds: 25, recipientIds: recipientIdsOf(itemsOf(seed)), aside: ASIDE, hasEarlier });
const SEEDS = Array.from({ length: 30 }, (_, seed) => seed);

describe('the notifications', () => {
  it('are the same for the same seed, and others for another seed', () => {
    expect(itemsOf(3)).toEqual(itemsOf(3));
    expect(itemsOf(3)).not.toEqual(itemsOf(4));
  });

  it('are of every kind, to few recipients, and all of them are in order', () => {
    for (const seed of SEEDS) {
      const items = itemsOf(seed);
      expect(items).toHaveLength(360);
      expect(recipientIdsOf(items).length).toBeGreaterThanOrEqual(4);
      expect(recipientIdsOf(items).length).toBeLessThanOrEqual(6);
      expect(new Set(items.map(({ input }) => input.id)).size).toBe(360);
      const now = Date.now();
      const faults = items.flatMap(({ input, sendAfterMs, expiresInMs }) => {
        const sendAfter = sendAfterMs === undefined ? {} : { sendAfter: now + sendAfterMs };
        const parsed = parseNotification({
          ...input,
          ...sendAfter,
          ...(expiresInMs && { expiresAt: now + expiresInMs }),
        });
        return parsed.ok ? [] : parsed.faults;
      });
      expect(faults).toEqual([]);
      const has = (fits: (item: (typeof items)[number]) => boolean): number => items.filter(fits).length;
      const counts = [
        ...(['latest', 'digest', 'drop', 'silence'] as const).map((kind) =>
          has(({ input }) => input.onThrottle === kind),
        ),
        has(({ input }) => input.pushType === 'background'),
        has(({ input }) => input.devices.length === 2),
        has(({ input }) => input.cancellationKey !== undefined),
        has(({ sendAfterMs }) => sendAfterMs !== undefined),
        has(({ expiresInMs }) => expiresInMs !== undefined),
        ...Object.keys(LIMITS.categories).map((category) => has(({ input }) => input.category === category)),
      ];
      expect(Math.min(...counts), `seed ${seed}: ${counts.join(', ')}`).toBeGreaterThan(2);
      expect(devicesOf(items).length).toBeGreaterThanOrEqual(5);
    }
  });

  it('have a name that the app gets, another one for each time', () => {
    const [item] = itemsOf(1);
    if (item === undefined) throw new Error('expected an item');
    expect(named(item.input, 'n17@2', marker).data).toEqual({ ref: `${marker}.n17@2` });
  });

  it('are limited by stricter limits where an operator limits them', () => {
    expect(STRICT_POLICY.minGapMs).toBeGreaterThan(POLICY.minGapMs);
    for (const rule of POLICY.rules) expect(STRICT_POLICY.rules).toContainEqual(rule);
  });
});

describe('the acts and faults', () => {
  it('are the same for the same seed, and others for another seed', () => {
    expect(planOf(3)).toEqual(planOf(3));
    expect(planOf(3)).not.toEqual(planOf(4));
  });

  it('are all there in every seed, in order, and can be told', () => {
    for (const seed of SEEDS) {
      const { acts, faults, workers } = planOf(seed);
      expect([3, 4, 5]).toContain(workers);
      for (const all of [acts, faults]) {
        const instants = all.map(({ atMs }) => atMs);
        expect(instants).toEqual(instants.toSorted((a, b) => a - b));
        expect(instants.at(-1)).toBeLessThanOrEqual(25_000);
      }
      const kinds = new Set(acts.map(({ kind }) => kind));
      for (const kind of [
        'cancel-id',
        'cancel-key',
        'block',
        'replay-all',
        'replay-one',
        'discard-one',
        'remove',
        'again',
      ])
        expect(kinds).toContain(kind);
      const ofFaults = new Set(faults.map(({ kind }) => kind));
      expect([...ofFaults].toSorted()).toEqual(
        ['answers', 'gone-device', 'kill-worker', 'script-flush', 'stop-worker', 'visitor'].toSorted(),
      );
      for (const one of [...acts, ...faults]) expect(textOf(one)).toMatch(/^ +\d+\.\d s {2}\S/);
    }
  });

  it('end what they begin, but for a block that ends by itself', () => {
    for (const seed of SEEDS) {
      const { acts } = planOf(seed);
      for (const [begin, end] of [
        ['limit', 'unlimit'],
        ['quiet', 'unquiet'],
      ] as const) {
        const begun = acts.flatMap((act) => (act.kind === begin ? [act.recipientId] : []));
        const ended = acts.flatMap((act) => (act.kind === end ? [act.recipientId] : []));
        expect(ended.toSorted()).toEqual(begun.toSorted());
      }
    }
  });

  it('change the number of shards in one seed of five, and then without a worker of an earlier version', () => {
    const resharded = SEEDS.filter((seed) => planOf(seed).acts.some(({ kind }) => kind === 'reshard'));
    expect(resharded).toHaveLength(SEEDS.length / 5);
    for (const seed of SEEDS) {
      const visitors = planOf(seed, true).faults.flatMap((fault) => (fault.kind === 'visitor' ? [fault.what] : []));
      expect(visitors.includes('earlier')).toBe(!resharded.includes(seed));
    }
  });
});

describe('the command', () => {
  it('prints the plan without a run', async () => {
    const { code, stdout } = await runMain(main, ['--pairs', '--plan', '--seed', '3']);
    const { acts, faults, workers } = planOf(3);
    expect(code).toBe(0);
    expect(stdout.split('\n')[0]).toBe(`${workers} workers, 360 notifications`);
    expect(stdout.trim().split('\n')).toHaveLength(1 + acts.length + faults.length);
    const { stdout: json } = await runMain(main, ['--pairs', '--plan', '--json', '--seed', '3']);
    expect(JSON.parse(json)).toMatchObject({ workers, notifications: 360, acts, faults });
  });

  it.each([['--cluster'], ['--notifications', '500']])('refuses %s beside it', async (...flags) => {
    const { code, stderr } = await runMain(main, ['--pairs', ...flags]);
    expect(stderr).toContain('--pairs: expected neither --cluster nor --notifications beside it');
    expect(code).toBe(2);
  });
});
