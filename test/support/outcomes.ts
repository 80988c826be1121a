import type { Redis } from 'ioredis';
import { outcomesKey } from '../../src/queue/names.ts';

/** All entries of the stream of outcomes, as a consumer gets them: texts. */
export async function outcomesIn(redis: Redis, prefix: string): Promise<Record<string, string>[]> {
  const entries = await redis.xrange(outcomesKey(prefix), '-', '+');
  return entries.map(([, fields]) => {
    const pairs = fields.flatMap((name, at) => (at % 2 === 0 ? [[name, fields[at + 1] ?? '']] : []));
    return Object.fromEntries(pairs) as Record<string, string>;
  });
}
