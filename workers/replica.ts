import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../src/config/config.ts';
import { createGate } from '../src/delivery/gate.ts';
import { createProcessor } from '../src/delivery/processor.ts';
import { stalenessOf } from '../src/delivery/slot.ts';
import { createRedisLimiter } from '../src/limiter/redis-limiter.ts';
import type { Logger } from '../src/observe/log.ts';
import { createMetrics } from '../src/observe/metrics.ts';
import { connectProducer, connectWorker, whenReady } from '../src/queue/connection.ts';
import { shardPrefixes } from '../src/queue/shards.ts';
import { startConsumer, type Consumer } from './consumer.ts';
import { queueDepth, serveReplica } from './pages.ts';
import { createProviders } from './providers.ts';
import { createReplyListener } from './replies.ts';

/** A running replica. */
export interface Replica {
  /** Where `/metrics`, `/healthz` and `/readyz` are; undefined where they are off. */
  readonly url: string | undefined;
  /** Takes no more jobs, finishes those in flight within the grace period, gives back the rest, closes everything. */
  stop(): Promise<void>;
}

/** How long Redis may take to answer at the start. */
const START_TIMEOUT_MS = 30_000;
/** How long an ask may take before the job is put back. */
const LIMITER_TIMEOUT_MS = 2_000;
/** How long aborted sends may take to say so. */
const ABORT_MS = 2_000;

/** Config → parts → a replica that consumes. Rejects with RedisAwayError where Redis does not answer. */
export async function startReplica(config: Config, log: Logger): Promise<Replica> {
  const connection = connectWorker(config.redis);
  // Fails fast: what was asked while Redis was away must not be admitted when it is back.
  const limiterConnection = connectProducer(config.limiterRedis, LIMITER_TIMEOUT_MS);
  const connections = [connection, limiterConnection];
  for (const redis of connections) {
    redis.on('error', (error: Error) => log.warn({ reason: error.message }, 'no connection to Redis'));
  }
  try {
    await Promise.all(connections.map((redis) => whenReady(redis, START_TIMEOUT_MS)));
  } catch (error) {
    for (const redis of connections) redis.disconnect();
    throw error;
  }

  const providers = createProviders(config);
  await Promise.all([...providers.values()].map((provider) => provider.warm()));

  const { prefix, shards } = config.queue;
  const consumers: Consumer[] = [];
  const gate = createGate();
  const graceOver = new AbortController();
  const metrics = createMetrics({ queueDepth: () => queueDepth(consumers), pausedMs: gate.waitMs });
  const process = createProcessor({
    limiter: createRedisLimiter({
      redis: limiterConnection,
      policy: config.policy,
      prefix,
      timeoutMs: LIMITER_TIMEOUT_MS,
    }),
    staleness: stalenessOf(config.policy.minGapMs),
    providers,
    gate,
    maxWaitMs: config.maxWaitMs,
    retry: config.retry,
    now: Date.now,
    random: Math.random,
    signal: graceOver.signal,
    onReply: createReplyListener({ redis: connection, prefix, metrics, log }),
    log,
    metrics,
  });
  const { concurrency } = config;
  for (const shard of shardPrefixes(prefix, shards)) {
    consumers.push(await startConsumer({ connection, prefix: shard, concurrency, log, process }));
  }
  const pages = config.metrics && (await serveReplica(config.metrics, { connection, consumers, metrics, gate, log }));

  return {
    url: pages?.url,
    stop: async () => {
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

/** Waits for the work, but no longer than this. */
async function within(work: Promise<unknown>, ms: number): Promise<void> {
  const timer = new AbortController();
  await Promise.race([work, sleep(ms, undefined, { signal: timer.signal })]);
  timer.abort();
}
