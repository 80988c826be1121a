import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePort, startEmbeddedRedis, type EmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { type FallbackOptions, createOutageGate, withFallback } from '../../src/limiter/fallback.ts';
import type { Admission, Limiter } from '../../src/limiter/limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import {} from '../support/process.ts';
import { onClock } from '../support/redis-clock.ts';
import { waitFor } from '../support/wait.ts';

/** 5 in a minute with 20 s between: nothing of it passes by itself while a test runs. */
const POLICY: Policy = { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 20_000 };
const TIMEOUT_MS = 200;

/** Both ways to use ioredis: commands wait for the connection and are sent after all, or fail at once without one. */
const CLIENTS = {
  waits: { maxRetriesPerRequest: null, retryStrategy: () => 20 },
  'fails at once': { enableOfflineQueue: false, maxRetriesPerRequest: 0, retryStrategy: () => 20 },
} satisfies Record<string, ClientOptions>;
type ClientOptions = Omit<RedisOptions, 'replyMapping'>; // set, it would change the type of replies

/** A limiter with a fallback, on a Redis of its own that can be stopped and comes back at the same place, empty. */
async function outage(options: Partial<FallbackOptions>, clientOptions: ClientOptions = {}) {
  const port = await freePort();
  let server: EmbeddedRedis = await startEmbeddedRedis({ port });
  const client = new Redis(port, '127.0.0.1', {
    maxRetriesPerRequest: null,
    retryStrategy: () => 20,
    ...clientOptions,
  });
  client.on('error', () => undefined); // refused while it is away
  onTestFinished(async () => {
    client.disconnect();
    await server.close();
  });
  await waitFor(() => expect(client.status).toBe('ready'));

  const { policy = POLICY, onUnavailable = 'closed', pauseMs = 1_000, now, ...rest } = options;
  const changes: boolean[] = [];
  const onItsClock = now ? onClock(client, now) : client;
  const real = createRedisLimiter({ redis: onItsClock, policy, timeoutMs: TIMEOUT_MS, ...rest });
  let calls = 0;
  const counted: Limiter = { ...real, admit: (ask) => ((calls += 1), real.admit(ask)) };
  const onOutage = (isAway: boolean): void => void changes.push(isAway);
  const limiter = withFallback(counted, { ...rest, ...(now && { now }), policy, onUnavailable, pauseMs, onOutage });
  const redis = {
    stop: () => server.close(),
    start: async () => {
      server = await startEmbeddedRedis({ port });
    },
    pause: (ms: number) => client.client('PAUSE', ms),
  };
  /** Resolves when asks are answered by Redis again; it asks for somebody else, and writes nothing. */
  const back = () =>
    waitFor(async () => {
      await limiter.peek({ recipientId: 'nobody', id: 'probe' });
      expect(changes.at(-1)).toBe(false);
    });
  return { limiter, redis, back, changes, calls: () => calls };
}

/** What a bounded wait may take on a busy machine; a hang is longer. */
const BOUND_MS = 5_000;
const recipientId = 'teacher-42';

describe.each(Object.entries(CLIENTS))('Redis stopped and started, where a command %s', (_name, clientOptions) => {
  const open = (options: Partial<FallbackOptions>) => outage(options, clientOptions);

  it('closed: every call rejects with a typed error in time, and is answered again by itself', async () => {
    const { limiter, redis } = await open({ onUnavailable: 'closed' });
    expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject({ kind: 'admitted' });
    await redis.stop();
    const startedAt = performance.now();
    await expectAllAway(limiter);
    expect(performance.now() - startedAt).toBeLessThan(BOUND_MS);
    await redis.start();
    await waitFor(async () => expect(await limiter.peek({ recipientId, id: 'b' })).toHaveProperty('kind'));
  });

  it('open: everybody is admitted at once, nothing is counted, and pacing comes back by itself', async () => {
    const { limiter, redis } = await open({ onUnavailable: 'open', pauseMs: 50 });
    await redis.stop();
    const startedAt = performance.now();
    for (const id of ['a', 'b', 'b']) {
      const answer = await limiter.admit({ recipientId, id, maxWaitMs: 0 });
      expect(answer).toMatchObject({ kind: 'admitted', rule: 'unavailable', remaining: Infinity, resetMs: 0 });
      expect(answer).toMatchObject({ repeated: false, at: expect.closeTo(Date.now(), -4) as number });
    }
    expect(await limiter.peek({ recipientId, id: 'c' })).toMatchObject({ kind: 'admitted', rule: 'unavailable' });
    await expect(limiter.admit({ recipientId, id: '' })).rejects.toThrow('id: expected');
    expect(await limiter.refund({ recipientId, id: 'a' })).toBe(false);
    expect(await limiter.cancel({ recipientId, id: 'a' })).toBe(false);
    await expectOversightAway(limiter);
    expect(performance.now() - startedAt).toBeLessThan(BOUND_MS);
    await redis.start();
    await waitFor(async () => expect((await limiter.peek({ recipientId, id: 'd' })).rule).not.toBe('unavailable'));
    await limiter.admit({ recipientId, id: 'd' });
    expect((await limiter.admit({ recipientId, id: 'e' })).kind).toBe('reserved');
  });

  it('memory: this process paces alone, and pacing by Redis comes back by itself', async () => {
    const { limiter, redis, back } = await open({ onUnavailable: 'memory', pauseMs: 50 });
    await redis.stop();
    const startedAt = performance.now();
    expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject({ kind: 'admitted', rule: 'gap' });
    expect(await limiter.admit({ recipientId, id: 'b' })).toMatchObject({ kind: 'reserved', rule: 'gap' });
    expect(await limiter.admit({ recipientId, id: 'c', maxWaitMs: 0 })).toMatchObject({ kind: 'refused' });
    expect(await limiter.admit({ recipientId: 'teacher-43', id: 'a' })).toMatchObject({ kind: 'admitted' });
    expect(await limiter.cancel({ recipientId, id: 'b' })).toBe(true);
    expect(await limiter.refund({ recipientId, id: 'a' })).toBe(true);
    expect(await limiter.peek({ recipientId, id: 'c' })).toMatchObject({ kind: 'admitted' });
    await expectOversightAway(limiter);
    expect(performance.now() - startedAt).toBeLessThan(BOUND_MS);
    await redis.start();
    await back();
    await limiter.admit({ recipientId: 'teacher-44', id: 'd' });
    expect((await limiter.inspect('teacher-44')).sent).toHaveLength(1);
  });
});

