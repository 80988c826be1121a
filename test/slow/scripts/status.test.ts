import { hostname } from 'node:os';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { main } from '../../../scripts/status.ts';
import { layoutKey, workersKey } from '../../../src/queue/names.ts';
import type { SeenWorker } from '../../../src/queue/workers.ts';
import { addDead, deadLetter, manyLetters } from '../../dead-letters/letters.ts';
import { notification, openQueues, present } from '../../queue/support.ts';
import { outputOf, runMain } from '../../support/command.ts';
import { connectRedis, queueEnv } from '../../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../../support/replica.ts';

const MINUTE = 60_000;
/** The command names others as npm or npx was used to call it. */
const NOT_BY_NPM = { npm_command: undefined, npm_lifecycle_event: undefined };
const SECRETS = ['Room 12', 'Field trip', 'ab'.repeat(16), 's3cret'];

async function said(prefix: string, ...args: string[]): Promise<string> {
  const stdout = await outputOf(runMain(main, args, { ...queueEnv(prefix), ...NOT_BY_NPM }));
  for (const secret of SECRETS) expect(stdout).not.toContain(secret);
  return stdout;
}

interface Shown {
  readonly ok: boolean;
  readonly workersAlive: number;
  readonly workers: readonly SeenWorker[];
  readonly wrong: readonly { readonly kind: string; readonly text: string }[];
}

async function statusOf<T = Shown>(prefix: string, ...args: string[]): Promise<T> {
  return JSON.parse((await said(prefix, ...args, '--json')).trimEnd().split('\n').at(-1) ?? '') as T;
}

const kinds = ({ wrong }: Shown) => wrong.map(({ kind }) => kind);

/** Makes the worker one that was not seen for so long, and has these facts; it does not write itself any more. */
async function change(bench: Pick<ReplicaBench, 'prefix'>, id: string, facts: object, silentMs = 0): Promise<void> {
  const redis = connectRedis();
  const [, , digest = '', json = ''] =
    /^(\d+) (\S+) (.*)$/.exec((await redis.hget(workersKey(bench.prefix), id)) ?? '') ?? [];
  const line = JSON.stringify({ ...(JSON.parse(json) as object), ...facts });
  await redis.hset(
    workersKey(bench.prefix),
    (facts as { id?: string }).id ?? id,
    `${Date.now() - silentMs} ${digest} ${line}`,
  );
}

