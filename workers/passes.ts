import type { Queue } from 'bullmq';
import type { Config } from '../src/config/config.ts';
import { createCancelProcessor } from '../src/delivery/cancel.ts';
import { readProgress } from '../src/delivery/context.ts';
import { createProcessor } from '../src/delivery/deliver.ts';
import { giveBack } from '../src/delivery/slot.ts';
import type { CountedApart } from '../src/domain/limits.ts';
import { errorChain } from '../src/domain/redact.ts';
import { apartOptions, forEachKind, type WaitingLimiter } from '../src/limiter/limiter.ts';
import { paceOf } from '../src/limiter/pace.ts';
import { createCanceller, createEndLook } from '../src/limiter/redis/canceller.ts';
import { createClock, keepClock } from '../src/limiter/redis/clock.ts';
import { recipientKeys } from '../src/limiter/redis/keys.ts';
import { createWaitingLimiter, type WaitingLimiterOptions } from '../src/limiter/redis/redis-limiter.ts';
import { createSparing } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';
import { cancelWaiting } from '../src/queue/cancel.ts';
import { createCancellationIndex } from '../src/queue/cancellation-index.ts';
import { redelay, type Due } from '../src/queue/job-lock.ts';
import { homesOf } from '../src/queue/layout.ts';
import { CANCEL } from '../src/queue/names.ts';
import { createOtherWorkers } from '../src/queue/workers.ts';
import { LimiterUnavailableError } from '../src/redis/deadline.ts';
import { createReplicaWait, ReplicasMissingError, type Confirm, type ReplicaWait } from '../src/redis/replicas.ts';
import { addressOf } from '../src/redis/target.ts';
import type { Accounts } from './accounts.ts';
import type { ConsumerOptions } from './consumer.ts';
import { LIMITER_TIMEOUT_MS, TROUBLE_EVERY_MS } from './redis.ts';
import { createReplyListener, createWatchers, type WatcherParts } from './watchers.ts';

interface PassParts extends Omit<WatcherParts, 'queuesOf'> {
  readonly accounts: Accounts;
  /** All that this replica consumes. */
  readonly queues: readonly Queue[];
  /** Fires when the grace period of a stop is over. */
  readonly signal: AbortSignal;
  readonly closing: AsyncDisposableStack;
}

/** What a pass does with its job: a notification is delivered, a job named `cancel` cancels what waits; and what ended without a pass. */
export async function createPasses(
  config: Config,
  parts: PassParts,
): Promise<Pick<ConsumerOptions, 'process' | 'completed' | 'giveBack'>> {
  const { connections, accounts, breakers, queues, layout, signal, metrics, log, closing } = parts;
  const { policy, categories, quietHours, apartRules, maxWaitMs, maxPending, retry, atMostOnce } = config;
  const { prefix } = config.queue;
  const homes = (recipientId: string): readonly string[] => homesOf(recipientId, layout());
  const queuesOf = (recipientId: string): readonly Queue[] =>
    homes(recipientId).flatMap((home) => queues.find(({ opts }) => opts.prefix === home) ?? []);

  const clock = createClock();
  const clockKeeper = keepClock(clock, connections.limiter);
  closing.defer(() => clockKeeper.stop());
  await clockKeeper.measured;
  const limiterParts = { redis: connections.limiter, clock, timeoutMs: LIMITER_TIMEOUT_MS };
  const replicas = config.waitReplicas.count > 0 ? replicaWaitOf(config, parts) : undefined;
  const limiterOf = (options: WaitingLimiterOptions): WaitingLimiter => {
    const limiter = timed(createWaitingLimiter(options), metrics);
    const keyOf = (recipientId: string): string => recipientKeys(prefix, recipientId).sent;
    return watched(replicas === undefined ? limiter : confirmed(limiter, (id) => replicas(keyOf(id))), metrics);
  };
  const apart = (kind: CountedApart) => limiterOf({ ...limiterParts, ...apartOptions(kind, apartRules[kind], prefix) });

  const canceller = { redis: connections.limiter, timeoutMs: LIMITER_TIMEOUT_MS };
  const deciders = forEachKind(prefix, (of) => createCanceller({ ...canceller, prefix: of }));
  const looks = forEachKind(prefix, (of) => createEndLook({ ...canceller, prefix: of }));
  const cancelParts = { connection: connections.queue, queues, homes, deciders };
  const cancelJob = createCancelProcessor((target) => cancelWaiting(target, cancelParts), { log, metrics });

  const waiting = {
    limiter: limiterOf({ ...limiterParts, policy, categories, quietHours, prefix }),
    apart: { background: apart('background'), liveactivity: apart('liveactivity') },
    toleranceMs: paceOf(policy).toleranceMs,
    redelay: async (recipientId: string, due: readonly Due[]) => {
      await redelay(queuesOf(recipientId), due);
    },
  };
  const delivery = createProcessor({
    ...waiting,
    watchers: await createWatchers(config, { ...parts, queuesOf }),
    overallGapMs: policy.minGapMs,
    index: createCancellationIndex(connections.queue, layout),
    endOf: ({ kind, ...ending }) => looks[kind](ending),
    quotas: accounts.quotas,
    providers: accounts.providers,
    others: createOtherWorkers(connections.queue, prefix),
    credentialsWaitMs: config.credentialsWaitMs,
    ...{ breakers, maxWaitMs, maxPending, retry, atMostOnce, signal },
    now: Date.now,
    random: Math.random,
    onReply: createReplyListener(config, parts),
  });
  return {
    process: (job, lock, place) => (job.name === CANCEL ? cancelJob(job, lock) : delivery.process(job, lock, place)),
    completed: delivery.completed,
    giveBack: async (failed) => {
      const progress = readProgress(failed.progress);
      return (await giveBack({ ...failed, progress }, 'dead', waiting)).progress.digest;
    },
  };
}

