import { expect, test } from 'vitest';
import { createRates } from '../../src/operations/rates.ts';
import type { SeenWorker } from '../../src/queue/workers.ts';
import { workerFacts } from '../support/presence.ts';

/** A worker that wrote `done` counts at `seenAt`. */
function worker(id: string, seenAt: number, done: number, more: Partial<SeenWorker> = {}): SeenWorker {
  return {
    ...workerFacts({ id, startedAt: 0 }),
    ...{ seenAt, silentMs: 0, alive: true },
    tally: { passes: done * 3, delivered: done, requeued: done * 2, dead: 0, late: [] },
    ...more,
  };
}

const perS = (deliveredPerS: number) => ({
  passesPerS: deliveredPerS * 3,
  deliveredPerS,
  requeuedPerS: deliveredPerS * 2,
  deadPerS: 0,
});

test('the rate of a worker is that between its last two writes, whenever somebody looks; the rates are added', () => {
  const rates = createRates();
  expect(rates({ now: 10_500, workers: [worker('a', 10_000, 100)] })).toBeUndefined();
  expect(rates({ now: 12_500, workers: [worker('a', 10_000, 100)] })).toBeUndefined(); // it has not written again
  const both = [worker('a', 15_000, 150), worker('b', 14_000, 0)];
  expect(rates({ now: 15_500, workers: both })).toEqual(perS(10));
  expect(rates({ now: 19_400, workers: [worker('a', 15_000, 150), worker('b', 19_000, 25)] })).toEqual(perS(15));
});

test('a worker that started meanwhile counts from its start, one that is gone does not count', () => {
  const rates = createRates();
  expect(rates({ now: 10_000, workers: [worker('a', 9_000, 7)] })).toBeUndefined();
  const young = worker('b', 22_000, 40, { startedAt: 20_000 });
  expect(rates({ now: 22_000, workers: [worker('a', 14_000, 9), young] })).toMatchObject({
    deliveredPerS: 20.4,
    requeuedPerS: 40.8,
  });
  expect(rates({ now: 24_000, workers: [worker('a', 14_000, 9, { alive: false }), young] })).toEqual(perS(20));
  expect(rates({ now: 99_000, workers: [{ ...young, alive: false }] })).toEqual(perS(0));
});
