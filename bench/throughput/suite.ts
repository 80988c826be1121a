import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createProgress } from '../../src/terminal/progress.ts';
import { startReplica, withSurroundings, type CommandStats, type Surroundings } from '../redis.ts';
import {
  middleOf,
  printed,
  reportOf,
  round,
  rounded,
  wholeOf,
  type Report,
  type Suite,
  type SuiteOptions,
  type Table,
} from '../suite.ts';
import { allocatedPerJob, measureBudget } from './budget.ts';
import { startCollector } from './collector.ts';
import { countsFault, countsTable, readCounts, type Counts } from './counts.ts';
import { startCounters } from './providers.ts';
import { CASES, runOnce, type Case, type Load, type Run, type RunOptions, type Side } from './run.ts';

export const throughputSuite: Suite = {
  name: 'throughput',
  description: 'jobs a second of one worker process, beside a plain BullMQ worker that sends the same requests',
  defaultRuns: (quick) => (quick ? 2 : 5),
  rows: ['plain', 'observed', 'replicas'],
  run: (options) => measure(options, loadOf(options.quick)),
  profile: (dir, { quick, say }) => profile(dir, loadOf(quick), say),
  budget: (options) => measureBudget(options, loadOf(options.quick)),
};

/**
 * A run takes a few seconds; with answers that take 40 ms, 100 jobs at once are 2,000 a second at most. The warm-up is long enough
 * for V8 to compile the code of a job, which takes some 4,000 jobs.
 */
function loadOf(quick: boolean): Load {
  return { jobs: quick ? 4_000 : 8_000, warmUp: 4_000, counted: 2_000 };
}

type MeasureOptions = Pick<SuiteOptions, 'quick' | 'runs' | 'row' | 'say'>;

/** What is compared with what, and how both are called. */
interface Comparison {
  readonly base: Side;
  readonly side: Side;
  readonly names: readonly [base: string, side: string, ratio: string];
  /** What ends the names of the ratios in the JSON. */
  readonly versus: string;
}

/** By the row. Without a row it is the first. */
const COMPARISONS: Readonly<Record<string, Comparison>> = {
  plain: { base: 'plain', side: 'pushpacer', names: ['plain BullMQ', 'pushpacer', 'x plain'], versus: 'VsPlain' },
  observed: { base: 'pushpacer', side: 'observed', names: ['all off', 'all on', 'x off'], versus: 'VsOff' },
  // Both with a replica: the one waits for it (REDIS_WAIT_REPLICAS=1).
  replicas: { base: 'pushpacer', side: 'replicas', names: ['no wait', 'waits', 'x no wait'], versus: 'VsNoWait' },
};
const PLAIN_ROW = 'plain';

/** Every case in turn, with a Redis of its own. */
export function measure(options: MeasureOptions, load: Load): Promise<Report> {
  const { row = PLAIN_ROW } = options;
  const comparison = COMPARISONS[row];
  if (comparison === undefined) throw new Error(`no row ${row}`); // bench.ts checks it
  return withSurroundings(options.say, async (surroundings, redis) => {
    const start = performance.now();
    const cases: CaseResult[] = [];
    for (const measured of CASES) cases.push(await measureCase(measured, comparison, surroundings, options, load));
    const { quick, runs: pairs } = options;
    // A quick run has no time to measure, but can count.
    const counts = quick && row === PLAIN_ROW ? await countsOf(cases, surroundings, load) : undefined;
    const expected = counts && (await readCounts());
    const failure = counts && expected && countsFault(counts, expected);
    const seconds = (performance.now() - start) / 1_000;
    const report = reportOf(
      'throughput',
      { quick, seconds, versions: { node: process.versions.node, redis } },
      {
        tables: [tableOf(cases, comparison), ...(counts && expected ? [countsTable(counts, expected)] : [])],
        what: `${pairs} pairs of ${load.jobs} jobs`,
        json: {
          ...{ pairs, jobs: load.jobs, row, ...jsonOf(cases, comparison, load.jobs) },
          ...(counts && { counts: rounded(counts, 2) }),
        },
      },
    );
    return { ...report, ...(failure !== undefined && { failure }) };
  });
}

