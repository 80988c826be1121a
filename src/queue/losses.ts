import { z } from 'zod';
import { parseJson } from '../domain/json.ts';
import type { Connection } from '../redis/connection.ts';
import type { Loss } from '../redis/stamp.ts';
import { lossesKey } from './names.ts';

/**
 * Workers store what Redis has lost, so that `status` can report it: each `status` is a new process and remembers nothing. One
 * hash under QUEUE_PREFIX has the losses of the queue's Redis and of the limiter's Redis.
 */

/** A loss, and the Redis that had it. */
export type NotedLoss = Loss & { readonly redis: RedisName };

/** `limiter`: the Redis at LIMITER_REDIS_URL. */
export type RedisName = 'queue' | 'limiter';

/** For this long `status` and `doctor` report a loss, unless an operator acknowledges it before. */
export const LOSS_TOLD_MS = 86_400_000;

const server = z.object({ runId: z.string(), isSame: z.boolean() });
const common = { redis: z.enum(['queue', 'limiter']), at: z.number(), server };
const lossSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('emptied'), ...common }),
  z.object({ kind: z.literal('older'), from: z.number(), to: z.number(), ...common }),
  z.object({ kind: z.literal('evicted'), evicted: z.number(), since: z.number(), ...common }),
]);

/** All workers notice the same loss, and write it into the same field. */
export async function noteLoss(redis: Connection, prefix: string, loss: NotedLoss): Promise<void> {
  const key = lossesKey(prefix);
  await redis.hset(key, `${loss.redis} ${loss.kind} ${loss.server.runId}`, JSON.stringify(loss));
  await redis.pexpire(key, LOSS_TOLD_MS);
}

/** The losses of the last day that no operator has acknowledged, the latest first. `now`: Redis's clock. */
export async function readLosses(redis: Connection, prefix: string, now: number): Promise<NotedLoss[]> {
  const values = Object.values(await redis.hgetall(lossesKey(prefix)));
  return values
    .flatMap((json) => lossSchema.safeParse(parseJson(json)).data ?? [])
    .filter(({ at }) => now - at < LOSS_TOLD_MS)
    .toSorted((a, b) => b.at - a.at);
}

/** Acknowledges all losses: they are no longer reported. */
export async function forgetLosses(redis: Connection, prefix: string): Promise<void> {
  await redis.del(lossesKey(prefix));
}
