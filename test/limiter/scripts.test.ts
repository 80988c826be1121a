import { describe, expect, it } from 'vitest';
import { CLOCK_STEP_MS, GRACE_MS, NO_SHOW_MS, QUIET_EDGE_MS } from '../../src/limiter/pace.ts';
import { readScript } from '../../src/redis/scripts.ts';
import {} from '../support/limiters.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

const FOLDER = new URL('../../src/limiter/redis/', import.meta.url);

describe('the scripts', () => {
  it('refuse policies that do not go with the keys, before the first write', async () => {
    const redis = connectRedis();
    const prefix = testPrefix();
    const keys = ['settings', 'sent', 'reserved', 'waiting'].map((name) => `${prefix}:${name}`);
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
});
