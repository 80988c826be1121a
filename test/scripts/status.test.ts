import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { main } from '../../scripts/status.ts';
import type { StatusResult } from '../../src/operations/status.ts';
import { shardPrefixes } from '../../src/queue/names.ts';
import type { DeadLetterReason } from '../../src/notification/outcome.ts';
import { addDead, manyLetters } from '../dead-letters/letters.ts';
import { openQueues } from '../queue/support.ts';
import { outputOf, runMain } from '../support/command.ts';
import { ownRedis } from '../support/own-redis.ts';
import { enterWorker } from '../support/presence.ts';
import { connectRedis, queueEnv, testPrefix } from '../support/redis.ts';

const [SHARDS, MINUTE, HOUR] = [4, 60_000, 3_600_000];

test('the newest dead letters of all shards together are looked at, however they are spread over the shards', async () => {
  const prefix = testPrefix();
  const env = { ...queueEnv(prefix), QUEUE_SHARDS: String(SHARDS) };
  const dead = shardPrefixes(prefix, SHARDS).map((each) => openQueues(each).deadQueue);
  const add = (shard: number, count: number, deadAt: number) => {
    const letters = Object.entries(manyLetters(count, { deadAt })).map(([id, letter]) => [`${deadAt}-${id}`, letter]);
    return addDead(dead[shard] as (typeof dead)[number], Object.fromEntries(letters) as Record<string, unknown>);
  };
  const seen = async (): Promise<{ letters: StatusResult['deadLetters']; text: string }> => {
    const json = await outputOf(runMain(main, ['--json'], env));
    return {
      letters: (JSON.parse(json) as StatusResult).deadLetters,
      text: await outputOf(runMain(main, [], env)),
    };
  };
  for (let shard = 0; shard < SHARDS; shard++) await add(shard, 200, Date.now() - 2 * HOUR);
  await add(1, 700, Date.now() - 1_000);
  const some = await seen();
  expect(some.letters).toMatchObject({
    total: 1_500,
    lookedAt: 1_000,
    lastHour: 700,
    lastHourByReason: { rejected: 700 },
  });
  expect(some.letters.byReason).toEqual({ rejected: 1_000 });
  expect(some.text).toMatch(/among the newest 1000; 700 in the last hour/);
  expect(some.text).toMatch(/^ +700 dead letters in the last 30m \(700 rejected\), 100 % of what ended;/m);
  await add(2, 400, Date.now());
  const many = await seen();
  expect(many.letters).toMatchObject({ total: 1_900, lookedAt: 1_000, lastHour: 1_000 });
  expect(many.text).toMatch(/among the newest 1000; at least 1000 in the last hour/);
});

/** A queue with a worker, where so many ended well, and so many became dead letters, so long ago. */
async function openEnded(ended: number, dead: number, reason: DeadLetterReason = 'rejected', agoMs = 20 * MINUTE) {
  const { prefix, queue, deadQueue } = openQueues();
  await enterWorker(prefix);
  const redis = connectRedis();
  for (let from = 0; from < ended; from += 10_000) {
    const ids = Array.from({ length: Math.min(10_000, ended - from) }, (_, at) => [
      Date.now() - agoMs,
      `e${from + at}`,
    ]);
    await redis.zadd(queue.toKey('completed'), ...ids.flat());
  }
  if (dead > 0) await addDead(deadQueue, manyLetters(dead, { reason, deadAt: Date.now() - agoMs }));
  const check = async () => {
    const { code, stdout } = await runMain(main, ['--check', '--json'], queueEnv(prefix));
    const { wrong } = JSON.parse(stdout) as StatusResult;
    return { code, kinds: wrong.map(({ kind }) => kind), texts: wrong.map(({ text }) => text) };
  };
  return { prefix, deadQueue, check };
}

/** The share and the count above which an alert of Prometheus fires. */
async function boundsOf(alert: string): Promise<{ share: number; count: number }> {
  const rules = await readFile('deploy/prometheus/pushpacer.rules.yml', 'utf8');
  const [, rest = ''] = rules.split(`- alert: ${alert}\n`);
  const [share, count] = [...rest.matchAll(/ > ([\d.]+)$/gm)].map(([, number]) => Number(number));
  return { share: share ?? NaN, count: count ?? NaN };
}

test.each([
  ['PushpacerDeadLetters', 'dead-letters', 'rejected'],
  ['PushpacerGoneTokens', 'gone-tokens', 'unregistered'],
] as const)('--check has the numbers of the alert %s', async (alert, kind, reason) => {
  const { share, count } = await boundsOf(alert);
  const some = count + 1;
  const [few, inMany, tooMany, former] = await Promise.all([
    openEnded(0, count, reason),
    openEnded(Math.ceil(some / share) - some, some, reason),
    openEnded(Math.ceil(some / share) - some - 1, some, reason),
    openEnded(0, some, reason, 31 * MINUTE),
  ]);
  for (const normal of [few, inMany, former]) expect(await normal.check()).toMatchObject({ code: 0, kinds: [] });
  expect(await tooMany.check()).toMatchObject({ code: 1, kinds: [kind] });
  const text = await outputOf(runMain(main, [], queueEnv(few.prefix)));
  expect(text.replaceAll(/\s+/g, ' ')).toMatch(/ALL IS WELL .*\b(20|50) dead letters in the last hour $/);
});

test('of very many dead letters the newest are compared with what ended in the same time', async () => {
  const { deadQueue, check } = await openEnded(49_500, 0);
  const newest = manyLetters(1_000, { deadAt: Date.now() - MINUTE });
  const all = { old: { ...newest['n0'], deadAt: Date.now() - 20 * MINUTE }, ...newest };
  await addDead(deadQueue, all);
  const { kinds, texts } = await check();
  expect(kinds).toEqual(['dead-letters']);
  expect(texts[0]).toMatch(/^1000 dead letters in the last 1m.* \(1000 rejected\), 100 % of what ended; look: /);
});

test('whether a full Redis may evict is what it says itself, and not what a worker saw before', async () => {
  const { url } = await ownRedis({ extraArgs: ['--maxmemory-policy', 'volatile-ttl'] });
  const [prefix, redis] = [testPrefix(), connectRedis(url)];
  await enterWorker(prefix, { evicting: [{ redis: 'queue', policy: 'allkeys-lru' }] }, {}, redis);
  const wrong = async () => {
    const { stdout } = await runMain(main, ['--json'], { ...queueEnv(prefix), REDIS_URL: url });
    return (JSON.parse(stdout) as StatusResult).wrong;
  };
  expect(await wrong()).toMatchObject([
    { kind: 'may-evict', text: expect.stringContaining('its maxmemory-policy is volatile-ttl; ') as string },
  ]);
  await redis.config('SET', 'maxmemory-policy', 'noeviction');
  await redis.config('SET', 'maxmemory', '1');
  expect(await wrong()).toMatchObject([{ kind: 'no-writes', text: expect.stringContaining('OOM') as string }]);
});

test("whether the limiter's Redis may evict is what a worker saw: `status` does not ask it", async () => {
  const prefix = testPrefix();
  await enterWorker(prefix, { evicting: [{ redis: 'limiter', policy: 'allkeys-lru' }] });
  const { stdout } = await runMain(main, ['--json'], queueEnv(prefix));
  expect((JSON.parse(stdout) as StatusResult).wrong).toMatchObject([
    { kind: 'may-evict', text: expect.stringMatching(/^the limiter's Redis may evict .* is allkeys-lru; /) as string },
  ]);
});
