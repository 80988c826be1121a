import type { DeadLetterReason } from '../domain/outcome.ts';
import type { StoredDeadLetter } from './letter.ts';
import type { DeadLetters } from './store.ts';

/** The result of a look at the dead letters. */
interface Look {
  readonly warnings: readonly Warning[];
  readonly removals: readonly Removal[];
}

export interface KeeperRedis extends NoticesRedis {
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
  const notices = createNotices(redis, prefix);
  return {
    async look(signal) {
      if (!(await notices.mayLook(everyMs)) || signal.aborted) return undefined;
      const [seconds, microseconds] = await redis.time();
      const now = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
      const common = { now, notices, signal };
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

/** The least time between the warning and the first removal, also after the bound was lowered. */
const WARNING_MS = 3_600_000;

/** Warns of dead letters that are nearly too old, and removes those that are. */
async function boundAge(
  shards: readonly Shard[],
  { maxAgeMs, now, notices, signal }: LookParts & { readonly maxAgeMs: number },
): Promise<Bounded> {
  const [warnUntil, removeUntil] = [now - WARN_FROM * maxAgeMs, now - maxAgeMs];
  const heads = await Promise.all(shards.map((shard) => shard.page(0, BATCH)));
  const oldest = Math.min(...heads.flat().map(diedAt));
  const warnedForMs = Math.min(WARNING_MS, (1 - WARN_FROM) * maxAgeMs);
  const { since = now, isToBeLogged } = await notices.note('age', maxAgeMs, oldest <= warnUntil, now);
  const mayRemoveFrom = since + warnedForMs;

  const byReason = new Map<DeadLetterReason, number>();
  if (now >= mayRemoveFrom && oldest <= removeUntil) {
    for (const shard of shards) await removeOlder(shard, removeUntil, byReason, signal);
  }
  const removal = { bound: 'age', byReason } as const;
  if (!isToBeLogged) return { warning: undefined, removal };

  const going = (await Promise.all(shards.map((shard) => countUntil(shard, warnUntil)))).reduce((a, b) => a + b, 0);
  const firstAt = Math.max(mayRemoveFrom, now, oldest + maxAgeMs);
  const lastAt = Math.max(firstAt, warnUntil + maxAgeMs);
  return { warning: { bound: 'age', going, firstAt, lastAt, diedUntil: warnUntil }, removal };
}

/** Removes from the oldest on, up to the first page without an old one. */
async function removeOlder(
  shard: Shard,
  until: number,
  byReason: Map<DeadLetterReason, number>,
  signal: AbortSignal,
): Promise<void> {
  let removed = 0;
  for await (const page of shard.walk()) {
    const old = page.filter((stored) => diedAt(stored) <= until);
    if (old.length === 0 || removed >= MOST_A_LOOK || signal.aborted) return;
    const batch = old.map((stored) => ({ shard, stored, keep: 0 }));
    removed += await discardAll(batch, byReason);
  }
}

/** How many died until then. A binary search: they are in the order of arrival. */
async function countUntil(shard: Shard, until: number): Promise<number> {
  let [low, high] = [0, await shard.count()];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [stored] = await shard.page(middle, 1);
    if (stored !== undefined && diedAt(stored) <= until) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface CountParts extends LookParts {
  readonly maxCount: number;
  readonly everyMs: number;
}

/** Warns if there are nearly too many. If there are too many, removes the oldest, at the look after the warning or later. */
async function boundCount(
  shards: readonly Shard[],
  { maxCount, everyMs, now, notices, signal }: CountParts,
): Promise<Bounded> {
  const count = sum(await Promise.all(shards.map((shard) => shard.count())));
  const { since = now, isToBeLogged } = await notices.note('count', maxCount, count >= WARN_FROM * maxCount, now);
  const byReason = new Map<DeadLetterReason, number>();
  if (now >= since + everyMs / 2) await removeOldest(shards, maxCount, byReason, signal);
  const warning = { bound: 'count', count, going: Math.max(0, count - maxCount) } as const;
  return { warning: isToBeLogged ? warning : undefined, removal: { bound: 'count', byReason } };
}

/** Removes the oldest of all shards while there are more than `maxCount`. */
async function removeOldest(
  shards: readonly Shard[],
  maxCount: number,
  byReason: Map<DeadLetterReason, number>,
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

/** `keep` is what each shard has after this removal: if others take some away meanwhile, fewer are removed. */
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

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** A warning of what will be removed soon. */
export type Warning =
  | {
      readonly bound: 'age';
      /** How many will be removed, the first one at `firstAt`, the last one at `lastAt`; epoch milliseconds. */
      readonly going: number;
      readonly firstAt: number;
      readonly lastAt: number;
      /** The latest time of death among them. */
      readonly diedUntil: number;
    }
  | {
      readonly bound: 'count';
      readonly count: number;
      /** How many will be removed at the next look; 0 if the bound is not reached yet. */
      readonly going: number;
    };

/** What was removed. */
export interface Removal {
  readonly bound: Bound;
  readonly byReason: ReadonlyMap<DeadLetterReason, number>;
}

/** The result of a look at one bound. */
interface Bounded {
  readonly warning: Warning | undefined;
  readonly removal: Removal;
}

/** The dead letters of one shard. */
export type Shard = Pick<DeadLetters, 'count' | 'page' | 'walk' | 'discard'>;

/** What a look needs. */
interface LookParts {
  /** Epoch milliseconds on Redis's clock. */
  readonly now: number;
  readonly notices: Notices;
  /** Fires when the worker stops: a look then ends between two batches. */
  readonly signal: AbortSignal;
}

/** A warning is given from this share of a bound on. */
const WARN_FROM = 0.8;
/** How many are removed at once. */
const BATCH = 100;
/** How many are removed in one look; the rest follows in the next looks. */
const MOST_A_LOOK = 10_000;

interface ToDiscard {
  readonly shard: Shard;
  readonly stored: StoredDeadLetter;
  /** How many must stay in the shard. */
  readonly keep: number;
}

/** Removes them. Adds those that still existed to `byReason`, and answers how many they were. */
async function discardAll(batch: readonly ToDiscard[], byReason: Map<DeadLetterReason, number>): Promise<number> {
  const answers = await Promise.all(batch.map(({ shard, stored, keep }) => shard.discard(stored.id, keep)));
  const gone = batch.filter((_, index) => answers[index] === 'discarded');
  for (const { stored } of gone) {
    const { reason } = stored.letter;
    byReason.set(reason, (byReason.get(reason) ?? 0) + 1);
  }
  return gone.length;
}

/** The time of death. A worker's clock may be ahead, so it is at most the time of arrival in the queue. */
export function diedAt({ letter, buriedAt }: StoredDeadLetter): number {
  return Math.min(letter.deadAt, buriedAt);
}

/** Which bound: dead letters are too old, or too many. */
type Bound = 'age' | 'count';

/** The part of ioredis that is used to coordinate all workers. */
interface NoticesRedis {
  get(key: string): Promise<string | null>;
  /** `OK`, or null if the key exists. */
  set(key: string, value: string, unit: 'PX', ms: number, condition: 'NX'): Promise<'OK' | null>;
  pexpire(key: string, ms: number): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

/** Whether a bound is nearly reached, and whether to log it. */
interface Noted {
  /** Since when it has been nearly reached, without a break: epoch milliseconds on Redis's clock. Undefined if it is not. */
  readonly since: number | undefined;
  /** No worker has logged the warning within the last hour, so this one must. */
  readonly isToBeLogged: boolean;
}

/** Decides, for all workers together, which one looks and whether a warning was given before. Stored in Redis. */
interface Notices {
  /** True for one worker only, once in `everyMs`. */
  mayLook(everyMs: number): Promise<boolean>;
  /** Stores whether a bound is nearly reached. A changed `size` is a new bound: a new warning comes before any removal. */
  note(bound: Bound, size: number, isNear: boolean, now: number): Promise<Noted>;
}

const LOG_EVERY_MS = 3_600_000;
/** If no worker has looked for this long, an old warning does not count any more. */
const FORGOTTEN_AFTER_MS = 7 * 86_400_000;

function createNotices(redis: NoticesRedis, prefix: string): Notices {
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
        return { since: undefined, isToBeLogged: false };
      }
      const since = await nearSince(bound, size, now);
      const isToBeLogged = (await redis.set(key('told', bound), '1', 'PX', LOG_EVERY_MS, 'NX')) !== null;
      return { since, isToBeLogged };
    },
  };
}
