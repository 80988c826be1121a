import { seededRandom } from '../../../src/sandbox/random.ts';

/** Random numbers from a seed: the same seed gives the same sequence. */
export interface Dice {
  /** From `least` up to `most`, a whole number. */
  between(least: number, most: number): number;
  /** True with this probability, 0 to 1. */
  chance(share: number): boolean;
  pick<T>(from: readonly T[]): T;
  shuffled<T>(from: readonly T[]): T[];
}

/** `use` gives each place that uses the seed a sequence of its own. */
export function createDice(seed: number, use: number): Dice {
  const random = seededRandom(Math.imul(seed, 0x9e3779b1) ^ use);
  const between = (least: number, most: number) => least + Math.floor(random() * (most - least + 1));
  return {
    between,
    chance: (share) => random() < share,
    pick: <T>(from: readonly T[]) => from[between(0, from.length - 1)] as T,
    shuffled: (from) =>
      from
        .map((value) => ({ value, at: random() }))
        .sort((a, b) => a.at - b.at)
        .map(({ value }) => value),
  };
}
