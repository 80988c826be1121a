import { describe, expect, it } from 'vitest';
import {
  limitWithInfo,
  toPolicy,
  wouldLimitWithInfo,
  type RollingInfo,
  type RollingOptions,
} from '../../examples/rolling-rate-limiter.ts';
import type { Policy } from '../../src/domain/limits.ts';
import type { Limiter } from '../../src/limiter/limiter.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { createRedisLimiter } from '../support/limiters.ts';
import { ownRedis } from '../support/own-redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { runSnippet } from '../support/snippet.ts';
import { EXAMPLES, type Example } from './rolling-examples.ts';

const STARTED = Date.now();

interface Settings {
  readonly policy: Policy;
  readonly countBlocked?: boolean;
  readonly now: () => number;
}
const LIMITERS: readonly (readonly [name: string, create: (settings: Settings) => Limiter])[] = [
  ['in memory', createMemoryLimiter],
  [
    'on Redis',
    ({ now, ...settings }) =>
      createRedisLimiter({ redis: onClock(connectRedis(), now), prefix: testPrefix(), ...settings }),
  ],
];

describe.each(LIMITERS)("rolling-rate-limiter's own examples, %s", (_name, create) => {
  it.each(EXAMPLES)('$name', async (example) => {
    const infos = await replayed(example, create);
    expect(infos).toMatchObject(example.steps.map(({ answer }) => answer));
  });
});

describe("rolling-rate-limiter's own examples of options", () => {
  const good: RollingOptions = { interval: 10_000, maxInInterval: 5, minDifference: 500 };
  const create = (options: object) =>
    createMemoryLimiter({ policy: toPolicy({ ...good, ...options }), now: () => STARTED });

  it.each([
    { interval: undefined },
    { maxInInterval: undefined },
    { interval: 0 },
    { interval: -1 },
    { maxInInterval: 0 },
    { maxInInterval: -1 },
    { minDifference: -1 },
  ])('throws for %o', (options) => expect(() => create(options)).toThrow('expected'));

  it.each([{ minDifference: undefined }, { minDifference: 0 }, {}])('passes for %o', (options) => {
    expect(() => create(options)).not.toThrow();
  });
});

it('an action that comes a little early begins at its instant', async () => {
  let now = STARTED;
  const limiter = createMemoryLimiter({ policy: { rules: [], minGapMs: 3_000 }, now: () => now });
  await limitWithInfo(limiter, 'r');
  now += 2_880;
  const askedAt = performance.now();
  expect((await limitWithInfo(limiter, 'r')).blocked).toBe(false);
  expect(performance.now() - askedAt).toBeGreaterThan(115);
});

it('the snippet of the page answers as it says', async () => {
  const { url } = await ownRedis();
  const { code, stdout } = await runSnippet('docs/moving-over.md', 'yes-or-no', url);
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'true false\n' });
});

/** What each step is answered here. */
async function replayed({ options, steps }: Example, create: (settings: Settings) => Limiter) {
  let now = STARTED;
  const limiter = create({ policy: toPolicy(options), countBlocked: true, now: () => now });
  const infos: RollingInfo[] = [];
  for (const { atMs, call, id } of steps) {
    now = STARTED + atMs;
    infos.push(await (call === 'limit' ? limitWithInfo : wouldLimitWithInfo)(limiter, id));
  }
  return infos;
}
