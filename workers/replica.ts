import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../src/config/config.ts';
import { createGate } from '../src/delivery/gate.ts';
import { createProcessor } from '../src/delivery/processor.ts';
import { timingOf } from '../src/delivery/slot.ts';
import { createTransit } from '../src/delivery/transit.ts';
import { createRedisLimiter } from '../src/limiter/redis-limiter.ts';
import type { Logger } from '../src/observe/log.ts';
import { createMetrics } from '../src/observe/metrics.ts';
import { connectProducer, connectWorker, whenReady, type Connection } from '../src/queue/connection.ts';
import { shardPrefixes } from '../src/queue/shards.ts';
import { startConsumer, type Consumer } from './consumer.ts';
import { govern } from './governor.ts';
import { queueDepth, serveReplica } from './pages.ts';
import { createProviders } from './providers.ts';
import { createReplyListener } from './replies.ts';
import { warmUp } from './warm-up.ts';

/** A running replica. */
export interface Replica {
  /** Where `/metrics`, `/healthz` and `/readyz` are; undefined where they are off. */
  readonly url: string | undefined;
  /** Takes no more jobs, finishes those in flight within the grace period, gives back the rest, closes everything. */
  stop(): Promise<void>;
}

/** How long a worker that comes up before its Redis waits for it. */
const START_TIMEOUT_MS = 30_000;
const START_RETRY_MS = 250;
/** How long an ask may take before the job is put back. */
const LIMITER_TIMEOUT_MS = 2_000;
/** How long aborted sends may take to say so. */
const ABORT_MS = 2_000;

/** Config → parts → a replica that consumes. Rejects with RedisAwayError where Redis does not answer. */
export async function startReplica(
  config: Config,
  log: Logger,
  startTimeoutMs: number = START_TIMEOUT_MS,
): Promise<Replica> {
  const connection = connectWorker(config.redis);
  // Fails fast: what was asked while Redis was away must not be admitted when it is back.
  const limiterConnection = connectProducer(config.limiterRedis, LIMITER_TIMEOUT_MS);
  const connections = [connection, limiterConnection];
  for (const redis of connections) {
    redis.on('error', (error: Error) => log.warn({ reason: error.message }, 'no connection to Redis'));
  }
  try {
    await Promise.all(connections.map((redis) => untilReady(redis, startTimeoutMs)));
  } catch (error) {
    for (const redis of connections) redis.disconnect();
    throw error;
  }

  const providers = createProviders(config);
  const { prefix, shards } = config.queue;
  const { policy, concurrency } = config;
  const timeoutMs = LIMITER_TIMEOUT_MS;
  const limiter = createRedisLimiter({ redis: limiterConnection, policy, prefix, timeoutMs });
  await warmUp(limiter, providers);

  const consumers: Consumer[] = [];
  const gate = createGate();
  const graceOver = new AbortController();
  const metrics = createMetrics({ queueDepth: () => queueDepth(consumers), pausedMs: gate.waitMs });
  const process = createProcessor({
    limiter,
    timing: timingOf(policy),
    providers,
    gate,
    transit: createTransit(),
    maxWaitMs: config.maxWaitMs,
    retry: config.retry,
    now: Date.now,
    random: Math.random,
    signal: graceOver.signal,
    onReply: createReplyListener({ redis: connection, prefix, metrics, log }),
    log,
    metrics,
  });
  for (const shard of shardPrefixes(prefix, shards)) {
    consumers.push(await startConsumer({ connection, prefix: shard, concurrency, log, process }));
  }
  const governor = govern(
    consumers.map(({ worker }) => worker),
    concurrency,
  );
  const pages = config.metrics && (await serveReplica(config.metrics, { connection, consumers, metrics, gate, log }));

  return {
    url: pages?.url,
    stop: async () => {
      governor.stop();
      const drained = Promise.all(consumers.map((consumer) => consumer.drain()));
      await within(drained, config.shutdownGraceMs);
      graceOver.abort();
      await within(drained, ABORT_MS);
      await within(Promise.all(consumers.map((consumer) => consumer.close())), ABORT_MS);
      await Promise.all([...providers.values()].map((provider) => provider.close()));
      await pages?.close();
      for (const redis of connections) redis.disconnect();
    },
  };
}

/** As `whenReady`, but a refused connection is tried again: Redis may come up after its workers. */
async function untilReady(redis: Connection, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const leftMs = deadline - performance.now();
    try {
      await whenReady(redis, Math.max(1, leftMs));
      return;
    } catch (error) {
      if (leftMs < START_RETRY_MS) throw error;
      await sleep(START_RETRY_MS);
    }
  }
}

/** Waits for the work, but no longer than this. */
async function within(work: Promise<unknown>, ms: number): Promise<void> {
  const timer = new AbortController();
  await Promise.race([work, sleep(ms, undefined, { signal: timer.signal })]);
  timer.abort();
}
