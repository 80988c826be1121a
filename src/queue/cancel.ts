import { setTimeout as sleep } from 'node:timers/promises';
import type { Job, Queue } from 'bullmq';
import { countedAs, type CountedAs } from '../domain/counted-as.ts';
import type { CancelTarget } from '../domain/cancel-target.ts';
import { targetOf } from '../domain/device.ts';
import { outcomeFields, waitOf, type Ended } from '../domain/ended.ts';
import { waitsFrom } from '../domain/send-after.ts';
import type { Connection } from '../redis/connection.ts';
import { defineQueueScript } from '../redis/scripts.ts';
import { notificationIdOf, outcomesKey } from './names.ts';
import { findJob } from './readable.ts';
import { lockKeyOf } from './bullmq-internals.ts';
import { findById, findByKey, type Found } from './find-to-cancel.ts';
import { redelay } from './redelay.ts';

/** What came of a cancel. */
export interface Canceled {
  /** How many notifications are canceled: they will not be sent. Those that were canceled before count again. */
  readonly canceled: number;
  /** How many cannot be canceled any more: they are being sent, may have alerted a device, or have ended. */
  readonly tooLate: number;
}

/** Decides in the limiter whether a notification can still be canceled. limiter/redis/canceller.ts has one. */
export interface Decider {
  cancel(
    recipientId: string,
    requests: readonly { readonly jobId: string; readonly asks: number; readonly keepMs: number }[],
  ): Promise<readonly { readonly canceled: boolean; readonly wake: readonly string[] }[]>;
}

export interface CancelParts {
  /** The queue's Redis. */
  readonly connection: Connection;
  /** The queues of all shards, in their order. */
  readonly queues: readonly Queue[];
  /** Of the limiter that counts alerts, and of those that count what is apart from them. */
  readonly deciders: Readonly<Record<CountedAs, Decider>>;
}

/** A canceled notification whose job no worker takes is remembered for so long, and at least until its due time. */
const KEPT_MS = 7 * 86_400_000;
/** How long to wait for a pass that is under way. */
const PASS_MS = 2_000;
const LOOK_MS = 10;
/** How many are canceled at once, so that other commands get through in between. */
const AT_ONCE = 100;

/**
 * Cancels what has not been sent. The limiter decides in one step with its admissions: what is canceled gets no slot any more, and
 * for what has a slot it is too late. The job itself stays: it is woken, its next pass asks for a slot, and ends as `canceled`. The
 * job of a part of a digest has ended as `merged` before that; what it tells is changed here. It is safe to repeat.
 */
export async function cancelWaiting(target: CancelTarget, parts: CancelParts): Promise<Canceled> {
  if ('id' in target) {
    const { jobs, isDead } = await findById(target.id, parts);
    const canceled = await Promise.all(jobs.map((found) => cancelOne(found, parts))); // the notification, and its replays
    if (canceled.includes(true)) return { canceled: 1, tooLate: 0 };
    return { canceled: 0, tooLate: jobs.length > 0 || isDead ? 1 : 0 };
  }
  const jobs = await findByKey(target, parts);
  const answers: boolean[] = [];
  for (let from = 0; from < jobs.length; from += AT_ONCE) {
    const some = jobs.slice(from, from + AT_ONCE);
    answers.push(...(await Promise.all(some.map((found) => cancelOne(found, parts)))));
  }
  const canceled = answers.filter(Boolean).length;
  return { canceled, tooLate: answers.length - canceled };
}

