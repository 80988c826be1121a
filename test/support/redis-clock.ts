import type { Redis } from 'ioredis';

/** The commands with which a script reads or takes a time, on a clock that is the script's last argument. */
const COMMANDS = `
local onTestClock, testNow = {}, tonumber(table.remove(ARGV))
function onTestClock.TIME() return { math.floor(testNow / 1000), testNow % 1000 * 1000 } end
function onTestClock.PEXPIRE(key, ms) return redis.call('PEXPIREAT', key, string.format('%.0f', testNow + ms)) end
function onTestClock.PTTL(key)
  local expiry = redis.call('PEXPIRETIME', key)
  return expiry < 0 and expiry or expiry - testNow
end
`;

/** The same client, but its scripts read this clock (epoch ms) in place of Redis's. */
export function onClock(redis: Redis, now: () => number): Redis {
  const own: Record<string, unknown> = {
    defineCommand(name: string, { lua, numberOfKeys }: { lua: string; numberOfKeys: number }) {
      const readsTime = lua.includes("call('TIME')");
      const patched = lua.replaceAll(/(?<=\W)(?:redis\.)?call\('(TIME|PTTL|PEXPIRE)'(?:, )?/g, 'onTestClock.$1(');
      redis.defineCommand(`${name}:clock`, { lua: readsTime ? COMMANDS + patched : lua, numberOfKeys });
      const { [`${name}:clock`]: run } = redis as unknown as Record<string, (...args: unknown[]) => unknown>;
      own[name] = (...args: unknown[]) => run?.apply(redis, readsTime ? [...args, now()] : args);
    },
  };
  return new Proxy(redis, {
    get: (_, key) => own[key as string] ?? boundTo(redis, Reflect.get(redis, key)),
  });
}

function boundTo(redis: Redis, value: unknown): unknown {
  return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(redis) : value;
}
