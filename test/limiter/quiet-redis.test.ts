import { describe, expect, it } from 'vitest';
import type { QuietHours } from '../../src/domain/quiet-hours.ts';
import { createRedisLimiter, type RedisLimiterOptions } from '../../src/limiter/redis/redis-limiter.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';

const HOUR = 3_600_000;
const recipientId = 'teacher-42';

function timeOf(at: number): string {
  return new Date(at).toISOString().slice(11, 16);
}

/** Quiet for at least an hour before and after now. */
function quietNow(): QuietHours {
  return { timezone: 'UTC', quietHours: [{ from: timeOf(Date.now() - HOUR), until: timeOf(Date.now() + 2 * HOUR) }] };
}

/** Two limiters, as in two processes, and how often each has called its script. */
function openTwo({ now, ...options }: Partial<RedisLimiterOptions> & { now?: () => number } = {}) {
  const prefix = testPrefix();
  return [1, 2].map(() => {
    const redis = connectRedis();
    let calls = 0;
    const policy = { rules: [], minGapMs: 1_000 };
    const limiter = createRedisLimiter({ policy, redis: now ? onClock(redis, now) : redis, prefix, ...options });
    const commands = redis as unknown as Record<string, (...args: unknown[]) => unknown>;
    const send = redis.sendCommand.bind(redis);
    commands['sendCommand'] = (command: unknown) => {
      calls += 1;
      return send(command as Parameters<typeof send>[0]);
    };
    const callsOf = async (work: () => Promise<unknown>) => {
      calls = 0;
      await work();
      return calls;
    };
    return { limiter, redis, prefix, callsOf };
  }) as [Opened, Opened];
}

interface Opened {
  readonly limiter: ReturnType<typeof createRedisLimiter>;
  readonly redis: ReturnType<typeof connectRedis>;
  readonly prefix: string;
  readonly callsOf: (work: () => Promise<unknown>) => Promise<number>;
}

describe('quiet hours that are stored for a recipient', () => {
  it('are learned by every process with its first ask, and forgotten with the next one', async () => {
    const [operator, worker] = openTwo();
    const ask = (id: string) => worker.limiter.admit({ recipientId, id });
    await ask('warm'); // the first call also loads the script
    await operator.limiter.quiet(recipientId, quietNow());
    expect(await worker.callsOf(() => ask('a'))).toBe(2);
    expect(await worker.callsOf(() => ask('b'))).toBe(1);
    expect(await ask('c')).toMatchObject({ kind: 'reserved', rule: 'quiet', before: 2 });
    const other = { ...quietNow(), quietHours: [] };
    await operator.limiter.quiet(recipientId, other);
    expect(await worker.callsOf(() => ask('d'))).toBe(2);
    await operator.limiter.unquiet(recipientId);
    expect(await worker.callsOf(() => worker.limiter.peek({ recipientId, id: 'e' }))).toBe(2);
    expect(await worker.callsOf(() => worker.limiter.peek({ recipientId, id: 'e' }))).toBe(1);
    expect(await worker.callsOf(() => worker.limiter.admit({ recipientId: 'teacher-43', id: 'a' }))).toBe(1);
  });

  it('leave no key behind, and stay while they are stored', async () => {
    const [{ limiter, redis, prefix }] = openTwo();
    const key = `${prefix.replaceAll(/[{}]/g, '')}:{${recipientId}}:settings`;
    await limiter.quiet(recipientId, quietNow());
    expect(await redis.pttl(key)).toBe(-1);
    await limiter.block(recipientId, { until: Date.now() + HOUR, reason: 'on leave' });
    expect(await redis.pttl(key)).toBe(-1);
    await limiter.unquiet(recipientId);
    expect(await redis.pttl(key)).toBeGreaterThan(HOUR - 60_000);
    await limiter.unblock(recipientId);
    expect(await redis.exists(key)).toBe(0);
  });
});

