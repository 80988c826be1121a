import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../src/config/config.ts';
import type { Breakers } from '../src/breaker/breaker.ts';
import { createProcessor } from '../src/delivery/processor.ts';
import { createRedisLimiter } from '../src/limiter/redis/redis-limiter.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import { createClockMetrics, createMetrics } from '../src/observe/metrics.ts';
import { connectLimiter, connectWorker, whenReady, type Connection } from '../src/redis/connection.ts';
import { shardPrefixes } from '../src/queue/shards.ts';
import { startConsumer, TROUBLE_EVERY_MS, type Consumer } from './consumer.ts';
import { openMs, startBreakers } from './breakers.ts';
import { keepDeadLetters } from './dead-letters.ts';
import { queueDepth, serveReplica } from './pages.ts';
import { within } from '../src/domain/time.ts';
import { createProviders } from './providers.ts';
import { createQuotas } from './quotas.ts';
import { createReplyListener } from './replies.ts';

/** A running replica. */
export interface Replica {
  /** Where `/metrics`, `/healthz` and `/readyz` are; undefined where they are off. */
  readonly url: string | undefined;
  /** Takes no more jobs, finishes those in flight within the grace period, gives back the rest, closes everything. */
  stop(): Promise<void>;
}

/** How long a worker that comes up before its Redis waits for it. */
const START_TIMEOUT_MS = 30_000;
const START_RETRY_MS = 500;
/** How long an ask may take before the job is put back. */
const LIMITER_TIMEOUT_MS = 2_000;
/** How long aborted sends may take to say so. */
const ABORT_MS = 2_000;

export interface StartOptions {
  /** Fires when the start is no longer wanted. */
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

/** Config → parts → a replica that consumes. Rejects, with everything closed again, where a part cannot be had. */
export async function startReplica(config: Config, log: Logger, options: StartOptions): Promise<Replica> {
  const parts = new AsyncDisposableStack();
  try {
    return await compose(config, log, options, parts);
  } catch (error) {
    await parts.disposeAsync();
    throw error;
  }
}

/** The parts close in the reverse of this order. */
async function compose(
  config: Config,
  log: Logger,
  { signal, timeoutMs = START_TIMEOUT_MS }: StartOptions,
  parts: AsyncDisposableStack,
): Promise<Replica> {
  const connection = connectWorker(config.redis);
  const limiterConnection = connectLimiter(config.limiterRedis, LIMITER_TIMEOUT_MS);
  const connections = [connection, limiterConnection];
  const sparing = createSparing(TROUBLE_EVERY_MS);
  for (const redis of connections) {
    redis.on('error', ({ message: reason }: Error) => {
      const untold = sparing(reason);
      if (untold !== undefined) log.warn({ reason, untold }, 'no connection to Redis');
    });
    parts.defer(() => redis.disconnect());
  }
  await Promise.all(connections.map((redis) => untilReady(redis, timeoutMs, signal)));

  const { policy, categories, concurrency, queue, maxPending } = config;
  const providers = createProviders(config);
  for (const provider of providers.values()) parts.defer(() => within(provider.close(), ABORT_MS));
  const limiterOptions = { policy, categories, prefix: queue.prefix, timeoutMs: LIMITER_TIMEOUT_MS };
  const limiter = createRedisLimiter({ redis: limiterConnection, ...limiterOptions });
  const quotas = createQuotas(config, limiterConnection, LIMITER_TIMEOUT_MS);
  for (const quota of quotas.values()) parts.defer(() => quota.close());
  // Connecting, and nothing else: no request is sent that no producer enqueued.
  await Promise.all([...providers.values()].map((provider) => provider.connect()));

  const consumers: Consumer[] = [];
  const graceOver = new AbortController();
  const metrics = createMetrics({
    queueDepth: () => queueDepth(consumers),
    breakerOpenMs: (platform) => openMs(breakers.current(platform)),
  });
  const breakers: Breakers = startBreakers(config, { redis: limiterConnection, metrics, log });
  parts.defer(() => breakers.close());
  // Before the first job is taken: a port that cannot be had must not leave a worker behind that nobody sees.
  const pages =
    config.metrics && (await serveReplica(config.metrics, { connections, consumers, metrics, breakers, log }));
  if (pages) parts.defer(() => pages.close());

  const process = createProcessor({
    limiter,
    overallGapMs: policy.minGapMs,
    quotas,
    providers,
    breakers,
    maxWaitMs: config.maxWaitMs,
    maxPending,
    retry: config.retry,
    atMostOnce: config.atMostOnce,
    now: Date.now,
    random: Math.random,
    signal: graceOver.signal,
    onReply: createReplyListener({ redis: connection, prefix: queue.prefix, metrics, log }),
    log,
    metrics,
  });
  const perShard = Math.max(1, Math.ceil(concurrency / queue.shards));
  for (const prefix of shardPrefixes(queue.prefix, queue.shards)) {
    const consumer = await startConsumer({
      connection,
      prefix,
      concurrency: perShard,
      lockMs: config.lockMs,
      maxStalls: config.maxStalls,
      log,
      process,
    });
    consumers.push(consumer);
    parts.defer(() => within(consumer.close(), ABORT_MS));
  }
  createClockMetrics(metrics.registry, () => consumers.map(({ clock }) => clock.offsetMs));
  const keeper = keepDeadLetters({ connection, queue, bounds: config.deadLetters, registry: metrics.registry, log });
  parts.defer(() => keeper.stop());

  return {
    url: pages?.url,
    stop: async () => {
      const drained = Promise.all(consumers.map((consumer) => consumer.drain()));
      await within(drained, config.shutdownGraceMs);
      graceOver.abort();
      for (const provider of providers.values()) provider.abort();
      await within(drained, ABORT_MS);
      await parts.disposeAsync();
    },
  };
}

/** As `whenReady`, but a refused connection is tried again: Redis may come up after its workers. */
async function untilReady(redis: Connection, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    signal.throwIfAborted();
    try {
      await whenReady(redis, START_RETRY_MS);
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(START_RETRY_MS);
    }
  }
}
