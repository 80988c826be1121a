import { NO_LATENCY } from '../../sandbox/loopback/timing.ts';
import { withSurroundings } from '../redis.ts';
import { reportOf, round, wholeOf, type Report, type Suite, type SuiteOptions, type Table } from '../suite.ts';
import { startCounters } from '../throughput/providers.ts';
import { checkTable, failureOf, ratioOf, isOff, type Check } from './check.ts';
import { measureMemory, measureWay, type Sizes } from './measure.ts';
import { MILLION, QUICK_MILLION, runMillion, type Million } from './million.ts';
import { MEASURED, type Constants, type Work, type Use } from './model.ts';
import { measurePoint, SHAPES, type Point } from './points.ts';
import { nameOf } from './stage.ts';

const ROWS = ['figures', 'points', 'million'] as const;
const WHOLE: Sizes = { waiting: 50_000, ended: 10_000, jobs: 8_000 };
const QUICK: Sizes = { waiting: 5_000, ended: 1_000, jobs: 1_000 };
/** Jobs of each half of a point. */
const POINT_JOBS = { whole: 20_000, quick: 4_000 };

export const capacitySuite: Suite = {
  name: 'capacity',
  description:
    'bytes, commands and processor time for each notification, with 1 to 8 shards, against the capacity model',
  rows: ROWS,
  run,
};

async function run({ quick, row, say }: SuiteOptions): Promise<Report> {
  const start = performance.now();
  const sizes = quick ? QUICK : WHOLE;
  const isWanted = (each: (typeof ROWS)[number]): boolean => row === each || (row === undefined && each !== 'million');
  const counters = await startCounters(NO_LATENCY);
  try {
    return await withSurroundings(say, async ({ dir }, redis) => {
      const around = { dir, counters, say };
      const figures = isWanted('figures')
        ? { ...(await measureMemory(sizes, around)), ...(await measureWay(sizes, around)) }
        : undefined;
      const points: Point[] = [];
      for (const shape of isWanted('points') ? SHAPES : []) {
        points.push(await measurePoint(shape, quick ? POINT_JOBS.quick : POINT_JOBS.whole, around));
      }
      const million = isWanted('million') ? await runMillion(quick ? QUICK_MILLION : MILLION, around) : undefined;
      const figureChecks = figures === undefined ? [] : checksOf(figures);
      const seconds = (performance.now() - start) / 1_000;
      const tables = [
        ...(figures === undefined ? [] : [checkTable('one notification, on one Redis', figureChecks)]),
        ...points.map(({ shape, checks }) => checkTable(nameOf(shape), checks)),
        ...(million === undefined ? [] : millionTables(million)),
      ];
      const all = [
        ...figureChecks,
        ...(million?.checks ?? []),
        ...points.flatMap(({ shape, checks }) =>
          checks.map((check) => ({ ...check, name: `${nameOf(shape)}: ${check.name}` })),
        ),
      ];
      const failure = failureOf(all);
      return {
        ...reportOf(
          'capacity',
          { quick, seconds, versions: { node: process.versions.node, redis } },
          {
            tables,
            json: {
              figures: figures ?? null,
              points: points.map(({ shape, checks }) => ({ ...shape, checks: checks.map(checkJson) })),
              million: million === undefined ? null : { ...million, checks: million.checks.map(checkJson) },
              off: all.filter(isOff).map(({ name }) => name),
            },
          },
        ),
        ...(failure !== undefined && { failure }),
      };
    });
  } finally {
    await counters.close();
  }
}

function millionTables(million: Million): Table[] {
  const { waiting, checks, lateBefore, late, putBackPerSecond } = million;
  const row = (name: string, { count, p50, p99, worst }: Million['late']): string[] => [
    name,
    wholeOf(count),
    ...[p50, p99, worst].map((ms) => `${ms.toFixed(1)} ms`),
  ];
  return [
    checkTable(`${wholeOf(waiting)} wait for their slots`, checks),
    [
      ['due alerts arrived late', 'alerts', 'p50', 'p99', 'worst'],
      row('nothing else waits', lateBefore),
      row(`${wholeOf(waiting)} wait`, late),
    ],
    [
      ['this machine', ''],
      ['put back until their slots, a second', wholeOf(putBackPerSecond)],
    ],
  ];
}

function checkJson(check: Check) {
  return {
    name: check.name,
    kind: check.kind,
    measured: round(check.measured, 3),
    model: round(check.model, 3),
    ratio: round(ratioOf(check), 3),
  };
}

type Figures = Partial<Constants>;

/** Each constant beside what was measured now; those of several parts one by one. */
export function checksOf(figures: Figures): Check[] {
  return Object.entries(figures).flatMap(([name, measured]) =>
    checksOfOne(name, measured, MEASURED[name as keyof Constants]),
  );
}

type Value = number | Use | Work | Constants['replicatedBytes'];

function checksOfOne(name: string, measured: Value, model: Value): Check[] {
  if (typeof measured === 'number') {
    const kind = name.endsWith('Ms') ? 'time' : name.endsWith('Bytes') ? 'bytes' : 'count';
    return [{ name, kind, measured, model: Number(model) }];
  }
  return Object.entries(measured).flatMap(([part, value]) =>
    checksOfOne(`${name}.${part}`, value as Value, (model as unknown as Record<string, Value>)[part] ?? NaN),
  );
}
