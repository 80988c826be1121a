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
