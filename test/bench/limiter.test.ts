import { expect, test } from 'vitest';
import { main } from '../../bench/bench.ts';
import { asksUntilAllPassed } from '../../bench/limiter/blocked.ts';
import { createCase, expectAnswer } from '../../bench/limiter/case.ts';
import { compare, middleOf } from '../../bench/limiter/paired.ts';
import { IN_FLIGHT, pump } from '../../bench/limiter/pump.ts';
import { runMain } from '../support/command.ts';

test.each([
  [
    ['unheard-of'],
    'error: suite: expected one of limiter, throughput, capacity, alternatives, pacing, found "unheard-of"',
  ],
  [['limiter', '--runs', '1'], 'error: --runs: expected an integer from 2 to 1000, found "1"'],
  [['limiter', '--runs', '2.5'], 'error: --runs: expected an integer from 2 to 1000, found "2.5"'],
  [['limiter', '--seconds', 'long'], 'error: --seconds: expected a number from 0.02 to 60, found "long"'],
])('%j is bad usage', async (flags, message) => {
  const { code, stdout, stderr } = await runMain(main, flags);
  expect({ code, stdout, stderr }).toMatchObject({ code: 2, stdout: '' });
  expect(stderr).toContain(message);
});

test('asks go out in order, with as many in flight as promised', async () => {
  const started: number[] = [];
  let inFlight = 0;
  let most = 0;
  await pump(300, async (index) => {
    started.push(index);
    inFlight += 1;
    most = Math.max(most, inFlight);
    await Promise.resolve();
    inFlight -= 1;
  });
  expect(started).toEqual(Array.from({ length: 300 }, (_, index) => index));
  expect(most).toBe(IN_FLIGHT);
});

test('a case takes new recipients through all of its steps, each slice anew', async () => {
  const steps = new Map<string, number[]>();
  const measured = createCase({
    name: 'steps',
    commands: [],
    before: 1,
    measured: 2,
    ask(recipientId, step) {
      steps.set(recipientId, [...(steps.get(recipientId) ?? []), step]);
      return Promise.resolve();
    },
  });
  for (let slice = 0; slice < 2; slice += 1) {
    await measured.prepare(600);
    for (let ask = 0; ask < 600; ask += 1) await measured.ask();
  }
  expect(steps.size).toBe(600);
  expect(new Set([...steps.values()].map((taken) => taken.join()))).toEqual(new Set(['0,1,2']));
});

test('a case that measures something else than it says ends the run', async () => {
  const lying = createCase({
    name: 'lying',
    commands: [],
    before: 0,
    measured: 1,
    ask: async (_recipientId, step) => {
      await Promise.resolve();
      expectAnswer('lying', 'admitted', step === 0 ? 'blocked' : 'admitted');
    },
  });
  const runner = { measured: lying, asks: 10 };
  await expect(compare(runner, runner, 2)).rejects.toThrow(
    'lying: expected each ask to be admitted, found one blocked',
  );
});

test('a ratio is the median of its runs, with the middle half of them', () => {
  expect(middleOf([5, 1, 3, 2, 4])).toEqual({ median: 3, lowerQuartile: 2, upperQuartile: 4 });
  expect(middleOf([1, 2])).toEqual({ median: 1.5, lowerQuartile: 1.25, upperQuartile: 1.75 });
});

test.each([3, 50])('%i jobs that are all told the same wait ask N(N+1)/2 times', async (jobs) => {
  let freeAt = 1_000;
  const asks = await asksUntilAllPassed(jobs, 1_000, (_job, nowMs) => {
    if (nowMs < freeAt) return Promise.resolve(freeAt - nowMs);
    freeAt = nowMs + 200;
    return Promise.resolve(undefined);
  });
  expect(asks).toBe((jobs * (jobs + 1)) / 2);
});

test('jobs that are each told a slot of their own ask 2N - 1 times, and a wait that is none is a fault', async () => {
  const slotOf = (job: number): number => 1_000 + 200 * job;
  const asks = await asksUntilAllPassed(50, 1_000, (job, nowMs) =>
    Promise.resolve(nowMs < slotOf(job) ? slotOf(job) - nowMs : undefined),
  );
  expect(asks).toBe(99);
  await expect(asksUntilAllPassed(1, 0, () => Promise.resolve(0))).rejects.toThrow('found a wait of 0 ms');
});
