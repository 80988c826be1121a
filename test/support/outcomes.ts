import type { Redis } from 'ioredis';
import { outcomesKey } from '../../src/queue/names.ts';

/** All entries of the stream of outcomes, as a consumer gets them: texts. */
export function outcomesIn(redis: Redis, prefix: string): Promise<Record<string, string>[]> {
  return entriesIn(redis, outcomesKey(prefix));
}

/** The same of any stream. */
export async function entriesIn(redis: Redis, key: string): Promise<Record<string, string>[]> {
  const entries = await redis.xrange(key, '-', '+');
  return entries.map(([, fields]) => {
    const pairs = fields.flatMap((name, at) => (at % 2 === 0 ? [[name, fields[at + 1] ?? '']] : []));
    return Object.fromEntries(pairs) as Record<string, string>;
  });
}
