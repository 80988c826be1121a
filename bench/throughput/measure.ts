import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { Redis } from 'ioredis';
import { CASES, type Case, type Side } from './case.ts';
import { startCounters } from './providers.ts';
import type { CaseResult, Results } from './results.ts';
import { runOnce, type Load, type Run, type RunOptions } from './run.ts';

export interface MeasureOptions extends Load {
  /** Pairs of runs that a ratio is the median of. */
  readonly pairs: number;
  readonly say: (line: string) => void;
  /** Called after each run of a case: how many are done, of how many. */
  readonly onRun?: (done: number, of: number) => void;
}

/** What all runs share. */
export type Surroundings = Pick<RunOptions, 'redisUrl' | 'dir'>;

/** Every case in turn, with a Redis of its own. */
export function measure(options: MeasureOptions): Promise<Results> {
  return withSurroundings(options.say, async (surroundings, redisVersion) => {
    const start = performance.now();
    const cases: CaseResult[] = [];
    for (const measured of CASES) cases.push(await measureCase(measured, surroundings, options));
    const seconds = (performance.now() - start) / 1_000;
    const { pairs, jobs } = options;
    return { pairs, jobs, seconds, cases, versions: { node: process.versions.node, redis: redisVersion } };
  });
}

/** Runs both sides in turn, so that changes of the machine's load affect both alike. */
async function measureCase(measured: Case, surroundings: Surroundings, options: MeasureOptions): Promise<CaseResult> {
  const { pairs, jobs, warmUp, counted, say, onRun } = options;
  say(`${measured.name}: ${pairs} pairs of runs with ${jobs} jobs each`);
  const counters = await startCounters(measured.latency);
  const run = (side: Side, pair: number): Promise<Run> =>
    // The commands of a job are the same each time: one count is enough.
    runOnce({ case: measured, side, counters, ...surroundings, jobs, warmUp, counted: pair === 0 ? counted : 0 });
  const result = { case: measured, plain: [] as Run[], pushpacer: [] as Run[] };
  try {
    for (let pair = 0; pair < pairs; pair += 1) {
      result.plain.push(await run('plain', pair));
      onRun?.(2 * pair + 1, 2 * pairs);
      result.pushpacer.push(await run('pushpacer', pair));
      onRun?.(2 * pair + 2, 2 * pairs);
    }
    return result;
  } finally {
    await counters.close();
  }
}

/** A Redis and a folder for logs, gone afterwards. */
export async function withSurroundings<T>(
  say: (line: string) => void,
  use: (surroundings: Surroundings, redisVersion: string) => Promise<T>,
): Promise<T> {
  const server = await startEmbeddedRedis({ say, install: true });
  const dir = await mkdtemp(join(tmpdir(), 'pushpacer-bench-'));
  try {
    return await use({ redisUrl: server.url, dir }, await versionOf(server.url));
  } finally {
    await server.close();
    await rm(dir, { recursive: true, force: true });
  }
}

async function versionOf(url: string): Promise<string> {
  const redis = new Redis(url);
  try {
    return /^redis_version:(\S+)/m.exec(await redis.info('server'))?.[1] ?? 'unknown';
  } finally {
    redis.disconnect();
  }
}