/** Of our worker in the first case. */
async function countsOf([first]: readonly CaseResult[], surroundings: Surroundings, load: Load): Promise<Counts> {
  if (first === undefined) throw new Error('no case was measured');
  const counters = await startCounters(first.case.latency);
  const options = { case: first.case, side: 'pushpacer', counters, ...surroundings, ...load, counted: 0 } as const;
  const allocatedBytes = await allocatedPerJob(options).finally(() => counters.close());
  const [run] = first.pushpacer;
  const { commandsPerJob: commands = NaN, redisBytesPerJob: redisBytes = NaN } = run ?? {};
  return { commands, redisBytes, allocatedBytes };
}

/** The runs of one case: those at the same place are a pair. In the other rows `plain` is pushpacer too. */
interface CaseResult {
  readonly case: Case;
  readonly plain: readonly Run[];
  readonly pushpacer: readonly Run[];
}

/** Runs both sides in turn, so that changes of the machine's load affect both alike. */
async function measureCase(
  measured: Case,
  { base, side }: Comparison,
  surroundings: Surroundings,
  { runs: pairs, say }: MeasureOptions,
  load: Load,
): Promise<CaseResult> {
  say(`${measured.name}: ${pairs} pairs of runs with ${load.jobs} jobs each`);
  const counters = await startCounters(measured.latency);
  const collector = side === 'observed' ? await startCollector(say) : undefined;
  const replica = side === 'replicas' ? await startReplica(surroundings.redisUrl) : undefined;
  const env = collector?.env ?? (replica && { REDIS_WAIT_REPLICAS: '1' });
  const progress = createProgress('runs', 2 * pairs);
  const result = { case: measured, plain: [] as Run[], pushpacer: [] as Run[] };
  try {
    for (let pair = 0; pair < pairs; pair += 1) {
      // The commands of a job are the same each time: one count is enough.
      const counted = pair === 0 ? load.counted : 0;
      const options: Omit<RunOptions, 'side'> = { case: measured, counters, ...surroundings, ...load, counted };
      result.plain.push(await runOnce({ ...options, side: base }));
      progress.update(2 * pair + 1);
      result.pushpacer.push(await runOnce({ ...options, side, ...(env && { env }) }));
      progress.update(2 * pair + 2);
    }
    if ((await collector?.bytes()) === 0) throw new Error('expected spans at the collector, found none');
    return result;
  } finally {
    progress.stop();
    await collector?.close();
    await replica?.close();
    await counters.close();
  }
}

export function figuresOf({ plain, pushpacer }: Omit<CaseResult, 'case'>) {
  const ratios = pushpacer.map(({ perSecond }, pair) => perSecond / (plain[pair]?.perSecond ?? NaN));
  const median = (runs: readonly Run[], figure: 'perSecond' | 'providersBusy' | 'cpuMsPerJob'): number =>
    middleOf(runs.map((run) => run[figure])).median;
  return {
    /** Pushpacer's rate over the plain worker's: the median of the pairs, the least and the most. */
    ratio: middleOf(ratios).median,
    least: Math.min(...ratios),
    most: Math.max(...ratios),
    /** Jobs a second: medians. */
    plainPerSecond: median(plain, 'perSecond'),
    perSecond: median(pushpacer, 'perSecond'),
    /** Processor time of the worker's process, in milliseconds; medians. Other load on the machine hardly changes it. */
    plainCpuMsPerJob: median(plain, 'cpuMsPerJob'),
    cpuMsPerJob: median(pushpacer, 'cpuMsPerJob'),
    /** Commands that the worker sends to Redis for each job. */
    plainCommands: plain[0]?.commandsPerJob ?? NaN,
    commands: pushpacer[0]?.commandsPerJob ?? NaN,
    /** How often it waits for replicas, for each job. */
    plainWaits: plain[0]?.waitsPerJob ?? NaN,
    waits: pushpacer[0]?.waitsPerJob ?? NaN,
    /** Processor time of the providers' process over wall time: medians. */
    plainProvidersBusy: median(plain, 'providersBusy'),
    providersBusy: median(pushpacer, 'providersBusy'),
  };
}

type Figures = ReturnType<typeof figuresOf>;