describe('a crowd in quiet hours', () => {
  it('asks twice each, whoever asks, and is sent in order after them', async () => {
    let now = Date.now() + 24 * HOUR;
    const start = now;
    const [first, second] = openTwo({ quietHours: quietNow(), now: () => now });
    const ids = Array.from({ length: 60 }, (_, index) => `id-${index}`);
    const slots: number[] = [];
    for (const [index, id] of ids.entries()) {
      now += 1_000;
      const answer = await (index % 2 === 0 ? first : second).limiter.admit({ recipientId, id });
      expect(answer.kind).toBe('reserved');
      slots.push('at' in answer ? answer.at : NaN);
    }
    expect(slots[0]).toBeGreaterThan(start + HOUR);
    expect(slots).toEqual(slots.map((_, index) => (slots[0] ?? NaN) + index * 1_000));
    // Back at their slots, early or late by 120 ms: each is admitted, in its order.
    const sent: number[] = [];
    for (const [index, id] of ids.entries()) {
      now = Math.max(now, (slots[index] ?? NaN) + 120 * ((index % 3) - 1));
      const answer = await (index % 2 === 0 ? second : first).limiter.admit({ recipientId, id });
      expect(answer).toMatchObject({ kind: 'admitted', repeated: false });
      sent.push('at' in answer ? answer.at : NaN);
    }
    expect(sent).toEqual(sent.toSorted((a, b) => a - b));
    expect((sent.at(-1) ?? NaN) - (slots.at(-1) ?? NaN)).toBeLessThanOrEqual(120);
  });
});

describe('quiet hours that are new in LIMITS_FILE', () => {
  it('put off what comes back in them, one behind the other', async () => {
    const begin = Math.floor(Date.now() / 60_000) * 60_000 + 24 * HOUR + 60_000;
    const until = begin + 60_000;
    let now = begin - 1_500;
    const prefix = testPrefix();
    const [before] = openTwo({ now: () => now, prefix });
    const quietHours = { timezone: 'UTC', quietHours: [{ from: timeOf(begin), until: timeOf(until) }] };
    const [after] = openTwo({ now: () => now, prefix, quietHours });
    for (const id of ['a', 'b', 'c', 'd']) await before.limiter.admit({ recipientId, id });
    const slots = async () => (await after.limiter.inspect(recipientId)).reserved.map(({ id, at }) => [id, at - begin]);
    expect(await slots()).toEqual([
      ['b', -500],
      ['c', 500],
      ['d', 1_500],
    ]);
    now = begin + 500;
    await after.limiter.cancel({ recipientId, id: 'b' });
    expect(await after.limiter.admit({ recipientId, id: 'c' })).toMatchObject({ at: until, rule: 'quiet' });
    now = begin + 1_500;
    expect(await after.limiter.admit({ recipientId, id: 'd' })).toMatchObject({ at: until + 1_000, rule: 'quiet' });
    expect(await slots()).toEqual([
      ['c', 60_000],
      ['d', 61_000],
    ]);
  });

  it('keep what was put off out of the next quiet time too', async () => {
    const begin = Math.floor(Date.now() / 60_000) * 60_000 + 24 * HOUR + 60_000;
    let now = begin - 70_500;
    const prefix = testPrefix();
    const policy = { rules: [], minGapMs: 30_000 };
    const times = [0, 2].map((minutes) => ({
      from: timeOf(begin + minutes * 60_000),
      until: timeOf(begin + (minutes + 1) * 60_000),
    }));
    const [before] = openTwo({ now: () => now, prefix, policy });
    const [after] = openTwo({ now: () => now, prefix, policy, quietHours: { timezone: 'UTC', quietHours: times } });
    for (const id of 'abcdef') await before.limiter.admit({ recipientId, id });
    for (const id of 'bc') {
      now += 30_000;
      await after.limiter.admit({ recipientId, id });
    }
    for (const [id, asksAt, kind, at] of [
      ['d', 19_500, 'reserved', 109_500], // behind f
      ['e', 49_500, 'reserved', 180_000],
      ['f', 79_500, 'admitted', 79_500],
      ['d', 109_500, 'admitted', 109_500],
      ['e', 180_000, 'admitted', 180_000],
    ] as const) {
      now = begin + asksAt;
      expect(await after.limiter.admit({ recipientId, id })).toMatchObject({ kind, at: begin + at });
    }
  });
});
