import { Cluster, type Redis } from 'ioredis';
import { isNotNow } from './deadline.ts';
import { addressOf, type Connection } from './target.ts';

/** What a Redis server says about itself (INFO). */
export interface RedisInfo {
  /** In a cluster: the address of this server, `10.0.0.7:6379`. */
  readonly node?: string;
  readonly usedBytes: number;
  /** `maxmemory`; 0: no bound. */
  readonly maxBytes: number;
  readonly clients: number;
  /** How many keys the server has evicted since it started. */
  readonly evictedKeys: number;
  /** `maxmemory-policy` is not `noeviction`. False if the server does not say its policy. */
  readonly mayEvict: boolean;
  readonly commands: number;
}

/** In a cluster, the answer of each master that answers. Rejects if a single server does not answer. */
export async function readInfo(connection: Connection): Promise<RedisInfo[]> {
  if (!(connection instanceof Cluster)) return [await infoOf(connection)];
  const found = await Promise.allSettled(
    mastersOf(connection).map(async (node) => ({ node: addressOf(node), ...(await infoOf(node)) })),
  );
  return found.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
}

/** One command for each section, because Redis 6 takes only one section in a command. */
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
 * Redis's words if it takes no writes, such as `OOM command not allowed …`; undefined if it takes them, or does not say.
 * `keys`: one key for each server to ask. The keys must not exist: then a SET with `XX` writes nothing.
 */
export async function readWriteRefusal(connection: Connection, keys: readonly string[]): Promise<string | undefined> {
  const answers = await Promise.allSettled(keys.map((key) => connection.set(key, '', 'XX')));
  const refusals = answers.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
  return (refusals.find(isNotNow) as Error | undefined)?.message;
}

/** The `maxmemory-policy` of each server that says it; in a cluster, of each master that answers. Never rejects. */
export async function readEvictionPolicies(connection: Connection): Promise<string[]> {
  const answers = await Promise.allSettled(mastersOf(connection).map((node) => node.info('memory')));
  return answers.flatMap((each) =>
    each.status === 'fulfilled' ? (parseInfo(each.value).get('maxmemory_policy') ?? []) : [],
  );
}

/** The masters of a cluster; otherwise the only server. */
export function mastersOf(connection: Connection): Redis[] {
  return connection instanceof Cluster ? connection.nodes('master') : [connection];
}
