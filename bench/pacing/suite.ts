import { withSurroundings } from '../redis.ts';
import { reportOf, round, rounded, wholeOf, type Report, type Suite, type SuiteOptions, type Table } from '../suite.ts';
import { quantile, spreadOf, type Spread } from './figures.ts';
import * as rows from './rows.ts';

const ROWS = ['flood', 'distance', 'many', 'standstill'] as const;
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

interface Sizes {
  readonly flood: rows.FloodSize;
  readonly many: rows.ManySize;
  readonly standstills: readonly rows.StandstillSize[];
}

const WHOLE: Sizes = { flood: rows.FLOOD, many: rows.MANY, standstills: rows.STANDSTILLS };
const QUICK: Sizes = {
  flood: { busy: 12, others: 200 },
  many: { recipients: 150, each: 4 },
  standstills: rows.STANDSTILLS.slice(0, 1),
};

const FLOOD_CASES: readonly rows.FloodCase[] = [true, false].flatMap((warm) =>
  [50, 200].flatMap((concurrency) => [0, 2].map((eachWayMs) => ({ concurrency, eachWayMs, warm }))),
);
/** The same flood with a Redis that is further and further away. */
const DISTANCE_CASES: readonly rows.FloodCase[] = [50, 200].flatMap((concurrency) =>
  [0, 2, 20].map((eachWayMs) => ({ concurrency, eachWayMs, warm: true })),
);
const MANY_CASES: readonly rows.ManyCase[] = [2_000, 250].flatMap((gapMs) =>
  (['producer', 'plain'] as const).map((how) => ({ gapMs, how })),
);

/** One case, and what each of its runs gave. */
interface Result<Case, Figures> {
  readonly of: Case;
  readonly runs: readonly Figures[];
}

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
    const flood = await repeated('flood', floods, floodName, (of) => rows.runFlood(redisUrl, sizes.flood, of));
    const distances = quick ? DISTANCE_CASES.slice(2, 3) : DISTANCE_CASES;
    const distance = await repeated('distance', distances, floodName, (of) => rows.runFlood(redisUrl, sizes.flood, of));
    const many = await repeated('many', MANY_CASES, manyName, (of) => rows.runMany(redisUrl, sizes.many, of));
    const standstill = await repeated('standstill', sizes.standstills, standstillName, (of) =>
      rows.runStandstill(redisUrl, of),
    );
    const results = {
      flood: flood.map(floodJson),
      distance: distance.map(floodJson),
      many: many.map(manyJson),
      standstill: standstill.map(standstillJson),
    };
    const note = `Medians of ${runs} runs; broken, doubled and lost of all of them together; worst and least of them`;
    const seconds = (performance.now() - start) / 1_000;
    return reportOf(
      'pacing',
      { quick, seconds, versions: { node: process.versions.node, redis } },
      { tables: tablesOf(results, sizes), what: note, json: { runs, sizes, ...results } },
    );
  });
}

function tablesOf(
  {
    flood,
    distance,
    many,
    standstill,
  }: Record<'flood' | 'distance', FloodJson[]> & {
    many: ManyJson[];
    standstill: StandstillJson[];
  },
  sizes: Sizes,
): Table[] {
  const { busy, others } = sizes.flood;
  return [
    floodTable(flood, `${busy} to one among ${wholeOf(others)} to others, gap 250 ms`),
    tookTable(flood, 'the same: a due pass, taken to arrived'),
    distanceTable(distance, others),
    manyTable(many, `${sizes.many.each} to each of ${wholeOf(sizes.many.recipients)}`),
    standstillTable(standstill, 'all workers stopped for 1.5 s, gap 2 s'),
  ].filter((table) => table.length > 1);
}

function floodName({ concurrency, eachWayMs, warm }: rows.FloodCase): string {
  return `${concurrency} at once, Redis ${eachWayMs > 0 ? `${eachWayMs} ms away` : 'direct'}, ${warm ? 'warm' : 'cold'}`;
}

function manyName({ gapMs, how }: rows.ManyCase): string {
  return `gap ${gapMs} ms, ${how === 'producer' ? 'with priorities' : 'without priorities'}`;
}

function standstillName({ recipients, each, concurrency }: rows.StandstillSize): string {
  return `${wholeOf(recipients)} x ${each}, ${concurrency} at once`;
}

/** What a run did not measure, such as the wait of nobody, is left out. */
function measuredOf<Figures>(runs: readonly Figures[], figure: (run: Figures) => number): number[] {
  return runs.map(figure).filter((value) => !Number.isNaN(value));
}

