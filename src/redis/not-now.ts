import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Codes of Redis's errors that are about Redis itself: the same command may succeed later
 * (redis.io/docs/latest/develop/reference/protocol-spec). They are looked for anywhere in the message, because Redis 6 wraps
 * the error of a script in another one. "max number of clients" reaches the commands that waited for a new connection.
 */
const NOT_NOW =
  /\b(OOM|READONLY|LOADING|MISCONF|BUSY|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|NOREPLICAS|max number of clients)\b/;

/** True if Redis is out of memory or clients, read-only, loading, or in a failover. Nothing was written then. */
export function isNotNow(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError' && NOT_NOW.test(error.message);
}

/** Redis refuses our credentials. An operator can correct that; then the same ask is answered, so it counts as an outage. */
const NOT_US = /\b(NOAUTH|NOPERM|WRONGPASS)\b/;

/** An error about this one ask, such as a key of the wrong type. That is an answer, and no outage. */
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
