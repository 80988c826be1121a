import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openBenchQueue, type BenchQueue } from './bench-queue.ts';
import type { Case, Side } from './case.ts';
import { commandStats, countClientCommands, usedBetween, type CommandStats } from './commands.ts';
import { makeJobs } from './jobs.ts';
import type { Counters } from './providers.ts';
import type { Count } from './providers-child.ts';
import { startWorker, type MeasuredWorker } from './worker.ts';

/** How much one run delivers. */
export interface Load {
  /** Jobs that are measured. */
  readonly jobs: number;
  /** Jobs before them, in the same process, until its code is compiled and its concurrency is reached. */
  readonly warmUp: number;
  /** Jobs after them, to count commands by. */
  readonly counted: number;
}

export interface RunOptions extends Load {
  readonly case: Case;
  readonly side: Side;
  readonly counters: Counters;
  readonly redisUrl: string;
  /** Where the worker's log goes. */
  readonly dir: string;
  readonly nodeFlags?: readonly string[];
}

export interface Run {
  /** Alerts a second, from the first accepted to the last. */
  readonly perSecond: number;
  readonly accepted: number;
  /** Processor time of the providers' process over wall time. Near 1 the providers are the limit, not the worker. */
  readonly providersBusy: number;
  /** Processor time of the worker's process, in milliseconds; NaN if the system does not report it. */
  readonly cpuMsPerJob: number;
  readonly commands: CommandStats;
  /** Commands that clients sent, for each job; undefined if they were not counted. */
  readonly commandsPerJob: number | undefined;
}

const POLL_MS = 20;
/** If no alert is accepted for this long, the run fails. */
const STUCK_MS = 20_000;

interface Parts {
  readonly queue: BenchQueue;
  readonly worker: MeasuredWorker;
}

/** One worker process from its start to its end, on an empty Redis. */
export async function runOnce(options: RunOptions): Promise<Run> {
  const { case: measured, side, counters, redisUrl, dir, nodeFlags = [], jobs, warmUp, counted } = options;
  const prefix = '{bench}';
  const queue = openBenchQueue(redisUrl, prefix);
  try {
    await queue.connection.flushall();
    const env = { ...counters.env, REDIS_URL: redisUrl, QUEUE_PREFIX: prefix };
    const logFile = join(dir, `${side}.log`);
    const worker = await startWorker({ side, platform: measured.platform, env, logFile, nodeFlags });
    const parts = { queue, worker };
    try {
      await deliver('warm', warmUp, options, parts);
      const { count, commands, cpuMs } = await deliver('measured', jobs, options, parts);
      const commandsPerJob = counted === 0 ? undefined : await countCommands(options, parts);
      const tookMs = count.lastAtMs - count.firstAtMs;
      return {
        perSecond: (jobs - 1) / (tookMs / 1_000),
        accepted: count.accepted,
        providersBusy: count.cpuMs / tookMs,
        cpuMsPerJob: cpuMs / jobs,
        commands,
        commandsPerJob,
      };
    } finally {
      await worker.stop();
    }
  } finally {
    await queue.close();
  }
}

/**
 * All jobs are in the queue before the first is taken, and the worker is running, so that neither adding jobs nor starting the
 * worker is measured.
 */
async function deliver(batch: string, jobs: number, { case: measured, counters }: RunOptions, parts: Parts) {
  const { queue } = parts;
  await queue.pause();
  await queue.add(makeJobs(measured.platform, batch, jobs));
  await counters.reset();
  const before = await commandStats(queue.connection);
  const cpuBeforeMs = await parts.worker.cpuMs();
  await queue.resume();
  await allAccepted(jobs, counters, parts.worker);
  await queue.empty();
  const cpuMs = (await parts.worker.cpuMs()) - cpuBeforeMs;
  const commands = usedBetween(before, await commandStats(queue.connection));
  const count = await counters.report();
  if (count.accepted !== jobs) throw new Error(`expected ${jobs} alerts, found ${count.accepted}`);
  return { count, commands, cpuMs };
}

async function allAccepted(jobs: number, counters: Counters, worker: MeasuredWorker): Promise<void> {
  let [latest, sinceMs] = [0, performance.now()];
  for (;;) {
    const count = await counters.report();
    if (count.accepted >= jobs) return;
    await worker.expectAlive();
    if (count.accepted > latest) [latest, sinceMs] = [count.accepted, performance.now()];
    if (performance.now() - sinceMs > STUCK_MS) throw new Error(`expected ${jobs} alerts, found ${tell(count)}`);
    await sleep(POLL_MS);
  }
}

function tell({ accepted, refused }: Count): string {
  return `${accepted} and then none for ${STUCK_MS / 1_000} s; refused: ${JSON.stringify(refused)}`;
}

/** The commands of the worker alone, for each job of a batch of its own. */
async function countCommands(options: RunOptions, parts: Parts): Promise<number> {
  const { counted, redisUrl } = options;
  const own = /\baddr=(\S+)/.exec(await parts.queue.connection.client('INFO'))?.[1];
  const counter = await countClientCommands(redisUrl, (address) => address === own);
  try {
    await deliver('counted', counted, options, parts);
    return counter.count() / counted;
  } finally {
    counter.stop();
  }
}