/** The median over the runs of one figure. */
function median<Figures>(runs: readonly Figures[], figure: (run: Figures) => number, digits = 3): number {
  return round(quantile(measuredOf(runs, figure), 0.5), digits);
}

function worst<Figures>(runs: readonly Figures[], figure: (run: Figures) => number, digits = 3): number {
  return round(quantile(measuredOf(runs, figure), 1), digits);
}

/** What every row has. */
function commonJson(runs: readonly rows.RowFigures[]) {
  const total = (figure: (run: rows.RowFigures) => number): number => runs.reduce((all, each) => all + figure(each), 0);
  return {
    passes: median(runs, ({ passes }) => passes),
    passesWorst: worst(runs, ({ passesWorst }) => passesWorst),
    leastGapMs: round(Math.min(...runs.map(({ leastGapMs }) => leastGapMs)), 1),
    violations: total(({ violations }) => violations),
    duplicates: total(({ duplicates }) => duplicates),
    lost: total(({ lost }) => lost),
    longestStallMs: worst(runs, ({ stallMs }) => stallMs, 0),
    wokenP50Ms: median(runs, ({ woken }) => woken.p50, 1),
    wokenP99Ms: median(runs, ({ woken }) => woken.p99, 1),
    tooLate: total(({ tooLate }) => tooLate),
  };
}

function spreadJson<Figures>(runs: readonly Figures[], figure: (run: Figures) => Spread) {
  return {
    p50: median(runs, (each) => figure(each).p50),
    p99: median(runs, (each) => figure(each).p99),
    worst: worst(runs, (each) => figure(each).worst),
  };
}

type FloodJson = ReturnType<typeof floodJson>;

function floodJson({ of, runs }: Result<rows.FloodCase, rows.FloodFigures>) {
  const took = runs.flatMap((each) => each.took);
  // A worker is busiest while the others' alerts are on their way.
  const inFlood = runs.flatMap((each) => each.took.filter(({ arrivedAt }) => arrivedAt < each.othersEndAt));
  return {
    ...of,
    ratio: median(runs, ({ ratio }) => ratio),
    ratioWorst: worst(runs, ({ ratio }) => ratio),
    ...commonJson(runs),
    wakeUps: median(runs, ({ wakeUps }) => wakeUps),
    lateToleranceMs: runs[0]?.lateToleranceMs ?? null,
    othersMs: median(runs, ({ othersMs }) => othersMs, 0),
    took: {
      passes: took.length,
      allMs: rounded(spreadOf(took.map(({ allMs }) => allMs)), 1),
      ownMs: rounded(spreadOf(took.map(({ ownMs }) => ownMs)), 1),
      passesInFlood: inFlood.length,
      ownMsInFlood: rounded(spreadOf(inFlood.map(({ ownMs }) => ownMs)), 1),
    },
  };
}

function floodTable(results: readonly FloodJson[], title: string): Table {
  return [
    [title, 'x ideal', 'worst', 'passes', 'worst', 'least gap', 'broken', 'lost', 'woken p50', 'p99', 'too late'],
    ...results.map((each) => [
      floodName(each),
      each.ratio.toFixed(3),
      each.ratioWorst.toFixed(3),
      each.passes.toFixed(2),
      String(each.passesWorst),
      `${each.leastGapMs.toFixed(0)} ms`,
      String(each.violations),
      String(each.lost + each.duplicates),
      ms(each.wokenP50Ms),
      ms(each.wokenP99Ms),
      String(each.tooLate),
    ]),
  ];
}

/** The flood of the others is what the workers can deliver. */
function distanceTable(results: readonly FloodJson[], others: number): Table {
  return [
    ['the flood by the distance of Redis', 'to others a second', 'woken p50', 'p99', 'too late', 'broken', 'lost'],
    ...results.map((each) => [
      floodName(each),
      (others / (each.othersMs / 1_000)).toFixed(0),
      ms(each.wokenP50Ms),
      ms(each.wokenP99Ms),
      String(each.tooLate),
      String(each.violations),
      String(each.lost + each.duplicates),
    ]),
  ];
}

function tookTable(results: readonly FloodJson[], title: string): Table {
  return [
    [title, 'passes', 'p50', 'p99', 'own p50', 'own p99', 'in the flood', 'own p50', 'own worst'],
    ...results.map(({ took, ...of }) => [
      floodName(of),
      String(took.passes),
      ms(took.allMs.p50),
      ms(took.allMs.p99),
      ms(took.ownMs.p50),
      ms(took.ownMs.p99),
      String(took.passesInFlood),
      ms(took.ownMsInFlood.p50),
      ms(took.ownMsInFlood.worst),
    ]),
  ];
}

