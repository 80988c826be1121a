import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CLOCK_STEP_MS, GRACE_MS, HORIZON_MS, NO_SHOW_MS } from '../../src/limiter/pace.ts';
import { createRedisLimiter } from '../../src/limiter/redis-limiter.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

function readScript(name: string): string {
  return readFileSync(new URL(`../../src/limiter/${name}`, import.meta.url), 'utf8');
}

/** The highest number by which the script's code (not its comments) names an entry of KEYS or ARGV. */
function highestIndex(name: string, array: 'KEYS' | 'ARGV'): number {
  const code = readScript(name).replaceAll(/--.*$/gm, '');
  return Math.max(0, ...[...code.matchAll(new RegExp(`${array}\\[(\\d+)\\]`, 'g'))].map((match) => Number(match[1])));
}

/** What the wrapper sends with each command, caught at the client. */
async function sentCommands(): Promise<Map<string, { keys: number; args: unknown[] }>> {
  const sent = new Map<string, { keys: number; args: unknown[] }>();
  const client = {
    unlink: () => Promise.resolve(0),
    defineCommand(name: string, { lua, numberOfKeys }: { lua: string; numberOfKeys: number }) {
      const file = ['admit.lua', 'release.lua', 'postpone.lua'].find((script) => readScript(script) === lua) ?? '';
      Object.assign(this, {
        [name]: (...all: unknown[]) => {
          sent.set(file, { keys: numberOfKeys, args: all.slice(numberOfKeys) });
          return Promise.resolve(file === 'admit.lua' ? ['admitted', 0, 0, 1, 1, 0] : 1);
        },
      });
    },
  };
  const limiter = createRedisLimiter({
    redis: client,
    policy: { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 },
  });
  await limiter.admit({ recipientId: 'teacher-42', id: 'a', maxWaitMs: 1_000.9 });
  await limiter.refund('teacher-42', 'a');
  await limiter.postpone('teacher-42', 'a', 1.5);
  return sent;
}

describe('the scripts', () => {
  it('name no KEYS or ARGV that the wrapper does not send', async () => {
    const sent = await sentCommands();
    expect([...sent.keys()]).toEqual(['admit.lua', 'release.lua', 'postpone.lua']);
    const [admit, release, postpone] = [...sent.values()];
    expect(admit?.keys).toBe(2); // KEYS are counted, two a scope
    expect(highestIndex('admit.lua', 'ARGV')).toBe(5);
    expect(admit?.args.slice(1)).toEqual(['admit', 1_000, 0, '', 60_000, 150, 2, 1, 3_000, 10, 60_000]);
    expect(release?.keys).toBe(1);
    expect(highestIndex('release.lua', 'ARGV')).toBe(release?.args.length);
    expect(postpone?.keys).toBe(1);
    expect(highestIndex('postpone.lua', 'ARGV')).toBe(postpone?.args.length);
  });

  it('refuse a number of arguments that does not fit the scopes, before the first write', async () => {
    const redis = connectRedis();
    const keys = [`${testPrefix()}:sent`, `${testPrefix()}:reserved`] as const;
    const args = ['1', 'admit', '', '0', '', '60000', '150', '1', '1', '3000'];
    const script = readScript('admit.lua');
    await expect(redis.eval(script, 2, ...keys, ...args, '7')).rejects.toThrow('expected 10 arguments, found 11');
    await expect(redis.eval(script, 2, ...keys, ...args.slice(0, -1))).rejects.toThrow();
    expect(await redis.exists(...keys)).toBe(0);
  });

  it('hold the same times as the limiter in memory', () => {
    const script = readScript('admit.lua');
    for (const [name, value] of Object.entries({ CLOCK_STEP_MS, GRACE_MS, HORIZON_MS, NO_SHOW_MS })) {
      expect(script).toMatch(new RegExp(`^local ${name} = ${value}\\b`, 'm'));
    }
  });

  it('use no command beyond those of Redis 6', () => {
    const code = readScript('admit.lua') + readScript('release.lua') + readScript('postpone.lua');
    const commands = new Set([...code.matchAll(/redis\.call\('([A-Z]+)'/g)].map((match) => match[1]));
    expect([...commands].sort()).toEqual([
      'PEXPIRE',
      'PEXPIREAT',
      'PTTL',
      'TIME',
      'ZADD',
      'ZCOUNT',
      'ZREM',
      'ZREMRANGEBYSCORE',
      'ZREVRANGE',
      'ZREVRANK',
      'ZSCORE',
    ]);
  });

  it('take a slot in every scope or in none', async () => {
    const redis = connectRedis();
    const tag = testPrefix();
    const keys = ['sent', 'reserved', 'category:sent', 'category:reserved'].map((name) => `${tag}:${name}`);
    const start = Date.now() + 86_400_000;
    const overall = [60_000, 150, 1, 1, 1_000]; // a gap of 1 s
    const category = [60_000, 150, 1, 2, 60_000]; // 2/1m
    const ask = async (id: number, at: number, maxWait: number | '' = '') => {
      const args = [id, 'admit', maxWait, 0, start + at, ...overall, ...category];
      const reply = (await redis.eval(readScript('admit.lua'), 4, ...keys, ...args)) as [string, number, ...number[]];
      return [reply[0], reply[1] - start, ...reply.slice(3, 5)];
    };
    expect(await ask(1, 0)).toEqual(['admitted', 0, 1, 1]);
    expect(await ask(2, 0)).toEqual(['reserved', 1_000, 1, 1]); // the overall gap decides
    expect(await ask(3, 0, 5_000)).toEqual(['refused', 60_000, 2, 1]); // the category's window decides
    expect(await ask(3, 0)).toEqual(['reserved', 60_000, 2, 1]);
    expect(await ask(2, 1_000)).toEqual(['admitted', 1_000, 1, 1]);
    const counts = await Promise.all(keys.map((key) => redis.zcard(key)));
    expect(counts).toEqual([2, 1, 2, 1]);
  });
});
