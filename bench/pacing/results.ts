import { round } from '../limiter/results.ts';
import { asMarkdown, asText, type Table } from '../limiter/table.ts';
import type { Report } from '../suite.ts';
import { wholeOf } from '../throughput/table.ts';
import { quantile, spreadOf, type Kept, type Spread } from './figures.ts';
import type * as rows from './rows.ts';

export interface Sizes {
  readonly flood: rows.FloodSize;
  readonly many: rows.ManySize;
  readonly standstills: readonly rows.ManySize[];
}

export interface FloodCase {
  readonly concurrency: number;
  readonly proxied: boolean;
  readonly warm: boolean;
}
export interface ManyCase {
  readonly gapMs: number;
  readonly how: 'producer' | 'plain';
}

/** One case, and what each of its runs gave. */
export interface Result<Case, Figures> {
  readonly of: Case;
  readonly runs: readonly Figures[];
}

export interface Results {
  readonly flood: readonly Result<FloodCase, rows.FloodFigures>[];
  readonly many: readonly Result<ManyCase, rows.ManyFigures>[];
  readonly standstill: readonly Result<rows.ManySize, rows.StandstillFigures>[];
}

export function floodName({ concurrency, proxied, warm }: FloodCase): string {
  return `${concurrency} at once, Redis ${proxied ? 'behind the relay' : 'direct'}, ${warm ? 'warm' : 'cold'}`;
}

export function manyName({ gapMs, how }: ManyCase): string {
  return `gap ${gapMs} ms, ${how === 'producer' ? 'with priorities' : 'without priorities'}`;
}

export function standstillName({ recipients, each }: rows.ManySize): string {
  return `${wholeOf(recipients)} x ${each}`;
}

export interface Facts {
  readonly sizes: Sizes;
  readonly runs: number;
  readonly quick: boolean;
  readonly seconds: number;
  readonly versions: Readonly<Record<string, string>>;
}

