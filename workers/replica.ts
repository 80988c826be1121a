import type { Breakers } from '../src/breaker/breaker.ts';
import { accountsOf, quotasOf } from '../src/config/apps-file.ts';
import { hasOwnLimiter, type Config } from '../src/config/config.ts';
import { accountIn, type Account } from '../src/notification/device.ts';
import type { Died } from '../src/dead-letters/store.ts';
import { InputError } from '../src/domain/faults.ts';
import { ruleName } from '../src/domain/limits.ts';
import { SEND_AFTER, within } from '../src/domain/time.ts';
import type { Environment } from '../src/environment/values.ts';
import { limitsOf, paceOf } from '../src/limiter/pace.ts';
import type { Logger } from '../src/observe/log.ts';
import { createMetrics } from '../src/observe/metrics.ts';
import { createClockMetrics } from '../src/observe/shared-metrics.ts';
import { createAccounts, startRotation, type Accounts } from './accounts.ts';
import { consumedPrefixes } from '../src/queue/shards/layout.ts';
import { layoutKey } from '../src/queue/names.ts';
import { openMs, startBreakers } from './breakers.ts';
import { noteDiedUnseen, startConsumer, watchClock, watchLocks, type Consumer } from './consumer.ts';
import { keepDeadLetters } from './dead-letters.ts';
import { serveReplica, showShared, startReplicaPresence } from './pages.ts';
import { watchLosses } from './losses.ts';
import { placesIn, sweepFormer, watchLayout } from './layout.ts';
import type { SeenStamps } from '../src/redis/stamp.ts';
import { createPasses } from './passes.ts';
import { watchReach } from './reach.ts';
import { connect, LIMITER_TIMEOUT_MS, openQueues, type ConnectOptions } from './redis.ts';
import { watchWedge } from './wedge.ts';

export interface Replica {
  /** The address of `/metrics`, `/healthz` and `/readyz`; undefined if they are off. */
  readonly url: string | undefined;
  /** BullMQ's id of its own worker for each queue: the value of a job lock is `<id>:<number>`. */
  readonly workerIds: readonly string[];
  /** How many shards there are now, whatever QUEUE_SHARDS says; undefined in the parent of several workers, which say it. */
  readonly shards: number | undefined;
  /** Reads the files of the credentials again. @param why for the log */
  reload(why: string): void;
  /** Takes no more jobs, finishes jobs under way within the grace period, gives back the others, and closes everything. */
  stop(): Promise<void>;
}

/** How long a starting worker waits until Redis answers. */
const START_TIMEOUT_MS = 30_000;
/** How long aborted sends may take to end, and a part to close. */
const ABORT_MS = 2_000;

export interface StartOptions extends Pick<ConnectOptions, 'signal'> {
  /** Called when other queues are to be consumed: stop this worker and start a new one. Default: it keeps its queues. */
  readonly onQueuesChanged?: () => void;
  /** What earlier replicas of this process have seen of Redis, so that this one notices what was lost meanwhile. */
  readonly seen?: SeenStamps;
  readonly timeoutMs?: number;
  /** The environment from which `config` was read. Files that the environment names are read again when they change. */
  readonly env: Environment;
  /** How long the worker must take no job before `/healthz` reports it, in milliseconds. Default: WEDGED_AFTER_MS. */
  readonly wedgedAfterMs?: number;
}

/** Creates all parts of a worker, and starts to consume. If a part cannot be created, it closes everything and rejects. */
export async function startReplica(config: Config, log: Logger, options: StartOptions): Promise<Replica> {
  const closing = new AsyncDisposableStack();
  try {
    return await compose(config, log, { timeoutMs: START_TIMEOUT_MS, ...options }, closing);
  } catch (error) {
    await closing.disposeAsync();
    throw error;
  }
}

