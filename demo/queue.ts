import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { factsOf } from '../src/dead-letters/facts.ts';
import type { StoredDeadLetter } from '../src/dead-letters/letter.ts';
import { createDeadLetters } from '../src/dead-letters/store.ts';
import { readProgress } from '../src/delivery/progress.ts';
import type { Policy } from '../src/domain/limits.ts';
import type { DeadLetterReason } from '../src/notification/outcome.ts';
import type { QuietHours } from '../src/domain/quiet-hours.ts';
import { createRedisLimiter } from '../src/limiter/redis/redis-limiter.ts';
import { DEAD_LETTERS, JOB, PRIORITY, QUEUE } from '../src/queue/names.ts';
import { invalidTokensKey } from '../src/queue/outcomes.ts';
import { createProducer, type Canceled, type CancelTarget } from '../src/producer/producer.ts';
import { connectWorker } from '../src/redis/connection.ts';
import { CommandError } from '../src/terminal/command.ts';
import { createProgress } from '../src/terminal/progress.ts';
import type { Endings } from './counts.ts';
import { withSendAfter, type Morning } from './morning.ts';
import type { SeenEntry } from './providers-child.ts';

/** A dead letter as the demo shows it, on the terminal, in `--json` and in the report. Has no token. */
export interface DemoDeadLetter {
  /** The dead letter's id. It is that of its notification. */
  readonly id: string;
  /** Null if the notification has none that is valid. */
  readonly recipientId: string | null;
  readonly reason: DeadLetterReason;
  /** The cause, in the worker's words. */
  readonly message: string;
}

/** The demo's queue, under a prefix of its own; `close` removes it. */
interface DemoQueue {
  readonly prefix: string;
  /** Takes about two seconds: a school writes its messages one after the other. */
  enqueue(morning: Morning): Promise<void>;
  cancel(target: CancelTarget): Promise<Canceled>;
  /** Stores quiet hours for a recipient; `close` removes them. */
  quiet(recipientId: string, hours: QuietHours): Promise<void>;
  /** Completed jobs and dead letters. */
  countEnded(): Promise<number>;
  endings(): Promise<Endings>;
  deadLetters(): Promise<DemoDeadLetter[]>;
  /** Replays one dead letter with this reason; answers its notification's id, or undefined if there is none. */
  replayOne(reason: string): Promise<string | undefined>;
  close(): Promise<void>;
}

function demoDeadLetter(stored: StoredDeadLetter): DemoDeadLetter {
  const { id, reason, message, notification } = factsOf(stored);
  return { id, recipientId: notification.recipientId ?? null, reason, message };
}

/** Those that are to wait together are the last of the morning, and come in one lot. */
const LOT = 44;
const LOT_EVERY_MS = 200;

export function openDemoQueue(redisUrl: string, policy: Policy): DemoQueue {
  const prefix = `{pushpacer-demo-${randomUUID().slice(0, 8)}}`;
  const connection = connectWorker({ redisUrl });
  const producer = createProducer({ connection, prefix });
  const queue = new Queue(QUEUE, { connection, prefix });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix });
  const deadLetters = createDeadLetters({ queue, deadQueue });
  const limiter = createRedisLimiter({ redis: connection, policy, prefix });
  const quieted: string[] = [];
  const letters = (): Promise<StoredDeadLetter[]> => deadLetters.page(0, 10_000);

  return {
    prefix,
    async enqueue({ valid, malformed }) {
      const now = Date.now();
      for (let from = 0; from < valid.length; from += LOT) {
        if (from > 0) await sleep(LOT_EVERY_MS);
        await producer.enqueueMany(valid.slice(from, from + LOT).map((input) => withSendAfter(input, now)));
      }
      // Added without `createProducer`, which would refuse them; a producer in another language might not.
      const opts = { priority: PRIORITY.normal };
      await queue.addBulk(malformed.map((data) => ({ name: JOB, data, opts: { ...opts, jobId: data.id } })));
    },
    cancel: (target) => producer.cancel(target),
    async quiet(recipientId, hours) {
      quieted.push(recipientId);
      await limiter.quiet(recipientId, hours);
    },
    countEnded: async () => (await queue.getCompletedCount()) + (await deadLetters.count()),
    async endings() {
      const jobs = await queue.getJobs(['completed']);
      const completed = jobs.map((job) => ({
        id: job.id ?? '',
        outcome: (job.returnvalue as { outcome: string }).outcome,
        requeues: readProgress(job.progress).requeues,
      }));
      return { completed, deadLettered: (await letters()).map(({ id }) => id) };
    },
    deadLetters: async () => (await letters()).map(demoDeadLetter),
    async replayOne(reason) {
      const stored = (await letters()).find(({ letter }) => letter.reason === reason);
      if (stored === undefined) return undefined;
      await deadLetters.replay(stored);
      return (stored.letter.notification as { id: string }).id;
    },
    async close() {
      await Promise.all(quieted.map((recipientId) => limiter.unquiet(recipientId)));
      await Promise.all([queue, deadQueue].map((one) => one.obliterate({ force: true })));
      await connection.unlink(invalidTokensKey(prefix));
      await producer.close();
      await Promise.all([queue.close(), deadQueue.close()]);
      connection.disconnect();
    },
  };
}

const POLL_MS = 200;
/** Far longer than the longest schedule: after this, something hangs. */
const TIMEOUT_MS = 120_000;

/** Shows progress until every notification has ended. */
export async function watch(queue: Pick<DemoQueue, 'countEnded'>, total: number): Promise<void> {
  const progress = createProgress('ended', total);
  const deadline = performance.now() + TIMEOUT_MS;
  try {
    for (;;) {
      const ended = await queue.countEnded();
      progress.update(ended);
      if (ended >= total) return;
      if (performance.now() > deadline)
        throw new CommandError(
          `only ${ended} of ${total} notifications ended within two minutes; look at the workers' logs`,
        );
      await sleep(POLL_MS);
    }
  } finally {
    progress.stop();
  }
}

/** Replays a dead letter whose cause was corrected, and waits for it at the provider. Its id, or undefined if it did not come. */
export async function replayCorrected(
  queue: Pick<DemoQueue, 'replayOne'>,
  entries: readonly SeenEntry[],
): Promise<string | undefined> {
  const id = await queue.replayOne('bad-token');
  const deadline = performance.now() + 10_000;
  while (id !== undefined && performance.now() < deadline) {
    if (entries.some(({ accepted, data }) => accepted && data['ref'] === id)) return id;
    await sleep(POLL_MS / 4);
  }
  return undefined;
}
