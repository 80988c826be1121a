import { Queue } from 'bullmq';
import { onTestFinished } from 'vitest';
import { DEAD_LETTERS, QUEUE } from '../../src/queue/names.ts';
import { DEFAULT_LATENCY } from '../../sandbox/loopback/timing.ts';
import type { Sandbox, SandboxOptions } from '../../sandbox/sandbox.ts';
import { startProcess, type TestProcess } from './process.ts';
import { openSandbox } from './providers.ts';
import { connectRedis, redisEnv, testPrefix } from './redis.ts';

const WORKER = 'workers/notifications.ts';

/** Both queues as a plain BullMQ client sees them, under a prefix of their own, and a way to start workers on them. */
export type WorkerQueues = Omit<WorkerBench, 'sandbox'>;

/** Queues of their own, and workers that find the providers by `providerEnv`. */
export function openWorkerQueues(providerEnv: Readonly<Record<string, string>>): WorkerQueues {
  const prefix = testPrefix();
  const connection = connectRedis();
  const queue = new Queue(QUEUE, { connection, prefix });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix });
  onTestFinished(async () => {
    await Promise.all([queue.close(), deadQueue.close()]);
  });
  const env = { ...providerEnv, ...redisEnv(), QUEUE_PREFIX: prefix, METRICS_PORT: '0' };
  return {
    queue,
    deadQueue,
    prefix,
    env,
    startWorker: async (more = {}, nodeFlags = [], program = WORKER) => {
      const worker = startProcess({ args: [...nodeFlags, program], env: { ...env, ...more } });
      const line = JSON.parse(await worker.waitForLine(/"msg":"ready"/)) as { metrics: string };
      return { ...worker, url: line.metrics };
    },
  };
}

/** A worker process, and the address of its pages. */
export type TestWorker = TestProcess & { readonly url: string };

/** A worker process at the loopback providers, and its queues as a plain BullMQ client sees them. */
export interface WorkerBench {
  readonly sandbox: Sandbox;
  readonly queue: Queue;
  readonly deadQueue: Queue;
  readonly prefix: string;
  readonly env: Readonly<Record<string, string>>;
  /** Starts one more worker and resolves when it consumes. `program`: that of another version (test/support/versions.ts). */
  readonly startWorker: (
    env?: Readonly<Record<string, string>>,
    nodeFlags?: readonly string[],
    program?: string,
  ) => Promise<TestWorker>;
}

/** The providers are as slow as real ones; `{ latency: NO_LATENCY }` for those that answer at once. */
export async function openWorkerBench(options: SandboxOptions = {}): Promise<WorkerBench> {
  const sandbox = await openSandbox({ latency: DEFAULT_LATENCY, ...options });
  return { sandbox, ...openWorkerQueues(sandbox.env()) };
}
