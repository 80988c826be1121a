import { readFile } from 'node:fs/promises';
import type { HeapProfiler, Profiler, Runtime } from 'node:inspector';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { withSurroundings } from '../redis.ts';
import { middleOf, reportOf, round, wholeOf, type Report, type SuiteOptions, type Table } from '../suite.ts';
import { startCounters } from './providers.ts';
import { CASES, runOnce, type Load, type MeasuredWorker, type Run, type RunOptions } from './run.ts';

// What a job costs, part by part: processor time and memory, of the plain worker and of pushpacer's.

type BudgetSide = 'plain' | 'pushpacer';

/** Amounts by part of the program, or by function. */
type Shares = ReadonlyMap<string, number>;

interface SideCosts {
  /** Processor time of a job in microseconds, from the runs that are not sampled: their median. */
  readonly micros: number;
  /** Microseconds of a job, by part. */
  readonly time: Shares;
  /** Allocated bytes of a job, by part. */
  readonly bytes: Shares;
  /** The functions that take the most time, and those that allocate the most: microseconds and bytes of a job. */
  readonly slowest: Shares;
  readonly largest: Shares;
}

/**
 * Runs both workers in turn, without sampling. Then runs each worker once while its processor time is sampled, and once while
 * its allocations are sampled. Sampling makes a run slower, so of the sampled processor time only the shares count: they divide
 * the processor time of the runs without sampling.
 */
export function measureBudget(
  { quick, runs, say }: Pick<SuiteOptions, 'quick' | 'runs' | 'say'>,
  load: Load,
): Promise<Report> {
  return withSurroundings(say, async (surroundings, redis) => {
    const start = performance.now();
    const found: { readonly name: string; readonly costs: Readonly<Record<BudgetSide, SideCosts>> }[] = [];
    for (const measured of CASES.filter(({ suffix }) => suffix === '').slice(0, quick ? 1 : undefined)) {
      say(`${measured.name}: ${runs} pairs of runs with ${load.jobs} jobs each, and four that are sampled`);
      const counters = await startCounters(measured.latency);
      const base = { case: measured, counters, ...surroundings, ...load, counted: 0 };
      try {
        const plain: Run[] = [];
        const pushpacer: Run[] = [];
        for (let pair = 0; pair < runs; pair += 1) {
          plain.push(await runOnce({ ...base, side: 'plain' }));
          pushpacer.push(await runOnce({ ...base, side: 'pushpacer' }));
        }
        const costs = {
          plain: await costsOf(plain, { ...base, side: 'plain' }),
          pushpacer: await costsOf(pushpacer, { ...base, side: 'pushpacer' }),
        };
        found.push({ name: measured.name, costs });
      } finally {
        await counters.close();
      }
    }
    const seconds = (performance.now() - start) / 1_000;
    return reportOf(
      'throughput',
      { quick, seconds, versions: { node: process.versions.node, redis } },
      {
        tables: found.map(({ name, costs }) => tableOf(name, costs)),
        what: `${runs} pairs of ${load.jobs} jobs, and four sampled runs, for each table`,
        json: {
          jobs: load.jobs,
          cases: found.map(({ name, costs }) => ({ name, ...jsonOf(costs) })),
        },
      },
    );
  });
}

/** What a job allocates, of a run with samples of that: bytes. */
export async function allocatedPerJob(options: RunOptions): Promise<number> {
  const allocations = (await sampled('memory', options)) as HeapProfiler.SamplingHeapProfile;
  return sumOf(allocationsOf(allocations, partOf)) / options.jobs;
}

async function costsOf(unsampled: readonly Run[], options: RunOptions): Promise<SideCosts> {
  const micros = 1_000 * middleOf(unsampled.map(({ cpuMsPerJob }) => cpuMsPerJob)).median;
  const times = (await sampled('time', options)) as Profiler.Profile;
  const allocations = (await sampled('memory', options)) as HeapProfiler.SamplingHeapProfile;
  const [time, bytes] = [timesOf(times, partOf), allocationsOf(allocations, partOf)];
  const [ofTime, ofBytes] = [micros / sumOf(time), 1 / options.jobs];
  return {
    micros,
    time: scaled(time, ofTime),
    bytes: scaled(bytes, ofBytes),
    slowest: mostOf(scaled(timesOf(times, placeOf), ofTime)),
    largest: mostOf(scaled(allocationsOf(allocations, placeOf), ofBytes)),
  };
}

const SAMPLER = new URL('./sampler.ts', import.meta.url).href;
const WRITTEN_WITHIN_MS = 20_000;
const POLL_MS = 20;

async function sampled(what: 'time' | 'memory', options: RunOptions): Promise<unknown> {
  const file = join(options.dir, `${options.side}-${options.case.platform}-${what}.json`);
  let text = '';
  const signal = ({ pid }: MeasuredWorker): void => void process.kill(pid, 'SIGUSR2');
  await runOnce({
    ...options,
    env: { ...options.env, BUDGET_FILE: file, BUDGET_SAMPLES: what },
    nodeFlags: ['--import', SAMPLER],
    before: async (worker) => {
      signal(worker);
      await written(`${file}.begun`);
    },
    after: async (worker) => {
      signal(worker);
      text = await written(file);
    },
  });
  return JSON.parse(text);
}

