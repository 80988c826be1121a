import type { Redis } from 'ioredis';
import { commandStats } from '../redis.ts';
import { middleOf, type Middle, type SuiteOptions } from '../suite.ts';
import { allCases, pump, type Case, type Cases } from './cases.ts';

/** The result of one case in rounds with all others. */
interface CaseResult {
  readonly name: string;
  readonly asksPerSecond: number;
  /** This case's rate over that of SET, and over that of pushpacer with two rules: medians over the rounds. */
  readonly vsSet: number;
  readonly vsOurs: number;
  readonly microsInRedis: number;
}

/** The rate of pushpacer, admitted with two rules (one is the gap), over that of another case: above 1 if pushpacer is faster. */
interface Ratios {
  readonly set: Middle;
  readonly rolling?: Middle;
  readonly flexibleUnion?: Middle;
  readonly flexibleSingle?: Middle;
  /** pushpacer with two rolling windows over the union of two fixed ones. */
  readonly windowsFlexibleUnion?: Middle;
}

export interface Speed {
  readonly cases: readonly CaseResult[];
  readonly ratios: Ratios;
}

/** Rounds of all cases are only for the table; the ratios come from pairs of their own. */
const RUNS_PER_ROUND = 2;

export async function measureSpeed(redis: Redis, cases: Cases, options: SuiteOptions): Promise<Speed> {
  const { runs, sliceMs, say } = options;
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
  return { ratios, cases: await measureAll(redis, [...runners.values()], cases, options) };
}

async function measureAll(
  redis: Redis,
  runners: readonly Runner[],
  { set, ours }: Cases,
  { runs, say }: SuiteOptions,
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

/** Microseconds that Redis itself spends on one ask; reading, parsing and answering are not in them. */
async function microsInRedis(redis: Redis, { measured, asks }: Runner): Promise<number> {
  await measured.prepare(asks);
  await redis.config('RESETSTAT');
  await pump(asks, () => measured.ask());
  const stats = await commandStats(redis);
  const micros = measured.commands.map((command) => {
    const used = stats.get(command);
    if (used === undefined) throw new Error(`${measured.name}: expected calls of ${command}, found none`);
    return used.micros;
  });
  return micros.reduce((sum, usec) => sum + usec, 0) / asks;
}

/** A case and how many of its asks fill one slice of time. */
interface Runner {
  readonly measured: Case;
  readonly asks: number;
}

const WARM_UP_SLICES = 3;
const FIRST_ASKS = 512;

/** Runs the case until its code is warm, and finds out how many asks a slice takes. */
async function warmUp(measured: Case, sliceMs: number): Promise<Runner> {
  let asks = FIRST_ASKS;
  for (let slice = 0; slice < WARM_UP_SLICES; slice += 1) {
    asks = Math.max(FIRST_ASKS, Math.round((await asksPerSecond({ measured, asks })) * (sliceMs / 1_000)));
  }
  return { measured, asks };
}

/** Measures one slice. What it needs is prepared before the time starts. */
async function asksPerSecond({ measured, asks }: Runner): Promise<number> {
  await measured.prepare(asks);
  const start = performance.now();
  await pump(asks, () => measured.ask());
  return asks / ((performance.now() - start) / 1_000);
}

/**
 * How many times as fast `one` is as `other`. Slices are measured in turn, ABBA, so that other load and its changes affect both
 * alike.
 */
export async function compare(one: Runner, other: Runner, runs: number): Promise<Middle> {
  const rounds = await takeTurns([one, other], runs);
  return middleOf(rounds.map(([rate = NaN, otherRate = NaN]) => rate / otherRate));
}

/** Each round measures every runner once, in their order and then in the opposite one; rates in the runners' order. */
async function takeTurns(runners: readonly Runner[], rounds: number): Promise<number[][]> {
  const results: number[][] = [];
  for (let round = 0; round < rounds; round += 1) {
    const order = [...runners.keys()];
    if (round % 2 === 1) order.reverse();
    const rates: number[] = [];
    for (const index of order) rates[index] = await asksPerSecond(runners[index] as Runner);
    results.push(rates);
  }
  return results;
}
