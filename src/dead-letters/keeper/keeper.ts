import { boundAge } from './age.ts';
import { boundCount } from './count.ts';
import { createForewarning, type ForewarningRedis } from './forewarning.ts';
import type { Removal, Shard, Warning } from './removal.ts';

/** The result of a look at the dead letters. */
export interface Look {
  readonly warnings: readonly Warning[];
  readonly removals: readonly Removal[];
}

export interface KeeperRedis extends ForewarningRedis {
  time(): Promise<(number | string)[]>;
}

export interface KeeperOptions {
  /** One for each shard. */
  readonly deadLetters: readonly Shard[];
  readonly redis: KeeperRedis;
  readonly prefix: string;
  /** 0: no bound. */
  readonly maxAgeMs: number;
  readonly maxCount: number;
  /** How often one of all workers looks, in milliseconds. */
  readonly everyMs: number;
}

export interface Keeper {
  /** Warns and removes, if a look is due and no other worker has it; undefined otherwise. */
  look(signal: AbortSignal): Promise<Look | undefined>;
}

/**
 * Keeps the dead letters within their bounds. Nothing is removed without a warning before. Each one is removed in a step of its own,
 * so one that is replayed at the same time is either replayed or removed, never both.
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
