import { describe, expect, it } from 'vitest';
import { CLOCK_STEP_MS, GRACE_MS, NO_SHOW_MS, QUIET_EDGE_MS } from '../../src/limiter/pace.ts';
import { createCanceller } from '../../src/limiter/redis/canceller.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { readScript } from '../../src/redis/scripts.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

const FOLDER = new URL('../../src/limiter/redis/', import.meta.url);
const SCRIPTS = ['admit.lua', 'release.lua', 'settings.lua', 'inspect.lua', 'move.lua', 'cancel.lua'];

/** The highest number by which the script's code (not its comments) names an entry of KEYS or ARGV. */
function highestIndex(name: string, array: 'KEYS' | 'ARGV'): number {
  const code = readScript(name, FOLDER).replaceAll(/--.*$/gm, '');
  return Math.max(0, ...[...code.matchAll(new RegExp(`${array}\\[(\\d+)\\]`, 'g'))].map((match) => Number(match[1])));
}

interface Sent {
  readonly script: string;
  readonly keys: readonly unknown[];
  readonly args: readonly unknown[];
}

const REPLIES: Readonly<Record<string, unknown>> = {
  'admit.lua': [1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0],
  'inspect.lua': [0, null, null, null, null, [[], ['b', '5000'], [], [], [], [], [], [], []], null],
  'move.lua': [1],
  'cancel.lua': [[1, 'a']],
  'settings.lua': [1, 0],
};

/** What the wrapper sends with each command, caught at the client. */
async function sentCommands(): Promise<readonly Sent[]> {
  const sent: Sent[] = [];
  const client = {
    unlink: () => Promise.resolve(0),
    defineCommand(name: string, { lua, numberOfKeys }: { lua: string; numberOfKeys: number }) {
      const script = SCRIPTS.find((file) => readScript(file, FOLDER) === lua) ?? '';
      Object.assign(this, {
        [name]: (...all: unknown[]) => {
          sent.push({ script, keys: all.slice(0, numberOfKeys), args: all.slice(numberOfKeys) });
          return Promise.resolve(REPLIES[script] ?? 1);
        },
      });
    },
  };
  const policy = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 };
  const urgent = { ...policy, exempt: ['gap', 'quietHours'] as const };
  const limiter = createRedisLimiter({ redis: client, policy, categories: { messages: policy, urgent }, prefix: 'p' });
  for (const slotId of [
    { recipientId: 'teacher-42', id: 'a' },
    { recipientId: 'teacher-42', id: 'a', category: 'messages' },
  ]) {
    await limiter.admit({ ...slotId, maxWaitMs: 1_000.9, everyRule: true });
    await limiter.refund(slotId);
    await limiter.cancel(slotId);
  }
  await limiter.admit({ recipientId: 'teacher-42', id: 'a', category: 'urgent' });
  await limiter.limit('teacher-42', policy);
  await limiter.unlimit('teacher-42');
  await limiter.block('teacher-42', { until: Date.now() + 60_000, reason: 'parents evening' });
  await limiter.unblock('teacher-42');
  await limiter.inspect('teacher-42');
  await createCanceller({ redis: client, prefix: 'p' }).cancel('teacher-42', [{ jobId: 'a', asks: 0, keepMs: 1 }]);
  return sent;
}

describe('the scripts', () => {
  it('name no KEYS or ARGV that the wrapper does not send', async () => {
    const sent = await sentCommands();
    expect(new Set(sent.map(({ script }) => script))).toEqual(new Set(SCRIPTS));
    for (const { script, keys, args } of sent) {
      const most = Math.max(...sent.filter((other) => other.script === script).map((other) => other.args.length));
      expect(highestIndex(script, 'ARGV'), script).toBe(most);
      expect(args, script).not.toContain(undefined);
      if (script === 'admit.lua') continue; // it looks for a second scope where there may be none
      expect(highestIndex(script, 'KEYS'), script).toBeLessThanOrEqual(keys.length);
    }
  });

  it('get the scopes of an ask, and how to wait', async () => {
    const [overall, , , both] = await sentCommands();
    const numbers = '60000,2000,3000,10,60000';
    expect(overall?.keys).toEqual([
      'p:{teacher-42}:settings',
      'p:{teacher-42}',
      'p:{teacher-42}:reserved',
      'p:{teacher-42}:waiting',
    ]);
    expect(overall?.args).toEqual(['a', '-390611389', 'admit', '{"maxWait":1000}', `[[${numbers}]]`, '1']);
    expect(both?.keys.slice(3, -1)).toEqual([
      'p:{teacher-42}:sent:messages',
      'p:{teacher-42}:reserved:messages',
      'p:{teacher-42}:held:messages',
    ]);
    expect(both?.args.at(-2)).toBe(`[[${numbers}],[${numbers}]]`);
  });

  it('get quiet hours and skipped limits only if there are any', async () => {
    const asks = (await sentCommands()).filter(({ script }) => script === 'admit.lua');
    expect(asks.map(({ args }) => args.slice(5))).toEqual([['1'], ['1'], ['', '-', '', 'gap quietHours'], []]);
  });

  it('refuse policies that do not go with the keys, before the first write', async () => {
    const redis = connectRedis();
    const keys = ['settings', 'sent', 'reserved', 'waiting'].map((name) => `${testPrefix()}:${name}`);
    const args = ['a', '1', 'admit', '', '[[60000,2000,3000],[60000,2000,3000]]'];
    await expect(redis.eval(readScript('admit.lua', FOLDER), 4, ...keys, ...args)).rejects.toThrow('2 policies');
    expect(await redis.exists(...keys)).toBe(0);
  });

  it('have the same times as the limiter in memory', () => {
    const script = readScript('admit.lua', FOLDER);
    for (const [name, value] of Object.entries({ CLOCK_STEP_MS, GRACE_MS, NO_SHOW_MS, QUIET_EDGE_MS })) {
      expect(script).toMatch(new RegExp(`^local ${name} = ${value}\\b`, 'm'));
    }
  });

  it('use no command beyond those of Redis 6', () => {
    const code = SCRIPTS.map((script) => readScript(script, FOLDER)).join('\n');
    const commands = new Set([...code.matchAll(/\bcall\('([A-Z]+)'/g)].map((match) => match[1]));
    expect([...commands].sort()).toEqual([
      ...[
        'EXISTS',
        'HDEL',
        'HGET',
        'HGETALL',
        'HLEN',
        'HMGET',
        'HSET',
        'PERSIST',
        'PEXPIRE',
        'PEXPIREAT',
        'PTTL',
        'TIME',
      ],
      ...['ZADD', 'ZCARD', 'ZCOUNT', 'ZRANGEBYSCORE', 'ZREM', 'ZREMRANGEBYSCORE', 'ZREVRANGE', 'ZREVRANK', 'ZSCORE'],
    ]);
  });
});
