/**
 * Everything of BullMQ that this project uses although BullMQ may change it at any time: members that are protected or private,
 * and the positions of values in its keys and commands. Written for the version below, which package.json pins. Before raising
 * that version, check each item here.
 *
 * NotificationWorker (notification-worker.ts) also overrides protected methods, as a subclass; `assertBullMq` covers those.
 */
import { createRequire } from 'node:module';
import {
  createRedisBackend,
  Job,
  Worker,
  type BackendFactory,
  type IQueueBackend,
  type Queue,
  type RedisQueueBackend,
} from 'bullmq';

const EXPECTED_VERSION = '6.7.0';

/** What NotificationWorker overrides. */
const OVERRIDDEN = [
  'createJob',
  'moveToActive',
  'processJob',
  'handleCompleted',
  'handleFailed',
  'getBlockTimeout',
] as const;

/** Throws an Error that names what is missing if the installed BullMQ lacks something that this project uses. */
export function assertBullMq(queue: Queue, worker: Worker): void {
  const methods = Worker.prototype as unknown as Partial<Record<string, unknown>>;
  const { lockManager } = worker as unknown as {
    readonly lockManager?: { readonly trackJob?: unknown };
  };
  const backend = backendOf(new Job(queue, 'probe', {}, {}, 'probe')) as Partial<IQueueBackend> | undefined; // not added
  const { execCommand } = queue.getBackend() as Partial<RedisQueueBackend>;
  const used: readonly (readonly [name: string, found: unknown])[] = [
    ...OVERRIDDEN.map((name) => [`Worker.${name}`, methods[name]] as const),
    ['Worker.lockManager.trackJob', lockManager?.trackJob],
    ['Job.backend.moveToDelayed', backend?.moveToDelayed],
    ['RedisQueueBackend.execCommand', execCommand],
  ];
  const missing = used.filter(([, found]) => typeof found !== 'function').map(([name]) => name);
  if (missing.length > 0) {
    throw new Error(`expected BullMQ ${EXPECTED_VERSION}, found ${foundVersion()}, which lacks ${missing.join(', ')}`);
  }
}

function foundVersion(): string {
  return (createRequire(import.meta.url)('bullmq/package.json') as { version: string }).version;
}

/** The protected backend of a job. Needed because the public `job.moveToDelayed` does not pass on fields to update. */
export function backendOf(job: Pick<Job, 'id'>): Pick<IQueueBackend, 'moveToDelayed'> {
  return (job as unknown as { readonly backend: IQueueBackend }).backend;
}

/** BullMQ's score of a delayed job: its due time in epoch milliseconds, times this, plus a counter. */
const SCORES_PER_MS = 0x1000;

/** The due time of a score in `delayed`: epoch milliseconds, on the clock of the process that wrote it. */
export function dueAtOfScore(score: number): number {
  return Math.floor(score / SCORES_PER_MS);
}

/** The least score in `delayed` of a job that is due at this instant. */
export function scoreOfDue(at: number): number {
  return at * SCORES_PER_MS;
}

/** BullMQ's score of a job in `prioritized`: its priority times this, plus a counter. */
const SCORES_PER_PRIORITY = 0x100000000;

/** The scores in `prioritized` of the priorities from `first` to `last`. */
export function scoresOfPriority(first: number, last: number): [least: number, most: number] {
  return [first * SCORES_PER_PRIORITY, (last + 1) * SCORES_PER_PRIORITY - 1];
}

/** `{pushpacer}:notifications:msg-1:lock`: holds the token of the worker that has the job. */
export function lockKeyOf(queue: Pick<Queue, 'toKey'>, jobId: string): string {
  return queue.toKey(`${jobId}:lock`);
}

/** A field of ours (look.lua reads it too) in the hash of a job that was moved to another due time: `at`, epoch milliseconds, and the reason for it. */
const WHY = 'pushpacer:why';

export async function noteWhy(queue: Queue, jobId: string, why: { readonly at: number }): Promise<void> {
  const client = await queue.getBackend().client;
  await client.hset(queue.toKey(jobId), { [WHY]: JSON.stringify(why) });
}

/** What was noted for this due time. Undefined if the job was put back since, or never moved. */
export async function readWhy(
  queue: Queue,
  jobId: string,
  dueAt: number,
): Promise<Record<string, unknown> | undefined> {
  const client = await queue.getBackend().client;
  return whyOf(await client.hget(queue.toKey(jobId), WHY), dueAt);
}

/** The same of the field's text. */
export function whyOf(text: string | null | undefined, dueAt: number): Record<string, unknown> | undefined {
  const why = typeof text === 'string' ? (JSON.parse(text) as Record<string, unknown>) : undefined;
  return why !== undefined && Math.abs(Number(why['at']) - dueAt) <= SAME_MS ? why : undefined;
}

/** BullMQ adds a delay to the time, which goes on meanwhile. */
const SAME_MS = 100;

/** The commands whose answer may be `[fields of a job, its id, …]`. */
const TAKES: ReadonlySet<string> = new Set(['moveToActive', 'moveToFinished']);

/** The position of the caller's time in these commands, counted from 0 over keys and arguments. */
const TIME_AT: Readonly<Record<string, number>> = { moveToActive: 12, moveToDelayed: 12, moveToFinished: 15 };

/**
 * BullMQ's backend, but with Redis's time in its commands instead of this machine's. BullMQ writes a due time as `Date.now()` plus
 * the delay, and takes the jobs that are due at its `Date.now()`. All workers must use one clock for that: a worker whose clock is
 * ahead would take every job too early, and others would take its jobs too late.
 *
 * @param offsetMs Redis's clock minus this machine's, in whole milliseconds
 * @param onTaken called with each job that Redis gives, in its order: BullMQ itself begins jobs of different commands in any order
 * @param readable makes the fields of such a job readable for BullMQ
 */
export function onRedisTime(
  offsetMs: () => number,
  onTaken: (jobId: string) => void = () => undefined,
  readable: (fields: readonly unknown[]) => readonly unknown[] = (fields) => fields,
): BackendFactory<RedisQueueBackend> {
  return (...options) => {
    const backend = createRedisBackend(...options);
    const execCommand = backend.execCommand.bind(backend);
    backend.execCommand = (client, command, args: unknown[]): unknown => {
      const reply = execCommand(client, command, withOffset(command, args, offsetMs())) as unknown;
      if (!TAKES.has(command) || !(reply instanceof Promise)) return reply;
      return reply.then((taken: unknown) => {
        if (!Array.isArray(taken) || !Array.isArray(taken[0])) return taken;
        const [fields, jobId, ...rest] = taken as [unknown[], ...unknown[]];
        onTaken(String(jobId));
        return [readable(fields), jobId, ...rest];
      });
    };
    return backend;
  };
}

function withOffset(command: string, args: unknown[], offsetMs: number): unknown[] {
  const position = TIME_AT[command];
  if (position === undefined || offsetMs === 0) return args;
  const time = args[position];
  if (typeof time !== 'number') {
    throw new Error(`expected BullMQ ${EXPECTED_VERSION}, found ${foundVersion()}: ${command} has its time elsewhere`);
  }
  return args.with(position, time + offsetMs);
}