describe('open', () => {
  it('answers the gap and the tolerance that are in force, of a category too', async () => {
    const categories = { messages: { rules: [], minGapMs: 101 } };
    const policy = { rules: [], minGapMs: 50 };
    const { limiter, redis } = await outage({ onUnavailable: 'open', policy, categories });
    const spacing = async (id: string, category: string) => {
      const { rule, gapMs, toleranceMs } = await limiter.admit({ recipientId: id, id, category });
      return { isOpen: rule === 'unavailable', gapMs, toleranceMs };
    };
    const before = [await spacing('a', 'messages'), await spacing('b', 'constructor')];
    expect(before).toMatchObject([{ gapMs: 101 }, { gapMs: 50 }]);
    await redis.stop();
    const meanwhile = [await spacing('c', 'messages'), await spacing('d', 'constructor')];
    expect(meanwhile).toEqual(before.map((each) => ({ ...each, isOpen: true })));
  });
});

describe('memory', () => {
  it('gives an id that it admitted the same answer after the outage, until a reset, and takes no second slot for it', async () => {
    const { limiter, redis, back } = await outage({ onUnavailable: 'memory', pauseMs: 50 }, CLIENTS['fails at once']);
    await redis.stop();
    const first = admitted(await limiter.admit({ recipientId, id: 'a' }));
    await redis.start();
    await back();
    const again = { kind: 'admitted', at: first.at, repeated: true };
    expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject(again);
    expect(await limiter.peek({ recipientId, id: 'a' })).toMatchObject(again);
    expect((await limiter.inspect(recipientId)).sent).toEqual([]);
    expect(await limiter.reset(recipientId)).toBe(true);
    expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject({ kind: 'admitted', repeated: false });
  });

  it('counts an admission in memory that went unused no more, and lets Redis answer', async () => {
    const { limiter, redis, back } = await outage({ onUnavailable: 'memory', pauseMs: 50 });
    await redis.stop();
    await limiter.admit({ recipientId, id: 'a' });
    await redis.start();
    await back();
    const renewed = admitted(await limiter.admit({ recipientId, id: 'a', renew: true }));
    expect(renewed.repeated).toBe(false);
    expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject({ at: renewed.at, repeated: true });
    expect((await limiter.inspect(recipientId)).sent).toHaveLength(1);
    expect(await limiter.refund({ recipientId, id: 'a' })).toBe(true);
    expect(await limiter.refund({ recipientId, id: 'a' })).toBe(false);
  });

  it('gives one id one slot, however many ask under it at once when the outage begins', async () => {
    const { limiter, redis } = await outage({ onUnavailable: 'memory', pauseMs: 50 });
    await redis.stop();
    const asked = Array.from({ length: 20 }, () => limiter.admit({ recipientId, id: 'a' }));
    const answers = (await Promise.all(asked)).map(admitted);
    expect(answers.filter(({ repeated }) => !repeated)).toHaveLength(1);
    expect(new Set(answers.map(({ at }) => at)).size).toBe(1);
  });

  it('gives back both slots of an id whose ask was given up, and carried out by Redis all the same', async () => {
    const { limiter, redis, back } = await outage({ onUnavailable: 'memory', pauseMs: 50 });
    await limiter.peek({ recipientId, id: 'a' }); // connected, and the scripts known
    await redis.pause(TIMEOUT_MS * 2);
    const first = admitted(await limiter.admit({ recipientId, id: 'a' }));
    await back();
    await waitFor(async () => expect((await limiter.inspect(recipientId)).sent).toHaveLength(1));
    expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject({ at: first.at, repeated: true });
    expect((await limiter.inspect(recipientId)).sent).toHaveLength(1);
    expect(await limiter.refund({ recipientId, id: 'a' })).toBe(true);
    expect((await limiter.inspect(recipientId)).sent).toEqual([]);
    expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject({ kind: 'admitted', repeated: false });
  });

  it('waits no longer for an id that Redis has answered since', async () => {
    const { limiter, redis, back } = await outage({ onUnavailable: 'memory', pauseMs: 50 });
    await redis.stop();
    const { at } = admitted(await limiter.admit({ recipientId, id: 'a' }));
    await limiter.admit({ recipientId, id: 'b' });
    await redis.start();
    await back();
    await limiter.admit({ recipientId, id: 'b' });
    await redis.stop();
    expect(await limiter.admit({ recipientId, id: 'c' })).toMatchObject({ kind: 'reserved', at: at + 20_000 });
  });

  it('forgets what it admitted when nothing of it counts any more', async () => {
    let now = Date.now();
    const { limiter, redis, back } = await outage({ onUnavailable: 'memory', pauseMs: 50, now: () => now });
    await redis.stop();
    await limiter.admit({ recipientId, id: 'a' });
    await redis.start();
    await back();
    now += 60_001;
    expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject({ kind: 'admitted', repeated: false });
    expect((await limiter.inspect(recipientId)).sent).toHaveLength(1);
  });
});

