import { Cluster, type Redis } from 'ioredis';
import type { Connection } from './target.ts';

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
  readonly commands: number;
}

/** In a cluster of each master that answers. Rejects where the only server does not. */
export async function readInfo(connection: Connection): Promise<RedisInfo[]> {
  if (!(connection instanceof Cluster)) return [await infoOf(connection)];
  const nodes: Redis[] = connection.nodes('master');
  const found = await Promise.allSettled(
    nodes.map(async (node) => {
      const { host = '', port = '' } = node.options;
      return { node: `${host}:${port}`, ...(await infoOf(node)) };
    }),
  );
  return found.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
}

/** One command for each section: Redis 6 takes no list of them. */
async function infoOf(redis: Redis): Promise<RedisInfo> {
  const sections = await Promise.all(['memory', 'clients', 'stats'].map((section) => redis.info(section)));
  const text = sections.join('\n');
  const number = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  return {
    usedBytes: number('used_memory'),
    maxBytes: number('maxmemory'),
    clients: number('connected_clients'),
    evictedKeys: number('evicted_keys'),
    commands: number('total_commands_processed'),
  };
}