/** The same limiter, with the time of each ask measured, also of those that got no answer. */
function timed(limiter: WaitingLimiter, metrics: Pick<Metrics, 'asked'>): WaitingLimiter {
  return {
    ...limiter,
    admit(ask) {
      const askedAt = performance.now();
      return limiter.admit(ask).finally(() => metrics.asked(performance.now() - askedAt));
    },
  };
}

/** The same limiter, with it noted whether its asks get slots. */
function watched(limiter: WaitingLimiter, { slots }: Pick<Metrics, 'slots'>): WaitingLimiter {
  return {
    ...limiter,
    async admit(ask) {
      try {
        const answer = await limiter.admit(ask);
        slots.asked(answer.kind === 'admitted' && !answer.repeated ? 'slot' : 'answer');
        return answer;
      } catch (error) {
        if (error instanceof ReplicasMissingError) slots.asked('replicas-missing');
        else if (error instanceof LimiterUnavailableError) slots.asked('limiter-unavailable');
        throw error;
      }
    },
  };
}

/** For so long the slowest confirmation counts; then the next one does. */
const SLOWEST_MS = 5_000;

/**
 * The same limiter, that admits only what replicas have too: an admission that a failover forgot would be given twice.
 *
 * It asks for a slot that lies as far ahead as confirmations take. Otherwise the slot is over when it is confirmed, and another one is
 * asked for and confirmed. A new id is admitted without a lead (admit.lua), so where confirmations are slow it asks twice.
 */
export function confirmed(limiter: WaitingLimiter, confirmOf: (recipientId: string) => Confirm): WaitingLimiter {
  let slowest = { tookMs: 0, at: -Infinity };
  return {
    ...limiter,
    async admit(ask) {
      const confirm = confirmOf(ask.recipientId);
      const leadMs = Math.max(ask.leadMs ?? 0, slowest.tookMs);
      const answer = await limiter.admit(leadMs > 0 ? { ...ask, leadMs } : ask);
      // Nobody sends on an admission that was given before.
      if (answer.kind !== 'admitted' || answer.repeated) return answer;
      const begun = performance.now();
      await confirm();
      const at = performance.now();
      if (at - begun >= slowest.tookMs || at - slowest.at > SLOWEST_MS) slowest = { tookMs: at - begun, at };
      return answer;
    },
  };
}

/** The wait for replicas, with a log of those that are missing. */
function replicaWaitOf(
  { waitReplicas }: Config,
  { connections, log }: Pick<PassParts, 'connections' | 'log'>,
): ReplicaWait {
  const sparing = createSparing(TROUBLE_EVERY_MS);
  const wait = createReplicaWait(connections.limiter, waitReplicas);
  return (key) => {
    const confirm = wait(key);
    return async () => {
      try {
        await confirm();
      } catch (error) {
        const reason = errorChain(error);
        const repeats = sparing(reason);
        if (repeats !== undefined) log.warn({ redis: addressOf(connections.limiter), reason, repeats }, NO_REPLICAS);
        throw error;
      }
    };
  };
}

const NO_REPLICAS =
  'replicas of Redis did not confirm a slot (REDIS_WAIT_REPLICAS): nothing is sent in it, and the notification is put back';