type ManyJson = ReturnType<typeof manyJson>;

function manyJson({ of, runs }: Result<rows.ManyCase, rows.ManyFigures>) {
  return {
    ...of,
    ratio: spreadJson(runs, ({ ratios }) => ratios),
    ...commonJson(runs),
    wallSeconds: median(runs, ({ seconds }) => seconds, 1),
  };
}

function manyTable(results: readonly ManyJson[], title: string): Table {
  return [
    [title, 'x ideal p50', 'p99', 'worst', 'passes', 'worst', 'broken', 'lost', 'woken p50', 'p99', 'took'],
    ...results.map((each) => [
      manyName(each),
      each.ratio.p50.toFixed(3),
      each.ratio.p99.toFixed(3),
      each.ratio.worst.toFixed(3),
      each.passes.toFixed(2),
      String(each.passesWorst),
      String(each.violations),
      String(each.lost + each.duplicates),
      ms(each.wokenP50Ms),
      ms(each.wokenP99Ms),
      `${each.wallSeconds.toFixed(1)} s`,
    ]),
  ];
}

type StandstillJson = ReturnType<typeof standstillJson>;

function standstillJson({ of, runs }: Result<rows.StandstillSize, rows.StandstillFigures>) {
  const waitsOf = (priority: keyof rows.StandstillFigures['newcomers']) => {
    const spread = (phase: rows.Phase) =>
      rounded(
        spreadJson(runs, ({ newcomers }) => newcomers[priority][phase]),
        1,
      );
    return {
      before: spread('before'),
      stopped: spread('stopped'),
      behind: spread('behind'),
      after: spread('after'),
    };
  };
  return {
    ...of,
    ...commonJson(runs),
    ratio: spreadJson(runs, ({ ratios }) => ratios),
    waiting: median(runs, ({ waiting }) => waiting),
    doneBefore: median(runs, ({ doneBefore }) => doneBefore),
    behindMs: median(runs, ({ behindMs }) => behindMs, 0),
    behindWorstMs: worst(runs, ({ behindMs }) => behindMs, 0),
    latestMs: median(runs, ({ latestMs }) => latestMs, 0),
    newcomersMs: waitsOf('normal'),
    highNewcomersMs: waitsOf('high'),
    newcomersLost: runs.reduce((all, { newcomersLost }) => all + newcomersLost, 0),
    wallSeconds: median(runs, ({ seconds }) => seconds, 1),
  };
}

function standstillTable(results: readonly StandstillJson[], title: string): Table {
  const spread = ({ p50, p99, worst: most }: Spread): string => `${ms(p50)}, ${ms(p99)}, ${ms(most)}`;
  const line = (name: string, cell: (each: StandstillJson) => string): string[] => [name, ...results.map(cell)];
  const waitLines = (who: string, of: (each: StandstillJson) => StandstillJson['newcomersMs']): string[][] => [
    line(`${who} waits, before: p50, p99, worst`, (each) => spread(of(each).before)),
    line('enqueued while the workers stood', (each) => spread(of(each).stopped)),
    line('while lines were behind', (each) => spread(of(each).behind)),
    line('afterwards', (each) => spread(of(each).after)),
  ];
  if (results.length === 0) return [];
  return [
    line(title, standstillName),
    line('passes of a notification, and the most of one', (each) => `${each.passes.toFixed(2)}, ${each.passesWorst}`),
    line('gaps broken; lost or doubled', (each) => `${each.violations}; ${each.lost + each.duplicates}`),
    line('waiting when the workers stopped', (each) => wholeOf(each.waiting)),
    line('accepted before the stop, of those due', (each) => `${(100 * each.doneBefore).toFixed(0)} %`),
    line('behind after the stop, and the longest', (each) => `${ms(each.behindMs)}, ${ms(each.behindWorstMs)}`),
    line('x ideal: p50, p99, worst', ({ ratio }) =>
      [ratio.p50, ratio.p99, ratio.worst].map((value) => value.toFixed(3)).join(', '),
    ),
    line('the latest, after its instant', (each) => ms(each.latestMs)),
    ...waitLines('a newcomer', ({ newcomersMs }) => newcomersMs),
    ...waitLines('one of high priority', ({ highNewcomersMs }) => highNewcomersMs),
  ];
}

function ms(value: number): string {
  return Number.isNaN(value) ? '-' : `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}
