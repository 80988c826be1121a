import { seededRandom } from '../../../src/sandbox/random.ts';

/** Chance that a seed decides: the same seed, the same row of throws. */
export interface Dice {
  /** From `least` up to `most`, a whole number. */
  between(least: number, most: number): number;
  /** True in this share of the throws, 0 to 1. */
  chance(share: number): boolean;
  pick<T>(from: readonly T[]): T;
  shuffled<T>(from: readonly T[]): T[];
}

/** `use` tells apart what one seed decides in several places. */
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
