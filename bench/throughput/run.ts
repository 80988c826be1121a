import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isAlive, spawnWorker } from '../../demo/replicas.ts';
import { DEFAULT_LATENCY, NO_LATENCY, type Latency } from '../../sandbox/loopback/timing.ts';
import type { Device, ToDevices } from '../../src/notification/notification.ts';
import {
  commandStats,
  countCommands,
  openBenchQueue,
  PREFIX,
  usedBetween,
  type BenchQueue,
  type CommandStats,
  type Surroundings,
  usageOf,
} from '../redis.ts';
import type { Count, Counters } from './providers.ts';

/** The platforms that are measured. */
export type BenchPlatform = 'apns' | 'fcm';

/** Which provider, and how long it takes to answer. */
export interface Case {
  readonly platform: BenchPlatform;
  readonly latency: Latency;
  /** What ends the names of its figures: `''`, or `40ms` where answers take time. */
  readonly suffix: '' | '40ms';
  /** `APNs, 40 ms` */
  readonly name: string;
}

/** The same sends with answers that leave at once, and with the latencies that the real providers have. */
export const CASES: readonly Case[] = [
  { platform: 'apns', latency: NO_LATENCY, suffix: '', name: 'APNs, 0 ms' },
  { platform: 'fcm', latency: NO_LATENCY, suffix: '', name: 'FCM, 0 ms' },
  { platform: 'apns', latency: DEFAULT_LATENCY, suffix: '40ms', name: 'APNs, 40 ms' },
  { platform: 'fcm', latency: DEFAULT_LATENCY, suffix: '40ms', name: 'FCM, 40 ms' },
];

/** Which worker: BullMQ's own with one raw HTTP/2 session, pushpacer's, pushpacer's that records stories, outcomes and traces, or that waits for a replica. */
export type Side = 'plain' | 'pushpacer' | 'observed' | 'replicas';

/** Jobs that one worker process has under way at once. */
const CONCURRENCY = 100;

/** How much one run delivers. */
export interface Load {
  /** Jobs that are measured. */
  readonly jobs: number;
  /** Jobs before them, in the same process, until its code is compiled and its concurrency is reached. */
  readonly warmUp: number;
  /** Jobs after them, to count commands by. */
  readonly counted: number;
}

export interface RunOptions extends Load, Surroundings {
  readonly case: Case;
  readonly side: Side;
  readonly counters: Counters;
  /** More variables of the worker. */
  readonly env?: Readonly<Record<string, string>>;
  readonly nodeFlags?: readonly string[];
  /** Called when the measured jobs are about to be taken, and when all have ended. */
  readonly before?: (worker: MeasuredWorker) => Promise<void>;
  readonly after?: (worker: MeasuredWorker) => Promise<void>;
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
  /** How often it has waited for replicas (WAIT), for each measured job. */
  readonly waitsPerJob: number;
  /** Commands that clients sent, for each job; undefined if they were not counted. */
  readonly commandsPerJob: number | undefined;
  /** What clients sent to Redis, for each job. */
  readonly redisBytesPerJob: number;
}

interface Parts extends RunOptions {
  readonly queue: BenchQueue;
  readonly worker: MeasuredWorker;
}

