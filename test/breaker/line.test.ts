import { expect, it } from 'vitest';
import { testPrefix } from '../support/redis.ts';
import { accepted, LONG, openBreakers, openOf, refused, reportTimes, trialOf, unreached } from './support.ts';

const FIRST_MS = 100;
const OTHERS_MS = 1_000;
/** Recipients that failed come later by this. */
const STAND_BACK_MS = 2_000;

/** An open breaker, and the time of its worker's clock in `clock.at`. */
function openAtClock(evidence: typeof refused, times = 1) {
  const clock = { at: 1_000_000 };
  const worker = openBreakers(testPrefix(), { ...LONG, now: () => clock.at });
  reportTimes(times, worker, evidence);
  const until = (recipientId: string, enqueuedAt: number) =>
    worker.breakers.deferUntil('apns', { recipientId, enqueuedAt });
  /** When one comes back, after the breaker is half open. */
  const backAt = (enqueuedAt = 0, recipientId = 'somebody') => until(recipientId, enqueuedAt) - openOf(worker).until;
  return { clock, worker, until, backAt };
}

it('brings one back when the breaker is half open, and all others when the trial has been answered', () => {
  const { backAt } = openAtClock(refused);
  expect([backAt(), backAt(), backAt()]).toEqual([FIRST_MS, OTHERS_MS, OTHERS_MS]);
});

it('does not bring back the recipient whose trial failed as the next one', async () => {
  const { clock, worker, backAt } = openAtClock(unreached, 5);
  clock.at = openOf(worker).until;
  worker.breakers.report({ ...unreached(), recipientId: 'poison' }, await trialOf(worker, 'poison'));
  expect([backAt(0, 'poison'), backAt(0, 'poison')]).toEqual([STAND_BACK_MS + FIRST_MS, STAND_BACK_MS + OTHERS_MS]);
  expect(backAt(0, 'another')).toBeLessThan(0); // an early trial
});

it('keeps the order of enqueuing, an hour in three minutes, and nobody waits for more than ten', () => {
  const { worker, backAt } = openAtClock(refused);
  backAt();
  const { since } = openOf(worker);
  const places = [-60_000, 0, 60_000, 3_600_000, 86_400_000].map((after) => backAt(since + after) - OTHERS_MS);
  expect(places).toEqual([0, 0, 3_000, 180_000, 600_000]);
});

it('never brings anybody back in the past', async () => {
  const { clock, worker, until } = openAtClock(unreached, 5);
  clock.at = openOf(worker).until + 500_000;
  for (const one of ['a', 'b', 'c', 'd', 'e']) expect(until(one, 0)).toBeGreaterThanOrEqual(clock.at);
  worker.breakers.report(accepted(), await trialOf(worker));
  expect(until('f', 0)).toBeGreaterThanOrEqual(clock.at);
});

it('brings three that have not failed back early where the trouble is only suspected, a second apart', () => {
  const { clock, until, backAt } = openAtClock(unreached, 5);
  const early = ['a', 'b', 'c'].map((recipientId) => until(recipientId, 0) - clock.at);
  expect(early).toEqual([1_000, 2_000, 3_000]);
  expect([backAt(0, 'd'), backAt(0, 'e')]).toEqual([FIRST_MS, OTHERS_MS]);
  clock.at += 1_000;
  expect(until('f', 0) - clock.at).toBe(3_000);
});

it('keeps one that failed until the breaker is half open', async () => {
  const { clock, worker, backAt } = openAtClock(unreached, 5);
  worker.breakers.report({ ...unreached(), recipientId: 'odd' }); // was under way
  clock.at += 5_000;
  expect((await worker.breakers.enter('apns', 'odd')).kind).toBe('open');
  expect(backAt(0, 'odd')).toBe(STAND_BACK_MS + FIRST_MS);
});