export function reportOf(results: Results, { sizes, runs, quick, seconds, versions }: Facts): Report {
  const json = {
    suite: 'pacing',
    quick,
    runs,
    seconds: round(seconds, 1),
    sizes,
    flood: results.flood.map(floodJson),
    many: results.many.map(manyJson),
    standstill: results.standstill.map(standstillJson),
    versions,
  };
  const list = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const note = `Medians of ${runs} runs; broken, doubled and lost of all of them together; worst and least of them.`;
  const foot = `${quick ? 'A quick check, no measurement. ' : ''}${note} ${list.join(', ')}; ${seconds.toFixed(0)} s.`;
  const { flood, many } = sizes;
  const tables: Table[] = [
    floodTable(json.flood, `${flood.busy} to one among ${wholeOf(flood.others)} to others, gap 250 ms`),
    tookTable(json.flood, 'the same: a due pass, taken to arrived'),
    manyTable(json.many, `${many.each} to each of ${wholeOf(many.recipients)}`),
    standstillTable(json.standstill, 'all workers stopped for 1.5 s, gap 2 s'),
  ].filter((table) => table.length > 1);
  return {
    json,
    text: [...tables.map(asText), foot].join('\n\n'),
    markdown: [...tables.map(asMarkdown), foot].join('\n\n'),
  };
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

function keptJson(runs: readonly (Kept & { readonly stallMs: number })[]) {
  const total = (figure: (run: Kept) => number): number => runs.reduce((all, each) => all + figure(each), 0);
  return {
    leastGapMs: round(Math.min(...runs.map(({ leastGapMs }) => leastGapMs)), 1),
    violations: total(({ violations }) => violations),
    duplicates: total(({ duplicates }) => duplicates),
    lost: total(({ lost }) => lost),
    longestStallMs: worst(runs, ({ stallMs }) => stallMs, 0),
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

function floodJson({ of, runs }: Result<FloodCase, rows.FloodFigures>) {
  const took = runs.flatMap((each) => each.took);
  // A worker is busiest while the others' alerts are on their way.
  const inFlood = runs.flatMap((each) => each.took.filter(({ arrivedAt }) => arrivedAt < each.othersEndAt));
  return {
    ...of,
    ratio: median(runs, ({ ratio }) => ratio),
    ratioWorst: worst(runs, ({ ratio }) => ratio),
    passes: median(runs, ({ passes }) => passes),
    passesWorst: worst(runs, ({ passesWorst }) => passesWorst),
    ...keptJson(runs),
    wakeUps: median(runs, ({ wakeUps }) => wakeUps),
    wokenP50Ms: median(runs, ({ woken }) => woken.p50, 1),
    wokenP99Ms: median(runs, ({ woken }) => woken.p99, 1),
    tooLate: runs.reduce((all, { tooLate }) => all + tooLate, 0),
    lateToleranceMs: runs[0]?.lateToleranceMs ?? null,
    othersMs: median(runs, ({ othersMs }) => othersMs, 0),
    took: {
      passes: took.length,
      allMs: rounded(spreadOf(took.map(({ allMs }) => allMs))),
      ownMs: rounded(spreadOf(took.map(({ ownMs }) => ownMs))),
      passesInFlood: inFlood.length,
      ownMsInFlood: rounded(spreadOf(inFlood.map(({ ownMs }) => ownMs))),
    },
  };
}

function rounded({ p50, p99, worst: most }: Spread): Spread {
  return { p50: round(p50, 1), p99: round(p99, 1), worst: round(most, 1) };
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

function manyJson({ of, runs }: Result<ManyCase, rows.ManyFigures>) {
  return {
    ...of,
    ratio: spreadJson(runs, ({ ratios }) => ratios),
    passes: median(runs, ({ passes }) => passes),
    passesWorst: worst(runs, ({ passesWorst }) => passesWorst),
    ...keptJson(runs),
    wokenP50Ms: median(runs, ({ woken }) => woken.p50, 1),
    wokenP99Ms: median(runs, ({ woken }) => woken.p99, 1),
    tooLate: runs.reduce((all, { tooLate }) => all + tooLate, 0),
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

function standstillJson({ of, runs }: Result<rows.ManySize, rows.StandstillFigures>) {
  const newcomersMs = (phase: rows.Phase) => rounded(spreadJson(runs, ({ newcomers }) => newcomers[phase]));
  return {
    ...of,
    passes: median(runs, ({ passes }) => passes),
    passesWorst: worst(runs, ({ passesWorst }) => passesWorst),
    ...keptJson(runs),
    ratio: spreadJson(runs, ({ ratios }) => ratios),
    waiting: median(runs, ({ waiting }) => waiting),
    doneBefore: median(runs, ({ doneBefore }) => doneBefore),
    behindMs: median(runs, ({ behindMs }) => behindMs, 0),
    behindWorstMs: worst(runs, ({ behindMs }) => behindMs, 0),
    newcomersMs: {
      before: newcomersMs('before'),
      stopped: newcomersMs('stopped'),
      behind: newcomersMs('behind'),
      after: newcomersMs('after'),
    },
    newcomersLost: runs.reduce((all, { newcomersLost }) => all + newcomersLost, 0),
    wokenP50Ms: median(runs, ({ woken }) => woken.p50, 1),
    wokenP99Ms: median(runs, ({ woken }) => woken.p99, 1),
    wallSeconds: median(runs, ({ seconds }) => seconds, 1),
  };
}

function standstillTable(results: readonly StandstillJson[], title: string): Table {
  const spread = ({ p50, p99, worst: most }: Spread): string => `${ms(p50)}, ${ms(p99)}, ${ms(most)}`;
  const line = (name: string, cell: (each: StandstillJson) => string): string[] => [name, ...results.map(cell)];
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
    line('a newcomer waits, before: p50, p99, worst', (each) => spread(each.newcomersMs.before)),
    line('enqueued while the workers stood', (each) => spread(each.newcomersMs.stopped)),
    line('while lines were behind', (each) => spread(each.newcomersMs.behind)),
    line('afterwards', (each) => spread(each.newcomersMs.after)),
  ];
}

function ms(value: number): string {
  return Number.isNaN(value) ? '-' : `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}
