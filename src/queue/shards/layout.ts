import { isDeepStrictEqual } from 'node:util';
import { isObject, parseJson } from '../../domain/json.ts';
import type { Connection } from '../../redis/connection.ts';
import { defineScript, readScript } from '../../redis/scripts.ts';
import { DEAD_LETTERS, layoutKey, QUEUE, shardOf, shardPrefixes, SLOTS, crc16, tagOf } from '../names.ts';

/**
 * Which queues there are, and which recipient has which queue. The layout comes from the record in Redis (docs/shards.md);
 * without a record there are as many queues as QUEUE_SHARDS says.
 */
export interface Layout {
  /** Grows with each change. 0: there is no record. */
  readonly version: number;
  /**
   * `prepare`: `next` will follow, and workers consume its queues already. `move`: notifications are added to `prefixes`, and
   * those in `former[0]` are moved there. `steady`: notifications that appear in `former` are moved now and then.
   */
  readonly phase: 'steady' | 'prepare' | 'move';
  /** One for each shard: a recipient's notifications are added to `prefixes[crc16(recipientId) % prefixes.length]`. */
  readonly prefixes: readonly string[];
  /** The prefixes that will follow, in the phase `prepare`. */
  readonly next?: readonly string[];
  /** The prefixes that were in use before, the latest first. */
  readonly former: readonly (readonly string[])[];
}

/** QUEUE_PREFIX and QUEUE_SHARDS. */
export interface QueueNames {
  readonly prefix: string;
  readonly shards: number;
}

/** Every process that uses the queues follows a new layout within this time, and reads the layout at most this often. */
export const LOOK_EVERY_MS = 5_000;
/** How many former layouts are remembered. */
const MOST_FORMER = 8;

/**
 * The layout of a new queue. With several shards, the single queue counts as a former one: a producer that looked before there
 * was a record may still add notifications to it, and these are moved.
 */
export function newLayout({ prefix, shards }: QueueNames): Layout {
  const prefixes = shardPrefixes(prefix, shards);
  return { version: 0, phase: 'steady', prefixes, former: shards === 1 ? [] : [[prefix]] };
}

/** The record; undefined if there is none. Throws if another program, or a later version, wrote it. */
export async function readLayout(connection: Pick<Connection, 'get'>, prefix: string): Promise<Layout | undefined> {
  const text = await connection.get(layoutKey(prefix));
  if (text === null) return undefined;
  const record = parseJson(text);
  if (isLayout(record)) return record;
  throw new Error(`${layoutKey(prefix)}: expected the record of the queues (docs/shards.md), found another value`);
}

function isLayout(record: unknown): record is Layout {
  if (!isObject(record)) return false;
  const { version, phase, prefixes, next, former } = record;
  const arePrefixes = (value: unknown): boolean =>
    Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string');
  return (
    Number.isInteger(version) &&
    (phase === 'steady' || phase === 'move' || (phase === 'prepare' && arePrefixes(next))) &&
    arePrefixes(prefixes) &&
    Array.isArray(former) &&
    former.every(arePrefixes) &&
    (phase !== 'move' || former.length > 0)
  );
}

/** The layout in the record, or the layout that applies without a record. Writes nothing. */
export async function findLayout(connection: Connection, queue: QueueNames): Promise<Layout> {
  const known = await readLayout(connection, queue.prefix);
  if (known !== undefined || queue.shards === 1) return known ?? newLayout(queue);
  const before = prefixesBefore(queue);
  if (await hasQueue(connection, before[0] ?? '')) return { ...newLayout(queue), prefixes: before };
  // If a single queue has jobs, it stays the only one until `reshard` moves them: else the jobs would not be found.
  return newLayout((await hasJobs(connection, queue.prefix)) ? { ...queue, shards: 1 } : queue);
}

/** As `findLayout`, but writes the record for several shards if there is none. */
export async function openLayout(connection: Connection, queue: QueueNames): Promise<Layout> {
  const found = await findLayout(connection, queue);
  if (found.version > 0 || found.prefixes.length === 1) return found;
  const record: Layout = { ...found, version: 1 };
  if ((await connection.set(layoutKey(queue.prefix), JSON.stringify(record), 'NX')) !== null) return record;
  return (await readLayout(connection, queue.prefix)) ?? record;
}

