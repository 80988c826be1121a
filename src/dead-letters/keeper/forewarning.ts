/** Which bound: dead letters are too old, or too many. */
export type Bound = 'age' | 'count';

/** The part of ioredis that is used to coordinate all workers. */
export interface ForewarningRedis {
  get(key: string): Promise<string | null>;
  /** `OK`, or null if the key exists. */
  set(key: string, value: string, unit: 'PX', ms: number, condition: 'NX'): Promise<'OK' | null>;
  pexpire(key: string, ms: number): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

/** Whether a bound is nearly reached, and whether to log it. */
export interface Noted {
  /** Since when it has been nearly reached, without a break: epoch milliseconds on Redis's clock. Undefined if it is not. */
  readonly since: number | undefined;
  /** No worker has logged the warning within the last hour, so this one must. */
  readonly isToBeTold: boolean;
}

/** Decides, for all workers together, which one looks and whether a warning was given before. Stored in Redis. */
export interface Forewarning {
  /** True for one worker only, once in `everyMs`. */
  mayLook(everyMs: number): Promise<boolean>;
  /** Stores whether a bound is nearly reached. A changed `size` is a new bound: a new warning comes before any removal. */
  note(bound: Bound, size: number, isNear: boolean, now: number): Promise<Noted>;
}

const TOLD_EVERY_MS = 3_600_000;
/** If no worker has looked for this long, an old warning does not count any more. */
const FORGOTTEN_AFTER_MS = 7 * 86_400_000;

export function createForewarning(redis: ForewarningRedis, prefix: string): Forewarning {
  /** `{pushpacer}:dead-letter-keeper:told:age` */
  const key = (...parts: readonly string[]) => [prefix, 'dead-letter-keeper', ...parts].join(':');

  async function nearSince(bound: Bound, size: number, now: number): Promise<number> {
    const name = key('since', bound);
    const [knownSize, since] = ((await redis.get(name)) ?? '').split('@');
    if (knownSize === String(size)) {
      await redis.pexpire(name, FORGOTTEN_AFTER_MS);
      return Number(since);
    }
    await Promise.all([redis.del(name), redis.del(key('told', bound))]);
    await redis.set(name, `${size}@${now}`, 'PX', FORGOTTEN_AFTER_MS, 'NX');
    return now;
  }

  return {
    // A little shorter than `everyMs`, so that the key of a worker's own last look has expired when it looks again.
    mayLook: async (everyMs) => (await redis.set(key('look'), '1', 'PX', Math.ceil(everyMs * 0.9), 'NX')) !== null,
    async note(bound, size, isNear, now) {
      if (!isNear) {
        await redis.del(key('since', bound));
        return { since: undefined, isToBeTold: false };
      }
      const since = await nearSince(bound, size, now);
      const isToBeTold = (await redis.set(key('told', bound), '1', 'PX', TOLD_EVERY_MS, 'NX')) !== null;
      return { since, isToBeTold };
    },
  };
}
