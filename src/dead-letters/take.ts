import { setTimeout as sleep } from 'node:timers/promises';
import { valueAt } from '../domain/json.ts';
import type { Platform } from '../notification/notification.ts';
import type { DeadLetter, DeadLetterReason } from '../notification/outcome.ts';
import { notificationIdIn, openDevicesOf, type StoredDeadLetter } from './letter.ts';
import { createPace } from './pace.ts';
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
  /** The notification's id (its job's id if its data has none), or the id of the dead letter's job. */
  readonly id?: string;
  /** The earliest and the latest time of death: epoch milliseconds. */
  readonly sinceMs?: number;
  readonly untilMs?: number;
}

export function matches(stored: StoredDeadLetter, filter: DeadLetterFilter): boolean {
  const { id, letter } = stored;
  const { reason, recipientId, category, sinceMs = -Infinity, untilMs = Infinity } = filter;
  return (
    (reason === undefined || letter.reason === reason) &&
    (recipientId === undefined || valueAt(letter.notification, 'recipientId') === recipientId) &&
    (category === undefined || valueAt(letter.notification, 'category') === category) &&
    (filter.id === undefined || [id, notificationIdIn(stored)].includes(filter.id)) &&
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
  /** Called for each dead letter that was looked at and does not match the filter. */
  readonly onPassed?: () => void;
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
  { signal, onPassed, buriedUntilMs }: WalkOptions & Pick<Choice, 'buriedUntilMs'>,
): Walk<FoundDeadLetter> {
  const walks = shards.map(async function* (deadLetters, shard): Walk<FoundDeadLetter> {
    for await (const page of deadLetters.walk()) {
      if (signal?.aborted === true) return undefined;
      const meant = page.filter(({ buriedAt }) => buriedAt <= buriedUntilMs);
      for (const stored of meant) {
        if (matches(stored, filter)) yield { ...stored, shard };
        else onPassed?.();
      }
      // All that follow were buried later, so the walk ends. One alone would not show that: a reshard may change the order.
      if (page.length > 0 && meant.length === 0) return undefined;
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

export type ReasonCounts = Readonly<Partial<Record<DeadLetterReason, number>>>;

export function countIn(counts: Map<DeadLetterReason, number>, reason: DeadLetterReason): void {
  counts.set(reason, (counts.get(reason) ?? 0) + 1);
}

export interface TakeOptions extends Choice {
  readonly limit?: number | undefined;
  /** Takes one dead letter; false if it was gone. Absent: dead letters are only counted. */
  readonly take?: (found: FoundDeadLetter) => Promise<boolean>;
  /** How many are taken in a second at most. Default: without a pause. */
  readonly perSecond?: number;
  /** Called for each dead letter that is chosen, in their order, before it is taken. */
  readonly onMatched?: (found: FoundDeadLetter) => void;
  /** Called for each dead letter after it was looked at, or taken. */
  readonly onSeen?: () => void;
}

export interface TakeCounts {
  /** How many dead letters were looked at. */
  readonly seen: number;
  /** How many of them were chosen. */
  readonly matched: number;
  /** How many were taken: fewer than matched if another process took some first, and 0 if they were only counted. */
  readonly taken: number;
  /** How many match but were left, because a newer version wrote them. They are not counted in `matched`. */
  readonly newer: number;
  readonly byReason: ReasonCounts;
}

/** This many dead letters are taken at the same time. Redis takes them one after the other, and does nothing else meanwhile. */
const AT_ONCE = 10;
/** If Redis needs longer than this for one batch, the next batch comes after a pause of the same length. */
const LONG_MS = 10;

/** Replays or removes dead letters, oldest first. If it is ended half-way, start it again: it goes on with the rest. */
export async function takeAll(shards: DeadLetterShards, options: TakeOptions): Promise<TakeCounts> {
  const { limit = Infinity, perSecond = Infinity, take, onMatched, onSeen } = options;
  const byReason = new Map<DeadLetterReason, number>();
  let [passed, matched, taken, newer] = [0, 0, 0, 0];

  const failing = new AbortController();
  const { signal } = failing;
  const pace = createPace(perSecond, { signal });

  async function takeOne(found: FoundDeadLetter): Promise<number> {
    await pace();
    if (signal.aborted) return 0; // another one has failed
    const began = performance.now();
    try {
      if (await take?.(found)) taken++;
    } catch (error) {
      failing.abort();
      throw error;
    }
    const tookMs = performance.now() - began;
    onSeen?.();
    return tookMs;
  }

  async function takeBatch(batch: readonly FoundDeadLetter[]): Promise<void> {
    const taking = await Promise.allSettled(batch.map(takeOne)); // all takes that began have ended, even if one failed
    const failed = taking.find((each) => each.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    const tookMs = taking.map((each) => (each.status === 'fulfilled' ? each.value : 0));
    const busyMs = Math.max(...tookMs) - Math.min(...tookMs); // without the time of the network, which each take needs
    if (busyMs > LONG_MS) await sleep(busyMs);
  }

  const walk = walkChosen(shards, options, {
    onPassed() {
      passed++;
      onSeen?.();
    },
    onNewer() {
      newer++;
      onSeen?.();
    },
  });
  const batch: FoundDeadLetter[] = [];
  for await (const found of walk) {
    countIn(byReason, found.letter.reason);
    onMatched?.(found);
    batch.push(found);
    matched++;
    if (batch.length === AT_ONCE) await takeBatch(batch.splice(0));
    if (matched >= limit) break;
  }
  await takeBatch(batch);
  const seen = passed + matched + newer;
  return { seen, matched, taken, newer, byReason: Object.fromEntries(byReason) };
}
