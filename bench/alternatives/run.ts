import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Queue, type JobType } from 'bullmq';
import { Redis } from 'ioredis';
import type { ProvidersProcess } from '../../demo/providers-process.ts';
import { isAlive, startReplicas } from '../../demo/replicas.ts';
import { formatDuration } from '../../src/domain/time.ts';
import { ruleName } from '../../src/domain/limits.ts';
import { JOB, QUEUE } from '../../src/queue/names.ts';
import { createProducer } from '../../src/queue/producer.ts';
import type { Arrival } from '../../sandbox/judge.ts';
import { arrivalInstant } from '../../sandbox/journal.ts';
import { CONCURRENCY, WORKERS, type Alternative } from './alternative.ts';
import { POLICY, type Burst, type Push } from './burst.ts';

export interface RunOptions {
  readonly alternative: Alternative;
  readonly burst: Burst;
  readonly redisUrl: string;
  readonly providers: ProvidersProcess;
}

/** What one alternative did with the burst. */
export interface Run {
  readonly alternative: Alternative;
  /** What the providers accepted. */
  readonly arrivals: readonly Arrival[];
  /** When the burst was enqueued: epoch milliseconds, on the clock of the arrivals. */
  readonly enqueuedAt: number;
  /** How often the workers took a job, all jobs together. */
  readonly passes: number;
}

const PREFIX = '{alternatives}';
const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));
const POLL_MS = 100;
/** Longer than all of them take in turn. What has not ended by then counts as lost. */
const TIME_LIMIT_MS = 180_000;
const UNFINISHED: JobType[] = ['wait', 'prioritized', 'delayed', 'active'];

/** Starts the workers of one alternative on an empty Redis, enqueues the burst, and waits until all of it has ended. */
export async function runAlternative(options: RunOptions): Promise<Run> {
  const { alternative, burst, redisUrl, providers } = options;
  await using cleanup = new AsyncDisposableStack();
  const connection = cleanup.adopt(new Redis(redisUrl, { maxRetriesPerRequest: null }), (it) => {
    it.disconnect();
  });
  await connection.flushall();
  const queue = cleanup.adopt(new Queue(QUEUE, { connection, prefix: PREFIX }), (it) => it.close());
  const first = providers.entries.length;
  const workers = await startWorkers(options);
  cleanup.defer(() => workers.stop());

  const enqueuedAt = arrivalInstant();
  await enqueue(alternative, [...burst.busy, ...burst.others], queue, connection);
  await untilEnded(queue);
  await providers.order({ do: 'flush' });
  const jobs = await queue.getJobs([...UNFINISHED, 'completed', 'failed']);
  const accepted = providers.entries.slice(first).filter((entry) => entry.accepted);
  return {
    alternative,
    enqueuedAt,
    passes: jobs.reduce((sum, { attemptsStarted }) => sum + attemptsStarted, 0),
    arrivals: accepted.map(({ token, title, at }) => ({
      recipientId: burst.recipientOf.get(token) ?? 'unknown',
      notificationId: title ?? '',
      device: token,
      at,
    })),
  };
}

/** Each as its documentation says: pushpacer's producer, and for BullMQ's own workers BullMQ's own queue. */
async function enqueue(alternative: Alternative, all: readonly Push[], queue: Queue, connection: Redis): Promise<void> {
  if (alternative !== 'pushpacer') {
    await queue.addBulk(all.map((data) => ({ name: JOB, data, opts: { jobId: data.id } })));
    return;
  }
  const producer = createProducer({ connection, prefix: PREFIX });
  await producer.enqueueMany(all);
  await producer.close();
}

async function untilEnded(queue: Queue): Promise<void> {
  const deadline = performance.now() + TIME_LIMIT_MS;
  while (performance.now() < deadline) {
    const counts = await queue.getJobCounts(...UNFINISHED);
    if (Object.values(counts).every((count) => count === 0)) return;
    await sleep(POLL_MS);
  }
}

async function startWorkers({ alternative, redisUrl, providers }: RunOptions): Promise<{ stop(): Promise<void> }> {
  const env = { ...providers.env, REDIS_URL: redisUrl, QUEUE_PREFIX: PREFIX };
  if (alternative === 'pushpacer') {
    const limits = {
      LIMIT_RULES: POLICY.rules.map(ruleName).join(),
      LIMIT_MIN_GAP: formatDuration(POLICY.minGapMs),
      WORKER_CONCURRENCY: String(CONCURRENCY),
    };
    const replicas = await startReplicas({ count: WORKERS, env: { ...env, ...limits } });
    return {
      async stop() {
        await replicas.stop();
      },
    };
  }
  const children = Array.from({ length: WORKERS }, () =>
    fork(WORKER, [alternative], {
      env: { ...process.env, ...env },
      execArgv: [],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    }),
  );
  await Promise.all(
    children.map(async (child) => {
      const ended = once(child, 'exit').then(([code]) => {
        throw new Error(`a worker of ${alternative} ended before it was ready (exit code ${String(code)})`);
      });
      await Promise.race([once(child, 'message'), ended]);
    }),
  );
  return {
    async stop() {
      await Promise.all(
        children.filter(isAlive).map(async (child) => {
          const exited = once(child, 'exit');
          child.kill('SIGTERM');
          await exited;
        }),
      );
    },
  };
}
