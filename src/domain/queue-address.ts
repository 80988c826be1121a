/** Where the queue is: what a worker's variables and a producer's options may say, and what holds if they say nothing. */

/** A worker's `REDIS_URL` and a producer's `redisUrl`. */
export const DEFAULT_REDIS_URL = 'redis://127.0.0.1:6379';
export const REDIS_URLS_FORMAT = 'redis:// or rediss:// URLs, comma-separated';

/** `"redis://one, redis://two"` → both URLs; `undefined` if one of them is none. */
export function parseRedisUrls(text: string): string[] | undefined {
  const urls = text.split(',').map((url) => url.trim());
  return urls.every((url) => /^rediss?:\/\//.test(url) && hasReadableUser(url)) ? urls : undefined;
}

/** False too for a password with a `%` that is not percent-encoded. */
function hasReadableUser(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { username, password } = new URL(url);
  try {
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}

/** A worker's `QUEUE_PREFIX` and a producer's `prefix`. The braces (hash tag) put all keys of a queue and of its dead letters into one hash slot of a Redis Cluster. */
export const DEFAULT_PREFIX = '{pushpacer}';
export const PREFIX_PATTERN = /^[^\s:]{1,64}$/;
export const PREFIX_FORMAT = 'up to 64 characters without spaces and colons, such as {pushpacer}';

/** A worker's `QUEUE_SHARDS` and a producer's `shards`. */
export const MAX_SHARDS = 64;