/** One worker process from its start to its end, on an empty Redis. */
export async function runOnce(options: RunOptions): Promise<Run> {
  const { case: measured, side, counters, redisUrl, dir, nodeFlags = [], jobs, warmUp, counted } = options;
  const queue = openBenchQueue(redisUrl);
  try {
    await queue.connection.flushall();
    const env = { ...counters.env, ...options.env, REDIS_URL: redisUrl };
    const logFile = join(dir, `${side}.log`);
    const worker = await startWorker({ side, platform: measured.platform, env, logFile, nodeFlags });
    const parts = { ...options, queue, worker };
    try {
      await deliver('warm', warmUp, parts);
      await options.before?.(worker);
      const { count, commands, cpuMs, redisBytes } = await deliver('measured', jobs, parts);
      await options.after?.(worker);
      const tookMs = count.lastAtMs - count.firstAtMs;
      return {
        perSecond: (jobs - 1) / (tookMs / 1_000),
        accepted: count.accepted,
        providersBusy: count.cpuMs / tookMs,
        cpuMsPerJob: cpuMs / jobs,
        redisBytesPerJob: redisBytes / jobs,
        commands,
        waitsPerJob: (commands.get('wait')?.calls ?? 0) / jobs,
        commandsPerJob:
          counted === 0
            ? undefined
            : (await countCommands([redisUrl], [queue.connection], () => deliver('counted', counted, parts))) / counted,
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
async function deliver(batch: string, jobs: number, { case: measured, counters, queue, worker }: Parts) {
  await queue.queue.pause();
  await queue.add(makeJobs(measured.platform, batch, jobs));
  await counters.reset();
  const before = await commandStats(queue.connection);
  const { inBytes } = await usageOf(queue.connection);
  const cpuBeforeMs = await worker.cpuMs();
  await queue.queue.resume();
  await allAccepted(jobs, counters, worker);
  await queue.settled();
  const cpuMs = (await worker.cpuMs()) - cpuBeforeMs;
  const redisBytes = (await usageOf(queue.connection)).inBytes - inBytes;
  const commands = usedBetween(before, await commandStats(queue.connection));
  const count = await counters.report();
  if (count.accepted !== jobs) throw new Error(`expected ${jobs} alerts, found ${count.accepted}`);
  return { count, commands, cpuMs, redisBytes };
}

const POLL_MS = 20;
/** If no alert is accepted for this long, the run fails. */
const STUCK_MS = 20_000;

async function allAccepted(jobs: number, counters: Counters, worker: MeasuredWorker): Promise<void> {
  let [latest, sinceMs] = [0, performance.now()];
  for (;;) {
    const { accepted, refused }: Count = await counters.report();
    if (accepted >= jobs) return;
    await worker.expectAlive();
    if (accepted > latest) [latest, sinceMs] = [accepted, performance.now()];
    if (performance.now() - sinceMs > STUCK_MS) {
      const found = `${accepted} and then none for ${STUCK_MS / 1_000} s; refused: ${JSON.stringify(refused)}`;
      throw new Error(`expected ${jobs} alerts, found ${found}`);
    }
    await sleep(POLL_MS);
  }
}

/** About 100 bytes of text, as a school writes it. */
export const ALERT = {
  title: 'Room change for class 7b',
  body: 'The lesson at 10:15 takes place in room 204 today. Please tell the pupils.',
};

/** `count` alerts, each to another recipient with one device, so that no limit blocks any. `batch` makes the ids unique. */
export function makeJobs(platform: BenchPlatform, batch: string, count: number): (ToDevices & { id: string })[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `${batch}-${index}`,
    recipientId: `teacher-${batch}-${index}`,
    devices: [deviceOf(platform, index)],
    alert: ALERT,
  }));
}

/** A device with a token that is as long as those of its platform. */
export function deviceOf(platform: BenchPlatform, index: number): Device {
  if (platform === 'apns') return { platform, token: (index + 1).toString(16).padStart(64, '0') };
  return { platform, token: `f${index}:`.padEnd(152, 'APA91b') };
}

interface WorkerOptions {
  readonly side: Side;
  readonly platform: BenchPlatform;
  /** Where Redis and the providers are. */
  readonly env: Readonly<Record<string, string>>;
  /** The file for both outputs: a pipe to this process would slow the worker down. */
  readonly logFile: string;
  /** WORKER_CONCURRENCY. Default: 100. */
  readonly concurrency?: number;
  /** Flags for node: those that write a processor profile. */
  readonly nodeFlags?: readonly string[];
}

/** One worker process. It ends with this process. */
export interface MeasuredWorker {
  readonly pid: number;
  /** Throws, with its last output, if the process has ended. */
  expectAlive(): Promise<void>;
  /** Processor time so far, of all its threads, in milliseconds; NaN without /proc. */
  cpuMs(): Promise<number>;
  /** Memory that it has of the machine (RSS); NaN without /proc. */
  rssBytes(): Promise<number>;
  /** SIGTERM. Rejects if it does not end with exit code 0. */
  stop(): Promise<void>;
}

const PLAIN = fileURLToPath(new URL('./plain-worker.ts', import.meta.url));
const LAST_CHARACTERS = 2_000;
/** A worker that has not ended this long after SIGTERM is killed. */
const STOP_TIMEOUT_MS = 30_000;

export async function startWorker(options: WorkerOptions): Promise<MeasuredWorker> {
  const log = await open(options.logFile, 'w');
  const child = spawnSide(options, log.fd);
  await log.close(); // the worker has a descriptor of its own
  const exited = once(child, 'exit');
  const failure = async (what: string): Promise<Error> => {
    const text = await readFile(options.logFile, 'utf8');
    return new Error(`the ${options.side} worker ${what}; its last output:\n${text.slice(-LAST_CHARACTERS)}`);
  };
  const { pid = 0 } = child;
  return {
    pid,
    async expectAlive() {
      if (!isAlive(child)) throw await failure('ended early');
    },
    cpuMs: () => cpuMsOf(pid),
    rssBytes: () => rssBytesOf(pid),
    async stop() {
      const killer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      if (isAlive(child)) {
        child.kill('SIGTERM');
        await exited;
      }
      clearTimeout(killer);
      if (child.exitCode !== 0) throw await failure(`ended with ${child.signalCode ?? `exit code ${child.exitCode}`}`);
    },
  };
}

/** Fields 14 and 15 of proc(5)'s stat, in hundredths of a second; the name before them may contain spaces. */
async function cpuMsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

async function rssBytesOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return 1_024 * Number(/^VmRSS:\s*(\d+) kB/m.exec(status)?.[1]);
}

function spawnSide(options: WorkerOptions, log: number): ChildProcess {
  const { side, platform, env, concurrency = CONCURRENCY, nodeFlags = [] } = options;
  const settings = { QUEUE_PREFIX: PREFIX, ...env, WORKER_CONCURRENCY: String(concurrency) };
  if (side !== 'plain') {
    // Replicas are spawned without flags of their own; node takes them from here as well.
    const flags = nodeFlags.length === 0 ? {} : { NODE_OPTIONS: nodeFlags.join(' ') };
    return spawnWorker({ ...settings, ...flags }, [log, log], false);
  }
  return spawn(process.execPath, [...nodeFlags, PLAIN, platform], {
    env: { ...process.env, ...settings },
    stdio: ['ignore', log, log, 'ipc'],
  });
}
