import type { Platform } from '../../src/domain/notification.ts';
import { middleOf } from '../limiter/paired.ts';
import { round } from '../limiter/results.ts';
import type { Case } from './case.ts';
import type { Run } from './run.ts';

/** The runs of one case: those at the same place are a pair. */
export interface CaseResult {
  readonly case: Case;
  readonly plain: readonly Run[];
  readonly pushpacer: readonly Run[];
}

export interface Results {
  readonly pairs: number;
  /** Measured jobs of each run. */
  readonly jobs: number;
  readonly seconds: number;
  readonly cases: readonly CaseResult[];
  readonly versions: Readonly<Record<string, string>>;
}

/** The figures of one case. */
export interface Figures {
  /** Pushpacer's rate over the plain worker's: the median of the pairs, the least and the most. */
  readonly ratio: number;
  readonly least: number;
  readonly most: number;
  /** Jobs a second: medians. */
  readonly plainPerSecond: number;
  readonly perSecond: number;
  /** Processor time of the worker's process, in milliseconds; medians. Other load on the machine hardly changes it. */
  readonly plainCpuMsPerJob: number;
  readonly cpuMsPerJob: number;
  /** Commands that the worker sends to Redis for each job. */
  readonly plainCommands: number;
  readonly commands: number;
  /** Processor time of the providers' process over wall time: medians. */
  readonly plainProvidersBusy: number;
  readonly providersBusy: number;
}

export function figuresOf({ plain, pushpacer }: CaseResult): Figures {
  const ratios = pushpacer.map(({ perSecond }, pair) => perSecond / (plain[pair]?.perSecond ?? NaN));
  return {
    ratio: middleOf(ratios).median,
    least: Math.min(...ratios),
    most: Math.max(...ratios),
    plainPerSecond: median(plain, 'perSecond'),
    perSecond: median(pushpacer, 'perSecond'),
    plainCpuMsPerJob: median(plain, 'cpuMsPerJob'),
    cpuMsPerJob: median(pushpacer, 'cpuMsPerJob'),
    plainCommands: plain[0]?.commandsPerJob ?? NaN,
    commands: pushpacer[0]?.commandsPerJob ?? NaN,
    plainProvidersBusy: median(plain, 'providersBusy'),
    providersBusy: median(pushpacer, 'providersBusy'),
  };
}

function median(runs: readonly Run[], figure: 'perSecond' | 'providersBusy' | 'cpuMsPerJob'): number {
  return middleOf(runs.map((run) => run[figure])).median;
}

/** The names that `--json` prints. `redisCommandsPerJob` is that of the first case, APNs without latency. */
export function jsonOf(results: Results, quick: boolean): Record<string, unknown> {
  const { pairs, jobs, seconds, cases, versions } = results;
  const all = cases.map((result) => ({ ...result.case, figures: figuresOf(result) }));
  const runs = cases.flatMap(({ plain, pushpacer }) => [...plain, ...pushpacer]);
  const named = (what: string, value: (figures: Figures) => unknown): Record<string, unknown> =>
    Object.fromEntries(all.map(({ platform, suffix, figures }) => [name(platform, what, suffix), value(figures)]));
  const first = all[0]?.figures;
  return {
    suite: 'throughput',
    quick,
    seconds: round(seconds, 1),
    pairs,
    jobs,
    ...named('VsPlain', ({ ratio }) => round(ratio, 3)),
    ...named('PerSecond', ({ perSecond }) => Math.round(perSecond)),
    ...named('PlainPerSecond', ({ plainPerSecond }) => Math.round(plainPerSecond)),
    redisCommandsPerJob: round(first?.commands ?? NaN, 2),
    plainRedisCommandsPerJob: round(first?.plainCommands ?? NaN, 2),
    alertsEnqueued: runs.length * jobs,
    alertsAccepted: runs.reduce((sum, { accepted }) => sum + accepted, 0),
    spread: named('VsPlain', ({ least, most }) => [round(least, 3), round(most, 3)]),
    cases: all.map(({ name: title, figures }) => ({ name: title, ...rounded(figures) })),
    versions,
  };
}

/** `('apns', 'PlainPerSecond', '40ms')` → `apnsPlainPerSecond40ms` */
function name(platform: Platform, what: string, suffix: string): string {
  return `${platform}${what}${suffix}`;
}

function rounded(figures: Figures): Record<string, number> {
  return Object.fromEntries(Object.entries(figures).map(([key, value]) => [key, round(value as number, 3)]));
}
