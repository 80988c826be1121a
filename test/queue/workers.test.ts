import { describe, expect, it, onTestFinished } from 'vitest';
import {
  readWorkers,
  sharedPolicy,
  startPresence,
  type Presence,
  type SeenWorker,
  type WorkerFacts,
  type WorkerPolicy,
} from '../../src/queue/workers.ts';
import { workersKey } from '../../src/queue/names.ts';
import { connectWorker } from '../../src/redis/connection.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

const HOUR = 3_600_000;

const POLICY: WorkerPolicy = {
  policy: { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 },
  categories: { messages: { rules: [], minGapMs: 5_000, exempt: ['gap'] } },
  quietHours: { timezone: 'Europe/Paris', quietHours: [{ from: '21:00', until: '07:00', days: ['mon'] }] },
  apartRules: { background: [{ max: 3, perMs: HOUR }], liveactivity: [{ max: 1, perMs: 15_000 }] },
};
const OTHER: WorkerPolicy = { ...POLICY, policy: { rules: [], minGapMs: 1_000 } };

function facts(id: string, more: Partial<WorkerFacts> = {}): WorkerFacts {
  return {
    ...{ id, version: '0.1.0', host: 'web-1', pid: 7, startedAt: Date.now(), clockOffsetMs: 0, concurrency: 50 },
    ...{ inHand: 3, asleep: 1, stopping: false, platforms: ['apns'] },
    ...{ apps: [], appCount: 0, breakers: [], unreachable: [] },
    ...more,
  };
}

function open() {
  const redis = connectRedis();
  const prefix = testPrefix();
  const key = workersKey(prefix);
  const start = async (id: string, policy = POLICY, more: Partial<WorkerFacts> = {}): Promise<Presence> => {
    const presence = startPresence({ redis, prefix, policy, facts: () => facts(id, more), everyMs: 20 });
    onTestFinished(() => presence.close());
    await presence.written;
    return presence;
  };
  /** A worker that was killed so long ago. */
  const leave = async (id: string, agoMs: number, digest = '-', more: Partial<WorkerFacts> = {}): Promise<void> => {
    await redis.hset(key, id, `${Date.now() - agoMs} ${digest} ${JSON.stringify(facts(id, more))}`);
  };
  const read = () => readWorkers(redis, prefix);
  const ids = async () => (await read()).workers.map(({ id }) => id);
  return { redis, prefix, key, start, leave, read, ids };
}

it('nobody is there, and looking writes nothing', async () => {
  const { redis, key, read } = open();
  const seen = await read();
  expect(seen).toMatchObject({ workers: [] });
  expect(seen.now).toBeGreaterThan(Date.now() - 60_000);
  expect(await redis.exists(key)).toBe(0);
  expect(sharedPolicy(seen)).toBeUndefined();
});

it('a worker is there with what it says of itself, and its policy as it is', async () => {
  const { start, read } = open();
  const breaker = { service: 'apns', trouble: 'auth', code: 'Forbidden', since: 1, until: 2 };
  const away = { service: 'fcm', host: 'fcm.googleapis.com:443', cause: 'ENOTFOUND', since: 1 };
  await start('a', POLICY, { breakers: [breaker], unreachable: [away], apps: ['teacher'], appCount: 1 });
  const { now, workers, policies } = await read();
  const [worker] = workers;
  const written = facts('a', { breakers: [breaker], unreachable: [away], apps: ['teacher'], appCount: 1 });
  expect(worker).toMatchObject({ ...written, startedAt: expect.any(Number) as number, alive: true });
  expect(worker?.seenAt).toBeLessThanOrEqual(now);
  expect(policies.get(worker?.policyId ?? '')).toEqual(POLICY);
});

it('it is written again and again, and removed when the worker ends', async () => {
  const { start, read, ids, redis, key } = open();
  const [first, second] = [await start('a'), await start('b')];
  const [before] = (await read()).workers;
  await waitFor(async () => expect((await read()).workers[0]?.seenAt).toBeGreaterThan(before?.seenAt ?? Infinity));
  await first.close();
  expect(await ids()).toEqual(['b']);
  await second.close();
  expect(await redis.exists(key)).toBe(0);
});

it('one that was not seen for 15 s counts as gone, and one that was not seen for an hour is removed by others', async () => {
  const { start, leave, read, ids, redis, key } = open();
  await redis.hset(key, 'policy:old', '{}');
  await leave('frozen', 40_000);
  await leave('killed', HOUR + 1_000, 'old');
  expect((await read()).workers.map(({ alive }) => alive)).toEqual([false, false]);
  await start('a');
  expect(await ids()).toEqual(['frozen', 'a']);
  const frozen = (await read()).workers.find(({ id }) => id === 'frozen');
  expect(frozen?.alive).toBe(false);
  expect(frozen?.silentMs).toBeGreaterThanOrEqual(40_000);
  expect(await redis.hexists(key, 'policy:old')).toBe(0);
  expect(await redis.pttl(key)).toBeGreaterThan(23 * HOUR);
});

it('of hundreds that ended without a word, only those of the last minute stay', async () => {
  const { start, leave, ids } = open();
  for (let at = 0; at < 250; at++) await leave(`crash-${at}`, 120_000);
  await leave('recent', 20_000);
  await start('a');
  expect((await ids()).toSorted()).toEqual(['a', 'recent']);
});

