import type { Config } from '../src/config/config.ts';
import type { DeliverParts } from '../src/delivery/parts.ts';
import type { CountedApart } from '../src/domain/limits.ts';
import { errorChain } from '../src/notification/redact.ts';
import { apartOptions, forEachKind, type WaitingLimiter } from '../src/limiter/limiter.ts';
import { createCanceller, createEndLook } from '../src/limiter/redis/canceller.ts';
import { createClock, keepClock } from '../src/redis/clock.ts';
import { recipientKeys } from '../src/limiter/redis/keys.ts';
import { createWaitingLimiter, type WaitingLimiterOptions } from '../src/limiter/redis/redis-limiter.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';
import type { CancelParts } from '../src/producer/cancel.ts';
import { LimiterUnavailableError } from '../src/redis/deadline.ts';
import { createReplicaWait, ReplicasMissingError, type Confirm, type ReplicaWait } from '../src/redis/replicas.ts';
import { addressOf } from '../src/redis/target.ts';
import { LIMITER_TIMEOUT_MS, TROUBLE_EVERY_MS, type Connections } from './redis.ts';

interface LimiterParts {
  readonly connections: Connections;
  readonly metrics: Pick<Metrics, 'asked' | 'slots'>;
  readonly log: Logger;
  readonly closing: AsyncDisposableStack;
}

/** The limiters of this worker, one for each kind, and the parts that decide about slots. `closing` stops their clock. */
export async function createLimiters(
  { policy, categories, quietHours, apartRules, overtaking, waitReplicas, queue: { prefix } }: Config,
  parts: LimiterParts,
): Promise<Pick<DeliverParts, 'limiter' | 'apart' | 'endOf'> & Pick<CancelParts, 'deciders'>> {
  const { connections, metrics, closing } = parts;
  const clock = createClock();
  const clockKeeper = keepClock(clock, () => connections.limiter.time());
  closing.defer(() => clockKeeper.stop());
  await clockKeeper.measured;
  const common = { redis: connections.limiter, timeoutMs: LIMITER_TIMEOUT_MS };
  const replicas = waitReplicas.count > 0 ? createLoggedWait(waitReplicas, parts) : undefined;
  const limiterOf = (options: Pick<WaitingLimiterOptions, 'policy' | 'categories' | 'quietHours' | 'prefix'>) => {
    const limiter = timed(createWaitingLimiter({ ...common, clock, overtaking, ...options }), metrics);
    const keyOf = (recipientId: string): string => recipientKeys(prefix, recipientId).sent;
    return watched(replicas === undefined ? limiter : confirmed(limiter, (id) => replicas(keyOf(id))), metrics);
  };
  const apart = (kind: CountedApart) => limiterOf(apartOptions(kind, apartRules[kind], prefix));
  const looks = forEachKind(prefix, (of) => createEndLook({ ...common, prefix: of }));
  return {
    limiter: limiterOf({ policy, categories, quietHours, prefix }),
    apart: { background: apart('background'), liveactivity: apart('liveactivity') },
    deciders: forEachKind(prefix, (of) => createCanceller({ ...common, prefix: of })),
    endOf: ({ kind, ...ending }) => looks[kind](ending),
  };
}

/** The same limiter, but it measures the time of each ask, also of asks without an answer. */
function timed(limiter: WaitingLimiter, metrics: Pick<Metrics, 'asked'>): WaitingLimiter {
  return {
    ...limiter,
    admit(ask) {
      const askedAt = performance.now();
      return limiter.admit(ask).finally(() => metrics.asked(performance.now() - askedAt));
    },
  };
}

/** The same limiter, but it notes whether its asks get slots. */
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

/** The slowest confirmation counts for this time; then the next confirmation replaces it. */
const SLOWEST_MS = 5_000;

/**
 * The same limiter, but it answers `admitted` only when replicas of Redis have the slot too. Otherwise a failover could lose
 * the slot, and the limiter would give it to another id.
 *
 * If the slot passes during the confirmation, another slot has to be asked for and confirmed. So each ask is for a slot that
 * lies as far ahead as the slowest confirmation took lately. admit.lua ignores that for a new id: if confirmations are slow, a
 * new id asks twice.
 */
export function confirmed(limiter: WaitingLimiter, confirmOf: (recipientId: string) => Confirm): WaitingLimiter {
  let slowest = { tookMs: 0, at: -Infinity };
  return {
    ...limiter,
    async admit(ask) {
      const confirm = confirmOf(ask.recipientId);
      const leadMs = Math.max(ask.leadMs ?? 0, slowest.tookMs);
      const answer = await limiter.admit(leadMs > 0 ? { ...ask, leadMs } : ask);
      // A pass does not send on an admission that was given before.
      if (answer.kind !== 'admitted' || answer.repeated) return answer;
      const begun = performance.now();
      await confirm();
      const at = performance.now();
      if (at - begun >= slowest.tookMs || at - slowest.at > SLOWEST_MS) slowest = { tookMs: at - begun, at };
      return answer;
    },
  };
}

/** The wait for replicas; it logs if replicas are missing. */
function createLoggedWait(waitReplicas: Config['waitReplicas'], { connections, log }: LimiterParts): ReplicaWait {
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
