import type { Breakers } from '../src/breaker/breaker.ts';
import type { Config } from '../src/config/config.ts';
import { accountIn, type Account } from '../src/domain/device.ts';
import { InputError } from '../src/domain/faults.ts';
import { within } from '../src/domain/time.ts';
import type { Environment } from '../src/environment/values.ts';
import { createCancelProcessor } from '../src/delivery/cancel.ts';
import { createProcessor } from '../src/delivery/deliver.ts';
import type { CountedApart } from '../src/domain/limits.ts';
import { apartOptions } from '../src/limiter/limiter.ts';
import { paceOf } from '../src/limiter/pace.ts';
import { createClock, keepClock } from '../src/limiter/redis/clock.ts';
import { createWaitingLimiter } from '../src/limiter/redis/redis-limiter.ts';
import { createClockMetrics, createMetrics } from '../src/observe/metrics.ts';
import type { Logger } from '../src/observe/log.ts';
import { redelay } from '../src/queue/job-lock.ts';
import { createCancellationIndex } from '../src/queue/cancellation-index.ts';
import { CANCEL, shardOf, shardPrefixes } from '../src/queue/names.ts';
import { createAccounts, type Accounts, startRotation } from './accounts.ts';
import { openMs, startBreakers, watchReach } from './breakers.ts';
import { createCancelling, startOutcomes, connect, LIMITER_TIMEOUT_MS, type ConnectOptions } from './redis.ts';
import { startConsumer, watchLocks, type Consumer, type ConsumerOptions } from './consumer.ts';
import { keepDeadLetters } from './dead-letters.ts';
import { queueDepth, serveReplica, startReplicaPresence } from './pages.ts';
import { createReplyListener } from './replies.ts';

/** A running replica. */
export interface Replica {
  /** Where `/metrics`, `/healthz` and `/readyz` are; undefined where they are off. */
  readonly url: string | undefined;
  /** BullMQ's id of its worker for each queue: the value of a job lock is `<id>:<number>`. */
  readonly workerIds: readonly string[];
  /** Reads the files of the credentials anew. @param why for the log */
  reload(why: string): void;
  /** Takes no more jobs, finishes those under way within the grace period, gives back the rest, closes everything. */
  stop(): Promise<void>;
}

/** How long a worker that comes up before its Redis waits for it. */
const START_TIMEOUT_MS = 30_000;
/** How long sends may take to end after they were aborted, and a part to close. */
const ABORT_MS = 2_000;

export interface StartOptions extends Pick<ConnectOptions, 'signal'> {
  readonly timeoutMs?: number;
  /** What `config` was read from. Its files are read again when they change. */
  readonly env: Environment;
}

/** Config -> parts -> a replica that consumes. Rejects, with everything closed again, where a part cannot be had. */
export async function startReplica(config: Config, log: Logger, options: StartOptions): Promise<Replica> {
  const closing = new AsyncDisposableStack();
  try {
    return await compose(config, log, { timeoutMs: START_TIMEOUT_MS, ...options }, closing);
  } catch (error) {
    await closing.disposeAsync();
    throw error;
  }
}

