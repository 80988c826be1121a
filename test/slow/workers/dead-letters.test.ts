import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Registry } from 'prom-client';
import { expect, onTestFinished, test } from 'vitest';
import type { DeadLetter } from '../../../src/notification/outcome.ts';
import { createLog } from '../../../src/observe/log.ts';
import { connectWorker } from '../../../src/redis/connection.ts';
import { DEAD_LETTERS } from '../../../src/queue/names.ts';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { keepDeadLetters } from '../../../workers/dead-letters.ts';
import { openQueues } from '../../../workers/redis.ts';
import { deadLetter } from '../../dead-letters/letters.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../../support/redis.ts';
import { waitFor } from '../../support/wait.ts';
import { openReplicaBench } from '../../support/replica.ts';

interface Line {
  readonly level: string;
  readonly msg: string;
  readonly bound?: string;
  readonly removed?: number;
  readonly deadLetters?: number;
  readonly byReason?: Readonly<Record<string, number>>;
}

interface Replica {
  readonly lines: Line[];
  readonly metrics: () => Promise<string>;
  readonly stop: () => Promise<void>;
}

/** One worker's keeper; its log and its metrics. */
function start(prefix: string, bounds: { maxAgeMs?: number; maxCount?: number }, redisUrl = testRedisUrl()): Replica {
  const connection = connectWorker({ redisUrl });
  connection.on('error', () => undefined);
  const registry = new Registry();
  const lines: Line[] = [];
  const log = createLog('info', { write: (line) => void lines.push(JSON.parse(line) as Line) });
  const config = { queue: { prefix, shards: 1 }, deadLetters: { maxAgeMs: 0, maxCount: 0, ...bounds } };
  const closing = new AsyncDisposableStack();
  const queues = openQueues(connection, [prefix], closing);
  const keeper = keepDeadLetters(config, { connection, queues, registry, log });
  onTestFinished(async () => {
    await keeper.stop();
    await closing.disposeAsync();
    connection.disconnect();
  });
  return { lines, metrics: () => registry.metrics(), stop: () => keeper.stop() };
}

async function addDead(prefix: string, letters: readonly DeadLetter[], redisUrl = testRedisUrl()): Promise<Queue> {
  const queue = new Queue(DEAD_LETTERS, { connection: connectRedis(redisUrl), prefix });
  queue.on('error', () => undefined);
  onTestFinished(() => queue.close());
  await queue.addBulk(letters.map((data, n) => ({ name: 'push', data, opts: { jobId: `n${n}` } })));
  return queue;
}

/** By reason, those that are not 0. */
function dead(page: string): Record<string, number> {
  const series = [...page.matchAll(/^pushpacer_dead_letters\{reason="(.*)"\} ([1-9]\d*)$/gm)];
  return Object.fromEntries(series.map(([, reason = '', count]) => [reason, Number(count)]));
}

test('of very many dead letters the newest are counted by reason, and the others together', async () => {
  const prefix = testPrefix();
  const letters = Array.from({ length: 1_200 }, (_, n) => deadLetter(`n${n}`, n < 1_100 ? {} : { reason: 'stalled' }));
  await addDead(prefix, letters);
  const { metrics } = start(prefix, {});
  expect(dead(await metrics())).toEqual({ rejected: 900, stalled: 100, 'not looked at': 200 });
});

const ago = (ms: number) => ({ deadAt: Date.now() - ms });

