import { setTimeout as sleep } from 'node:timers/promises';

/**
 * What Redis says about itself, by the code of its reply: it will do the same later (redis.io/docs/latest/develop/reference/protocol-spec).
 * Redis 6 tells of a script's error inside of another one. That of a Redis with too many clients is ioredis's answer to
 * what waited for a new connection.
 */
const NOT_NOW =
  /\b(OOM|READONLY|LOADING|MISCONF|BUSY|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|NOREPLICAS|max number of clients)\b/;

/** A Redis that is out of memory or clients, read-only, loading or in the midst of a failover: nothing was written. */
export function isNotNow(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError' && NOT_NOW.test(error.message);
}

/** Redis will not have us: an operator mends that, and then it answers the same ask. */
const NOT_US = /\b(NOAUTH|NOPERM|WRONGPASS)\b/;

/** A reply that refuses this one ask, such as that a key holds something else: an answer, and no outage. */
export function isRefusal(cause: unknown): cause is Error {
  const isReply = cause instanceof Error && cause.name === 'ReplyError';
  return isReply && !isNotNow(cause) && !NOT_US.test(cause.message);
}

const AGAIN_MS = 250;

/** Does it again, four times a second, as long as Redis says that it cannot now; the last error where that takes too long. */
export async function insist<T>(work: () => Promise<T>, forMs: number): Promise<T> {
  const deadline = performance.now() + forMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isNotNow(error) || performance.now() + AGAIN_MS > deadline) throw error;
      await sleep(AGAIN_MS);
    }
  }
}
