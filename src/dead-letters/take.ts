import { valueAt } from '../domain/json.ts';
import type { Platform } from '../notification/notification.ts';
import type { DeadLetter, DeadLetterReason } from '../notification/outcome.ts';
import { openDevicesOf, statedIdOf, type StoredDeadLetter } from './letter.ts';
import type { DeadLetters } from './store.ts';

/** The dead letters of each shard. */
export type DeadLetterShards = readonly Pick<DeadLetters, 'walk' | 'find'>[];

/** A dead letter, and the index of its shard. Two shards may each have a dead letter with the same id. */
export interface FoundDeadLetter extends StoredDeadLetter {
  readonly shard: number;
}

/** Selects dead letters; a field that is left out matches all. */
export interface DeadLetterFilter {
  readonly reason?: DeadLetterReason;
  readonly recipientId?: string;
  /**
   * The platform and app of a device that was not alerted. An empty `app` is the app of the environment. With both, one device
   * must fit both.
   */
  readonly platform?: Platform;
  readonly app?: string;
  readonly category?: string;
  /** The notification's id, or the id of the dead letter's job. */
  readonly id?: string;
  /** The earliest and the latest time of death: epoch milliseconds. */
  readonly sinceMs?: number;
  readonly untilMs?: number;
}

export function matches({ id, letter }: StoredDeadLetter, filter: DeadLetterFilter): boolean {
  const { reason, recipientId, category, sinceMs = -Infinity, untilMs = Infinity } = filter;
  return (
    (reason === undefined || letter.reason === reason) &&
    (recipientId === undefined || valueAt(letter.notification, 'recipientId') === recipientId) &&
    (category === undefined || valueAt(letter.notification, 'category') === category) &&
    (filter.id === undefined || id === filter.id || statedIdOf(letter.notification) === filter.id) &&
    letter.deadAt >= sinceMs &&
    letter.deadAt <= untilMs &&
    isOfDevice(letter, filter)
  );
}

function isOfDevice(letter: DeadLetter, { platform, app }: DeadLetterFilter): boolean {
  if (platform === undefined && app === undefined) return true;
  return openDevicesOf(letter).some(
    (device) => (platform ?? device.platform) === device.platform && (app ?? device.app ?? '') === (device.app ?? ''),
  );
}

/** Which dead letters an operator means: all that match a filter, or a list of them. */
export interface Choice {
  readonly which: DeadLetterFilter | readonly Pick<FoundDeadLetter, 'shard' | 'id'>[];
  /**
   * Dead letters that were buried later are left out: no operator has seen them, and replayed ones that die again would make an
   * endless loop. Epoch ms, Redis's clock.
   */
  readonly buriedUntilMs: number;
}

export interface WalkOptions {
  /** The walk ends early when it fires. */
  readonly signal?: AbortSignal;
  /** Called for each chosen dead letter that is left out because a newer version wrote it. */
  readonly onNewer?: () => void;
}

/**
 * The chosen dead letters that exist and can be read: with a filter the oldest first, with a list in its order. Those that a
 * newer version wrote are left out.
 */
export async function* walkChosen(
  shards: DeadLetterShards,
  choice: Choice,
  options: WalkOptions = {},
): Walk<FoundDeadLetter> {
  const { which, buriedUntilMs } = choice;
  const all = isList(which) ? listed(shards, which, options) : inOrder(shards, which, { ...options, buriedUntilMs });
  for await (const found of all) {
    if (found.buriedAt > buriedUntilMs) continue;
    if (found.newer === undefined) yield found;
    else options.onNewer?.();
  }
  return undefined;
}

async function* listed(
  shards: DeadLetterShards,
  which: Exclude<Choice['which'], DeadLetterFilter>,
  { signal }: WalkOptions,
): Walk<FoundDeadLetter> {
  for (const { shard, id } of which) {
    if (signal?.aborted === true) return undefined;
    const stored = await shards[shard]?.find(id);
    if (stored !== undefined) yield { ...stored, shard };
  }
  return undefined;
}

/** As `Array.isArray`, which does not know readonly arrays. */
export function isList(which: Choice['which']): which is Exclude<Choice['which'], DeadLetterFilter> {
  return Array.isArray(which);
}

/** Dead letters of all shards that match the filter, oldest first; one page of each shard is in memory at a time. */
export function inOrder(
  shards: DeadLetterShards,
  filter: DeadLetterFilter,
  options: WalkOptions & Pick<Choice, 'buriedUntilMs'>,
): Walk<FoundDeadLetter> {
  const walks = shards.map(async function* (deadLetters, shard): Walk<FoundDeadLetter> {
    for await (const page of deadLetters.walk()) {
      if (options.signal?.aborted === true) return undefined;
      for (const stored of page) {
        if (stored.buriedAt <= options.buriedUntilMs && matches(stored, filter)) yield { ...stored, shard };
      }
    }
    return undefined;
  });
  return merged(walks, ({ letter }) => letter.deadAt);
}

export type Walk<T> = AsyncGenerator<T, undefined, undefined>;

