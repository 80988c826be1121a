import { readFile } from 'node:fs/promises';
import { round, type Table } from '../suite.ts';

// What a job of the worker costs in counts, which hardly depend on the machine, beside what docs/benchmarks.md says.

/** Of one job that is sent at once. */
export interface Counts {
  readonly commands: number;
  /** What the worker sends to Redis. */
  readonly redisBytes: number;
  /** What it allocates, also what the garbage collector frees at once. */
  readonly allocatedBytes: number;
}

/** How the counts are called in the page, and with how many digits. */
const NAMES: Readonly<Record<keyof Counts, readonly [name: string, digits: number]>> = {
  commands: ['commands to Redis', 2],
  redisBytes: ['bytes to Redis', 0],
  allocatedBytes: ['bytes allocated', 0],
};
const PAGE = new URL('../../docs/benchmarks.md', import.meta.url);
/** How far a count may be from the page, as a share of it. */
const MOST_OFF = 0.1;

/** What the page says: its rows `| commands to Redis | 2.05 |`. */
export async function readCounts(): Promise<Counts> {
  const page = await readFile(PAGE, 'utf8');
  const of = (key: keyof Counts): number => {
    const [name] = NAMES[key];
    const cell = new RegExp(`^\\| ${name} +\\| +([\\d.,]+) \\|$`, 'm').exec(page)?.[1];
    if (cell === undefined) throw new Error(`docs/benchmarks.md: expected a row "${name}" with a number, found none`);
    return Number(cell.replaceAll(',', ''));
  };
  return { commands: of('commands'), redisBytes: of('redisBytes'), allocatedBytes: of('allocatedBytes') };
}

/** What is too far from the page, as one sentence for each count; undefined if nothing is. */
export function countsFault(found: Counts, expected: Counts): string | undefined {
  const faults = KEYS.filter((key) => !(Math.abs(found[key] / expected[key] - 1) <= MOST_OFF)).map((key) => {
    const [name, digits] = NAMES[key];
    const numbers = `expected ${expected[key]} (docs/benchmarks.md), give or take 10 %, found ${round(found[key], digits)}`;
    return `${name} of a job: ${numbers}`;
  });
  return faults.length === 0 ? undefined : faults.join('\n');
}

export function countsTable(found: Counts, expected: Counts): Table {
  const written = (value: number, digits: number): string =>
    value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return [
    ['counts of a job', 'found', 'docs/benchmarks.md'],
    ...KEYS.map((key) => {
      const [name, digits] = NAMES[key];
      return [name, written(found[key], digits), written(expected[key], digits)];
    }),
  ];
}

const KEYS = Object.keys(NAMES) as (keyof Counts)[];
