import type { Report, Suite, SuiteOptions } from '../suite.ts';
import { withSurroundings } from '../throughput/measure.ts';
import {
  floodName,
  manyName,
  reportOf,
  standstillName,
  type FloodCase,
  type ManyCase,
  type Result,
  type Results,
  type Sizes,
} from './results.ts';
import * as rows from './rows.ts';

const ROWS = ['flood', 'many', 'standstill'] as const;
type Row = (typeof ROWS)[number];

export const pacingSuite: Suite = {
  name: 'pacing',
  description:
    'how close to the limits alerts follow each other, and at how many passes: floods, many lines, a standstill',
  rows: ROWS,
  // A run on a shared machine says little alone: medians are of three.
  defaultRuns: (quick) => (quick ? 1 : 3),
  run,
};

const WHOLE: Sizes = { flood: rows.FLOOD, many: rows.MANY, standstills: rows.STANDSTILLS };
const QUICK: Sizes = {
  flood: { busy: 12, others: 200 },
  many: { recipients: 150, each: 4 },
  standstills: rows.STANDSTILLS.slice(0, 1),
};

const FLOOD_CASES: readonly FloodCase[] = [true, false].flatMap((warm) =>
  [50, 200].flatMap((concurrency) => [false, true].map((proxied) => ({ concurrency, proxied, warm }))),
);
const MANY_CASES: readonly ManyCase[] = [2_000, 250].flatMap((gapMs) =>
  (['producer', 'plain'] as const).map((how) => ({ gapMs, how })),
);

async function run({ runs, quick, row: only, say }: SuiteOptions): Promise<Report> {
  const start = performance.now();
  const sizes = quick ? QUICK : WHOLE;
  const isWanted = (row: Row): boolean => only === undefined || only === row;
  const repeated = async <Case, Figures>(
    row: Row,
    cases: readonly Case[],
    nameOf: (of: Case) => string,
    once: (of: Case) => Promise<Figures>,
  ): Promise<Result<Case, Figures>[]> => {
    const results: Result<Case, Figures>[] = [];
    for (const of of isWanted(row) ? cases : []) {
      const figures: Figures[] = [];
      for (let done = 0; done < runs; done += 1) {
        say(`${row}, ${nameOf(of)}: run ${done + 1} of ${runs}`);
        figures.push(await once(of));
      }
      results.push({ of, runs: figures });
    }
    return results;
  };
  return withSurroundings(say, async ({ redisUrl }, redis) => {
    const floods = FLOOD_CASES.filter(({ warm }) => warm || !quick);
    const results: Results = {
      flood: await repeated('flood', floods, floodName, (of) => rows.runFlood(redisUrl, sizes.flood, of)),
      many: await repeated('many', MANY_CASES, manyName, (of) => rows.runMany(redisUrl, sizes.many, of)),
      standstill: await repeated('standstill', sizes.standstills, standstillName, (of) =>
        rows.runStandstill(redisUrl, of),
      ),
    };
    const seconds = (performance.now() - start) / 1_000;
    return reportOf(results, { sizes, runs, quick, seconds, versions: { node: process.versions.node, redis } });
  });
}