describe('the whole', () => {
  test('without a worker: that is the first thing and the last, and what waits is counted', async () => {
    const { queue, prefix } = openQueues();
    for (const id of ['a', 'b', 'c']) {
      await queue.add('push', notification({ id, data: { key: 's3cret' } }), { jobId: id, priority: 10 });
    }
    const text = await said(prefix);
    expect(text).toMatch(/^No worker is alive\.\n/);
    expect(text).toMatch(/\nworkers +none is alive\n/);
    expect(text).toMatch(/\nnew +3 not taken yet, the oldest for /);
    expect(text).toMatch(/\nteacher-42 +3 +.* ago +now\n/);
    expect(text.trimEnd().split('\n').at(-1)).toBe(
      'WRONG  no worker is alive: nothing is sent; start one: pushpacer worker',
    );
    const env = { ...queueEnv(prefix), npm_command: 'run-script', npm_lifecycle_event: 'status' };
    expect((await runMain(main, [], env)).stdout).toMatch(/; start one: npm run worker\n$/);
    const result = await statusOf(prefix);
    expect(result).toMatchObject({ ok: false, workersAlive: 0, workers: [], untaken: { count: 3 } });
    expect(kinds(result)).toEqual(['no-worker']);
  });

  test('each worker says what it is, and leaves with its end', async () => {
    const bench = await openReplicaBench();
    const [first, second] = [await bench.startHere(), await bench.startHere({ WORKER_CONCURRENCY: '7' })];
    const text = await said(bench.prefix);
    expect(text).toMatch(/\nworkers +2 alive, with 0 jobs in 57 places\n/);
    expect(text).toMatch(/\npolicy +10\/1m, gap 3s \(2 workers\)\n/);
    expect(text).toMatch(/\nALL IS WELL {2}2 workers are alive, 0 wait, nothing is late/);
    const result = await statusOf(bench.prefix);
    expect(result).toMatchObject({ ok: true, wrong: [], workersAlive: 2 });
    expect(result.workers.map(({ id }) => id).toSorted()).toEqual([...first.workerIds, ...second.workerIds].toSorted());
    expect(result.workers[0]).toMatchObject({ host: hostname(), pid: process.pid, alive: true, inHand: 0, asleep: 0 });
    await second.stop();
    expect(await statusOf(bench.prefix)).toMatchObject({ ok: true, workersAlive: 1 });
  });

  test.each(['maxmemory', 'replica'])(
    'a Redis that takes no writes (%s) is what is wrong, not the workers',
    async (how) => {
      const redis = await startEmbeddedRedis();
      onTestFinished(() => redis.close());
      const admin = connectRedis(redis.url);
      const env = { ...queueEnv('{full}'), ...NOT_BY_NPM, REDIS_URL: redis.url };
      // A replica closes a connection on which it refused to write: former queues are looked into all the same.
      const layout = { version: 3, phase: 'steady', prefixes: ['{full}'], former: [['{full-0-2}', '{full-1-2}']] };
      if (how === 'replica') await admin.set(layoutKey('{full}'), JSON.stringify(layout));
      const before = await admin.keys('*');
      const look = async () => (await runMain(main, [], env)).stdout;
      const json = async () =>
        JSON.parse((await runMain(main, ['--json'], env)).stdout) as Shown & { noWrites?: string };
      expect(kinds(await json())).toEqual(['no-worker']);
      expect(await json()).not.toHaveProperty('noWrites');
      const [said] =
        how === 'maxmemory'
          ? [/OOM command not allowed/, await admin.config('SET', 'maxmemory', '1')]
          : [/READONLY You can't write/, await admin.replicaof('127.0.0.1', 1)];
      expect(await json()).toMatchObject({
        ok: false,
        workersAlive: 0,
        noWrites: expect.stringMatching(said) as string,
        ...(how === 'replica' && { shards: { version: 3, left: 0 } }),
      });
      expect(kinds(await json())).toEqual(['no-writes']);
      const text = await look();
      expect(text).toMatch(/^Redis takes no writes\.\n/);
      expect(text).toMatch(/\nworkers +not known: they cannot write that they are alive\n/);
      expect(text).not.toMatch(/no worker is alive|start one/i);
      expect(text.replaceAll(/\s+/g, ' ')).toMatch(
        / WRONG Redis takes no writes, so nothing new is sent or enqueued: (OOM|READ)/,
      );
      await (how === 'maxmemory' ? admin.config('SET', 'maxmemory', '0') : admin.replicaof('NO', 'ONE'));
      expect(kinds(await json())).toEqual(['no-worker']);
      expect(await admin.keys('*')).toEqual(before); // looking wrote nothing
    },
  );

  interface AtProvider {
    readonly env: Readonly<Record<string, string>>;
    readonly field: 'breakers' | 'unreachable';
    readonly facts: object;
    readonly kind: string;
    readonly text: RegExp;
  }

  test.each<[string, AtProvider]>([
    [
      'a breaker that is open',
      {
        ...{ env: { LIMIT_MIN_GAP: '0', LIMIT_RULES: '100/1m' }, field: 'breakers', kind: 'breaker' },
        facts: { platform: 'apns', trouble: 'auth', code: 'InvalidProviderToken', workers: 1 },
        text: /\nWRONG {2}nothing is sent to apns: auth, InvalidProviderToken, for .*\(1 of 1 workers\)\n/,
      },
    ],
    [
      'a provider that cannot be reached, also without traffic',
      {
        ...{ env: { APNS_ENDPOINT: 'https://127.0.0.1:1' }, field: 'unreachable', kind: 'unreachable' },
        facts: { platform: 'apns', host: '127.0.0.1:1', workers: 1 },
        text: /\nWRONG {2}nothing reaches apns: 127\.0\.0\.1:1, ECONNREFUSED, for .* \(1 of 1 workers\)\n/,
      },
    ],
  ])('what a worker says of its providers is wrong: %s', async (_, { env, field, facts, kind, text }) => {
    const bench = await openReplicaBench();
    const replica = await bench.startHere(env);
    if (field === 'breakers') {
      bench.sandbox.setAnswers([{ platform: 'apns', reason: 'InvalidProviderToken' }]);
      await bench.producer.enqueue(notification({ id: 'a' }));
    }
    const result = await vi.waitFor(
      async () => {
        const now = await statusOf<Shown & Readonly<Record<string, unknown>>>(bench.prefix);
        expect(now[field]).toMatchObject([facts]);
        return now;
      },
      { timeout: 15_000, interval: 200 },
    );
    expect(kinds(result)).toEqual([kind]);
    expect(await said(bench.prefix)).toMatch(text);
    await replica.stop();
  });

  test('what is wrong with workers: not seen, another clock, another policy', async () => {
    const bench = await openReplicaBench();
    const [{ workerIds }] = [await bench.startHere(), await bench.startHere({ LIMIT_RULES: '5/1m' })];
    const id = present(workerIds[0]);
    await change(bench, id, { id: 'frozen', host: 'web-2', pid: 9 }, 30_000);
    await change(bench, id, { id: 'over', host: 'web-2', pid: 10 }, 41_000); // others have its jobs
    await change(bench, id, { id: 'old', host: 'web-3' }, 30 * MINUTE);
    await change(bench, id, { id: 'early', host: 'web-4', clockOffsetMs: -3_200 });
    const result = await statusOf(bench.prefix);
    expect(kinds(result)).toEqual(['worker-silent', 'clock', 'policies']);
    const text = await said(bench.prefix);
    expect(text).toMatch(
      /1 worker is not seen, so killed or frozen; others take the jobs: web-2 \(process 9\) for 3\d(\.\d)?s\n/,
    );
    expect(text).toMatch(/clocks are not Redis's, set them: web-4 \(process \d+\) 3\.2s ahead\n/);
    for (let at = 0; at < 40; at++) await change(bench, id, { id: `lost-${at}`, host: 'web-5', pid: at }, 30_000);
    const many = await said(bench.prefix);
    expect(many).toMatch(/41 workers are not seen.*: web-2 .*; web-5 .*; web-5 .*; and 38 more\n/);
    expect(many).toContain('\nand 16 more; --json has all\n');
    expect(text).toMatch(/workers have 2 different policies: 2 with 10\/1m, gap 3s; 1 with 5\/1m, gap 3s/);
    expect(text).toMatch(/\nweb-2 .* not for 3/);
    expect(text).toMatch(/\nworkers +3 alive, .*; 3 that were killed or frozen within the last hour\n/);
  });

  test('what is wrong with the queue: due and not taken, new for a minute, paused, many dead letters', async () => {
    const bench = await openReplicaBench();
    const { queue, deadQueue, prefix } = bench;
    await queue.pause();
    await bench.startHere();
    const redis = connectRedis();
    await queue.add('push', notification({ id: 'due' }), { jobId: 'due', delay: MINUTE });
    await redis.zadd(queue.toKey('delayed'), (Date.now() - 40_000) * 0x1000, 'due');
    await queue.add('push', notification({ id: 'new' }), {
      jobId: 'new',
      priority: 10,
      timestamp: Date.now() - 2 * MINUTE,
    });
    await addDead(deadQueue, {
      ...manyLetters(21, { deadAt: Date.now() - 1_000, reason: 'rejected' }),
      y: deadLetter('y', { deadAt: Date.now() - 120 * MINUTE, reason: 'stalled' }),
    });
    const result = await statusOf(prefix);
    expect(kinds(result)).toEqual(['paused', 'due-late', 'untaken-late', 'dead-letters']);
    expect(result).toMatchObject({
      ...{ due: { count: 1 }, untaken: { count: 1 } },
      deadLetters: { total: 22, lookedAt: 22, byReason: { rejected: 21, stalled: 1 }, lastHour: 21 },
    });
    const text = await said(prefix);
    expect(text).toMatch(/1 notification is due and not taken, the oldest for 4\d/);
    expect(text).toMatch(/1 notification is new and not taken, the oldest for 2m/);
    expect(text).toContain(
      '21 dead letters in the last 30m (21 rejected), 100 % of what ended; look: pushpacer dead-letters --since 30m',
    );
  });
});
