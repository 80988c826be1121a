import { readdir, readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';

/** All that our scripts call. A command that is added here has to be one of Redis 6.2, as README.md promises. */
const COMMANDS = [
  ...['DEL', 'EXISTS', 'EXPIRE', 'GET', 'INCR', 'PERSIST', 'PEXPIRE', 'PEXPIREAT', 'PTTL', 'SET', 'TIME', 'TYPE'],
  ...['HDEL', 'HEXISTS', 'HGET', 'HGETALL', 'HINCRBY', 'HLEN', 'HMGET', 'HSCAN', 'HSET', 'HSTRLEN'],
  ...['LINDEX', 'LLEN', 'LPOS', 'LPUSH', 'LRANGE', 'LREM', 'RPUSH', 'SADD', 'SISMEMBER', 'SREM', 'XADD'],
  ...['ZADD', 'ZCARD', 'ZCOUNT', 'ZRANGE', 'ZRANGEBYSCORE', 'ZREM', 'ZREMRANGEBYRANK', 'ZREMRANGEBYSCORE'],
  ...['ZREVRANGE', 'ZREVRANGEBYSCORE', 'ZREVRANK', 'ZSCORE'],
];

it('no script uses a command beyond those of Redis 6.2', async () => {
  const scripts = (await readdir('src', { recursive: true })).filter((path) => path.endsWith('.lua'));
  const code = await Promise.all(scripts.map((path) => readFile(`src/${path}`, 'utf8')));
  const called = code.flatMap((lua) => [...lua.matchAll(/\bcall\('([A-Z]+)'/g)].map(([, command]) => command));
  expect([...new Set(called)].toSorted()).toEqual(COMMANDS.toSorted());
});
