import { spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {} from 'ioredis';
import { describe, expect, it, vi } from 'vitest';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { createRedisLimiter, createWaitingLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { limiterContract } from '../contract/limiter.ts';
import { quietIn } from '../contract/trial.ts';
import { connectCluster } from '../support/cluster.ts';
import { portOf } from '../support/listen.ts';
import { frozen, ownRedis } from '../support/own-redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onRedis, expectKept, AHEAD_MS, readRecipient, recipientId, inMemory } from './support.ts';

limiterContract('in memory', inMemory);
limiterContract('on Redis', onRedis);

it('forgets recipients whose windows have passed, while others are served', async () => {
  let now = Date.now();
  const limiter = createMemoryLimiter({ policy: { rules: [{ max: 1, perMs: 1_000 }], minGapMs: 0 }, now: () => now });
  for (let number = 0; number < 500; number += 1) await limiter.admit({ recipientId: `past-${number}`, id: 'a' });
  expect(limiter.recipients).toBe(500);
  now += 1_001;
  for (let number = 0; number < 500; number += 1) await limiter.admit({ recipientId: `present-${number}`, id: 'a' });
  expect(limiter.recipients).toBe(500);
});

const POLICY = { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 2_000 };
/** For tests on the real clock: no machine stands still for so long that a second id is admitted. */
const SPARSE = { rules: [], minGapMs: 600_000 };

describe('what stays in Redis', () => {
  it('expires the longest window after the last slot, or a minute after the last reservation', async () => {
    const now = Date.now() + AHEAD_MS;
    const redis = connectRedis();
    const prefix = testPrefix();
    const limiter = createRedisLimiter({ redis: onClock(redis, () => now), policy: POLICY, prefix });
    const slots: Record<string, number> = {};
    for (const id of ['a', 'b', 'c']) {
      const answer = await limiter.admit({ recipientId, id });
      slots[id] = answer.kind === 'refused' ? NaN : answer.at;
    }
    const expiry = async () => {
      const { sent, reserved } = await readRecipient(redis, prefix);
      return [sent.expiresAt, reserved.expiresAt];
    };
    expect(await expiry()).toEqual([Number(slots['a']) + 60_000, Number(slots['c']) + 60_000]);
    await limiter.cancel({ recipientId, id: 'c' });
    expect(near(await expiry(), [Number(slots['a']) + 60_000, Number(slots['b']) + 60_000])).toBe(true);
    await limiter.refund({ recipientId, id: 'a' });
    await limiter.cancel({ recipientId, id: 'b' });
    expect(await expiry()).toEqual([undefined, undefined]);
  });

  it('lasts as long as the slot of one whose renewal is refused, where that counts', async () => {
    let now = Date.now() + AHEAD_MS;
    const start = now;
    const redis = connectRedis();
    const prefix = testPrefix();
    const policy = { rules: [], minGapMs: 1_000 };
    const limiter = createRedisLimiter({ redis: onClock(redis, () => now), policy, prefix, countBlocked: true });
    await limiter.admit({ recipientId, id: 'a' });
    now = start + 900;
    expect(await limiter.admit({ recipientId, id: 'b' })).toMatchObject({ kind: 'admitted', at: start + 1_000 });
    await limiter.block(recipientId, { until: start + 10_900, reason: 'exam' });
    expect(await limiter.admit({ recipientId, id: 'b', renew: true, maxWaitMs: 0 })).toMatchObject({ kind: 'refused' });
    expect((await readRecipient(redis, prefix)).sent.expiresAt).toBe(start + 2_000);
  });

  it('and comes from a clock that is gone is dropped, and does not make what remains last longer', async () => {
    const now = Date.now() + AHEAD_MS;
    const redis = connectRedis();
    const prefix = testPrefix();
    const limiter = createRedisLimiter({ redis: onClock(redis, () => now), policy: POLICY, prefix });
    await limiter.admit({ recipientId, id: 'a' });
    const { sent, reserved } = recipientKeys(prefix, recipientId);
    const later = now + 3_600_000;
    await redis
      .multi()
      .zadd(sent, later, '7')
      .zadd(reserved, later, '8')
      .pexpireat(sent, later + 60_000)
      .exec();
    expect(await limiter.admit({ recipientId, id: 'b' })).toMatchObject({ kind: 'reserved', waitMs: 2_000 });
    const stored = await readRecipient(redis, prefix);
    expect(stored.sent).toMatchObject({ slots: [[expect.any(String), now]], expiresAt: now + 60_000 });
    expect(stored.reserved).toMatchObject({ slots: [[expect.any(String), now + 2_000]], expiresAt: now + 62_000 });
  });

  it('is kept for the longest window that asks of one recipient bring, where keepMs gives it', async () => {
    let now = Date.now() + AHEAD_MS;
    const hourly = { rules: [{ max: 1, perMs: 3_600_000 }], minGapMs: 0 };
    const options = { redis: onClock(connectRedis(), () => now), policy: POLICY, prefix: testPrefix() };
    const limiter = createRedisLimiter({ ...options, keepMs: 3_600_000 });
    const first = await limiter.admit({ recipientId, id: 'a', policy: hourly });
    now += 120_000;
    expect(await limiter.admit({ recipientId, id: 'b' })).toMatchObject({ kind: 'admitted' });
    await limiter.refund({ recipientId, id: 'b' });
    const third = await limiter.admit({ recipientId, id: 'c', policy: hourly });
    expect(third).toMatchObject({ kind: 'reserved', at: (first as { at: number }).at + 3_600_000 });
  });
});

it('forgets at a renewal the admission that was not used, and no later one, which another worker may have used', async () => {
  const start = Date.now() + AHEAD_MS;
  let now = start;
  const redis = onClock(connectRedis(), () => now);
  const limiter = createWaitingLimiter({ redis, policy: POLICY, prefix: testPrefix() });
  await limiter.admit({ recipientId, id: 'a' });
  now += 5_000;
  const ofAnother = { kind: 'admitted', at: now, repeated: false };
  expect(await limiter.admit({ recipientId, id: 'a', renew: true, unusedAt: start })).toMatchObject(ofAnother);
  now += 5_000;
  const same = { ...ofAnother, repeated: true };
  expect(await limiter.admit({ recipientId, id: 'a', renew: true, unusedAt: start })).toMatchObject(same);
});

describe('Redis misbehaving', () => {
  it('loses the scripts again before each one of several asks: all are answered', async () => {
    const own = connectRedis((await ownRedis()).url);
    const limiter = createRedisLimiter({ redis: own, policy: POLICY });
    await limiter.peek({ recipientId, id: 'a' }); // connected
    const send = own.sendCommand.bind(own);
    vi.spyOn(own, 'sendCommand').mockImplementation((command, ...more) => {
      if (command.name === 'evalsha') void own.script('FLUSH'); // on the same connection, so just before it
      return send(command, ...more);
    });
    const asks = ['a', 'b', 'c', 'd'].map((id) => limiter.peek({ recipientId, id }));
    expect(await Promise.all(asks)).toMatchObject(asks.map(() => ({ kind: 'admitted' })));
  });

  /** A limiter that gives up soon, on a Redis of its own that has the script. `patient` waits as long as the test. */
  async function openOwn() {
    const { url, pid } = await ownRedis();
    const own = connectRedis(url);
    const patient = createRedisLimiter({ redis: own, policy: SPARSE, timeoutMs: 600_000 });
    await patient.peek({ recipientId, id: 'a' });
    return { url, pid, patient, limiter: createRedisLimiter({ redis: own, policy: SPARSE, timeoutMs: 100 }) };
  }

  it('hangs: the wait is bounded, and the same id asked again has one slot', async () => {
    const { pid, patient, limiter } = await openOwn();
    await frozen(pid, async () => {
      await expect(limiter.admit({ recipientId, id: 'a' })).rejects.toThrow(LimiterUnavailableError);
    });
    expect(await patient.admit({ recipientId, id: 'a' })).toMatchObject({ kind: 'admitted', repeated: true });
    expect(await patient.admit({ recipientId, id: 'b' })).toMatchObject({ kind: 'reserved' });
  });

  it('has answered a process that stood still: the answer is read before it is given up', async () => {
    const { url, limiter } = await openOwn();
    const asked = limiter.admit({ recipientId, id: 'a' });
    // This process does nothing else until Redis has the slot, and the answer to a later command shows that it was sent.
    const untilAnswered = `
      const { Redis } = await import('ioredis');
      const redis = new Redis(${JSON.stringify(url)});
      while ((await redis.dbsize()) === 0);
      await redis.ping();
      redis.disconnect();`;
    const flags = ['--input-type=module', '--eval', untilAnswered];
    expect(spawnSync(process.execPath, flags, { cwd: import.meta.dirname, timeout: 60_000 })).toMatchObject({
      status: 0,
    });
    for (const until = performance.now() + 150; performance.now() < until;);
    expect(await asked).toMatchObject({ kind: 'admitted' });
  });

  it('accepts and never answers: never a yes', async () => {
    const mute = createServer((socket) => socket.on('error', () => undefined));
    const redis = connectRedis(`redis://127.0.0.1:${await portOf(mute)}`);
    const limiter = createRedisLimiter({ redis, policy: POLICY, timeoutMs: 50 });
    const calls = [
      limiter.admit({ recipientId, id: 'a' }),
      limiter.peek({ recipientId, id: 'a' }),
      limiter.refund({ recipientId, id: 'a' }),
      limiter.cancel({ recipientId, id: 'a' }),
      limiter.reset(recipientId),
    ];
    for (const outcome of await Promise.allSettled(calls)) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { name: 'LimiterUnavailableError' } });
    }
  });
});

