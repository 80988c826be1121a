import { createRequire } from 'node:module';
import { createRedisBackend, type BackendFactory, type Queue, type RedisQueueBackend, type Worker } from 'bullmq';
import { parseObject } from '../domain/json.ts';
import { defineQueueScript, withText } from '../redis/scripts.ts';
import { readableFields } from './readable.ts';

/**
 * The internals of BullMQ that this project uses, and that BullMQ may change at any time: positions of values in keys and
 * commands, and texts of errors. They fit the version below, which package.json pins. Before you raise that version, check each
 * item here, and the Lua scripts that write BullMQ's keys (test/slow/house/private-members.test.ts lists them).
 */
const EXPECTED_VERSION = '6.7.0';

/** Methods of a worker and of its backend that NotificationWorker and the job lock replace or call. */
const WORKER_METHODS = ['processJob', 'extendJobLocks'] as const;
const BACKEND_METHODS = [
  ...(['execCommand', 'extendLock', 'moveToActive', 'moveToCompleted', 'moveToDelayed'] as const),
  ...(['moveToFailed', 'waitForJob'] as const),
];

/** Throws an Error that names what is missing, if the installed BullMQ lacks one of these methods. */
export function assertBullMq(worker: Worker): void {
  const backend: Partial<RedisQueueBackend> = worker.getBackend();
  const ofWorker: Partial<Worker> = worker;
  const missing = [
    ...WORKER_METHODS.filter((name) => typeof ofWorker[name] !== 'function'),
    ...BACKEND_METHODS.filter((name) => typeof backend[name] !== 'function'),
  ];
  if (missing.length > 0) throw unexpected(`which lacks ${missing.join(', ')}`);
}

/** BullMQ's score of a delayed job: its due time in epoch milliseconds, times this, plus a counter. */
const SCORES_PER_MS = 0x1000;

/** The due time in a score of `delayed`: epoch milliseconds, on the clock of the process that wrote the score. */
export function dueAtOfScore(score: number): number {
  return Math.floor(score / SCORES_PER_MS);
}

/** The lowest score in `delayed` of a job that is due at this instant. */
export function scoreOfDue(at: number): number {
  return at * SCORES_PER_MS;
}

/** The answers of BullMQ's `changeDelay`. */
const CHANGED = { done: 0, noJob: -1, notDelayed: -3 };

/**
 * Makes a delayed job due at an instant of Redis's clock; false if the job is not delayed. BullMQ writes the sum of a time and
 * a delay as the due time. Here both are chosen so that their sum is `at`, even if this machine's clock is wrong. The delay is
 * never negative, since BullMQ would not add a negative delay.
 */