/**
 * As `openLayout`, for a process that followed the layout `known`. A record that is gone, or older, means that Redis lost data;
 * producers may still add notifications to the queues that they know. So a record that is gone is written again, and in one of
 * another process these queues become former ones, whose notifications are moved.
 */
export async function keepLayout(connection: Connection, queue: QueueNames, known: Layout): Promise<Layout> {
  if (known.version === 0) return openLayout(connection, queue);
  const found = await readLayout(connection, queue.prefix);
  if (found === undefined) {
    const kept = withFormer(known, [[queue.prefix]]); // without a record, producers may use the single queue
    await connection.set(layoutKey(queue.prefix), JSON.stringify(kept), 'NX');
    return (await readLayout(connection, queue.prefix)) ?? kept;
  }
  const isOlder = found.version < known.version && !prefixesOf(known).every((each) => prefixesOf(found).includes(each));
  const lease = isOlder ? await takeLease(connection, queue.prefix, LOOK_EVERY_MS) : undefined;
  if (lease === undefined) return found; // or a `reshard` is under way: the next look tries again
  const merged = withFormer({ ...found, version: found.version + 1 }, [known.prefixes, ...known.former]);
  const isWritten = await lease.write(merged);
  await lease.release();
  return isWritten ? merged : found;
}

/** With these prefixes too as former ones, before all but the newest, so that the oldest ones are cut off if there are too many. */
function withFormer(layout: Layout, more: Layout['former']): Layout {
  const known = [layout.prefixes, ...layout.former];
  const added = more.filter((each) => !known.some((other) => isDeepStrictEqual(each, other)));
  return { ...layout, former: layout.former.toSpliced(1, 0, ...added).slice(0, MOST_FORMER) };
}

/** Whether there is a queue under this prefix. */
export async function hasQueue(connection: Pick<Connection, 'exists'>, prefix: string): Promise<boolean> {
  return (await connection.exists(`${prefix}:${QUEUE}:meta`)) === 1;
}

const STATES = ['wait', 'prioritized', 'delayed', 'active', 'completed', 'failed'];

async function hasJobs(connection: Pick<Connection, 'exists'>, prefix: string): Promise<boolean> {
  const keys = STATES.map((state) => `${prefix}:${QUEUE}:${state}`);
  return (await connection.exists(...keys, `${prefix}:${DEAD_LETTERS}:wait`)) > 0;
}

/** The prefixes that versions without a record gave to several shards: the hash slot of each is anywhere in the shard's share. */
export function prefixesBefore({ prefix, shards }: QueueNames): string[] {
  return Array.from({ length: shards }, (_, shard) => {
    for (let salt = 0; ; salt++) {
      const tag = `${tagOf(prefix)}-${shard}-${salt}`;
      if (Math.floor((crc16(tag) % SLOTS) / (SLOTS / shards)) === shard) return `{${tag}}`;
    }
  });
}

/** The prefixes of all queues: first the queues to which notifications are added, then others that may have notifications. */
export function prefixesOf({ prefixes, next = [], former }: Layout): string[] {
  return [...new Set([...prefixes, ...next, ...former.flat()])];
}

/** The queues that workers consume. */
export function consumedPrefixes({ phase, prefixes, next = [], former }: Layout): string[] {
  return [...new Set([...prefixes, ...next, ...(phase === 'move' ? (former[0] ?? []) : [])])];
}

/** The prefix of the queue to which a recipient's notifications are added. */
export function homeOf(recipientId: string, { prefixes }: Pick<Layout, 'prefixes'>): string {
  return homeIn(prefixes, recipientId);
}

/** The prefixes of all queues that may have notifications of a recipient. New notifications are added to the first queue. */
export function homesOf(recipientId: string, { prefixes, next, former }: Layout): string[] {
  const all = [prefixes, ...(next === undefined ? [] : [next]), ...former];
  return [...new Set(all.map((each) => homeIn(each, recipientId)))];
}

