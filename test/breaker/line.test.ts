import { expect, it } from 'vitest';
import { createLine, FIRST_AFTER_MS, OTHERS_AFTER_MS } from '../../src/breaker/line.ts';
import type { State } from '../../src/breaker/state.ts';

const SINCE = 1_000_000;
const UNTIL = SINCE + 30_000;
const open: State = { trouble: 'auth', code: '', since: SINCE, until: UNTIL, step: 0, failedId: null, change: 'first' };
const reopened: State = { ...open, until: UNTIL + 60_000, failedId: 'msg-1', change: 'second' };

it('brings one back when the breaker is half open, and all others when the trial has been answered', () => {
  const line = createLine();
  const backAt = [1, 2, 3].map(() => line.next(open, 0, SINCE));
  expect(backAt).toEqual([UNTIL + FIRST_AFTER_MS, UNTIL + OTHERS_AFTER_MS, UNTIL + OTHERS_AFTER_MS]);
});

it('brings two back after a failed trial: the notification whose trial failed is one of them', () => {
  const line = createLine();
  line.next(open, 0, SINCE);
  const backAt = [1, 2, 3].map(() => line.next(reopened, 0, UNTIL));
  expect(backAt.map((at) => at - reopened.until)).toEqual([FIRST_AFTER_MS, FIRST_AFTER_MS, OTHERS_AFTER_MS]);
});

it('keeps the order of enqueuing, an hour in three minutes, and nobody waits for more than ten', () => {
  const line = createLine();
  line.next(open, 0, SINCE);
  const places = [-60_000, 0, 60_000, 3_600_000, 86_400_000].map(
    (after) => line.next(open, SINCE + after, SINCE) - UNTIL - OTHERS_AFTER_MS,
  );
  expect(places).toEqual([0, 0, 3_000, 180_000, 600_000]);
});

it('never brings anybody back in the past', () => {
  const line = createLine();
  const now = UNTIL + 500_000;
  expect([1, 2].map(() => line.next(open, 0, now))).toEqual([now + FIRST_AFTER_MS, now + OTHERS_AFTER_MS]);
  expect(line.next(undefined, 0, now)).toBeGreaterThan(now);
});
