import { setTimeout as sleep } from 'node:timers/promises';
import { readOutcome } from '../src/notification/outcome.ts';
import { prefixesOf, type Layout } from '../src/queue/shards/layout.ts';
import { crc16, outcomesKey } from '../src/queue/names.ts';
import { readWorkers } from '../src/queue/workers.ts';
import { PRODUCER_TIMEOUT_MS, whenReady, type Connection } from '../src/redis/connection.ts';
import { problemBody, type Problem } from './problems.ts';

/**
 * The stream of outcomes as Server-Sent Events. The id of each event is a cursor: the position in each shard's stream,
 * comma-separated. A client that lost its connection sends the last id as `Last-Event-ID`, and misses nothing that the streams
 * still have.
 *
 * There is a stream for each shard. After a change of the number of shards there are also the streams of former shards, which
 * are read to their end. Then each position is followed by a name, `1784000000000-0@2e7a`, so that a cursor stays valid when
 * the number changes.
 */

/** How often Redis is asked for new entries. Blocking commands would need a connection for each client and shard. */
const LOOK_EVERY_MS = 500;
/** After this time without an entry a comment is sent, because proxies close silent connections. */
const ALIVE_EVERY_MS = 15_000;
const PAGE = 500;

const ENTRY_ID = /^\d{1,15}(-\d{1,15})?$/;

/** Where to go on, by the prefix of each stream. A stream that is not in the cursor began later: it is read from its beginning. */
export type Cursor = ReadonlyMap<string, string>;

/** The cursor in this text; undefined if the text is no cursor for these queues. */
export function parseCursor(text: string, layout: Layout): Cursor | undefined {
  const all = prefixesOf(layout);
  if (text === '0') return new Map(all.map((prefix) => [prefix, '0']));
  const parts = text.split(',').map((part) => part.split('@'));
  if (parts.some(([position = '']) => !ENTRY_ID.test(position))) return undefined;
  if (parts.every(({ length }) => length === 1)) {
    // The cursor is from a time with only one layout: the one that has as many shards as the cursor has positions.
    const prefixes = [layout.prefixes, ...layout.former].find(({ length }) => length === parts.length);
    return prefixes && new Map(prefixes.map((prefix, at) => [prefix, parts[at]?.[0] ?? '0']));
  }
  const byName = new Map(parts.map(([position = '0', name = '']) => [name, position]));
  return new Map(all.map((prefix) => [prefix, byName.get(nameOf(prefix)) ?? '0']));
}

/** A short name for a stream, such as `2e7a`. It is a hash, so it very probably differs from the names of other streams. */
function nameOf(prefix: string): string {
  return crc16(prefix).toString(16).padStart(4, '0');
}

export interface OutcomesParts {
  readonly redis: Connection;
  /** QUEUE_PREFIX itself, where the workers are registered. */
  readonly prefix: string;
  readonly layout: () => Promise<Layout>;
}

/**
 * Yields the events after the cursor, then new events as they come, until the signal aborts or the client may not read any more
 * (the last event says so). Without a cursor, it yields only new events. Rejects if Redis does not answer, so that the client
 * gets no stream that ends at once.
 */
export async function openOutcomes(
  parts: OutcomesParts,
  cursor: Cursor | undefined,
  reading: Reading,
): Promise<AsyncGenerator<string>> {
  const { redis, layout } = parts;
  await whenReady(redis, PRODUCER_TIMEOUT_MS);
  const prefixes = prefixesOf(await layout());
  const now = await Promise.all(
    prefixes.map(async (prefix) => {
      const from = cursor === undefined ? await lastId(redis, outcomesKey(prefix)) : (cursor.get(prefix) ?? '0');
      return [prefix, from] as const;
    }),
  );
  const positions = new Map(now);
  const hasMissed = cursor !== undefined && (await wasTrimmed(redis, positions));
  return outcomeEvents(parts, positions, hasMissed, reading);
}

/** Until when a client may read. */
interface Reading {
  readonly signal: AbortSignal;
  readonly mayRead: () => boolean;
}

async function* outcomeEvents(
  { redis, prefix: base, layout }: OutcomesParts,
  positions: Map<string, string>,
  hasMissed: boolean,
  { signal, mayRead }: Reading,
): AsyncGenerator<string> {
  // If there is only one layout, the order of the positions is enough to know their streams.
  let isNamed = (await layout()).former.length > 0;
  if (hasMissed) yield event('missed', positions, {}, isNamed);
  let saidAt = performance.now();
  let saidOff = false;
  const off = async (): Promise<string> => {
    const isOff = await areOff(redis, base);
    const says = isOff && !saidOff;
    saidOff = isOff;
    return says ? `event: off\ndata: ${JSON.stringify({ detail: OFF })}\n\n` : '';
  };
  yield `: connected\n\n${await off()}`;
  while (!signal.aborted && mayRead()) {
    for (const prefix of prefixesOf(await layout())) {
      if (positions.has(prefix)) continue;
      positions.set(prefix, '0');
      isNamed = true;
    }
    let isFull = false;
    for (const [prefix, position] of positions) {
      if (!mayRead()) break;
      const entries = await redis.xrange(outcomesKey(prefix), `(${position}`, '+', 'COUNT', PAGE);
      isFull ||= entries.length === PAGE;
      for (const [id, fields] of entries) {
        positions.set(prefix, id);
        saidAt = performance.now();
        yield event('outcome', positions, readOutcome(fields), isNamed);
      }
    }
    if (isFull) continue;
    if (performance.now() - saidAt > ALIVE_EVERY_MS) {
      saidAt = performance.now();
      yield `: nothing new\n\n${await off()}`;
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
  // This event has no id, so that the client's cursor stays at the last outcome.
  if (!mayRead()) yield `event: problem\ndata: ${JSON.stringify(problemBody(REVOKED))}\n\n`;
}

const REVOKED: Problem = {
  ...{ status: 401, code: 'unauthorized' },
  detail: 'the token was revoked, or lost the scope read: nothing more comes',
};

function event(name: 'outcome' | 'missed', positions: Cursor, data: object, isNamed: boolean): string {
  const cursor = [...positions].map(([prefix, position]) => (isNamed ? `${position}@${nameOf(prefix)}` : position));
  return `event: ${name}\nid: ${cursor.join(',')}\ndata: ${JSON.stringify(data)}\n\n`;
}

const OFF = 'no outcomes are written: no living worker has OUTCOMES_MAX above 0';

/** Whether workers are alive, but none of them writes outcomes. */
async function areOff(redis: Connection, prefix: string): Promise<boolean> {
  const { workers } = await readWorkers(redis, prefix);
  const alive = workers.filter((worker) => worker.alive);
  return alive.length > 0 && alive.every(({ outcomesMax }) => outcomesMax === 0);
}

async function lastId(redis: Connection, key: string): Promise<string> {
  const [last] = await redis.xrevrange(key, '+', '-', 'COUNT', 1);
  return last?.[0] ?? '0';
}

/** Whether an entry that the client has seen is removed by now: then later entries may be removed too. */
async function wasTrimmed(redis: Connection, positions: Cursor): Promise<boolean> {
  const found = await Promise.all(
    [...positions].map(async ([prefix, position]) => {
      const key = outcomesKey(prefix);
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