/** The queues with these prefixes, in the order of the prefixes. */
export function queuesAt<Q extends { readonly opts: { readonly prefix?: string } }>(
  prefixes: readonly string[],
  queues: readonly Q[],
): Q[] {
  return prefixes.flatMap((prefix) => queues.find(({ opts }) => opts.prefix === prefix) ?? []);
}

/** The prefix of the former queue where an unmoved notification of the recipient may be; undefined if there is none. */
export function formerHomeOf(recipientId: string, { phase, former }: Layout): string | undefined {
  return phase === 'move' && former[0] !== undefined ? homeIn(former[0], recipientId) : undefined;
}

function homeIn(prefixes: readonly string[], recipientId: string): string {
  return prefixes[shardOf(recipientId, prefixes.length)] ?? '';
}

/** The next layout, in the phase `prepare`. The prefixes of an earlier layout are used again only if it has as many shards. */
export function preparedLayout(layout: Layout, { prefix, shards }: QueueNames): Layout {
  const even = shardPrefixes(prefix, shards);
  const isKnown = shards === 1 || layout.former.some((each) => isDeepStrictEqual(each, even));
  const next = isKnown ? even : shardPrefixes(prefix, shards, new Set(prefixesOf(layout)));
  return { ...layout, version: layout.version + 1, phase: 'prepare', next };
}

/** The layout after `prepare`, in the phase `move`. */
export function movingLayout({ version, prefixes, next = [], former }: Layout): Layout {
  const others = former.filter((each) => !isDeepStrictEqual(each, next));
  return {
    version: version + 1,
    phase: 'move',
    prefixes: next,
    former: [prefixes, ...others].slice(0, MOST_FORMER),
  };
}

/** The layout when nothing is left to move, or when a reshard is given up in the phase `prepare`. The queues stay the same. */
export function steadyLayout({ version, prefixes, former }: Layout): Layout {
  return { version: version + 1, phase: 'steady', prefixes, former };
}

/** The layout as a long-running process follows it. */
export interface FollowedLayout {
  /** The layout, at most `everyMs` old; with `isFresh`, as it is now. */
  look(isFresh?: boolean): Promise<Layout>;
}

/** Asks Redis for the layout when it is needed, and not again within `everyMs`. */
export function followLayout(
  read: () => Promise<Layout>,
  { everyMs = LOOK_EVERY_MS }: { readonly everyMs?: number } = {},
): FollowedLayout {
  let last: { readonly layout: Layout; readonly at: number } | undefined;
  let looking: Promise<Layout> | undefined;
  return {
    async look(isFresh = false) {
      if (!isFresh && last !== undefined && performance.now() - last.at < everyMs) return last.layout;
      if (isFresh) await looking?.catch(() => undefined); // that look may have begun earlier
      const at = performance.now();
      looking ??= read()
        .then((layout) => {
          last = { layout, at };
          return layout;
        })
        .finally(() => (looking = undefined));
      return looking;
    },
  };
}

/** What only the process that has the lease may do. */
export interface LayoutLease {
  /** Grows with each lease. What a process with an older lease writes is refused. */
  readonly fence: number;
  /** False if the lease is gone because this process stood still. */
  renew(): Promise<boolean>;
  /** Writes the next layout; false if the lease is gone. */
  write(layout: Layout): Promise<boolean>;
  release(): Promise<void>;
}

const LUA = readScript('layout.lua', import.meta.url);

/** Takes the lease for `ms`; undefined if another process has it. */
export async function takeLease(connection: Connection, prefix: string, ms: number): Promise<LayoutLease | undefined> {
  const script = defineScript<number>(connection, 'pushpacer:layout', LUA, 3);
  const key = layoutKey(prefix);
  const name = crypto.randomUUID();
  const call = (verb: string, ...args: (string | number)[]): Promise<number> =>
    script(key, `${key}:lease`, `${key}:fence`, verb, name, ...args);
  const fence = await call('lease', ms);
  if (fence === 0) return undefined;
  return {
    fence,
    renew: async () => (await call('lease', ms)) === fence,
    write: async (layout) => (await call('write', layout.version - 1, JSON.stringify(layout))) === 1,
    release: async () => {
      await call('release');
    },
  };
}
