import { Redis } from 'ioredis';
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { createLog } from '../../../src/observe/log.ts';
import { crc16, SLOTS } from '../../../src/queue/names.ts';
import { connect } from '../../../workers/redis.ts';
import { testCluster } from '../../support/cluster.ts';

/** So many writes, each of which takes this long to read back: a minute of LOADING. Redis answers after each 1,024 of them. */
const [WRITES, READ_US] = [250_000, 200];
const SLOWLY = ['--key-load-delay', String(READ_US), '--loading-process-events-interval-bytes', '1024'];
/** The first of three masters loads; to the others the cluster is in order without it. */
const cluster = testCluster({
  masters: 3,
  replicas: 0,
  appendonly: true,
  extraArgs: [...SLOWLY, '--cluster-require-full-coverage', 'no'],
});

const PATIENT = { timeout: 30_000, interval: 50 };

/** What the first master says to a client that does not wait until it has loaded. */
async function answerOfFirst(): Promise<string> {
  const redis = new Redis(cluster.nodes[0]?.url ?? '', { enableReadyCheck: false, retryStrategy: null });
  redis.on('error', () => undefined); // the command that failed says it
  return redis
    .ping()
    .catch(String)
    .finally(() => redis.disconnect());
}

async function loadFirst(): Promise<void> {
  const [node] = cluster.nodes;
  if (node === undefined) throw new Error('the cluster has no nodes');
  const tag = Array.from({ length: 100 }, (_, at) => `t${at}`).find((each) => crc16(each) % SLOTS < SLOTS / 3 - 1);
  const redis = new Redis(node.url);
  const filling = redis.pipeline();
  for (let at = 0; at < WRITES; at += 1) filling.set(`{${tag}}-${at}`, at);
  await filling.exec();
  redis.disconnect();
  process.kill(node.pid, 'SIGKILL');
  await node.ended;
  void node.restart().catch(() => undefined); // the tests end before it has loaded
  await vi.waitFor(async () => expect(await answerOfFirst()).toContain('LOADING'), PATIENT);
}

function open(timeoutMs: number): Promise<unknown> {
  const closing = new AsyncDisposableStack();
  onTestFinished(() => closing.disposeAsync());
  const target = { redisUrl: cluster.url, cluster: true };
  const { signal } = new AbortController();
  const log = createLog('silent', { write: () => undefined });
  return connect({ redis: target, limiterRedis: target }, log, { signal, timeoutMs }, closing);
}

beforeAll(loadFirst, 60_000);

test('connections are ready while one master loads its data, whichever node they ask first', async () => {
  const opened = await Promise.allSettled(Array.from({ length: 8 }, () => open(20_000)));
  expect(opened.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []))).toEqual([]);
  expect(await answerOfFirst()).toContain('LOADING');
}, 60_000);

test('a start that gives up says what a node says that loads its data', async () => {
  const opened = await Promise.allSettled(Array.from({ length: 8 }, () => open(1)));
  const reasons = opened.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []));
  expect(reasons.length).toBeGreaterThan(0); // those that asked it first
  for (const reason of reasons) expect(reason).toMatch(/^RedisAwayError: Redis cannot now: .*LOADING/);
  expect(await answerOfFirst()).toContain('LOADING');
}, 60_000);
