import { boundAge } from './age.ts';
import { boundCount } from './count.ts';
import { createForewarning, type ForewarningRedis } from './forewarning.ts';
import type { Removal, Shard, Warning } from './removal.ts';

/** What a look at the dead letters came to. */
export interface Look {
  readonly warnings: readonly Warning[];
  readonly removals: readonly Removal[];
}

export interface KeeperRedis extends ForewarningRedis {
  time(): Promise<(number | string)[]>;
}

export interface KeeperOptions {
  /** Of each shard. */
  readonly deadLetters: readonly Shard[];
  readonly redis: KeeperRedis;
  readonly prefix: string;
  /** 0: no bound. */
  readonly maxAgeMs: number;
  readonly maxCount: number;
  /** How often all workers together look. */
  readonly everyMs: number;
}

export interface Keeper {
  /** Warns and removes, where it is time for a look and no other worker has had it; undefined otherwise. */
  look(signal: AbortSignal): Promise<Look | undefined>;
}

/**
 * Keeps the dead letters within their bounds. Nothing goes without a warning before. Each is removed in a step of its own,
 * so one that is being replayed meanwhile is either replayed or removed, never both and never neither.
 */
export function createKeeper({ deadLetters, redis, prefix, maxAgeMs, maxCount, everyMs }: KeeperOptions): Keeper {
  const forewarning = createForewarning(redis, prefix);
  return {
    async look(signal) {
      if (!(await forewarning.mayLook(everyMs)) || signal.aborted) return undefined;
      const [seconds, microseconds] = await redis.time();
      const now = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
      const common = { now, forewarning, signal };
      const bounded = [
        maxAgeMs === 0 ? undefined : await boundAge(deadLetters, { ...common, maxAgeMs }),
        maxCount === 0 ? undefined : await boundCount(deadLetters, { ...common, maxCount, everyMs }),
      ];
      return {
        warnings: bounded.flatMap((each) => each?.warning ?? []),
        removals: bounded.flatMap((each) => (each && each.removal.byReason.size > 0 ? each.removal : [])),
      };
    },
  };
}
