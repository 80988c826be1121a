import type { Redis } from 'ioredis';

/** A key in Redis when all workers have stopped. */
export interface Leftover {
  readonly key: string;
  readonly type: string;
  /** Milliseconds until it expires; -1: never. */
  readonly ttlMs: number;
  /** Of a sorted set: its members with their scores. Of a hash: its fields. Of other types, and of what is not looked into: absent. */
  readonly content?: Readonly<Record<string, string>>;
}

/** What is looked into: sets of slots, of what waits together, of cancellation keys, and BullMQ's sets of jobs. */
const LOOKED_INTO =
  /:(reserved|waiting|completed|failed|delayed|prioritized|moving)$|:(reserved|held):[^:]+$|:cancellation:[^:]+$/;
const LISTS = /:(wait|active|paused)$/;
const SCAN_COUNT = 1_000;

/** Every key. Only for a Redis of the run's own. */
export async function readLeftovers(redis: Redis): Promise<Leftover[]> {
  const keys = new Set<string>();
  let cursor = '0';
  do {
    const [next, some] = await redis.scan(cursor, 'COUNT', SCAN_COUNT);
    for (const key of some) keys.add(key);
    cursor = next;
  } while (cursor !== '0');
  const read = await Promise.all([...keys].toSorted().map((key) => readOne(redis, key)));
  return read.filter(({ ttlMs }) => ttlMs !== GONE);
}

const GONE = -2;

async function readOne(redis: Redis, key: string): Promise<Leftover> {
  const [ttlMs, type] = await Promise.all([redis.pttl(key), redis.type(key)]);
  const content = await contentOf(redis, key, type);
  return { key, type, ttlMs, ...(content !== undefined && { content }) };
}

async function contentOf(redis: Redis, key: string, type: string): Promise<Record<string, string> | undefined> {
  if (type === 'list' && LISTS.test(key)) {
    return Object.fromEntries((await redis.lrange(key, '0', '-1')).map((id, index) => [id, String(index)]));
  }
  if (!LOOKED_INTO.test(key)) return undefined;
  if (type === 'hash') return redis.hgetall(key);
  if (type !== 'zset') return undefined;
  const pairs = await redis.zrange(key, '0', '-1', 'WITHSCORES');
  return Object.fromEntries(
    Array.from({ length: pairs.length / 2 }, (_, at) => [pairs[2 * at] ?? '', pairs[2 * at + 1] ?? '']),
  );
}