export async function makeDueAt(queue: Queue, jobId: string, at: number): Promise<boolean> {
  const dueAt = Math.max(0, Math.ceil(at));
  const time = Math.min(Date.now(), dueAt);
  const backend = queue.getBackend();
  const keys = ['delayed', 'meta', 'marker', 'events'].map((name) => queue.toKey(name));
  const args = [...keys, dueAt - time, time, jobId, queue.toKey(jobId)];
  const reply: unknown = await backend.execCommand(await backend.client, 'changeDelay', args);
  if (reply === CHANGED.noJob || reply === CHANGED.notDelayed) return false;
  if (reply !== CHANGED.done) throw unexpected(`changeDelay answers ${String(reply)}`);
  return true;
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

/**
 * A field that this project adds to the hash of a job that it moves to another due time. Its JSON has `at` (the new due time,
 * epoch milliseconds) and the reason for the wait. read-jobs.lua reads the field too.
 */
const WHY = 'pushpacer:why';

const NOTE_WHY = defineQueueScript<number>(new URL('note-why.lua', import.meta.url), 1);

export async function noteWhy(queue: Queue, jobId: string, why: { readonly at: number }): Promise<void> {
  await NOTE_WHY(queue, [queue.toKey(jobId), WHY, JSON.stringify(why)]);
}

/** The reason that was noted for this due time. Undefined if the job was put back since, or never moved. */
export async function readWhy(
  queue: Queue,
  jobId: string,
  dueAt: number,
): Promise<Record<string, unknown> | undefined> {
  const client = await queue.getBackend().client;
  return whyOf(await client.hget(queue.toKey(jobId), WHY), dueAt);
}

/** The due time that was noted last, which may be past; undefined if the job never moved. Epoch milliseconds. */
export async function lastMovedTo(queue: Queue, jobId: string): Promise<number | undefined> {
  const client = await queue.getBackend().client;
  const text = await client.hget(queue.toKey(jobId), WHY);
  const at = typeof text === 'string' ? Number((JSON.parse(text) as { readonly at?: unknown }).at) : NaN;
  return Number.isFinite(at) ? at : undefined;
}

/** The reason in this text of the field, if it was noted for this due time; else undefined. */
export function whyOf(text: string | null | undefined, dueAt: number): Record<string, unknown> | undefined {
  const why = typeof text === 'string' ? (JSON.parse(text) as Record<string, unknown>) : undefined;
  return why !== undefined && Math.abs(Number(why['at']) - dueAt) <= SAME_MS ? why : undefined;
}

/** A noted due time may differ by this much: earlier versions wrote the score some milliseconds later than they noted. */
const SAME_MS = 100;

/** BullMQ's errors for a job whose lock ran out, or belongs to another worker by now; and the error of `lockNotRenewed`. */
const LOST = /^(?:could not renew lock|Missing lock|Lock mismatch) for job (\S+?)\.?(?: |$)/;

/** The id of the job whose lock was lost; undefined if the error says something else. */
export function jobOfLostLock(error: unknown): string | undefined {
  return error instanceof Error ? LOST.exec(error.message)?.[1] : undefined;
}

/** The error for a lock that could not be renewed, in BullMQ's words. */
export function lockNotRenewed(jobId: string): Error {
  return new Error(`could not renew lock for job ${jobId}`);
}

/** The reason that BullMQ gives when it fails a job that stalled more often than `maxStalledCount`. */
export const STALLED_TOO_OFTEN = 'job stalled more than allowable limit';

/** Whether BullMQ itself failed the job because it stalled too often. */
export function hasStalled(failedReason: string): boolean {
  return /^job (stalled|started) more than allowable limit$/.test(failedReason);
}

/** For each of these commands: the position of the caller's time among its keys and arguments, counted from 0. */
const TIME_AT: Readonly<Record<string, number>> = { moveToActive: 12, moveToDelayed: 12, moveToFinished: 15 };

/**
 * BullMQ's backend, but due times are on Redis's clock in Redis, and on this machine's clock in the worker. BullMQ itself uses
 * `Date.now()` for both: a worker whose clock is ahead would take every job too early, and other workers would take the jobs
 * that it put back too late. Also makes jobs readable that BullMQ cannot read (readable.ts).
 *
 * @param offsetMs Redis's clock minus this machine's, in whole milliseconds
 * @param onTaken called with each job's id, in the order in which Redis gives the jobs; BullMQ may begin them in another order
 */
export function onRedisTime(
  offsetMs: () => number,
  onTaken: (jobId: string) => void = () => undefined,
): BackendFactory<RedisQueueBackend> {
  return (...options) => {
    const backend = createRedisBackend(...options);
    const execOnce = backend.execCommand.bind(backend);
    const waitForJob = backend.waitForJob.bind(backend);
    const execCommand: typeof execOnce = (client, command, args: unknown[]): unknown => {
      const exec = () => execOnce(client, command, args) as Promise<unknown>;
      return 'status' in client ? withText(exec) : exec(); // a transaction has no answers before it is executed
    };
    backend.execCommand = (client, command, args: unknown[]): unknown => {
      const position = TIME_AT[command];
      if (position === undefined) return execCommand(client, command, args);
      const askedAt = args[position];
      const aheadMs = offsetMs();
      if (typeof askedAt !== 'number') throw unexpected(`${command} has its time elsewhere`);
      const reply = execCommand(client, command, args.with(position, askedAt + aheadMs)) as unknown;
      if (!(reply instanceof Promise)) return reply;
      return reply.then((next: unknown) => {
        if (!Array.isArray(next)) return next;
        const [fields, jobId, limitMs, dueAt] = next as [
          fields: unknown,
          jobId: unknown,
          limitMs: unknown,
          dueAt: unknown,
        ];
        const nextDueAt = onThisClock(Number(dueAt ?? 0), aheadMs);
        if (!Array.isArray(fields)) return [fields, jobId, limitMs, nextDueAt];
        onTaken(String(jobId));
        return [readableFields(withMove(takenAt(fields, askedAt))), jobId, limitMs, nextDueAt];
      });
    };
    backend.waitForJob = async (seconds) => {
      const found = await waitForJob(seconds);
      return found && { ...found, score: onThisClock(found.score, offsetMs()) };
    };
    return backend;
  };
}

/** A due time on this machine's clock. 0 stays 0, since it means that nothing is delayed. */
function onThisClock(dueAt: number, aheadMs: number): number {
  return dueAt > 0 ? dueAt - aheadMs : dueAt;
}

/**
 * Sets `processedOn` to `askedAt`. The age of a job lock is counted from `processedOn`, so this must be on this machine's
 * clock, and not later than the beginning of the lock.
 */
function takenAt(fields: readonly unknown[], askedAt: number): unknown[] {
  return fields.map((value, at) => (at % 2 === 1 && fields[at - 1] === 'processedOn' ? String(askedAt) : value));
}

/**
 * If the job was moved to a later time after its progress was written, puts the new due time into the progress: else the job
 * would count as late.
 */
function withMove(fields: readonly unknown[]): readonly unknown[] {
  const why = valueOf(fields, WHY);
  const text = why === undefined ? undefined : valueOf(fields, 'progress');
  if (why === undefined || text === undefined) return fields;
  const movedTo = Number(parseObject(why)['at']);
  const progress = parseObject(text);
  if (typeof progress['dueAt'] !== 'number' || !(movedTo > progress['dueAt'])) return fields;
  const moved = JSON.stringify({ ...progress, dueAt: movedTo });
  return fields.map((value, at) => (at % 2 === 1 && fields[at - 1] === 'progress' ? moved : value));
}

/** The text of one field among `[name, value, …]`. */
function valueOf(fields: readonly unknown[], name: string): string | undefined {
  const at = fields.findIndex((value, index) => index % 2 === 0 && value === name);
  const value = at === -1 ? undefined : fields[at + 1];
  return typeof value === 'string' ? value : undefined;
}

function unexpected(what: string): Error {
  const { version } = createRequire(import.meta.url)('bullmq/package.json') as { version: string };
  return new Error(`expected BullMQ ${EXPECTED_VERSION}, found ${version}: ${what}`);
}