/**
 * Waits for a file that another process writes, and answers its content. The file is never there with only a part of its text.
 */
async function written(file: string): Promise<string> {
  const deadline = performance.now() + WRITTEN_WITHIN_MS;
  for (;;) {
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text !== undefined) return text;
    if (performance.now() > deadline)
      throw new Error(`${file}: expected samples within ${WRITTEN_WITHIN_MS / 1_000} s`);
    await sleep(POLL_MS);
  }
}

/** Gives the name under which a function counts: its own, or that of its part of the program. */
type NameOf = (frame: Pick<Runtime.CallFrame, 'url' | 'functionName' | 'lineNumber'>) => string;

/** Microseconds, without the time in which the process had nothing to do. */
function timesOf({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile, nameOf: NameOf): Shares {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
  const times = new Map<string, number>();
  for (const [index, id] of samples.entries()) add(times, names.get(id) ?? NATIVE, timeDeltas[index] ?? 0);
  times.delete(IDLE);
  return times;
}

function allocationsOf({ head }: HeapProfiler.SamplingHeapProfile, nameOf: NameOf): Shares {
  const bytes = new Map<string, number>();
  const visit = (node: HeapProfiler.SamplingHeapProfileNode): void => {
    add(bytes, nameOf(node.callFrame), node.selfSize);
    for (const child of node.children) visit(child);
  };
  visit(head);
  bytes.delete(IDLE);
  return bytes;
}

const IDLE = '(idle)';
const NATIVE = 'native code, kernel';
const GARBAGE = 'garbage collector';
/** Packages that have a row of their own. */
const PACKAGES: ReadonlySet<string> = new Set(['bullmq', 'ioredis', 'msgpackr', 'pino', 'prom-client', 'zod']);

/** `src/delivery`, `bullmq`, `node`: the part of the program that a function belongs to. */
export function partOf({ url, functionName }: { readonly url: string; readonly functionName: string }): string {
  if (functionName === IDLE || url === 'node:inspector') return IDLE; // the profiler is not the worker's
  if (functionName === '(garbage collector)') return GARBAGE;
  if (url.startsWith('node:')) return 'node';
  const name = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*\/node_modules\/)/.exec(url)?.[1];
  if (name !== undefined) return PACKAGES.has(name) ? name : 'other packages';
  return /\/(src\/[^/]+|workers|bench)\/[^/]*/.exec(url)?.[1] ?? NATIVE;
}

/** `src/delivery/deliver.ts:108 pass` */
function placeOf({ url, functionName, lineNumber }: Parameters<NameOf>[0]): string {
  if (partOf({ url, functionName }) === IDLE) return IDLE;
  if (url === '') return functionName;
  const path = url.startsWith('node:') ? url : (/(?:src|workers|bench|node_modules)\/.*$/.exec(url)?.[0] ?? url);
  return `${path}:${lineNumber + 1} ${functionName}`;
}

function add(shares: Map<string, number>, part: string, value: number): void {
  shares.set(part, (shares.get(part) ?? 0) + value);
}

function scaled(shares: Shares, by: number): Shares {
  return new Map([...shares].map(([part, value]) => [part, value * by]));
}

/** How many functions are named. */
const MOST_NAMED = 30;

function mostOf(shares: Shares): Shares {
  return new Map([...shares].toSorted(([, a], [, b]) => b - a).slice(0, MOST_NAMED));
}

function sumOf(shares: Shares): number {
  return [...shares.values()].reduce((sum, value) => sum + value, 0);
}

function tableOf(name: string, { plain, pushpacer }: Readonly<Record<BudgetSide, SideCosts>>): Table {
  const parts = [...new Set([...pushpacer.time.keys(), ...plain.time.keys(), ...pushpacer.bytes.keys()])];
  const costs = (of: (side: SideCosts) => number): [string, string] => [wholeOf(of(plain)), wholeOf(of(pushpacer))];
  const rows = parts
    .map((part) => ({ part, micros: pushpacer.time.get(part) ?? 0, bytes: pushpacer.bytes.get(part) ?? 0 }))
    .filter(({ micros, bytes }) => micros >= 0.5 || bytes >= 50)
    .toSorted((a, b) => b.micros - a.micros);
  return [
    [name, 'us/job, plain', 'us/job, ours', 'bytes/job, plain', 'bytes/job, ours'],
    ['all', ...costs(({ micros }) => micros), ...costs(({ bytes }) => sumOf(bytes))],
    ...rows.map(({ part }) => [
      part,
      ...costs(({ time }) => time.get(part) ?? 0),
      ...costs(({ bytes }) => bytes.get(part) ?? 0),
    ]),
  ];
}

function jsonOf(costs: Readonly<Record<BudgetSide, SideCosts>>) {
  const of = ({ micros, time, bytes, slowest, largest }: SideCosts) => ({
    microsPerJob: round(micros, 1),
    bytesPerJob: Math.round(sumOf(bytes)),
    micros: roundedOf(time, 1),
    bytes: roundedOf(bytes, 0),
    slowest: roundedOf(slowest, 1),
    largest: roundedOf(largest, 0),
  });
  return { plain: of(costs.plain), pushpacer: of(costs.pushpacer) };
}

function roundedOf(shares: Shares, digits: number): Record<string, number> {
  return Object.fromEntries([...shares].map(([part, value]) => [part, round(value, digits)]));
}