describe('quiet hours that are stored for a recipient', () => {
  const HOUR = 3_600_000;
  const quietNow = () => quietIn({ from: Date.now() - HOUR, until: Date.now() + 2 * HOUR });

  it('are learned by every process with its first ask, and forgotten with the next one', async () => {
    const prefix = testPrefix();
    const operator = createRedisLimiter({ redis: connectRedis(), policy: POLICY, prefix });
    const redis = connectRedis();
    const send = vi.spyOn(redis, 'sendCommand');
    const worker = createRedisLimiter({ redis, policy: POLICY, prefix });
    const callsOf = async (work: Promise<unknown>) => {
      await work;
      return send.mock.calls.splice(0).length;
    };
    const ask = (id: string) => worker.admit({ recipientId, id });
    await callsOf(ask('warm')); // the first call also loads the script
    await operator.quiet(recipientId, quietNow());
    expect(await callsOf(ask('a'))).toBe(2);
    expect(await callsOf(ask('b'))).toBe(1);
    expect(await ask('c')).toMatchObject({ kind: 'reserved', rule: 'quiet', before: 2 });
    await operator.quiet(recipientId, { ...quietNow(), quietHours: [] });
    expect(await callsOf(ask('d'))).toBe(3); // with that of c
    await operator.unquiet(recipientId);
    expect(await callsOf(worker.peek({ recipientId, id: 'e' }))).toBe(2);
    expect(await callsOf(worker.peek({ recipientId, id: 'e' }))).toBe(1);
    expect(await callsOf(worker.admit({ recipientId: 'teacher-43', id: 'a' }))).toBe(1);
  });

  it('leave no key behind, and stay while they are stored', async () => {
    const redis = connectRedis();
    const prefix = testPrefix();
    const limiter = createRedisLimiter({ redis, policy: POLICY, prefix });
    const { settings } = recipientKeys(prefix, recipientId);
    await limiter.quiet(recipientId, quietNow());
    expect(await redis.pttl(settings)).toBe(-1);
    await limiter.block(recipientId, { until: Date.now() + HOUR, reason: 'on leave' });
    expect(await redis.pttl(settings)).toBe(-1);
    await limiter.unquiet(recipientId);
    expect(await redis.pttl(settings)).toBeGreaterThan(HOUR - 60_000);
    await limiter.unblock(recipientId);
    expect(await redis.exists(settings)).toBe(0);
  });
});

