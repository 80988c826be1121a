import { expect, it } from 'vitest';
import { testPrefix } from '../support/redis.ts';
import { accepted, LONG, openBreakers, openOf, refused, reportTimes, trialOf, unreached } from './support.ts';

const FIRST_MS = 100;
const OTHERS_MS = 1_000;

/** An outage, and the time of its worker's clock in `clock.at`. */
function openOutage() {
  const clock = { at: 1_000_000 };
  const worker = openBreakers(testPrefix(), { ...LONG, now: () => clock.at });
  reportTimes(5, worker, unreached);
  const backAt = (enqueuedAt = 0) => worker.breakers.deferUntil('apns', enqueuedAt) - openOf(worker).until;
  return { clock, worker, backAt };
}

it('brings one back when the breaker is half open, and all others when the trial has been answered', () => {
  const { backAt } = openOutage();
  expect([backAt(), backAt(), backAt()]).toEqual([FIRST_MS, OTHERS_MS, OTHERS_MS]);
});

it('brings two back after a failed trial: the notification whose trial failed is one of them', async () => {
  const { clock, worker, backAt } = openOutage();
  backAt();
  clock.at = openOf(worker).until;
  worker.breakers.report(unreached(), await trialOf(worker));
  expect([backAt(), backAt(), backAt()]).toEqual([FIRST_MS, FIRST_MS, OTHERS_MS]);
});

it('keeps the order of enqueuing, an hour in three minutes, and nobody waits for more than ten', () => {
  const { worker, backAt } = openOutage();
  backAt();
  const { since } = openOf(worker);
  const places = [-60_000, 0, 60_000, 3_600_000, 86_400_000].map((after) => backAt(since + after) - OTHERS_MS);
  expect(places).toEqual([0, 0, 3_000, 180_000, 600_000]);
});

it('never brings anybody back in the past', async () => {
  const { clock, worker } = openOutage();
  clock.at = openOf(worker).until + 500_000;
  const dueAt = [1, 2].map(() => worker.breakers.deferUntil('apns', 0));
  expect(dueAt).toEqual([clock.at + FIRST_MS, clock.at + OTHERS_MS]);
  worker.breakers.report(accepted(), await trialOf(worker));
  expect(worker.breakers.deferUntil('apns', 0)).toBeGreaterThanOrEqual(clock.at);
});

it('keeps the order among those that wait for a breaker of all workers, too', () => {
  const worker = openBreakers(testPrefix());
  worker.breakers.report(refused());
  const { until, since } = openOf(worker);
  const enqueued = [since, since, since + 20_000];
  expect(enqueued.map((at) => worker.breakers.deferUntil('apns', at) - until)).toEqual([100, 1_000, 2_000]);
});
