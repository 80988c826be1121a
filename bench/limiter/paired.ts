import type { Case } from './case.ts';
import { pump } from './pump.ts';

/** A case and how many of its asks fill one slice of time. */
export interface Runner {
  readonly measured: Case;
  readonly asks: number;
}

/** A ratio of two cases, or a rate: the median of the runs, and the middle half of them. */
export interface Middle {
  readonly median: number;
  readonly lowerQuartile: number;
  readonly upperQuartile: number;
}

const WARM_UP_SLICES = 3;
const FIRST_ASKS = 512;

/** Runs the case until its code is warm, and finds out how many asks a slice takes. */
export async function warmUp(measured: Case, sliceMs: number): Promise<Runner> {
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
export async function takeTurns(runners: readonly Runner[], rounds: number): Promise<number[][]> {
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

export function middleOf(values: readonly number[]): Middle {
  const sorted = values.toSorted((a, b) => a - b);
  return {
    median: quantile(sorted, 0.5),
    lowerQuartile: quantile(sorted, 0.25),
    upperQuartile: quantile(sorted, 0.75),
  };
}

/** Interpolates if the quantile is between two values. */
function quantile(sorted: readonly number[], share: number): number {
  const position = (sorted.length - 1) * share;
  const below = sorted[Math.floor(position)] ?? NaN;
  const above = sorted[Math.ceil(position)] ?? NaN;
  return below + (above - below) * (position - Math.floor(position));
}
