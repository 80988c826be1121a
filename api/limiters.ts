import { isDeepStrictEqual } from 'node:util';
import { COUNTED_APART, type CategoryPolicy, type CountedAs, type Policy } from '../src/domain/limits.ts';
import { seldom } from '../src/domain/time.ts';
import { apartOptions, type Limiter } from '../src/limiter/limiter.ts';
import { IN_ORDER } from '../src/limiter/overtaking.ts';
import { createForesight, type Foresight } from '../src/limiter/redis/foresight.ts';
import { createRedisLimiter } from '../src/limiter/redis/redis-limiter.ts';
import { readWorkers, sharedPolicy, type SharedPolicy, type WorkerPolicy } from '../src/queue/workers.ts';
import { PRODUCER_TIMEOUT_MS, whenReady, type Connection } from '../src/redis/connection.ts';

/** The limiters, which have the limits of the living workers. */
export interface OpenLimiters {
  /** The limiters of alerts, background pushes and Live Activities. */
  readonly limiters: Readonly<Record<CountedAs, Limiter>>;
  /** Forecasts of what actions would do to these limiters. */
  readonly foresights: Readonly<Record<CountedAs, Foresight>>;
  readonly policy: Policy;
  readonly categories: Readonly<Record<string, CategoryPolicy>>;
  /** How many workers have these limits. Undefined: no worker is alive, and the limits are from this process's environment. */
  readonly limitsOf: Pick<SharedPolicy, 'workers' | 'others' | 'mostOvertaken'> | undefined;
}

export interface LimitersParts {
  /** The queue's Redis. */
  readonly redis: Connection;
  readonly limiterRedis: Connection;
  readonly prefix: string;
  /** The limits of this process's environment, used if no worker is alive. */
  readonly own: WorkerPolicy;
}

/** The limits of the living workers are read at most this often. */
const POLICY_EVERY_MS = 5_000;

/** Opens the limiters. It reads the workers' limits at most every 5 s, and opens other limiters only if the limits changed. */
export function createLimiters({ redis, limiterRedis, prefix, own }: LimitersParts): () => Promise<OpenLimiters> {
  let last: { readonly of: WorkerPolicy; readonly opened: Omit<OpenLimiters, 'limitsOf'> } | undefined;

  async function open(): Promise<OpenLimiters> {
    await Promise.all([redis, limiterRedis].map((each) => whenReady(each, PRODUCER_TIMEOUT_MS)));
    const shared = sharedPolicy(await readWorkers(redis, prefix));
    const now = shared?.policy ?? own;
    // A limiter is kept while its limits hold, because it has learned how far Redis's clock is from this process's clock.
    if (last === undefined || !isDeepStrictEqual(last.of, now)) last = { of: now, opened: openWith(now) };
    return { ...last.opened, limitsOf: shared };
  }

  function openWith({ policy, categories, quietHours, apartRules }: WorkerPolicy): Omit<OpenLimiters, 'limitsOf'> {
    const alerts = {
      ...{ redis: limiterRedis, policy, categories, prefix, overtaking: IN_ORDER },
      ...(quietHours && { quietHours }),
    };
    const apart = COUNTED_APART.map((kind) => ({
      ...{ kind, redis: limiterRedis, overtaking: IN_ORDER },
      ...apartOptions(kind, apartRules[kind], prefix),
    }));
    const all = <T>(create: (options: typeof alerts) => T): Readonly<Record<CountedAs, T>> => {
      const others = apart.map(({ kind, ...options }) => [kind, create({ ...options, categories: {} })] as const);
      return { alert: create(alerts), ...Object.fromEntries(others) } as Readonly<Record<CountedAs, T>>;
    };
    return {
      limiters: all(createRedisLimiter),
      foresights: all(createForesight),
      policy,
      categories,
    };
  }

  return seldom(POLICY_EVERY_MS, open);
}