describe('an outage', () => {
  it('is waited for once, not by every ask; Redis gets none during the pause', async () => {
    const { limiter, redis, calls, changes } = await outage({ onUnavailable: 'open', pauseMs: 600_000 });
    await redis.stop();
    for (let asks = 0; asks < 100; asks += 1) await limiter.admit({ recipientId, id: `job-${asks}` });
    expect(calls()).toBe(1);
    expect(changes).toEqual([true]);
  });
});

function admitted(answer: Admission) {
  if (answer.kind !== 'admitted') throw new Error(`expected an admission, found ${answer.kind}`);
  return answer;
}

async function expectAllAway(limiter: Limiter): Promise<void> {
  const slotId = { recipientId, id: 'a' };
  await expectAway([limiter.admit(slotId), limiter.peek(slotId), limiter.refund(slotId), limiter.cancel(slotId)]);
  await expectOversightAway(limiter);
}

/** What an operator does is never answered by a fallback. */
function expectOversightAway(limiter: Limiter): Promise<void> {
  return expectAway([
    limiter.limit(recipientId, POLICY),
    limiter.unlimit(recipientId),
    limiter.block(recipientId, { until: Date.now() + 60_000, reason: 'holidays' }),
    limiter.unblock(recipientId),
    limiter.reset(recipientId),
    limiter.inspect(recipientId),
  ]);
}

async function expectAway(calls: readonly Promise<unknown>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(calls)) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(LimiterUnavailableError) as unknown });
  }
}

const fail = () => Promise.reject(new LimiterUnavailableError('away'));
const instead = () => 'instead';

/** A call that counts, and is answered when the test says so. */
function openCall() {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const call = { count: 0, run: () => ((call.count += 1), promise), resolve, reject };
  return call;
}

describe('the outage gate', () => {
  it('tries one call at a time after the pause, and all of them once that is answered', async () => {
    const gate = createOutageGate({ pauseMs: 0 });
    await gate.run(fail, instead);
    const probe = openCall();
    const asked = gate.run(probe.run, instead);
    expect(await gate.run(probe.run, instead)).toBe('instead');
    expect(probe.count).toBe(1);
    probe.resolve('back');
    expect(await asked).toBe('back');
    expect(await Promise.all([gate.run(probe.run, instead), gate.run(probe.run, instead)])).toEqual(['back', 'back']);
    expect(probe.count).toBe(3);
  });

  it('does not take a failure for news where the call was made before the last answer', async () => {
    const gate = createOutageGate({ pauseMs: 60_000 });
    const slow = openCall();
    const asked = gate.run(slow.run, instead);
    await sleep(5); // a later instant
    await gate.run(() => Promise.resolve('answered'), instead);
    slow.reject(new LimiterUnavailableError('away'));
    expect(await asked).toBe('instead');
    expect(await gate.run(() => Promise.resolve('answered'), instead)).toBe('answered');
  });

  it('lets every other error through, also from a probe, which another may follow', async () => {
    const gate = createOutageGate({ pauseMs: 0 });
    const misuse = () => Promise.reject(new TypeError('misuse'));
    await expect(gate.run(misuse, instead)).rejects.toThrow(TypeError);
    await gate.run(fail, instead);
    await expect(gate.run(misuse, instead)).rejects.toThrow(TypeError);
    expect(await gate.run(() => Promise.resolve('back'), instead)).toBe('back');
  });
});
