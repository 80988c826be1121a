import type { Job, Queue } from 'bullmq';
import { findJob } from '../../src/queue/readable.ts';
import { parseNotification, type Notification } from '../../src/domain/notification.ts';
import { SEND_AFTER } from '../../src/domain/send-after.ts';
import { readProgress } from '../../src/delivery/progress.ts';
import { dueAtOfScore } from '../../src/queue/bullmq-internals.ts';
import type { Connection } from '../../src/redis/connection.ts';
import { notificationIdOf } from '../../src/queue/names.ts';

/** Facts about a waiting notification from the queue, without texts and tokens. */
export interface WaitingJob {
  readonly id: string;
  readonly category?: string;
  readonly priority: Notification['priority'];
  /** Epoch milliseconds, on the producer's clock. */
  readonly enqueuedAt: number;
  /** Delivery attempts so far. */
  readonly attempts: number;
  /** How often it was requeued until its slot. */
  readonly requeues: number;
  /** What it waits for: the limiter's rule of its last requeue, `sendAfter`, `retry`, or `provider` (a breaker, a connection). */
  readonly waitsFor: string;
}

/** A delayed notification without a slot: it waits for a retry, or for its provider. */
export interface DelayedJob extends WaitingJob {
  /** When it comes back: epoch milliseconds on Redis's clock. */
  readonly dueAt: number;
}

/** Delayed jobs of one recipient, and whether all delayed jobs were looked at. */
export interface DelayedJobs {
  readonly found: readonly DelayedJob[];
  /** How many delayed jobs were looked at, those that are due first. */
  readonly lookedAt: number;
  /** How many delayed jobs there are. */
  readonly of: number;
}

const PAGE = 500;
/** BullMQ keeps no index by recipient: each delayed job has to be read. */
const MOST_LOOKED_AT = 20_000;

/** The jobs that are still in the recipient's queue, by their ids. */
export async function findJobs(queue: Queue<unknown>, jobIds: readonly string[]): Promise<Map<string, WaitingJob>> {
  const found = new Map<string, WaitingJob>();
  for (let from = 0; from < jobIds.length; from += PAGE) {
    const page = jobIds.slice(from, from + PAGE);
    const jobs = await Promise.all(page.map((id) => findJob(queue, id)));
    for (const [index, job] of jobs.entries()) {
      const [id, facts] = [page[index], job && factsOf(job)];
      if (id !== undefined && facts !== undefined) found.set(id, facts);
    }
  }
  return found;
}

/** The recipient's delayed jobs without those in `known`, the next one first. */
export async function findDelayed(
  queue: Queue<unknown>,
  connection: Connection,
  { recipientId, known }: { readonly recipientId: string; readonly known: ReadonlySet<string> },
): Promise<DelayedJobs> {
  const key = queue.toKey('delayed');
  const of = await queue.getDelayedCount();
  const most = Math.min(of, MOST_LOOKED_AT);
  const found: DelayedJob[] = [];
  for (let from = 0; from < most; from += PAGE) {
    const page = await connection.zrange(key, String(from), String(Math.min(from + PAGE, most) - 1), 'WITHSCORES');
    const dueAt = new Map(
      page.flatMap((id, index) => (index % 2 === 0 ? [[id, Number(page[index + 1])] as const] : [])),
    );
    const ids = [...dueAt.keys()].filter((id) => !known.has(id));
    const jobs = await Promise.all(ids.map((id) => findJob(queue, id)));
    for (const job of jobs) {
      if (job?.id === undefined || recipientOf(job.data) !== recipientId) continue;
      const facts = factsOf(job);
      if (facts !== undefined) found.push({ ...facts, dueAt: dueAtOfScore(dueAt.get(job.id) ?? 0) });
    }
  }
  return { found, lookedAt: most, of };
}

function recipientOf(data: unknown): unknown {
  return typeof data === 'object' && data !== null ? (data as { recipientId?: unknown }).recipientId : undefined;
}

function factsOf({ id = '', data, timestamp, progress }: Job<unknown>): WaitingJob | undefined {
  const withId = typeof data === 'object' && data !== null ? { id: notificationIdOf(id), ...data } : data;
  const parsed = parseNotification(withId);
  if (!parsed.ok) return undefined;
  const { category, priority, sendAfter } = parsed.notification;
  const { tries: attempts, requeues, rule, heldSince } = readProgress(progress);
  const isNew = attempts === 0 && heldSince === undefined && sendAfter !== undefined;
  return {
    id: parsed.notification.id,
    ...(category !== undefined && { category }),
    priority,
    enqueuedAt: timestamp,
    attempts,
    requeues,
    waitsFor: rule ?? (isNew ? SEND_AFTER : heldSince === undefined ? 'retry' : 'provider'),
  };
}