test('warns, removes and counts: what will go and when, how to look, and what went', async () => {
  const prefix = testPrefix();
  const letters = [deadLetter('a', ago(60_000)), deadLetter('b', { ...ago(50_000), reason: 'stalled' })];
  const queue = await addDead(prefix, [...letters, deadLetter('c')]);
  const { lines, metrics } = start(prefix, { maxAgeMs: 20_000, maxCount: 1_000 });
  await waitFor(() => expect(lines.map(({ removed }) => removed)).toContain(2));

  expect(lines.every(({ level }) => level === 'warn')).toBe(true);
  const [warned] = lines; // with so short a bound the warning comes again every two seconds
  const removed = lines.find((line) => line.removed === 2);
  expect(warned).toMatchObject({ bound: 'age', deadLetters: 2 });
  expect(warned?.msg).toMatch(
    /^2 dead letters will be removed from \S+Z to \S+Z, since DEAD_LETTER_MAX_AGE is 20s; look: npx pushpacer dead-letters --until \S+Z, keep: npx pushpacer replay --until \S+Z$/,
  );
  expect(removed).toMatchObject({ bound: 'age', byReason: { rejected: 1, stalled: 1 } });
  expect(removed?.msg).toBe('removed 2 dead letters for good: older than DEAD_LETTER_MAX_AGE, 20s');
  expect((await queue.getJobs(['wait'])).map(({ id }) => id)).toEqual(['n2']);

  await waitFor(async () => expect(dead(await metrics())).toEqual({ rejected: 1 }));
  const page = await metrics();
  expect(page).toContain('pushpacer_dead_letters{reason="stalled"} 0');
  expect(page).toMatch(/^pushpacer_dead_letters_oldest_age_seconds \d+(\.\d+)?$/m);
  expect(page).toContain('pushpacer_dead_letters_removed_total{why="age"} 2');
  expect(page).toContain('pushpacer_dead_letters_removed_total{why="count"} 0');
});

test('a bound on their number is warned of with the room that is left', async () => {
  const prefix = testPrefix();
  await addDead(
    prefix,
    Array.from({ length: 9 }, (_, n) => deadLetter(`n${n}`)),
  );
  const { lines } = start(prefix, { maxCount: 10 });
  await waitFor(() => expect(lines).toHaveLength(1));
  expect(lines[0]).toMatchObject({ level: 'warn', bound: 'count', deadLetters: 9 });
  expect(lines[0]?.msg).toBe(
    '9 dead letters: room is left for 1 more, then the oldest will be removed, since DEAD_LETTER_MAX_COUNT is 10; look: npx pushpacer dead-letters, keep: npx pushpacer replay --all',
  );
});

test('without bounds nothing goes, and the metrics have the numbers all the same', async () => {
  const prefix = testPrefix();
  await addDead(prefix, [deadLetter('a', ago(3_600_000))]);
  const { lines, metrics } = start(prefix, {});
  expect(await metrics()).toMatch(/^pushpacer_dead_letters_oldest_age_seconds 36\d\d(\.\d+)?$/m);
  expect(lines).toEqual([]);
});

test('while Redis is away it logs nothing and shows no numbers, and goes on when it is back', async () => {
  const prefix = testPrefix();
  const redis = await startEmbeddedRedis();
  const { lines, metrics } = start(prefix, { maxAgeMs: 5_000 }, redis.url);
  await waitFor(async () => expect(await metrics()).toContain('pushpacer_dead_letters{reason="rejected"} 0'));
  await redis.close();
  await sleep(1_500); // three looks
  await waitFor(async () => expect(await metrics()).not.toMatch(/^pushpacer_dead_letters\{/m));
  expect(lines.length).toBeLessThanOrEqual(1);

  const back = await startEmbeddedRedis({ port: Number(new URL(redis.url).port) });
  onTestFinished(() => back.close());
  await addDead(prefix, [deadLetter('a', ago(60_000))], redis.url);
  await waitFor(() => expect(lines.map(({ removed }) => removed)).toContain(1));
});

test('stops in time while Redis is away', async () => {
  const redis = await startEmbeddedRedis();
  const { metrics, stop } = start(testPrefix(), { maxAgeMs: 5_000 }, redis.url);
  await waitFor(async () => expect(await metrics()).toContain('pushpacer_dead_letters{reason="rejected"} 0'));
  await redis.close();
  const began = performance.now();
  await stop();
  expect(performance.now() - began).toBeLessThan(10_000);
});

test('a worker looks after its dead letters', async () => {
  const { prefix, startHere, line } = await openReplicaBench();
  await addDead(prefix, [deadLetter('a', ago(60_000)), deadLetter('b', { deadAt: Date.now() + 3_600_000 })]);
  const { url } = await startHere({ DEAD_LETTER_MAX_AGE: '10s', METRICS_PORT: '0' });
  await line(/1 dead letter will be removed/);
  await line(/removed 1 dead letter for good/);
  const page = async () => (await fetch(`${url}/metrics`)).text();
  await waitFor(async () => expect(dead(await page())).toEqual({ rejected: 1 }));
  expect(await page()).toContain('pushpacer_dead_letters_removed_total{why="age"} 1');
});
