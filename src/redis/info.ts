import { Cluster, type Redis } from 'ioredis';
import { isNotNow } from './deadline.ts';
import { addressOf, type Connection } from './target.ts';

/** What a server of Redis says of itself (INFO). */
export interface RedisInfo {
  /** Of a cluster: which of its servers, `10.0.0.7:6379`. */
  readonly node?: string;
  readonly usedBytes: number;
  /** 0: no bound. */
  readonly maxBytes: number;
  /** Of all clients. */
  readonly clients: number;
  /** Since the server's start. */
  readonly evictedKeys: number;
  /** `maxmemory-policy` is another one than `noeviction`. False if the server does not say it. */
  readonly mayEvict: boolean;
  readonly commands: number;
}

/** In a cluster of each master that answers. Rejects where the only server does not. */
export async function readInfo(connection: Connection): Promise<RedisInfo[]> {
  if (!(connection instanceof Cluster)) return [await infoOf(connection)];
  const found = await Promise.allSettled(
    mastersOf(connection).map(async (node) => ({ node: addressOf(node), ...(await infoOf(node)) })),
  );
  return found.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
}

/** One command for each section: Redis 6 takes no list of them. */
async function infoOf(redis: Redis): Promise<RedisInfo> {
  const sections = await Promise.all(['memory', 'clients', 'stats'].map((section) => redis.info(section)));
  const info = parseInfo(sections.join('\n'));
  const number = (name: string): number => Number(info.get(name) ?? 0);
  return {
    usedBytes: number('used_memory'),
    maxBytes: number('maxmemory'),
    clients: number('connected_clients'),
    evictedKeys: number('evicted_keys'),
    mayEvict: (info.get('maxmemory_policy') ?? 'noeviction') !== 'noeviction',
    commands: number('total_commands_processed'),
  };
}

/** The fields of `INFO`: `redis_version` → `7.0.15`. */
export type Info = ReadonlyMap<string, string>;

export function parseInfo(text: string): Info {
  const fields = text.split(/\r?\n/).map((line) => line.split(':', 1).concat(line.slice(line.indexOf(':') + 1)));
  return new Map(fields.filter(([name = '']) => name !== '' && !name.startsWith('#')) as [string, string][]);
}

/**
 * Redis's words where it takes no writes, such as `OOM command not allowed …`; undefined if it takes them, or does not say.
 * `keys`: one for each place to ask about. They must not exist: `XX` changes only a key that does, so nothing is written.
 */
export async function readWriteRefusal(connection: Connection, keys: readonly string[]): Promise<string | undefined> {
  const answers = await Promise.allSettled(keys.map((key) => connection.set(key, '', 'XX')));
  const refusals = answers.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
  return (refusals.find(isNotNow) as Error | undefined)?.message;
}

/** The masters of a cluster; otherwise the only server. */
export function mastersOf(connection: Connection): Redis[] {
  return connection instanceof Cluster ? connection.nodes('master') : [connection];
}