/** @param closing closes the parts, in the reverse of the order in which they are created here */
async function compose(
  config: Config,
  log: Logger,
  connecting: ConnectOptions & Pick<StartOptions, 'env'>,
  closing: AsyncDisposableStack,
): Promise<Replica> {
  const connections = await connect(config, log, connecting, closing);
  const { queue: redis, limiter: limiterRedis } = connections;
  const { policy, categories, quietHours, queue } = config;

  const clock = createClock();
  const clockKeeper = keepClock(clock, limiterRedis);
  closing.defer(() => clockKeeper.stop());
  await clockKeeper.measured;
  const limiterParts = { redis: limiterRedis, clock, timeoutMs: LIMITER_TIMEOUT_MS };
  const limiter = createWaitingLimiter({ ...limiterParts, policy, categories, quietHours, prefix: queue.prefix });
  const apart = (kind: CountedApart) =>
    createWaitingLimiter({ ...limiterParts, ...apartOptions(kind, config.apartRules[kind], queue.prefix) });
  const accounts: Accounts = createAccounts({
    redis: limiterRedis,
    prefix: queue.prefix,
    timeoutMs: LIMITER_TIMEOUT_MS,
    isWaiting: (account) => breakers.current(account) !== undefined,
  });
  closing.defer(() => within(accounts.close(), ABORT_MS));
  const { faults } = accounts.apply(config);
  if (faults.length > 0) throw new InputError('bad credentials', faults);
  await accounts.connect(); // this only connects: nothing is sent that no producer enqueued

  const consumers: Consumer[] = [];
  const metrics = createMetrics({
    lateAfterMs: paceOf(policy).toleranceMs,
    queueDepth: () => queueDepth(consumers),
    breakersOpenMs: () => services().map(([service, open]) => [service, openMs(open)] as const),
    unreachableMs: () => {
      const unreached = reach.unreached();
      const all = new Set([...services().map(([service]) => service), ...unreached.keys()]);
      return [...all].map((service) => [service, unreached.get(service)?.failure.forMs ?? 0] as const);
    },
  });
  const breakers: Breakers = startBreakers(config, { redis: limiterRedis, metrics, log });
  closing.defer(() => breakers.close());
  /** Of what has credentials here: the breakers of platforms that are off say nothing. */
  const services = () => {
    const known = new Set(accounts.names());
    return [...breakers.all()].filter(([service]) => known.has(accountIn(service)));
  };
  const use = (names: readonly Account[]): void => {
    breakers.use(names);
    metrics.use(names);
  };
  use(accounts.names());
  const reach = watchReach({ accounts, log });
  closing.defer(() => reach.stop());
  const rotation = startRotation({ env: connecting.env, files: config.files, accounts, use, log });
  closing.defer(() => rotation.stop());
  // Before the first job is taken: a replica whose pages cannot be served must not take any.
  const pageParts = { connections: [redis, limiterRedis], consumers, metrics, services, reach, log };
  const pages = config.metrics && (await serveReplica(config.metrics, pageParts));
  if (pages) closing.defer(() => pages.close());

  const locks = watchLocks(log);
  closing.defer(() => locks.stop());
  const graceOver = new AbortController();
  const outcomes = startOutcomes(config, { redis, log });
  const cancelling = createCancelling(connections, queue, closing);
  const cancelJob = createCancelProcessor(cancelling.cancel, log);
  const deliverJob = createProcessor({
    ...(outcomes && { outcomes }),
    limiter,
    apart: { background: apart('background'), liveactivity: apart('liveactivity') },
    overallGapMs: policy.minGapMs,
    toleranceMs: paceOf(policy).toleranceMs,
    index: createCancellationIndex(redis, queue.prefix, queue.shards),
    isCanceled: cancelling.isCanceled,
    redelay: async (recipientId, due) => {
      const queue = consumers[shardOf(recipientId, config.queue.shards)]?.queue;
      if (queue !== undefined) await redelay(queue, due);
    },
    quotas: accounts.quotas,
    providers: accounts.providers,
    breakers,
    maxWaitMs: config.maxWaitMs,
    maxPending: config.maxPending,
    retry: config.retry,
    atMostOnce: config.atMostOnce,
    now: Date.now,
    random: Math.random,
    signal: graceOver.signal,
    onReply: createReplyListener({ redis, prefix: queue.prefix, breakers, metrics, log }),
    onLockLost: (jobId) => locks.lost(jobId),
    log,
    metrics,
  });
  const process: ConsumerOptions['process'] = (job, lock, place) =>
    job.name === CANCEL ? cancelJob(job, lock) : deliverJob(job, lock, place);
  const { lockMs, maxStalls, outcomesMax } = config;
  const concurrency = Math.max(1, Math.ceil(config.concurrency / queue.shards));
  for (const prefix of shardPrefixes(queue.prefix, queue.shards)) {
    const consumer = await startConsumer({
      ...{ connection: redis, prefix, concurrency, lockMs, maxStalls, outcomesMax, log, process },
      onLockLost: (jobId) => locks.lost(jobId),
      onDiedUnseen: (outcome) => metrics.diedUnseen(outcome),
    });
    consumers.push(consumer);
    closing.defer(() => within(consumer.close(), ABORT_MS));
  }
  createClockMetrics(metrics.registry, () => consumers.map(({ clock }) => clock.offsetMs));
  const keeper = keepDeadLetters(config, { connection: redis, registry: metrics.registry, log });
  closing.defer(() => keeper.stop());
  const presence = await startReplicaPresence(config, { redis, consumers, accounts, breakers, reach, metrics });
  closing.defer(() => presence.close());

  return {
    url: pages?.url,
    workerIds: consumers.map(({ worker }) => worker.id),
    reload: (why) => rotation.reload(why),
    stop: async () => {
      const drained = Promise.all(consumers.map((consumer) => consumer.drain()));
      await within(drained, config.shutdownGraceMs);
      graceOver.abort();
      accounts.abort();
      await within(drained, ABORT_MS);
      await closing.disposeAsync();
    },
  };
}