/** The items of all walks in the order of `rankOf`; each walk must be in that order itself. */
export async function* merged<T>(walks: readonly Walk<T>[], rankOf: (item: T) => number): Walk<T> {
  const headOf = async (walk: Walk<T>) => (await walk.next()).value;
  const heads = await Promise.all(walks.map(headOf));
  for (;;) {
    const ranks = heads.map((head) => (head === undefined ? Infinity : rankOf(head)));
    const first = ranks.indexOf(Math.min(...ranks));
    const [walk, head] = [walks[first], heads[first]];
    if (walk === undefined || head === undefined) return undefined;
    yield head;
    heads[first] = await headOf(walk);
  }
}

/** How many dead letters there are of each reason. */
export type ReasonCounts = Readonly<Partial<Record<DeadLetterReason, number>>>;

export function countIn(counts: Map<DeadLetterReason, number>, reason: DeadLetterReason, count = 1): void {
  counts.set(reason, (counts.get(reason) ?? 0) + count);
}

export interface TakeOptions {
  readonly filter?: DeadLetterFilter;
  /**
   * Dead letters that were buried later are skipped, so that replayed ones that die again do not make an endless loop. Epoch
   * ms, Redis's clock.
   */
  readonly buriedUntilMs: number;
  /** How many to take at most. */
  readonly limit?: number;
  /** Takes one dead letter; false if it was gone. Absent: they are only counted. */
  readonly take?: (stored: StoredDeadLetter) => Promise<boolean>;
  /** Awaited before each dead letter, to limit the rate. */
  readonly pace?: () => Promise<void>;
  /** Called for each dead letter that matches, in their order, before it is taken. */
  readonly onMatched?: (stored: StoredDeadLetter) => void;
  /** Called for each dead letter that was looked at. */
  readonly onSeen?: () => void;
}

export interface TakeResult {
  /** How many dead letters were looked at. */
  readonly seen: number;
  /** How many of them match the filter, by reason. */
  readonly matched: ReadonlyMap<DeadLetterReason, number>;
  /** How many were taken: fewer than matched if another process took some first, and 0 if they were only counted. */
  readonly taken: number;
  /** How many match but were left, because a newer version wrote them. They are not counted in `matched`. */
  readonly newer: number;
}

/** Replays or removes dead letters, oldest first. If it is ended half-way, start it again: it goes on with the rest. */
export async function takeAll(deadLetters: Pick<DeadLetters, 'walk'>, options: TakeOptions): Promise<TakeResult> {
  const { filter = {}, buriedUntilMs, limit = Infinity, take, pace, onMatched, onSeen } = options;
  const matched = new Map<DeadLetterReason, number>();
  let [seen, chosen, taken, newer] = [0, 0, 0, 0];

  async function takeOne(stored: StoredDeadLetter): Promise<void> {
    await pace?.();
    if (await take?.(stored)) taken++;
    onSeen?.();
  }

  for await (const all of deadLetters.walk()) {
    const page = all.filter(({ buriedAt }) => buriedAt <= buriedUntilMs);
    const matching = page.filter((stored) => matches(stored, filter));
    const batch = matching.filter((stored) => stored.newer === undefined).slice(0, limit - chosen);
    newer += matching.filter((stored) => stored.newer !== undefined).length;
    for (const stored of batch) {
      countIn(matched, stored.letter.reason);
      onMatched?.(stored);
    }
    chosen += batch.length;
    const taking = await Promise.allSettled(batch.map(takeOne)); // all takes that began have ended, even if one failed
    const failed = taking.find((each) => each.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    for (let others = page.length - batch.length; others > 0; others--) onSeen?.();
    seen += page.length;
    if (page.length < all.length || chosen >= limit) break;
  }
  return { seen, matched, taken, newer };
}

/** The options to take from the dead letters of all shards, one shard after the other; `take` gets the shard too. */
export interface TakeFromAllOptions<Shard> extends Omit<TakeOptions, 'take'> {
  readonly take?: (shard: Shard, stored: StoredDeadLetter) => Promise<boolean>;
}

/** The counts over all shards. */
export interface TakeCounts {
  readonly seen: number;
  readonly matched: number;
  readonly taken: number;
  readonly newer: number;
  readonly byReason: ReasonCounts;
}

/** As `takeAll`, over all shards: in each shard the oldest first; `limit` counts over all of them. */
export async function takeFromAll<Shard extends Pick<DeadLetters, 'walk'>>(
  shards: readonly Shard[],
  { take, limit = Infinity, ...options }: TakeFromAllOptions<Shard>,
): Promise<TakeCounts> {
  const byReason = new Map<DeadLetterReason, number>();
  let [seen, matched, taken, newer] = [0, 0, 0, 0];
  for (const shard of shards) {
    if (matched >= limit) break;
    const done = await takeAll(shard, {
      ...options,
      limit: limit - matched,
      ...(take && { take: (stored: StoredDeadLetter) => take(shard, stored) }),
    });
    seen += done.seen;
    taken += done.taken;
    newer += done.newer;
    for (const [reason, count] of done.matched) {
      countIn(byReason, reason, count);
      matched += count;
    }
  }
  return { seen, matched, taken, newer, byReason: Object.fromEntries(byReason) };
}
