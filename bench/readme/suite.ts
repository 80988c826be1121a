import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { counted } from '../../src/terminal/text.ts';
import { limiterSuite } from '../limiter/suite.ts';
import type { Report, Suite, SuiteOptions } from '../suite.ts';
import { throughputSuite } from '../throughput/suite.ts';

export const readmeSuite: Suite = {
  name: 'readme',
  description: "the README's table of measurements: the demo, throughput and limiter, one after the other",
  defaultRuns: (quick) => (quick ? 2 : 5),
  isOfOthers: true,
  run: measure,
};

/** The spreads of the README's table, each from the least to the most. */
export interface Spreads {
  readonly demoRuns: number;
  readonly makespanRatio: readonly number[];
  readonly requeuesPerBlocked: readonly number[];
  readonly minGapMs: readonly number[];
  /** Of the throughput's pairs, with answers after 40 ms and after 0 ms; the median of each platform in `medians`. */
  readonly pairs: number;
  readonly at40ms: readonly number[];
  readonly at0ms: readonly number[];
  readonly medians: Readonly<Record<'apns40ms' | 'fcm40ms' | 'apns' | 'fcm', number>>;
  readonly limiterRuns: number;
  readonly vsSet: readonly number[];
  /** Empty in a quick run, which has no rivals. */
  readonly vsRolling: readonly number[];
  readonly vsFlexible: readonly number[];
}

/** The limiter's figures are medians of pairs already: fewer runs show how far they differ. */
const LIMITER_RUNS = 3;
/** Pairs of one run of the limiter: the default of its suite. */
const LIMITER_PAIRS = 20;
const DEMO = fileURLToPath(new URL('../../demo/demo.ts', import.meta.url));

/** `--runs` are those of the demo, and the pairs of throughput. */
async function measure(options: SuiteOptions): Promise<Report> {
  const { quick, runs, say } = options;
  const start = performance.now();
  const demos: Json[] = [];
  for (let run = 1; run <= runs; run += 1) {
    say(`the demo, run ${run} of ${runs}`);
    demos.push(await runDemo());
  }
  const { json: throughput } = await throughputSuite.run({ ...options, row: undefined });
  const limiters: Json[] = [];
  const limiterRuns = quick ? 1 : LIMITER_RUNS;
  for (let run = 1; run <= limiterRuns; run += 1) {
    say(`the limiter, run ${run} of ${limiterRuns}`);
    const { json } = await limiterSuite.run({ ...options, runs: quick ? runs : LIMITER_PAIRS, row: undefined });
    limiters.push(json);
  }
  const spreads = spreadsOf(demos, throughput, limiters);
  const seconds = (performance.now() - start) / 1_000;
  const table = readmeTable(spreads).join('\n');
  const text = `${table}\n\n${quick ? 'A quick check, no measurement. ' : ''}${seconds.toFixed(0)} s.`;
  return {
    json: { suite: 'readme', quick, seconds: Math.round(seconds), ...spreads, versions: limiters[0]?.['versions'] },
    ...{ text, markdown: text },
  };
}

type Json = Readonly<Record<string, unknown>>;

async function runDemo(): Promise<Json> {
  const { stdout } = await promisify(execFile)(process.execPath, [DEMO, '--json'], { maxBuffer: 64 * 1024 * 1024 });
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Json;
}

function spreadsOf(demos: readonly Json[], throughput: Json, limiters: readonly Json[]): Spreads {
  const of = (all: readonly Json[], field: string): number[] =>
    all.flatMap((json) => (typeof json[field] === 'number' ? [json[field]] : []));
  const pairs = throughput['spread'] as Readonly<Record<string, readonly number[]>>;
  const median = (name: string): number => Number(throughput[name]);
  return {
    demoRuns: demos.length,
    makespanRatio: of(demos, 'makespanRatio'),
    requeuesPerBlocked: of(demos, 'requeuesPerBlocked'),
    minGapMs: of(demos, 'minGapMs'),
    pairs: Number(throughput['pairs']),
    at40ms: [...(pairs['apnsVsPlain40ms'] ?? []), ...(pairs['fcmVsPlain40ms'] ?? [])],
    at0ms: [...(pairs['apnsVsPlain'] ?? []), ...(pairs['fcmVsPlain'] ?? [])],
    medians: {
      ...{ apns40ms: median('apnsVsPlain40ms'), fcm40ms: median('fcmVsPlain40ms') },
      ...{ apns: median('apnsVsPlain'), fcm: median('fcmVsPlain') },
    },
    limiterRuns: limiters.length,
    vsSet: of(limiters, 'vsSet'),
    vsRolling: of(limiters, 'vsRollingRateLimiter'),
    vsFlexible: of(limiters, 'vsRateLimiterFlexible'),
  };
}

/** The lines as the README has them. */
export function readmeTable(spreads: Spreads): string[] {
  const { demoRuns, makespanRatio, requeuesPerBlocked, minGapMs, pairs, at40ms, at0ms, limiterRuns } = spreads;
  const { vsSet, vsRolling, vsFlexible } = spreads;
  const { apns40ms, fcm40ms, apns, fcm } = spreads.medians;
  const rows = [
    ['what', 'measured', 'command'],
    ['---', '---', '---'],
    [
      'last alert of the busiest recipient, over the ideal schedule; requeues of each blocked notification',
      `${range(makespanRatio, 3)}; ${range(requeuesPerBlocked, 2)} (${counted(demoRuns, 'run')})`,
      '`npm run --silent demo -- --json` (`makespanRatio`, `requeuesPerBlocked`)',
    ],
    [
      'least time between two arrivals, where the gap is 250 ms (slots are exact; the rest is the way)',
      `${range(minGapMs, 0)} ms`,
      'the same (`minGapMs`)',
    ],
    [
      'jobs a second of one worker, over a plain BullMQ worker with one raw HTTP/2 session; answers after 40 ms, and after 0 ms',
      `${range(at40ms, 2)} (medians ${apns40ms.toFixed(2)} APNs, ${fcm40ms.toFixed(2)} FCM), ${range(at0ms, 2)} (${apns.toFixed(2)}, ${fcm.toFixed(2)}); ${counted(pairs, 'pair')} each`,
      '`npm run bench throughput`',
    ],
    [
      "admitted asks with two rules, 128 in flight, over plain SET; rolling-rate-limiter; rate-limiter-flexible's union of two",
      `${range(vsSet, 2)}; ${range(vsRolling, 1)}; ${range(vsFlexible, 1)} (${counted(limiterRuns, 'run')}, each the medians of pairs)`,
      '`npm run bench limiter`',
    ],
  ];
  return rows.map((cells) => `| ${cells.join(' | ')} |`);
}

/** `0.54 to 0.79`; one number if both are written alike; `-` for nothing. */
function range(values: readonly number[], digits: number): string {
  if (values.length === 0) return '-';
  const [least, most] = [Math.min(...values).toFixed(digits), Math.max(...values).toFixed(digits)];
  return least === most ? least : `${least} to ${most}`;
}
