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
