import { expect, test } from 'vitest';
import { main } from '../../scripts/recipient.ts';
import { apartOptions, type Inspection } from '../../src/limiter/limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { runMain } from '../support/command.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';

const RULES = [{ max: 1, perMs: 30_000 }];

/** The limiters as the workers have them, and the command at the same keys; what it says. */
function openBench() {
  const prefix = testPrefix();
  const env = { REDIS_URL: testRedisUrl(), QUEUE_PREFIX: prefix, LIMIT_LIVE_ACTIVITY_RULES: '1/30s' };
  const limiterOf = (kind: 'background' | 'liveactivity') =>
    createRedisLimiter({ redis: connectRedis(), ...apartOptions(kind, RULES, prefix) });
  const run = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runMain(main, args, env);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  };
  return { liveActivity: limiterOf('liveactivity'), background: limiterOf('background'), run };
}

test('show tells Live Activities apart from background pushes', async () => {
  const { liveActivity, background, run } = openBench();
  for (const id of ['l/0', 'm/0']) await liveActivity.admit({ recipientId: 'teacher-42', id });
  await background.admit({ recipientId: 'teacher-42', id: 'p/0' });
  const shown = JSON.parse(await run('show', 'teacher-42', '--json')) as Record<string, Inspection>;
  expect(shown['background']?.sent).toHaveLength(1);
  expect(shown['liveActivity']).toEqual({
    rules: RULES,
    sent: [{ at: expect.any(Number) as number }],
    reserved: [{ at: expect.any(Number) as number, id: 'm/0', rule: '1/30s', before: 0 }],
  });
  const text = await run('show', 'teacher-42');
  expect(text).toMatch(/\nbackground {5}sent 1 within 1h/);
  expect(text).toMatch(/\nlive activity {2}sent 1 within 30s, the last .* ago\n {15}reserved 1, in .*\n/);
  expect(text).toMatch(/ no job \(live activity\) .* m\n$/);
});

test('block holds them back too, and unblock lets them go', async () => {
  const { liveActivity, run } = openBench();
  for (const id of ['l/0', 'm/0']) await liveActivity.admit({ recipientId: 'teacher-42', id });
  const told = JSON.parse(await run('block', 'teacher-42', '--for', '2h', '--reason', 'a', '--json')) as object;
  expect(told).toMatchObject({ waiting: 1, moved: 1 });
  const { block, reserved } = await liveActivity.inspect('teacher-42');
  expect(told).toMatchObject({ until: block?.until, lastAt: reserved[0]?.at });
  expect(reserved[0]?.at).toBeGreaterThanOrEqual(block?.until ?? Infinity);
  expect(JSON.parse(await run('unblock', 'teacher-42', '--json'))).toMatchObject({ wasBlocked: true, moved: 1 });
  expect((await liveActivity.inspect('teacher-42')).block).toBeUndefined();
});