async function cancelOne({ queue, job }: Found, { connection, deciders }: CancelParts): Promise<boolean> {
  const standing = standingOf(job);
  if (standing !== 'waits' && standing !== 'merged') return standing === 'canceled';
  const data = job.data as { readonly recipientId: string; readonly pushType?: unknown; readonly alert?: unknown };
  const jobId = job.id ?? '';
  const { asks = 0, dueAt = 0 } = progressOf(job);
  const keepMs = KEPT_MS + Math.max(0, dueAt - Date.now(), job.timestamp + job.delay - Date.now());
  const [answer] = await deciders[countedAs(data)].cancel(data.recipientId, [{ jobId, asks, keepMs }]);
  if (answer?.canceled !== true) return false;
  // Where its job goes on, it is a digest of others, which has nothing of it: however that ends, it is canceled.
  const isForOthers = !answer.wake.includes(jobId);
  const after = await afterPass(queue, jobId, connection);
  if (after.job !== undefined && after.standing === 'merged') await tellCanceled(queue, after.job);
  // Also the job itself, where an earlier call could not wake it.
  const wake = new Set([jobId, ...answer.wake]);
  await redelay(
    queue,
    [...wake].map((id) => ({ jobId: id, at: 0 })),
  );
  return isForOthers || after.standing !== 'ended';
}

/**
 * The job when no pass of it is under way. The limiter knows an admission only as long as its windows: a send that takes longer is
 * known by its job lock. And a pass may be about to end as `merged`. It ends within milliseconds if it sends nothing.
 */
async function afterPass(
  queue: Queue,
  jobId: string,
  connection: Connection,
): Promise<{ readonly standing: Standing; readonly job: Job<unknown> | undefined }> {
  const deadline = performance.now() + PASS_MS;
  for (;;) {
    const isLocked = (await connection.exists(lockKeyOf(queue, jobId))) === 1; // before the job: a pass writes its end, then unlocks
    const job = await findJob(queue, jobId);
    const standing = job === undefined ? 'waits' : standingOf(job);
    if (standing !== 'waits' || !isLocked || performance.now() > deadline) return { standing, job };
    await sleep(LOOK_MS);
  }
}

const CANCEL_MERGED = defineQueueScript<number>(new URL('cancel-merged.lua', import.meta.url), 2);

/** Tells what became of a part of a digest after it was told as `merged`. */
async function tellCanceled(queue: Queue, job: Job<unknown>): Promise<void> {
  const { id: jobId = '', data, timestamp, opts } = job;
  const { recipientId, category } = data as { readonly recipientId: string; readonly category?: string };
  const { generation = 0 } = opts as { readonly generation?: number };
  const endedAt = Date.now();
  const outcome = 'canceled';
  const ended: Ended = { outcome, endedAt, devices: {} };
  const entry = outcomeFields({
    ...{ id: notificationIdOf(jobId), recipientId, ...(category !== undefined && { category }), ...targetOf(data) },
    ...{ outcome, generation, enqueuedAt: timestamp, devices: {} },
    waitMs: waitOf(waitsFrom(timestamp, data), undefined, endedAt),
  });
  const keys = [queue.toKey(jobId), outcomesKey(queue.opts.prefix ?? '')];
  await CANCEL_MERGED(queue, [...keys, JSON.stringify(ended), ...entry]);
}

/** `merged`: it is a part of a digest, or was. `ended`: it has ended otherwise, or it may have alerted a device. */
type Standing = 'waits' | 'merged' | 'canceled' | 'ended';

function standingOf(job: Job<unknown>): Standing {
  const { outcome, forOthers } = (job.returnvalue ?? {}) as Partial<Ended>;
  if (job.finishedOn !== undefined) {
    if (forOthers === true) return 'canceled';
    if (outcome === 'merged') return outcome;
    return outcome === 'canceled' ? 'canceled' : 'ended';
  }
  const { devices = {}, ambiguous = 0, trying = [] } = progressOf(job);
  const mayHaveAlerted = Object.values(devices).some((state) => state === 'delivered' || state === 'ambiguous');
  return mayHaveAlerted || ambiguous > 0 || trying.length > 0 ? 'ended' : 'waits';
}

/** What is read of a job's progress; delivery/progress.ts writes it. */
interface Progress {
  readonly devices?: Readonly<Record<string, unknown>>;
  readonly ambiguous?: number;
  readonly trying?: readonly string[];
  readonly asks?: number;
  readonly dueAt?: number;
}

function progressOf({ progress }: Job<unknown>): Progress {
  return typeof progress === 'object' ? progress : {};
}
