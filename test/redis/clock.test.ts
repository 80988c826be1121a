import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createClock, keepClock } from '../../src/redis/clock.ts';
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
  it('is the middle of the first reply, and then moves no further than a reply shows', () => {
    const clock = createClock();
    reply(clock, 0, OFFSET, 30, 30);
    expect(clock.toLocal(OFFSET + 100)).toBeCloseTo(99.5); // the reply says no more than the whole millisecond
    reply(clock, 100, OFFSET, 5, 2); // from 94 to 102
    expect(clock.toLocal(OFFSET + 100)).toBeCloseTo(99.5);
    reply(clock, 200, OFFSET, 0, 0); // from 99 to 100
    expect(clock.toLocal(OFFSET + 1_000)).toBeCloseTo(999.5);
  });

  it.each([
    ['late', 0, 80, 100],
    ['early', 80, 0, 99],
  ])('is right to the quickest reply after a first one that made it too %s', (_, out, back, localAt) => {
    const clock = createClock();
    reply(clock, 0, OFFSET, out, back);
    reply(clock, 100, OFFSET, 0, 0);
    expect(clock.toLocal(OFFSET + 100)).toBeCloseTo(localAt);
  });

  it('is not shifted by a reply that lay about: its caller sees how late it is', () => {
    const clock = createClock();
    reply(clock, 0, OFFSET, 1, 1);
    const heardAt = reply(clock, 100, OFFSET, 1, 800);
    const sendAt = clock.toLocal(OFFSET + 101);
    expect(heardAt - sendAt).toBeCloseTo(800.5);
  });

  it.each([5_000, -5_000, 60, -60])(
    'follows a step of %i ms with the first reply, to half its round trip',
    (stepMs) => {
      const clock = createClock();
      for (let asked = 0; asked < 400; asked += 10) reply(clock, asked, OFFSET, 1, 1);
      reply(clock, 400, OFFSET + stepMs, 1, 3);
      expect(clock.toLocal(OFFSET + stepMs + 500)).toBeCloseTo(500.5);
    },
  );

  it.each([0.02, -0.02])('follows a clock that drifts by %f ms in each reply, to within its round trip', (driftMs) => {
    const clock = createClock();
    let offset = OFFSET;
    for (let asked = 0; asked < 20_000; asked += 10, offset += driftMs) reply(clock, asked, offset, 1, 1);
    expect(Math.abs(clock.toLocal(offset + 20_000) - 20_000)).toBeLessThanOrEqual(2);
  });

  const thenMany = (count: number) => Array.from({ length: count }, (_, at) => at + 1);

  it.each([
    ['however many slow ones follow', thenMany(1_000)],
    ['however long ago it was', [30_001, 60_001, 600_001]],
  ])('keeps what a quick reply showed, %s', (_, laterReplies) => {
    const clock = createClock();
    reply(clock, 0, OFFSET, 0, 1);
    for (const asked of laterReplies) reply(clock, asked, OFFSET, 50, 700);
    expect(clock.toLocal(OFFSET + 70_000)).toBeCloseTo(70_000);
  });

  it('tells Redis’s time, and this machine’s before the first reply', () => {
    const clock = createClock();
    expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1_000);
    clock.observe(performance.now(), performance.now(), Date.now() + 60_000);
    expect(Math.abs(clock.now() - Date.now() - 60_000)).toBeLessThan(1_000);
  });
});

it('that is kept knows that the reply to the first ask came late', async () => {
  const proxy = await openRedisProxy(Number(new URL(testRedisUrl()).port));
  const redis = connectRedis(proxy.url);
  const clock = createClock();
  const keeper = keepClock(clock, () => redis.time());
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
  const keeper = keepClock(createClock(), () => redis.time());
  await keeper.measured;
  await vi.advanceTimersByTimeAsync(20_000);
  keeper.stop();
  expect(vi.getTimerCount()).toBe(0);
});

describe.each([
  ['that was quick before', true],
  ['that was slow from the beginning', false],
])('where a Redis %s is slow for many replies, and then quick', (_, isQuickFirst) => {
  it('no instant moves closer by the delay that falls away', async () => {
    const delayMs = 400;
    const proxy = await openRedisProxy(Number(new URL(testRedisUrl()).port));
    const redis = connectRedis(proxy.url);
    await redis.ping();
    const slow = { leastMs: delayMs, mostMs: delayMs };
    if (!isQuickFirst) proxy.delay(slow);
    const clock = createClock();
    const keeper = keepClock(clock, () => redis.time());
    onTestFinished(() => keeper.stop());
    await keeper.measured;
    proxy.delay(slow);
    const limiter = createWaitingLimiter({
      ...{ redis, clock, prefix: testPrefix() },
      policy: { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 1_000 },
    });
    const asks = (count: number) =>
      Promise.all(Array.from({ length: count }, (_each, n) => limiter.peek({ recipientId: 'a', id: `msg-${n}` })));
    await asks(70);
    const before = clock.toLocal(0);
    proxy.delay(undefined);
    await asks(70);
    expect(Math.abs(clock.toLocal(0) - before)).toBeLessThan(delayMs / 2);
  });
});
