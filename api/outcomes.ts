import { setTimeout as sleep } from 'node:timers/promises';
import { outcomesKey, shardPrefixes } from '../src/queue/names.ts';
import { PRODUCER_TIMEOUT_MS, whenReady, type Connection } from '../src/redis/connection.ts';

/**
 * The stream of outcomes as Server-Sent Events. The id of each event is a cursor: where to go on in the stream of each shard,
 * comma-separated. A client that lost its connection gives the last one as `Last-Event-ID`, and misses nothing that the streams
 * still have.
 */

/** How often Redis is asked for new entries. A blocking command would need a connection for each client and shard. */
const LOOK_EVERY_MS = 500;
/** A comment after so long without an entry: proxies close connections that say nothing. */
const ALIVE_EVERY_MS = 15_000;
const PAGE = 500;

const ENTRY_ID = /^\d{1,15}(-\d{1,15})?$/;

/** Positions in the streams of all shards; undefined if the text is no cursor of so many shards. */
export function parseCursor(text: string, shards: number): readonly string[] | undefined {
  if (text === '0') return Array<string>(shards).fill('0');
  const positions = text.split(',');
  return positions.length === shards && positions.every((each) => ENTRY_ID.test(each)) ? positions : undefined;
}

export interface OutcomesParts {
  readonly redis: Connection;
  readonly prefix: string;
  readonly shards: number;
}

/**
 * The events after the cursor, then new ones as they come, until the signal aborts or the client may read no more. Without a
 * cursor: those from now on. Rejects if Redis does not answer, so that the client gets no stream that ends at once.
 */
export async function openOutcomes(
  { redis, prefix, shards }: OutcomesParts,
  cursor: readonly string[] | undefined,
  reading: Reading,
): Promise<AsyncGenerator<string>> {
  await whenReady(redis, PRODUCER_TIMEOUT_MS);
  const keys = shardPrefixes(prefix, shards).map(outcomesKey);
  const positions = cursor ?? (await Promise.all(keys.map((key) => lastId(redis, key))));
  const hasMissed = cursor !== undefined && (await wasTrimmed(redis, keys, cursor));
  return outcomeEvents(redis, keys, [...positions], hasMissed, reading);
}

/** Until when a client reads. */
interface Reading {
  readonly signal: AbortSignal;
  readonly mayRead: () => boolean;
}

async function* outcomeEvents(
  redis: Connection,
  keys: readonly string[],
  positions: string[],
  hasMissed: boolean,
  { signal, mayRead }: Reading,
): AsyncGenerator<string> {
  if (hasMissed) yield event('missed', positions, {});
  let saidAt = performance.now();
  yield ': connected\n\n';
  while (!signal.aborted && mayRead()) {
    let isFull = false;
    for (const [shard, key] of keys.entries()) {
      const entries = await redis.xrange(key, `(${positions[shard] ?? '0'}`, '+', 'COUNT', PAGE);
      isFull ||= entries.length === PAGE;
      for (const [id, fields] of entries) {
        positions[shard] = id;
        saidAt = performance.now();
        yield event('outcome', positions, fieldsOf(fields));
      }
    }
    if (isFull) continue;
    if (performance.now() - saidAt > ALIVE_EVERY_MS) {
      saidAt = performance.now();
      yield ': nothing new\n\n';
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}

function event(name: 'outcome' | 'missed', positions: readonly string[], data: object): string {
  return `event: ${name}\nid: ${positions.join(',')}\ndata: ${JSON.stringify(data)}\n\n`;
}

function fieldsOf(fields: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(fields.flatMap((name, at) => (at % 2 === 0 ? [[name, fields[at + 1] ?? '']] : [])));
}

async function lastId(redis: Connection, key: string): Promise<string> {
  const [last] = await redis.xrevrange(key, '+', '-', 'COUNT', 1);
  return last?.[0] ?? '0';
}

/** Whether an entry that the client has seen is gone by now: then some behind it may be gone too. */
async function wasTrimmed(redis: Connection, keys: readonly string[], positions: readonly string[]): Promise<boolean> {
  const found = await Promise.all(
    keys.map(async (key, shard) => {
      const position = positions[shard] ?? '0';
      if (/^0(-0)?$/.test(position)) return false;
      const [seen, next] = await Promise.all([
        redis.xrange(key, position, position),
        redis.xrange(key, `(${position}`, '+', 'COUNT', 1),
      ]);
      return seen.length === 0 && next.length > 0;
    }),
  );
  return found.includes(true);
}
