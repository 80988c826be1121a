import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createClock, keepClock } from '../../src/limiter/redis/clock.ts';
import { createWaitingLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { openRedisProxy } from '../support/redis-proxy.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';

/** A reply: asked at the local instant `asked`, read on the limiter's clock `offset` ahead after `out`, here after `back`. */
function reply(
  clock: ReturnType<typeof createClock>,
  asked: number,
  offset: number,
  out: number,
  back: number,
): number {
  clock.observe(asked, asked + out + back, Math.floor(asked + out + offset));
  return asked + out + back;
}

const OFFSET = 1_790_000_000_000;

describe('the clock', () => {
  it('is right to the shortest way back of the replies so far', () => {
    const clock = createClock();
    reply(clock, 0, OFFSET, 5, 40);
    expect(clock.toLocal(OFFSET + 100)).toBe(140);
    reply(clock, 100, OFFSET, 5, 2);
    reply(clock, 200, OFFSET, 5, 30);
    expect(clock.toLocal(OFFSET + 1_000)).toBe(1_002);
  });

  it('is not shifted by a reply that lay about: its caller sees how late it is', () => {
    const clock = createClock();
    reply(clock, 0, OFFSET, 1, 1);
    const heardAt = reply(clock, 100, OFFSET, 1, 800);
    const sendAt = clock.toLocal(OFFSET + 101);
    expect(heardAt - sendAt).toBe(799);
  });

  it('follows a step forward with the first reply', () => {
    const clock = createClock();
    reply(clock, 0, OFFSET, 1, 1);
    reply(clock, 100, OFFSET + 5_000, 1, 1);
    expect(clock.toLocal(OFFSET + 5_000 + 200)).toBe(201);
  });

  it('follows a step back with the first reply, to within its round trip', () => {
    const clock = createClock();
    for (let asked = 0; asked < 400; asked += 10) reply(clock, asked, OFFSET, 1, 1);
    reply(clock, 400, OFFSET - 5_000, 1, 3);
    expect(clock.toLocal(OFFSET - 5_000 + 500)).toBe(503);
  });

  const thenMany = (count: number) => Array.from({ length: count }, (_, at) => at + 1);

  it.each([
    ['is known for half a minute', [30_001], 1],
    ['is known for 32 more replies', thenMany(32), 1],
    ['is forgotten after a minute, since the two clocks drift', [60_001], 3],
    ['is forgotten after 64 more replies', thenMany(64), 3],
  ])('a quick reply %s', (_, laterReplies, backMs) => {
    const clock = createClock();
    reply(clock, 0, OFFSET, 0, 1);
    for (const asked of laterReplies) reply(clock, asked, OFFSET, 3, 3);
    expect(clock.toLocal(OFFSET + 70_000)).toBe(70_000 + backMs);
  });
});

it('that is kept knows that the reply to the first ask came late', async () => {
  const proxy = await openRedisProxy(Number(new URL(testRedisUrl()).port));
  const redis = connectRedis(proxy.url);
  const clock = createClock();
  const keeper = keepClock(clock, redis);
  onTestFinished(() => keeper.stop());
  await keeper.measured;
  proxy.delay({ leastMs: 100, mostMs: 100 });
  const limiter = createWaitingLimiter({
    ...{ redis, clock, prefix: testPrefix() },
    policy: { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 1_000 },
  });
  const admission = await limiter.admit({ recipientId: 'teacher-42', id: 'msg-1' });
  const lateMs = performance.now() - (admission.kind === 'admitted' ? admission.sendAt : NaN);
  expect(lateMs).toBeGreaterThan(90);
});

it('that is kept goes on without Redis, and stops', async () => {
  const redis = connectRedis();
  redis.disconnect();
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const keeper = keepClock(createClock(), redis);
  await keeper.measured;
  await vi.advanceTimersByTimeAsync(20_000);
  keeper.stop();
  expect(vi.getTimerCount()).toBe(0);
});
