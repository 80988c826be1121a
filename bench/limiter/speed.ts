import type { Redis } from 'ioredis';
import type { SuiteOptions } from '../suite.ts';
import type { Case } from './case.ts';
import { allCases, type Cases } from './cases.ts';
import { microsInRedis } from './inside.ts';
import { compare, middleOf, takeTurns, warmUp, type Middle, type Runner } from './paired.ts';
import type { CaseResult, Ratios, Results } from './results.ts';

/** Rounds of all cases are only for the table; the ratios come from pairs of their own. */
const RUNS_PER_ROUND = 2;

export async function measureSpeed(
  redis: Redis,
  cases: Cases,
  { runs, sliceMs, say }: SuiteOptions,
): Promise<Pick<Results, 'cases' | 'ratios'>> {
  say('warming up');
  const runners = new Map<Case, Runner>();
  for (const measured of allCases(cases)) runners.set(measured, await warmUp(measured, sliceMs));
  const runnerOf = (measured: Case): Runner => runners.get(measured) as Runner;

  const pair = async (one: Case, other: Case): Promise<Middle> => {
    say(`${runs} pairs: ${one.name} / ${other.name}`);
    await redis.flushall();
    return compare(runnerOf(one), runnerOf(other), runs);
  };
  const { set, ours, rivals } = cases;
  const ratios: Ratios = {
    set: await pair(ours.twoRules, set),
    ...(rivals && {
      rolling: await pair(ours.twoRules, rivals.rolling),
      flexibleUnion: await pair(ours.twoRules, rivals.flexibleUnion),
      flexibleSingle: await pair(ours.twoRules, rivals.flexibleSingle),
      windowsFlexibleUnion: await pair(ours.twoWindows, rivals.flexibleUnion),
    }),
  };
  await redis.flushall();
  return { ratios, cases: await measureAll(redis, [...runners.values()], cases, runs, say) };
}

async function measureAll(
  redis: Redis,
  runners: readonly Runner[],
  { set, ours }: Cases,
  runs: number,
  say: (line: string) => void,
): Promise<CaseResult[]> {
  const rounds = Math.max(1, Math.round(runs / RUNS_PER_ROUND));
  say(`${rounds} rounds of all ${runners.length} cases`);
  const rates = await takeTurns(runners, rounds);
  const indexOf = (wanted: Case): number => runners.findIndex(({ measured }) => measured === wanted);
  const over = (index: number, other: number): number =>
    middleOf(rates.map((round) => (round[index] ?? NaN) / (round[other] ?? NaN))).median;
  const results: CaseResult[] = [];
  for (const [index, runner] of runners.entries()) {
    results.push({
      name: runner.measured.name,
      asksPerSecond: middleOf(rates.map((round) => round[index] ?? NaN)).median,
      vsSet: over(index, indexOf(set)),
      vsOurs: over(index, indexOf(ours.twoRules)),
      microsInRedis: await microsInRedis(redis, runner),
    });
  }
  return results;
}