it('works on a cluster, with every key of a recipient on one node', async () => {
  const cluster = connectCluster();
  const limiter = createRedisLimiter({ redis: cluster, policy: SPARSE, prefix: testPrefix() });
  for (const recipient of ['teacher-42', '{teacher}-43']) {
    expect(await limiter.admit({ recipientId: recipient, id: 'a' })).toMatchObject({ kind: 'admitted' });
    expect(await limiter.admit({ recipientId: recipient, id: 'b' })).toMatchObject({ kind: 'reserved' });
    expect(await limiter.reset(recipient)).toBe(true);
  }
});

describe('many clients at once', () => {
  it('break neither the gap nor the window, and each id gets one slot', async () => {
    const prefix = testPrefix();
    const policy = { rules: [{ max: 4, perMs: 400 }], minGapMs: 40 };
    const limiters = Array.from({ length: 6 }, () => createRedisLimiter({ redis: connectRedis(), policy, prefix }));
    const admitted: number[] = [];
    let [asks, late] = [0, 0];
    const deliver = async (id: string, turn: number): Promise<void> => {
      let dueAt = Infinity;
      for (let pass = turn; ; pass += 1) {
        asks += 1;
        const limiter = limiters[pass % limiters.length];
        const answer = await limiter?.admit({ recipientId, id });
        if (performance.now() > dueAt + policy.minGapMs / 2) late += 1; // on a busy machine
        if (answer?.kind === 'admitted') {
          admitted.push(answer.at);
          return;
        }
        if (answer?.kind !== 'reserved') continue;
        dueAt = performance.now() + answer.waitMs;
        await sleep(Math.max(0, answer.waitMs));
      }
    };
    await Promise.all(Array.from({ length: 24 }, (_, number) => deliver(`job-${number}`, number)));
    expect(admitted).toHaveLength(24);
    expectKept(policy, admitted);
    expect(asks - late).toBeLessThan((24 * 25) / 2); // what it takes where nothing is reserved
  });
});

/** Within 5 ms: a key's expiry is moved by what is left of it, which Redis rounds to whole milliseconds. */
function near(found: readonly (number | undefined)[], expected: readonly number[]): boolean {
  return expected.every((at, index) => Math.abs((found[index] ?? NaN) - at) <= 5);
}