/** @param closing closes the parts, in the reverse order of their creation */
async function compose(
  config: Config,
  log: Logger,
  connecting: ConnectOptions & Omit<StartOptions, 'timeoutMs'>,
  closing: AsyncDisposableStack,
): Promise<Replica> {
  const connections = await connect(config, log, connecting, closing);
  const { queue: redis, limiter: limiterRedis } = connections;
  const { prefix } = config.queue;
  const { onQueuesChanged, seen, timeoutMs, signal, env } = connecting;
  const layout = await watchLayout(config, { connection: redis, log, onQueuesChanged, timeoutMs, signal });
  closing.defer(() => layout.stop());
  const shards = openQueues(redis, consumedPrefixes(layout.current()), closing);
  const queues = shards.map(({ queue }) => queue);
  const clocks = queues.map((queue) => watchClock(queue, log));
  closing.defer(() => clocks.forEach((clock) => clock.close()));
  const now = (): number => clocks[0]?.now() ?? Date.now();

  const accounts: Accounts = createAccounts({
    redis: limiterRedis,
    prefix,
    timeoutMs: LIMITER_TIMEOUT_MS,
    isWaiting: (account) => breakers.current(account) !== undefined,
  });
  closing.defer(() => within(accounts.close(), ABORT_MS));
  const { faults } = accounts.apply(config);
  if (faults.length > 0) throw new InputError('bad credentials', faults);
  await accounts.connect(); // this only connects: only what a producer enqueued is ever sent

  const consumers: Consumer[] = [];
  const metrics = createMetrics({
    lateAfterMs: paceOf(config.policy).toleranceMs,
    rules: rulesOf(config),
    jobs: () => placesOf(consumers),
    breakersOpenMs: () => services().map(([service, open]) => [service, open && openMs(open, now())] as const),
    unreachableMs: () => {
      const unreached = reach.unreached();
      const all = new Set([...services().map(([service]) => service), ...unreached.keys()]);
      return [...all].map((service) => [service, unreached.get(service)?.failure.forMs ?? 0] as const);
    },
  });
  const breakers: Breakers = startBreakers(config, { redis: limiterRedis, metrics, log, now });
  closing.defer(() => breakers.close());
  /** The services that have credentials here: the breakers of platforms that are off say nothing. */
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
  const rotation = startRotation({ env, files: config.files, accounts, use, log });
  closing.defer(() => rotation.stop());
  // Done before the first job is taken: a worker whose pages cannot be served must not take any.
  const wedge = watchWedge({ consumers, queues, connection: redis, log, boundMs: connecting.wedgedAfterMs });
  closing.defer(() => wedge.stop());
  const keys = [layoutKey(prefix), ...queues.map((queue) => queue.toKey('meta'))];
  const pageParts = {
    connections: [redis, limiterRedis],
    keys,
    consumers,
    metrics,
    services,
    reach,
    wedge,
    now,
    log,
    env,
  };
  const pages = config.metrics && (await serveReplica(config.metrics, pageParts));
  if (pages) closing.defer(() => pages.close());

  const locks = watchLocks(log);
  closing.defer(() => locks.stop());
  const onLockLost = (jobId: string): void => locks.lost(jobId);
  const graceOver = new AbortController();
  const passParts = {
    connections,
    accounts,
    breakers,
    queues,
    deadQueues: shards.map(({ deadQueue }) => deadQueue),
    layout: layout.current,
    onLockLost,
    now,
    metrics,
    log,
    closing,
    env,
  };
  const passes = await createPasses(config, { ...passParts, signal: graceOver.signal });
  const { lockMs, maxStalls, outcomesMax } = config;
  const onDiedUnseen = (died: Died): void => noteDiedUnseen(died, { log, metrics });
  for (const [index, shard] of shards.entries()) {
    const clock = clocks[index] ?? watchClock(shard.queue, log);
    const concurrency = placesIn(shard.prefix, layout.current(), config.concurrency);
    const consumer = await startConsumer({
      ...{ connection: redis, shard, clock, concurrency, lockMs, maxStalls, outcomesMax },
      ...{ log, ...passes, onLockLost, onDiedUnseen },
    });
    consumers.push(consumer);
    closing.defer(() => within(consumer.close(), ABORT_MS));
  }
  createClockMetrics(metrics.registry, () => consumers.map(({ clock }) => clock.offsetMs));
  const keeper = keepDeadLetters(config, { connection: redis, queues: shards, registry: metrics.registry, log });
  closing.defer(() => keeper.stop());
  const shared = { redis, ...(hasOwnLimiter(config) && { limiterRedis }), queues, prefix, accounts };
  showShared({ ...shared, registry: metrics.registry });
  const losses = watchLosses({ ...shared, registry: metrics.registry, log, ...(seen && { seen }) });
  closing.defer(() => losses.stop());
  const presence = await startReplicaPresence(config, {
    ...{ redis, consumers, accounts, breakers, reach, metrics, losses, layout: layout.current },
  });
  closing.defer(() => presence.close());

  const sweep = sweepFormer(config, {
    ...{ connection: redis, layout: layout.current, log },
    ...{ giveBack: passes.giveBack, onDiedUnseen },
  });
  closing.defer(() => sweep.stop());

  return {
    url: pages?.url,
    workerIds: consumers.map(({ worker }) => worker.id),
    get shards() {
      return layout.current().prefixes.length;
    },
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

/** The names in the metrics of the rules that can make a notification wait: the rules of the policies and of the quotas. */
function rulesOf({ policy, categories, apartRules, ...credentials }: Config): string[] {
  const ofCategories = Object.entries(categories).flatMap(([name, each]) => limitsOf(each, name));
  const apart = Object.values(apartRules).flatMap((rules) => limitsOf({ rules, minGapMs: 0 }, undefined));
  const limits = [...limitsOf(policy, undefined), ...ofCategories, ...apart].map(({ name }) => name);
  const quotas = [...accountsOf(credentials)]
    .flatMap(([account, { quota }]) => quotasOf(account, quota))
    .flatMap(([service, rules]) => rules.map((rule) => `${service}:${ruleName(rule)}`));
  return [...new Set(['quiet', 'block', SEND_AFTER, ...limits, ...quotas])];
}

/** How many jobs take a place now, and how many places there are. */
function placesOf(consumers: readonly Consumer[]): { readonly inHand: number; readonly places: number } {
  const all = consumers.map(({ worker }) => worker.inHand);
  return {
    inHand: all.reduce((sum, { all, asleep }) => sum + all - asleep, 0),
    places: all.reduce((sum, { places }) => sum + places, 0),
  };
}