function tableOf(cases: readonly CaseResult[], { names: [base, side, ratio] }: Comparison): Table {
  const [short = base] = base.split(' BullMQ');
  return [
    ['', `${base}, jobs/s`, `${side}, jobs/s`, ratio, 'least to most', 'CPU ms/job', 'commands/job'],
    ...cases.map((result) => {
      const figures = figuresOf(result);
      return [
        result.case.name,
        wholeOf(figures.plainPerSecond),
        wholeOf(figures.perSecond),
        figures.ratio.toFixed(2),
        `${figures.least.toFixed(2)} to ${figures.most.toFixed(2)}`,
        `${figures.cpuMsPerJob.toFixed(2)} (${short} ${figures.plainCpuMsPerJob.toFixed(2)})`,
        `${figures.commands.toFixed(2)} (${short} ${figures.plainCommands.toFixed(2)})`,
      ];
    }),
  ];
}

/** `redisCommandsPerJob` is that of the first case, APNs without latency. */
function jsonOf(cases: readonly CaseResult[], { versus }: Comparison, jobs: number): Report['json'] {
  const all = cases.map((result) => ({ ...result.case, figures: figuresOf(result) }));
  const runs = cases.flatMap(({ plain, pushpacer }) => [...plain, ...pushpacer]);
  /** `apnsPlainPerSecond40ms` */
  const named = (what: string, value: (figures: Figures) => unknown): Record<string, unknown> =>
    Object.fromEntries(all.map(({ platform, suffix, figures }) => [`${platform}${what}${suffix}`, value(figures)]));
  const first = all[0]?.figures;
  return {
    ...named(versus, ({ ratio }) => round(ratio, 3)),
    ...named('PerSecond', ({ perSecond }) => Math.round(perSecond)),
    ...named('PlainPerSecond', ({ plainPerSecond }) => Math.round(plainPerSecond)),
    redisCommandsPerJob: round(first?.commands ?? NaN, 2),
    plainRedisCommandsPerJob: round(first?.plainCommands ?? NaN, 2),
    alertsEnqueued: runs.length * jobs,
    alertsAccepted: runs.reduce((sum, { accepted }) => sum + accepted, 0),
    spread: named(versus, ({ least, most }) => [round(least, 3), round(most, 3)]),
    cases: all.map(({ name, figures }) => ({ name, ...rounded(figures, 3) })),
  };
}

/** One run of pushpacer's worker in each case under node's `--cpu-prof`; the profiles lie in `dir`, one a case. */
function profile(dir: string, load: Load, say: (line: string) => void): Promise<Report> {
  return withSurroundings(say, async (surroundings) => {
    await mkdir(dir, { recursive: true });
    const tables: Table[] = [];
    const cases: object[] = [];
    for (const measured of CASES) {
      const file = `${measured.platform}${measured.suffix}.cpuprofile`;
      const nodeFlags = ['--cpu-prof', `--cpu-prof-dir=${resolve(dir)}`, `--cpu-prof-name=${file}`];
      say(`${measured.name}: ${load.jobs} jobs under the profiler`);
      const counters = await startCounters(measured.latency);
      const run = await runOnce({ case: measured, side: 'pushpacer', counters, ...surroundings, ...load, nodeFlags })
        // Only now, because the profile is written when the worker ends.
        .finally(() => counters.close());
      const { commands, perSecond, commandsPerJob } = run;
      tables.push(
        commandTable(`${measured.name}: ${wholeOf(perSecond)} jobs/s under the profiler`, commands, load.jobs),
      );
      cases.push({
        name: measured.name,
        file: join(dir, file),
        perSecond: Math.round(perSecond),
        redisCommandsPerJob: round(commandsPerJob ?? NaN, 2),
        commands: Object.fromEntries(commands),
      });
    }
    return {
      json: { suite: 'throughput', jobs: load.jobs, cases },
      ...printed(tables, `Profiles in ${dir}, one a case; what scripts call in Redis is counted as well.`),
    };
  });
}

function commandTable(title: string, commands: CommandStats, jobs: number): Table {
  return [
    [title, 'calls/job', 'us in Redis/job'],
    ...[...commands].map(([name, { calls, micros }]) => [name, (calls / jobs).toFixed(2), (micros / jobs).toFixed(1)]),
  ];
}
