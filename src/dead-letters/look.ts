import type { DeadLetterReason } from '../notification/outcome.ts';
import { countUntil } from './keeper.ts';
import type { DeadLetters } from './store.ts';
import { matches, merged, type DeadLetterFilter, type FoundDeadLetter, type Walk } from './take.ts';

export interface LookOptions {
  readonly filter: DeadLetterFilter;
  /** Which of the matching dead letters are answered: `limit` of them, after the first `offset`. */
  readonly offset: number;
  readonly limit: number;
  /** At most this many are looked at, since each has to be read: the newest ones, or the newest ones until `filter.untilMs`. */
  readonly most: number;
  /** Epoch milliseconds. */
  readonly now: number;
}

/** What a page shows of the dead letters of all shards. */
export interface Look {
  /** The newest first. */
  readonly found: readonly FoundDeadLetter[];
  /** How many of the dead letters that were looked at match. */
  readonly matched: number;
  readonly lookedAt: number;
  /** How many dead letters there are. */
  readonly of: number;
  /** The `deadAt` of the oldest one that was looked at: epoch milliseconds. Absent if all were looked at. */
  readonly lookedBackTo?: number;
  /** When the matching dead letters died. */
  readonly times: Times;
  /** The reasons of the matching dead letters, the most frequent first. */
  readonly reasons: readonly ReasonTimes[];
}

/** When dead letters died. The last number of each list is for the present minute or hour, which is not over yet. */
export interface Times {
  /** How many in each minute of the last hour. */
  readonly minutes: readonly number[];
  /** How many in each hour of the last day. */
  readonly hours: readonly number[];
  readonly older: number;
}

export interface ReasonTimes extends Times {
  readonly reason: DeadLetterReason;
  readonly count: number;
  /** When the newest one died: epoch milliseconds. */
  readonly newestAt: number;
}

/** The part of each shard's dead letters that a look needs. */
export type LookShards = readonly Pick<DeadLetters, 'count' | 'newest' | 'page'>[];

/** Looks at the newest dead letters once: counts those that match, and answers a page of them. */
export async function lookAtNewest(shards: LookShards, options: LookOptions): Promise<Look> {
  const { filter, offset, limit, most, now } = options;
  const counts = await Promise.all(shards.map((shard) => shard.count()));
  const times = createTimes(now);
  const reasons = new Map<DeadLetterReason, ReturnType<typeof createTimes> & { newestAt: number }>();
  const found: FoundDeadLetter[] = [];
  let [matched, lookedAt, lookedBackTo] = [0, 0, now];
  const of = counts.reduce((a, b) => a + b, 0);
  const untilMs = of > most ? (filter.untilMs ?? Infinity) : Infinity;
  const offsets = shards.map(async (shard, at) =>
    untilMs === Infinity ? 0 : (counts[at] ?? 0) - (await countUntil(shard, untilMs)),
  );
  for await (const each of newestOf(shards, await Promise.all(offsets), most)) {
    if (lookedAt === most) break;
    lookedAt++;
    const { reason, deadAt } = each.letter;
    lookedBackTo = Math.min(lookedBackTo, deadAt);
    if (!matches(each, filter)) continue;
    if (matched >= offset && found.length < limit) found.push(each);
    matched++;
    times.add(deadAt);
    const ofReason = reasons.get(reason) ?? { ...createTimes(now), newestAt: deadAt };
    ofReason.add(deadAt);
    reasons.set(reason, ofReason);
  }
  return {
    ...{ found, matched, lookedAt, of: Math.max(of, lookedAt) }, // others may have been added meanwhile
    ...(lookedAt >= most && { lookedBackTo }),
    times: times.result(),
    reasons: [...reasons]
      .map(([reason, each]) => ({ reason, count: each.count(), newestAt: each.newestAt, ...each.result() }))
      .sort((a, b) => b.count - a.count),
  };
}

function newestOf(shards: LookShards, offsets: readonly number[], most: number): Walk<FoundDeadLetter> {
  const walks = shards.map(async function* (deadLetters, shard): Walk<FoundDeadLetter> {
    for await (const page of deadLetters.newest(offsets[shard] ?? 0, most))
      yield* page.map((stored) => ({ ...stored, shard }));
    return undefined;
  });
  return merged(walks, ({ letter }) => -letter.deadAt);
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const [MINUTES, HOURS] = [60, 24];

/** Counts instants by minute and by hour. An instant in the future, from a clock that is ahead, counts as now. */
function createTimes(now: number) {
  const minutes = Array.from({ length: MINUTES }, () => 0);
  const hours = Array.from({ length: HOURS }, () => 0);
  let [older, count] = [0, 0];
  const addTo = (counts: number[], at: number, sizeMs: number): boolean => {
    const place = counts.length - 1 - Math.max(0, Math.floor(now / sizeMs) - Math.floor(at / sizeMs));
    if (place >= 0) counts[place] = (counts[place] ?? 0) + 1;
    return place >= 0;
  };
  return {
    add(at: number): void {
      count++;
      addTo(minutes, at, MINUTE_MS);
      if (!addTo(hours, at, HOUR_MS)) older++;
    },
    count: () => count,
    result: (): Times => ({ minutes, hours, older }),
  };
}