it('if the registry was lost, the policy comes back with the next write', async () => {
  const { start, read, redis, key } = open();
  await start('a');
  await redis.del(key);
  await waitFor(async () => expect(sharedPolicy(await read())).toMatchObject({ policy: POLICY, workers: 1 }));
});

it('a line has bounds, whatever the worker has', async () => {
  const { start, redis, key, read } = open();
  const breaker = {
    service: `webpush@${'x'.repeat(60)}`,
    trouble: 'outage',
    code: 'c'.repeat(9_999),
    since: 1,
    until: 2,
  };
  const apps = Array.from({ length: 1_000 }, (_, at) => `app-${at}`);
  const host = 'h'.repeat(9_999);
  const away = { service: breaker.service, host, cause: host, since: 1 };
  const many = {
    breakers: new Array(256).fill(breaker) as never,
    unreachable: new Array(256).fill(away) as never,
  };
  await start('a', POLICY, { ...many, apps, appCount: 1_000, host });
  expect((await redis.hget(key, 'a'))?.length).toBeLessThan(16_000);
  expect((await read()).workers[0]).toMatchObject({ appCount: 1_000 });
});

it('a policy that is too long is not stored', async () => {
  const { start, read, redis, key } = open();
  const categories = Object.fromEntries(
    Array.from({ length: 5_000 }, (_, at) => [`c${at}`, { rules: [], minGapMs: 1 }]),
  );
  await start('a', { ...POLICY, categories });
  const seen = await read();
  expect(seen.workers).toHaveLength(1);
  expect(seen.workers[0]?.policyId).toBeUndefined();
  expect(sharedPolicy(seen)).toBeUndefined();
  expect(await redis.hlen(key)).toBe(1);
});

it('what it cannot read, it leaves out', async () => {
  const { start, read, redis, key } = open();
  await start('a');
  const { policyId = '' } = (await read()).workers[0] as SeenWorker;
  await redis.hset(key, { x: 'no line', y: '1 - {"id":7}', z: '1 - {', [`policy:${policyId}`]: '{"policy":{}}' });
  const seen = await read();
  expect(seen.workers.map(({ id }) => id)).toEqual(['a']);
  expect(seen.policies.size).toBe(0);
  const tooMany = { policy: { rules: [{ max: -1, perMs: 1 }], minGapMs: 0 }, categories: [] };
  const bad = JSON.stringify({ ...tooMany, apartRules: { background: [], liveactivity: [] } });
  await redis.hset(key, { [`policy:${policyId}`]: bad });
  expect((await read()).policies.size).toBe(0);
});

describe('the policy of the workers', () => {
  it('is the one that all have; categories may stand in any order', async () => {
    const { start, read } = open();
    const [one, two] = [
      { a: { rules: [], minGapMs: 1 }, b: { rules: [], minGapMs: 2 } },
      { b: { rules: [], minGapMs: 2 }, a: { rules: [], minGapMs: 1 } },
    ];
    await start('a', { ...POLICY, categories: one });
    await start('b', { ...POLICY, categories: two });
    expect(sharedPolicy(await read())).toMatchObject({ workers: 2, others: 0 });
  });

  it('is the more frequent one, and else that of the worker that started last', async () => {
    const { start, read, leave } = open();
    await start('a', OTHER, { startedAt: 1 });
    await start('b', POLICY, { startedAt: 2 });
    await leave('gone', 20_000);
    expect(sharedPolicy(await read())).toEqual({ policy: POLICY, workers: 1, others: 1 });
    await start('c', OTHER, { startedAt: 0 });
    expect(sharedPolicy(await read())).toEqual({ policy: OTHER, workers: 2, others: 1 });
  });

  it('comes with how often one may be overtaken: the most that a living worker allows', async () => {
    const { start, read, leave } = open();
    await start('older', POLICY);
    expect(sharedPolicy(await read())).not.toHaveProperty('mostOvertaken');
    await start('a', POLICY, { mostOvertaken: 5 });
    await start('b', POLICY, { mostOvertaken: 20 });
    await leave('gone', 20_000, '-', { mostOvertaken: 99 });
    expect(sharedPolicy(await read())).toMatchObject({ workers: 3, mostOvertaken: 20 });
  });

  it('knows a category by any name', async () => {
    const { start, read } = open();
    await start('a', { ...POLICY, categories: { constructor: { rules: [], minGapMs: 1 } } });
    const categories = sharedPolicy(await read())?.policy.categories;
    expect(Object.entries(categories ?? {})).toEqual([['constructor', { rules: [], minGapMs: 1 }]]);
    expect(categories).not.toHaveProperty('toString');
  });
});

it('without Redis its end takes a second at most', async () => {
  const redis = connectWorker({ redisUrl: 'redis://127.0.0.1:1' }).on('error', () => undefined);
  const presence = startPresence({ redis, prefix: '{x}', policy: POLICY, facts: () => facts('a'), everyMs: 5 });
  const began = performance.now();
  await presence.close();
  expect(performance.now() - began).toBeLessThan(5_000);
  redis.disconnect();
});
