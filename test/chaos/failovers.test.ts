import { expect, test } from 'vitest';
import {
  acknowledged,
  canceling,
  cluster,
  ELSEWHERE,
  judged,
  lacking,
  logged,
  twice,
  twoAt,
  uncancel,
  type Excused,
  type Seeded,
} from './facts.ts';

// The judge of a run on a cluster: what a failover forgot is no fault, and all else is one, with the check that must report it.

const WAITED = 'faults of what waited together';
const [GAP, TWICE] = ['gap violations', 'unexplained duplicates'];

/** Of the seconds around the kill of a master at 210,000, which kept all until 209,800 and was replaced at 213,000. */
const FAILOVERS: readonly Seeded[] = [
  ['one was acknowledged before that', [cluster(), acknowledged(209_799)], 'lost'],
  ['one was acknowledged by the new master', [cluster(), acknowledged(213_001)], 'lost'],
  ['one was acknowledged by another master', [cluster(ELSEWHERE), acknowledged(209_900)], 'lost'],
  ['the slot of two that are too close is older', [cluster(), twoAt(209_799, 210_200)], GAP],
  ['it is of the new master', [cluster(), twoAt(210_501, 210_900)], GAP],
  ['it is of another master', [cluster(ELSEWHERE), twoAt(209_900, 210_340)], GAP],
  ['only the second of them can be forgotten', [cluster(), twoAt(209_400, 209_840)], GAP],
  ['the workers wait for replicas', [cluster({}, 1), twoAt(209_900, 210_340)], GAP],
  ['the pass of one that came twice ended before', [cluster(), twice(209_000, 214_000), logged(209_299, 'a')], TWICE],
  ['the pass ended after the kill', [cluster(), twice(209_000, 214_000), logged(210_001, 'a')], TWICE],
  ['the pass is one before it', [cluster(), twice(209_790, 214_000), logged(209_750, 'a')], TWICE],
  ['both came before the kill', [cluster(), twice(209_850, 209_950)], TWICE],
  ['both came after the failover', [cluster(), twice(213_501, 214_000)], TWICE],
  ['its end is at another master', [cluster(ELSEWHERE), twice(209_900, 214_000)], TWICE],
  ['it was under way at another master', [cluster(ELSEWHERE), twice(210_001, 216_000)], TWICE],
  ['what waits had its pass before', [cluster(), uncancel, logged(209_299, 'a')], WAITED],
  ['it had its pass later', [cluster(), uncancel, logged(210_501, 'a')], WAITED],
  ['it had its pass at another master', [cluster(ELSEWHERE), uncancel, logged(209_900, 'a')], WAITED],
  ['another recipient had a pass', [cluster(), uncancel, logged(209_900, 'l')], WAITED],
  ['it was canceled before', [cluster(), uncancel, canceling(209_000, 209_299)], WAITED],
  ['it was canceled later', [cluster(), uncancel, canceling(210_501, 215_000)], WAITED],
  ['another recipient lost a slot', [cluster(lacking('l', 209_900)), uncancel], WAITED],
  ['a slot was lost from before', [cluster(lacking('a', 209_799))], 'admissions lost before the window of a failover'],
  [
    'a slot was lost that a replica had',
    [cluster(lacking('a', 209_900), 1)],
    'admissions lost although workers wait for replicas',
  ],
  ['more was lost than the replica lagged', [cluster({ keptUntil: 208_849 })], 'failovers with a longer window'],
  ['no master was killed', [cluster(), ({ injected }) => (injected.failovers = [])], 'masters killed'],
  ['no slot moved', [cluster(), ({ injected }) => (injected.slotsMoved = [])], 'slots moved'],
  ['no key moved', [cluster(), ({ injected }) => (injected.slotsMoved = [{ slot: 1, keys: 0 }])], 'keys moved'],
];

test.each(FAILOVERS)('%s: it is reported', (_, changes, check) => {
  expect(judged(...changes).broken).toContain(check);
});

test.each<Excused>([
  ['a replica lagged as it may', [cluster({ keptUntil: 208_850 })], { cluster: { failovers: 1, keysMoved: 7 } }],
  [
    'a failover forgot one',
    [cluster(), acknowledged(209_800)],
    { lost: 0, delivered: 10, replicationLost: { notifications: 1, windowMs: 200 } },
  ],
  ['a failover forgot a slot', [cluster(), twoAt(209_800, 210_240)], { replicationLost: { violations: 1 } }],
  ['a failover forgot the end', [cluster(), twice(209_800, 214_000)], { replicationLost: { ends: 1 } }],
  [
    'a failover forgot the end of a pass',
    [cluster(), twice(209_000, 214_000), logged(209_300, 'a')],
    { replicationLost: { ends: 1 } },
  ],
  ['it was under way at a failover', [cluster(), twice(210_001, 216_000)], { duplicatesBy: { redis: 1 } }],
  [
    'a failover forgot what a pass noted',
    [cluster(), uncancel, logged(210_500, 'a')],
    { replicationLost: { waiting: 1 } },
  ],
  [
    'a failover forgot a cancel',
    [cluster(), uncancel, canceling(209_000, 215_000)],
    { replicationLost: { waiting: 1 } },
  ],
  [
    'a failover forgot a slot of its recipient',
    [cluster(lacking('a', 209_800)), uncancel],
    { replicationLost: { waiting: 1, admissions: 1 } },
  ],
])('%s: it is no fault, and is counted', (_, changes, counts) => {
  const { result, broken } = judged(...changes);
  expect(broken).toEqual([]);
  expect(result).toMatchObject(counts);
});
