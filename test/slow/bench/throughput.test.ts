import { expect, test } from 'vitest';
import { CASES } from '../../../bench/throughput/case.ts';
import { measure } from '../../../bench/throughput/measure.ts';
import { jsonOf } from '../../../bench/throughput/results.ts';

const FIGURES = CASES.flatMap(({ platform, suffix }) =>
  ['VsPlain', 'PerSecond', 'PlainPerSecond'].map((what) => `${platform}${what}${suffix}`),
);

test(
  'the smallest run measures both workers in every case, and every alert arrives',
  { timeout: 180_000 },
  async () => {
    const said: string[] = [];
    const done: number[] = [];
    const results = await measure({
      ...{ pairs: 1, jobs: 200, warmUp: 50, counted: 50 },
      say: (line) => said.push(line),
      onRun: (run) => done.push(run),
    });
    const json = jsonOf(results, true);
    for (const key of [...FIGURES, 'redisCommandsPerJob', 'plainRedisCommandsPerJob', 'seconds']) {
      expect.soft(json[key], key).toSatisfy((value) => Number.isFinite(value) && Number(value) > 0);
    }
    expect(json).toMatchObject({ suite: 'throughput', quick: true, pairs: 1, jobs: 200 });
    expect(json['alertsEnqueued']).toBe(CASES.length * 2 * 200);
    expect(json['alertsAccepted']).toBe(json['alertsEnqueued']);
    // BullMQ ends a job and takes the next one in one command, and so few jobs are each taken by one more; the scripts
    // behind them run more than ten.
    expect(json['plainRedisCommandsPerJob']).toBeGreaterThanOrEqual(1);
    expect(json['plainRedisCommandsPerJob']).toBeLessThan(5);
    expect(done).toEqual(CASES.flatMap(() => [1, 2]));
    expect(said).toEqual(
      expect.arrayContaining(CASES.map(({ name }) => `${name}: 1 pairs of runs with 200 jobs each`)),
    );
  },
);
