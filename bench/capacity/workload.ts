import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import type { NotificationInput } from '../../src/domain/notification.ts';
import { createProducer } from '../../src/queue/producer.ts';
import { DEAD_LETTERS, QUEUE } from '../../src/queue/names.ts';
import { makeJobs } from '../throughput/jobs.ts';
import { startWorker, type MeasuredWorker } from '../throughput/worker.ts';

export interface Surroundings {
  /** Points a worker at loopback providers. */
  readonly env: Readonly<Record<string, string>>;
  /** Where the workers' log goes. */
  readonly dir: string;
}

export const PREFIX = '{bench}';
const BATCH = 5_000;
const POLL_MS = 50;
/** If no count changes for this long, the run fails. */
const STUCK_MS = 30_000;

/** One FCM device and 100 bytes of text each; `forEach` of them go to the same recipient. */
export function makeNotifications(batch: string, count: number, forEach = 1): NotificationInput[] {
  return makeJobs('fcm', batch, count).map((job, index) => ({
    ...job,
    recipientId: `teacher-${batch}-${Math.floor(index / forEach)}`,
  }));
}

export async function enqueueAll(url: string, notifications: readonly NotificationInput[]): Promise<void> {
  const producer = createProducer({ redisUrl: url, prefix: PREFIX });
  try {
    for (let from = 0; from < notifications.length; from += BATCH) {
      const answers = await producer.enqueueMany(notifications.slice(from, from + BATCH));
      const refused = answers.find(({ kind }) => kind !== 'added');
      if (refused !== undefined) throw new Error(`expected every notification to be added, found one ${refused.kind}`);
    }
  } finally {
    await producer.close();
  }
}

/** One worker process on the bench's queue. */
export function startMeasured(
  url: string,
  dir: string,
  env: Readonly<Record<string, string>>,
): Promise<MeasuredWorker> {
  const own = { REDIS_URL: url, QUEUE_PREFIX: PREFIX, ...env };
  return startWorker({ side: 'pushpacer', platform: 'fcm', env: own, logFile: `${dir}/worker.log` });
}

/** A state of the queue, or the dead letters. */
export type State = 'delayed' | 'completed' | 'dead';

/** Has a worker deal with what is in the queue until so many are in that state. Throws where their number stops growing before. */
export async function workUntil(state: State, count: number, url: string, { env, dir }: Surroundings): Promise<void> {
  const worker = await startMeasured(url, dir, env);
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  const queue = new Queue(state === 'dead' ? DEAD_LETTERS : QUEUE, { connection, prefix: PREFIX });
  let [latest, sinceMs] = [0, performance.now()];
  try {
    for (;;) {
      const found = state === 'dead' ? await queue.count() : await queue.getJobCountByTypes(state);
      if (found === count) return;
      await worker.expectAlive();
      if (found !== latest) [latest, sinceMs] = [found, performance.now()];
      if (performance.now() - sinceMs > STUCK_MS) throw new Error(`expected ${count} ${state}, found ${found}`);
      await sleep(POLL_MS);
    }
  } finally {
    await queue.close();
    connection.disconnect();
    await worker.stop();
  }
}
