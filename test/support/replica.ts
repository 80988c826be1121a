import { onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config/config.ts';
import { createLog } from '../../src/observe/log.ts';
import { createProducer, type Producer, type ProducerOptions } from '../../src/producer/producer.ts';
import type { Sandbox, SandboxOptions } from '../../sandbox/sandbox.ts';
import { NO_LATENCY } from '../../sandbox/loopback/timing.ts';
import { startReplica, type Replica } from '../../workers/replica.ts';
import { openSandbox } from './providers.ts';
import { testTarget } from './redis.ts';
import { waitFor } from './wait.ts';
import { openWorkerQueues, type WorkerQueues } from './worker.ts';

/** Replicas in this process, at loopback providers, and a producer. */
export interface ReplicaBench extends WorkerQueues {
  readonly sandbox: Sandbox;
  readonly producer: Producer;
  /** The log lines of all replicas. */
  readonly lines: readonly string[];
  /** The first log line that matches, also one that has passed. */
  readonly line: (pattern: RegExp) => Promise<string>;
  /** Starts one; it stops when the test ends, or before that by its `stop`. */
  readonly startHere: (env?: Readonly<Record<string, string>>) => Promise<Replica>;
}

export async function openReplicaBench(
  sandboxOptions: SandboxOptions = { latency: NO_LATENCY },
  producerOptions: ProducerOptions = {},
): Promise<ReplicaBench> {
  const sandbox = await openSandbox(sandboxOptions);
  const queues = openWorkerQueues(sandbox.env());
  const { prefix } = queues;
  const producer = createProducer({ ...testTarget(), prefix, ...producerOptions });
  onTestFinished(() => producer.close());
  const lines: string[] = [];
  return {
    ...queues,
    sandbox,
    producer,
    lines,
    line: (pattern) =>
      waitFor(() => {
        const found = lines.find((line) => pattern.test(line));
        if (found === undefined) throw new Error(`no line like ${String(pattern)} in\n${lines.join('')}`);
        return found;
      }),
    async startHere(more = {}) {
      const env = { ...queues.env, METRICS_PORT: 'off', ...more };
      const log = createLog('info', { write: (line) => void lines.push(line) });
      const { signal } = new AbortController();
      const replica = await startReplica(loadConfig(env), log, { env, signal });
      let stopping: Promise<void> | undefined;
      const stop = (): Promise<void> => (stopping ??= replica.stop());
      onTestFinished(stop);
      return { ...replica, stop };
    },
  };
}
