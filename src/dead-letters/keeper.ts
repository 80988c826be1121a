import type { DeadLetterReason } from '../notification/outcome.ts';
import type { StoredDeadLetter } from './letter.ts';
import type { DeadLetters } from './store.ts';

/** The dead letters of one shard. */
export type Shard = Pick<DeadLetters, 'count' | 'page' | 'walk' | 'discard'>;

/** The part of ioredis with which the workers agree that one of them looks. */
export interface KeeperRedis {
  time(): Promise<(number | string)[]>;
  get(key: string): Promise<string | null>;
  /** `OK`, or null if the key exists. */
  set(key: string, value: string, unit: 'PX', ms: number, condition: 'NX'): Promise<'OK' | null>;
  pexpire(key: string, ms: number): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

export interface KeeperOptions {
  readonly deadLetters: readonly Shard[];
  readonly redis: KeeperRedis;
  readonly prefix: string;
  /** The greatest age of a dead letter, in milliseconds; 0: no bound. */
  readonly maxAgeMs: number;
  readonly maxCount: number;
  /** One of the workers looks once in this time. Milliseconds. */
  readonly everyMs: number;
}

/** Which bound is meant: dead letters are too old, or too many. */
type Bound = 'age' | 'count';

/** A warning of what will be removed soon. */
export type Warning =
  | {
      readonly bound: 'age';
      /** How many dead letters will be removed, the first one at `firstAt`, the last one at `lastAt`; epoch milliseconds. */
      readonly going: number;
      readonly firstAt: number;
      readonly lastAt: number;
      /** When the last of these dead letters died: epoch milliseconds. */
      readonly diedUntil: number;
    }
  | {
      readonly bound: 'count';
      readonly count: number;
      /** How many dead letters will be removed at the next look; 0 if the bound is not reached yet. */
      readonly going: number;
    };

export interface Removal {
  readonly bound: Bound;
  readonly byReason: ReadonlyMap<DeadLetterReason, number>;
}

export interface Keeper {
  /**
   * Warns and removes, if a look is due and no other worker does it; undefined otherwise. Once `signal` fires, it ends between
   * two batches.
   */
  look(signal: AbortSignal): Promise<{ readonly warnings: Warning[]; readonly removals: Removal[] } | undefined>;
}

/** A warning is given from this share of a bound on. */
const WARN_FROM = 0.8;
/** The shortest time between the warning and the first removal, also after the bound was lowered. */
const WARNING_MS = 3_600_000;
/** A warning is logged again after this at the latest. */
const LOG_EVERY_MS = 3_600_000;
/** If no worker has looked for this long (or less, see `timesOf`), an earlier warning no longer counts. */
const FORGOTTEN_AFTER_MS = 7 * 86_400_000;
/** How many dead letters are removed at once. */
const BATCH = 100;
/** How many dead letters are removed in one look; the rest is removed in the next looks. */
const MOST_A_LOOK = 10_000;

/**
 * Keeps the dead letters within their bounds. Nothing is removed without a warning before. Each dead letter is removed in a
 * step of its own, so if it is replayed at the same time, it is either replayed or removed, never both.
 */
export function createKeeper({
  deadLetters: shards,
  redis,
  prefix,
  maxAgeMs,
  maxCount,
  everyMs,
}: KeeperOptions): Keeper {
  /** `{pushpacer}:dead-letter-keeper:told:age` */
  const key = (...parts: readonly string[]) => [prefix, 'dead-letter-keeper', ...parts].join(':');

  async function isSet(name: string, ms: number): Promise<boolean> {
    return (await redis.set(name, '1', 'PX', ms, 'NX')) !== null;
  }

  /**
   * How often a warning is logged, and how long it counts while no worker looks. A warning of age covers only dead letters that
   * have reached WARN_FROM of the bound. The times are so short that each dead letter is covered before it is removed. But a
   * warning counts until the next looks, also if the bound is only minutes: else nothing would ever be removed.
   */
  function timesOf(bound: Bound): { readonly logEveryMs: number; readonly countsMs: number } {
    if (bound === 'count') return { logEveryMs: LOG_EVERY_MS, countsMs: FORGOTTEN_AFTER_MS };
    const nearMs = (1 - WARN_FROM) * maxAgeMs;
    const logEveryMs = Math.ceil(Math.min(LOG_EVERY_MS, nearMs / 2));
    const countsMs = Math.max(Math.min(FORGOTTEN_AFTER_MS, nearMs - logEveryMs), 2.5 * everyMs);
    return { logEveryMs, countsMs: Math.ceil(countsMs) };
  }

  /** Since when a bound has been nearly reached without a break. After a change of `size`, a new warning is needed. */
  async function nearSince(bound: Bound, size: number, now: number): Promise<number> {
    const { countsMs } = timesOf(bound);
    const name = key('since', bound);
    const [knownSize, since] = ((await redis.get(name)) ?? '').split('@');
    if (knownSize === String(size)) {
      await redis.pexpire(name, countsMs);
      return Number(since);
    }
    await Promise.all([redis.del(name), redis.del(key('told', bound))]);
    await redis.set(name, `${size}@${now}`, 'PX', countsMs, 'NX');
    return now;
  }

  /** Stores whether a bound is nearly reached. `isToBeLogged`: no worker has logged this warning lately. */
  async function note(bound: Bound, size: number, isNear: boolean, now: number) {
    if (!isNear) {
      await redis.del(key('since', bound));
      return { since: now, isToBeLogged: false };
    }
    const since = await nearSince(bound, size, now);
    return { since, isToBeLogged: await isSet(key('told', bound), timesOf(bound).logEveryMs) };
  }

  /** Warns of dead letters that are nearly too old, and removes those that are too old. */
  async function boundAge(now: number, byReason: ByReason, signal: AbortSignal): Promise<Warning | undefined> {
    const [warnUntil, removeUntil] = [now - WARN_FROM * maxAgeMs, now - maxAgeMs];
    const heads = await Promise.all(shards.map((shard) => shard.page(0, BATCH)));
    const oldest = Math.min(...heads.flat().map(diedAt));
    const { since, isToBeLogged } = await note('age', maxAgeMs, oldest <= warnUntil, now);
    const mayRemoveFrom = since + Math.min(WARNING_MS, (1 - WARN_FROM) * maxAgeMs);
    if (now >= mayRemoveFrom && oldest <= removeUntil) {
      for (const shard of shards) await removeOlder(shard, removeUntil, byReason, signal);
    }
    if (!isToBeLogged) return undefined;
    const going = sum(await Promise.all(shards.map((shard) => countUntil(shard, warnUntil))));
    const firstAt = Math.max(mayRemoveFrom, now, oldest + maxAgeMs);
    const lastAt = Math.max(firstAt, warnUntil + maxAgeMs);
    return { bound: 'age', going, firstAt, lastAt, diedUntil: warnUntil };
  }

  /**
   * Warns if there are nearly too many dead letters. If there are too many, removes the oldest ones, but not in the look that
   * warned first.
   */
  async function boundCount(now: number, byReason: ByReason, signal: AbortSignal): Promise<Warning | undefined> {
    const count = sum(await Promise.all(shards.map((shard) => shard.count())));
    const { since, isToBeLogged } = await note('count', maxCount, count >= WARN_FROM * maxCount, now);
    if (now >= since + everyMs / 2) await removeOldest(shards, maxCount, byReason, signal);
    return isToBeLogged ? { bound: 'count', count, going: Math.max(0, count - maxCount) } : undefined;
  }

  return {
    async look(signal) {
      // Shorter than `everyMs`, so that the key of this worker's own last look has expired when this worker looks again.
      if (!(await isSet(key('look'), Math.ceil(everyMs * 0.9))) || signal.aborted) return undefined;
      const [seconds, microseconds] = await redis.time();
      const now = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
      const tooOld: ByReason = new Map();
      const tooMany: ByReason = new Map();
      const warnings = [
        maxAgeMs === 0 ? undefined : await boundAge(now, tooOld, signal),
        maxCount === 0 ? undefined : await boundCount(now, tooMany, signal),
      ];
      const removals: Removal[] = [
        { bound: 'age', byReason: tooOld },
        { bound: 'count', byReason: tooMany },
      ];
      return {
        warnings: warnings.filter((warning) => warning !== undefined),
        removals: removals.filter(({ byReason }) => byReason.size > 0),
      };
    },
  };
}

/** How many were removed in this look, by reason. */
type ByReason = Map<DeadLetterReason, number>;

/** When the dead letter died; at the latest, when it came into the queue, since a worker's clock may be ahead. */
export function diedAt({ letter, buriedAt }: StoredDeadLetter): number {
  return Math.min(letter.deadAt, buriedAt);
}

/** Removes dead letters that are too old, page by page from the oldest. Stops at a page without any, or after MOST_A_LOOK. */
async function removeOlder(shard: Shard, until: number, byReason: ByReason, signal: AbortSignal): Promise<void> {
  let removed = 0;
  for await (const page of shard.walk()) {
    const old = page.filter((stored) => diedAt(stored) <= until);
    if (old.length === 0 || removed >= MOST_A_LOOK || signal.aborted) return;
    const batch = old.map((stored) => ({ shard, stored, keep: 0 }));
    removed += await discardAll(batch, byReason);
  }
}

/**
 * About how many of the shard's dead letters died until then. A binary search, since the list is nearly in the order of death.
 */
export async function countUntil(shard: Pick<Shard, 'count' | 'page'>, until: number): Promise<number> {
  let [low, high] = [0, await shard.count()];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [stored] = await shard.page(middle, 1);
    if (stored !== undefined && diedAt(stored) <= until) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Removes the oldest dead letters of all shards while there are more than `maxCount`. */
async function removeOldest(
  shards: readonly Shard[],
  maxCount: number,
  byReason: ByReason,
  signal: AbortSignal,
): Promise<void> {
  for (let removed = 0; removed < MOST_A_LOOK && !signal.aborted;) {
    const counts = await Promise.all(shards.map((shard) => shard.count()));
    const over = sum(counts) - maxCount;
    if (over <= 0) return;
    const gone = await discardAll(await oldestOf(shards, counts, Math.min(over, BATCH)), byReason);
    if (gone === 0) return;
    removed += gone;
  }
}

interface ToDiscard {
  readonly shard: Shard;
  readonly stored: StoredDeadLetter;
  /** How many must stay in the shard. */
  readonly keep: number;
}

/**
 * The oldest dead letters of all shards. `keep`: how many the shard is to have afterwards. If other processes take some
 * meanwhile, fewer are removed.
 */
async function oldestOf(shards: readonly Shard[], counts: readonly number[], most: number): Promise<ToDiscard[]> {
  const pages = await Promise.all(
    shards.map(async (shard) => (await shard.page(0, most)).map((stored) => ({ shard, stored }))),
  );
  const oldest = pages
    .flat()
    .sort((a, b) => diedAt(a.stored) - diedAt(b.stored))
    .slice(0, most);
  const keeps = new Map(
    shards.map((shard, index) => [shard, (counts[index] ?? 0) - oldest.filter((each) => each.shard === shard).length]),
  );
  return oldest.map((each) => ({ ...each, keep: keeps.get(each.shard) ?? 0 }));
}

/** Removes these dead letters, counts the removed ones in `byReason`, and answers how many there were. */
async function discardAll(batch: readonly ToDiscard[], byReason: ByReason): Promise<number> {
  const answers = await Promise.all(batch.map(({ shard, stored, keep }) => shard.discard(stored.id, keep)));
  const gone = batch.filter((_, index) => answers[index] === 'discarded');
  for (const { stored } of gone) {
    const { reason } = stored.letter;
    byReason.set(reason, (byReason.get(reason) ?? 0) + 1);
  }
  return gone.length;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
