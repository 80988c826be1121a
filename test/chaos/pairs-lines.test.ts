import { expect, it } from 'vitest';
import type { LineLook } from '../../chaos/pairs/facts.ts';
import { endOf, faultsOf, judged, livesOf, seen } from './pairs-facts.ts';

/** The judge of a run with --pairs: rule 8, of the lines as they were seen. */

const one = { lives: livesOf({ name: 'a' }), ends: [endOf('a', 'delivered')], entries: [seen('a', 1)] };
/** Looks of one line, a quarter of a second apart from 10,000 on. */
const looksOf = (count: number, more: (now: number) => Partial<LineLook>): LineLook[] =>
  Array.from({ length: count }, (_, index) => {
    const now = 10_000 + 250 * index;
    return { recipientId: 'r', kind: 'alert', now, sent: [], ...more(now) };
  });
const first = (at: number) => ({ first: { entry: 'a#r1/0', at } });
const late = (count: number) => looksOf(count, () => first(60_000));
const found = (looks: readonly LineLook[]) => faultsOf({ ...one, looks });

it('a line whose first one could come sooner for longer than a move takes is a fault', () => {
  expect(found(late(20))).toEqual([
    '8: r, alert: for 4750 ms the first of the line, a, had a slot 48600 ms later than the limits need',
  ]);
  expect(found(late(20).map((look) => ({ ...look, kind: 'background' })))[0]).toContain('r, background: for 4750 ms');
});

it.each<[string, (now: number) => Partial<LineLook>]>([
  ['the gap', (now) => ({ ...first(now + 1_400), sent: [now] })],
  ['a window', (now) => ({ ...first(now + 5_300), sent: Array.from({ length: 20 }, (_, index) => now + index) })],
  [
    'limits of its own',
    (now) => ({
      ...first(now + 5_300),
      sent: [now],
      limits: [
        [1, 0],
        [1, 5_300],
      ],
    }),
  ],
  ['a block', () => ({ ...first(60_000), blockedUntil: 59_700 })],
  ['quiet hours', () => ({ ...first(60_000), isQuiet: true })],
  ['that it is due', (now) => first(now - 30_000)],
  ['that nobody waits', () => ({})],
])('what has a reason is none: %s', (_, more) => {
  expect(found(looksOf(20, more))).toEqual([]);
});

it.each<[string, (now: number) => Partial<LineLook>]>([
  ['the gap', (now) => ({ ...first(now + 1_700), sent: [now - 10_000] })],
  [
    'a window with room',
    (now) => ({ ...first(now + 5_000), sent: Array.from({ length: 19 }, (_, n) => now + n - 19) }),
  ],
  ['a block that has ended', (now) => ({ ...first(60_000), blockedUntil: now })],
])('but only if that reason holds: %s', (_, more) => {
  expect(found(looksOf(20, more))).toHaveLength(1);
});

it('a line that is moved in time is none, nor are several short times', () => {
  expect(found(late(8))).toEqual([]);
  const [some, others] = [late(8), late(20).slice(10, 18)];
  expect(found([...some, ...looksOf(10, () => ({})).slice(8), ...others])).toEqual([]);
});

it('after a kill or a freeze it is excused, and counted, until another worker has taken the job', () => {
  const incident = (until: number) => [{ kind: 'kill' as const, at: until - 100, until, ids: new Set<string>() }];
  const near = judged({ ...one, looks: late(20), incidents: incident(9_000) });
  expect([near.faults, near.excused]).toEqual([[], { 'a line that was late, after a fault': 1 }]);
  for (const until of [-1_000, 20_000]) {
    expect(judged({ ...one, looks: late(20), incidents: incident(until) }).faults).toHaveLength(1);
  }
});
