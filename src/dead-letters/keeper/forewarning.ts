/** Which bound: dead letters are too old, or too many. */
export type Bound = 'age' | 'count';

/** What all workers agree by. */
export interface ForewarningRedis {
  get(key: string): Promise<string | null>;
  /** `OK`, or null where the key is there. */
  set(key: string, value: string, unit: 'PX', ms: number, condition: 'NX'): Promise<'OK' | null>;
  pexpire(key: string, ms: number): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

/** What is known of a bound that is near. */
export interface Noted {
  /** Since when it has been near without a break: epoch milliseconds on Redis's clock. Undefined where it is not. */
  readonly since: number | undefined;
  /** Nobody has told it within the last hour; whoever asked has to. */
  readonly isToBeTold: boolean;
}

/** Who looks, and what was warned of: over all workers, also those that come and go. */
export interface Forewarning {
  /** True for one worker at a time, once in so long. */
  mayLook(everyMs: number): Promise<boolean>;
  /** Notes whether a bound is near. Another bound is a new one: it is warned of anew before anything goes. */
  note(bound: Bound, size: number, isNear: boolean, now: number): Promise<Noted>;
}

const TOLD_EVERY_MS = 3_600_000;
/** Where nobody has looked for so long, nobody has read a warning either. */
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
    // A little shorter than the time between two looks, so that a worker's own lease is over when it looks again.
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
