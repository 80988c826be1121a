import { readFile } from 'node:fs/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
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
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { runSnippet } from '../support/snippet.ts';
import { BLOCKED, INFO, INFO_WITH_DIFFERENCE, type Example } from './rolling-examples.ts';

const PAGE = 'docs/moving-over.md';
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
  it.each(BLOCKED)('$name', async (example) => {
    const blocked = (await replayed(example, create)).map(({ blocked }) => blocked);
    expect(blocked).toEqual(example.steps.map(({ answer }) => answer));
  });

  it(INFO.name, async () => {
    const infos = await replayed(INFO, create);
    expect(infos).toEqual(INFO.steps.map(({ answer }) => answer));
  });

  it(INFO_WITH_DIFFERENCE.name, async () => {
    const infos = await replayed(INFO_WITH_DIFFERENCE, create);
    expect(infos).toEqual(INFO_WITH_DIFFERENCE.steps.map(({ answer }) => answer));
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

describe.each(LIMITERS)('what docs/moving-over.md says, %s', (_name, create) => {
  const GAP: Policy = { rules: [], minGapMs: 3_000 };
  const ask = (id: string) => ({ recipientId: 'r', id });

  it('admitted may mean 120 ms ahead, also with maxWaitMs 0: sendAt has to be waited for', async () => {
    let now = STARTED;
    const limiter = create({ policy: GAP, now: () => now });
    await limiter.admit({ ...ask('a'), maxWaitMs: 0 });
    now += 2_880;
    const answer = await limiter.admit({ ...ask('b'), maxWaitMs: 0 });
    expect(answer).toMatchObject({ kind: 'admitted', at: STARTED + 3_000 });
  });

  it('an action begins at its instant', async () => {
    let now = STARTED;
    const limiter = create({ policy: GAP, now: () => now });
    const instants: number[] = [];
    const watched: Limiter = {
      ...limiter,
      async admit(asked) {
        const answer = await limiter.admit(asked);
        if (answer.kind === 'admitted') instants.push(answer.sendAt);
        return answer;
      },
    };
    await limitWithInfo(watched, 'r');
    now += 2_880;
    expect((await limitWithInfo(watched, 'r')).blocked).toBe(false);
    expect(instants).toHaveLength(2);
    expect(performance.now()).toBeGreaterThanOrEqual(instants[1] ?? Infinity);
  });

  it('all of max act: no 1 is added, as where a remaining of 0 means the last one and blocked', async () => {
    const limiter = create({ policy: { rules: [{ max: 3, perMs: 10_000 }], minGapMs: 0 }, now: () => STARTED });
    const answers: unknown[] = [];
    for (const id of ['a', 'b', 'c', 'd']) {
      const { kind, remaining } = await limiter.admit({ ...ask(id), maxWaitMs: 0 });
      answers.push([kind, remaining]);
    }
    expect(answers).toEqual([
      ['admitted', 2],
      ['admitted', 1],
      ['admitted', 0],
      ['refused', 0],
    ]);
  });

  it('reset forgets what was sent, not a block: rate-limiter-flexible forgets both with delete', async () => {
    const limiter = create({ policy: GAP, now: () => STARTED });
    await limiter.admit(ask('a'));
    await limiter.block('r', { until: STARTED + 60_000, reason: 'abuse' });
    await limiter.reset('r');
    expect(await limiter.peek(ask('b'))).toMatchObject({ kind: 'reserved', rule: 'block', waitMs: 60_000 });
    await limiter.unblock('r');
    expect(await limiter.peek(ask('b'))).toMatchObject({ kind: 'admitted', at: STARTED });
  });

  it('nobody who waits moves up to a cancelled slot, and a newcomer gets it only where nobody waits behind it', async () => {
    const limiter = create({ policy: GAP, now: () => STARTED });
    const slotOf = async (id: string) => (await limiter.inspect('r')).reserved.find((slot) => slot.id === id)?.at;
    for (const id of ['a', 'b', 'c', 'd']) await limiter.admit(ask(id));
    await limiter.cancel(ask('b'));
    await limiter.admit(ask('e'));
    const slots = await Promise.all(['c', 'd', 'e'].map(slotOf));
    expect(slots).toEqual([6_000, 9_000, 12_000].map((ms) => STARTED + ms));
    await limiter.cancel(ask('e'));
    await limiter.admit(ask('f'));
    expect(await slotOf('f')).toBe(STARTED + 12_000);
  });

  it('a peek counts itself: what is left before it is one more', async () => {
    const limiter = create({ policy: { rules: [{ max: 3, perMs: 10_000 }], minGapMs: 0 }, now: () => STARTED });
    expect((await limiter.peek(ask('a'))).remaining).toBe(2);
    for (const id of ['a', 'b']) await limiter.admit(ask(id));
    expect((await limiter.peek(ask('c'))).remaining).toBe(0);
  });
});

describe(PAGE, () => {
  it('has a snippet that answers as it says', async () => {
    const redis = await startEmbeddedRedis();
    onTestFinished(() => redis.close());
    const { code, stdout } = await runSnippet(PAGE, 'yes-or-no', redis.url);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'true false\n' });
  });

  it('shows parts of the example that is run here', async () => {
    const [page, example] = await Promise.all(
      [PAGE, 'examples/rolling-rate-limiter.ts'].map((path) => readFile(path, 'utf8')),
    );
    const snippets = [...(page ?? '').matchAll(/```(?:ts|js)\n([^]*?)```/g)].map(([, code]) => code ?? '');
    expect(snippets).toHaveLength(2);
    for (const snippet of snippets.slice(1)) expect(example).toContain(snippet);
  });
});

/** What each step is answered here. */
async function replayed<Answer>({ options, steps }: Example<Answer>, create: (settings: Settings) => Limiter) {
  let now = STARTED;
  const limiter = create({ policy: toPolicy(options), countBlocked: true, now: () => now });
  const infos: RollingInfo[] = [];
  for (const { atMs, call, id } of steps) {
    now = STARTED + atMs;
    infos.push(await (call === 'limit' ? limitWithInfo : wouldLimitWithInfo)(limiter, id));
  }
  return infos;
}
