import { expect, onTestFinished, test } from 'vitest';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { main } from '../../scripts/status.ts';
import { layoutKey, workersKey } from '../../src/queue/names.ts';
import { addDead, deadLetter, manyLetters } from '../dead-letters/letters.ts';
import { notification, openQueues } from '../queue/support.ts';
import { outputOf, runMain } from '../support/command.ts';
import { enterWorker } from '../support/presence.ts';
import { connectRedis, queueEnv, testPrefix } from '../support/redis.ts';

// That real workers say what is wrong with them is in test/slow/scripts/status.test.ts.

const MINUTE = 60_000;
/** The command names others as npm or npx was used to call it. */
const NOT_BY_NPM = { npm_command: undefined, npm_lifecycle_event: undefined };

interface Shown {
  readonly ok: boolean;
  readonly workersAlive: number;
  readonly wrong: readonly { readonly kind: string; readonly text: string }[];
}

const said = (prefix: string, ...args: string[]) =>
  outputOf(runMain(main, args, { ...queueEnv(prefix), ...NOT_BY_NPM }));
const statusOf = async (prefix: string) => JSON.parse(await said(prefix, '--json')) as Shown;
const kinds = ({ wrong }: Shown) => wrong.map(({ kind }) => kind);

/** A worker that has not written for so long, and will not write any more. */
async function enterSilent(prefix: string, facts: object, silentMs: number): Promise<void> {
  const redis = connectRedis();
  await enterWorker(prefix, { id: 'alive' });
  const [, digest = '', json = ''] =
    /^\d+ (\S+) (.*)$/.exec((await redis.hget(workersKey(prefix), 'alive')) ?? '') ?? [];
  const own = { ...(JSON.parse(json) as object), ...facts } as { id: string };
  await redis.hset(workersKey(prefix), own.id, `${Date.now() - silentMs} ${digest} ${JSON.stringify(own)}`);
}

test('without a worker that is the first thing and the last, and what waits is counted', async () => {
  const { queue, prefix } = openQueues();
  for (const id of ['a', 'b', 'c']) await queue.add('push', notification({ id }), { jobId: id, priority: 10 });
  const text = await said(prefix);
  expect(text).toMatch(/^No worker is alive\.\n/);
  expect(text).toMatch(/\nworkers +none is alive\n/);
  expect(text).toMatch(/\nnew +3 not taken yet, the oldest for /);
  expect(text).toMatch(/\nteacher-42 +3 +.* ago +now\n/);
  expect(text).toMatch(/\nWRONG {2}no worker is alive: nothing is sent; start one: pushpacer worker\n$/);
  const env = { ...queueEnv(prefix), npm_command: 'run-script', npm_lifecycle_event: 'status' };
  expect((await runMain(main, [], env)).stdout).toMatch(/; start one: npm run worker\n$/);
  const result = await statusOf(prefix);
  expect(result).toMatchObject({ ok: false, workersAlive: 0, workers: [], untaken: { count: 3 } });
  expect(kinds(result)).toEqual(['no-worker']);
});

test('with workers and nothing to do all is well', async () => {
  const prefix = testPrefix();
  const policy = { policy: { rules: [{ max: 10, perMs: MINUTE }], minGapMs: 3_000 } };
  await enterWorker(prefix, { id: 'a' }, policy);
  await enterWorker(prefix, { id: 'b', concurrency: 7 }, policy);
  const text = await said(prefix);
  expect(text).toMatch(/\nworkers +2 alive, with 0 jobs in 57 places\n/);
  expect(text).toMatch(/\npolicy +10\/1m, gap 3s \(2 workers\)\n/);
  expect(text).toMatch(/\nweb-1 /);
  expect(text).toMatch(/\nALL IS WELL {2}2 workers are alive, 0 wait, nothing is late/);
  expect(await statusOf(prefix)).toMatchObject({ ok: true, wrong: [], workersAlive: 2 });
});

test('what is wrong with workers: not seen, another clock, another policy', async () => {
  const prefix = testPrefix();
  await enterSilent(prefix, { id: 'frozen', host: 'web-2', pid: 9 }, 30_000);
  await enterSilent(prefix, { id: 'over', host: 'web-2', pid: 10 }, 41_000); // others have its jobs
  await enterSilent(prefix, { id: 'old', host: 'web-3' }, 30 * MINUTE);
  await enterWorker(prefix, { id: 'early', host: 'web-4', clockOffsetMs: -3_200 });
  await enterWorker(prefix, { id: 'other' }, { policy: { rules: [{ max: 5, perMs: MINUTE }], minGapMs: 0 } });
  expect(kinds(await statusOf(prefix))).toEqual(['worker-silent', 'clock', 'policies']);
  const text = await said(prefix);
  expect(text).toMatch(
    /1 worker is not seen, so killed or frozen; others take the jobs: web-2 \(process 9\) for 3\d(\.\d)?s\n/,
  );
  expect(text).toMatch(/clocks are not Redis's, set them: web-4 \(process \d+\) 3\.2s ahead\n/);
  expect(text).toMatch(/workers have 2 different policies: 2 with no limits; 1 with 5\/1m, no gap/);
  expect(text).toMatch(/\nweb-2 .* not for 3/);
  expect(text).toMatch(/\nworkers +3 alive, .*; 3 that were killed or frozen within the last hour\n/);
  for (let at = 0; at < 40; at++) await enterSilent(prefix, { id: `lost-${at}`, host: 'web-5', pid: at }, 30_000);
  const many = await said(prefix);
  expect(many).toMatch(/41 workers are not seen.*: web-2 .*; web-5 .*; web-5 .*; and 38 more\n/);
  expect(many).toContain('\nand 16 more; --json has all\n');
});

test('what is wrong with the queue: due and not taken, new for a minute, paused, many dead letters', async () => {
  const { queue, deadQueue, prefix } = openQueues();
  await enterWorker(prefix);
  await queue.pause();
  await queue.add('push', notification({ id: 'due' }), { jobId: 'due', delay: MINUTE });
  await connectRedis().zadd(queue.toKey('delayed'), (Date.now() - 40_000) * 0x1000, 'due');
  const timestamp = Date.now() - 2 * MINUTE;
  await queue.add('push', notification({ id: 'new' }), { jobId: 'new', priority: 10, timestamp });
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
    const json = async () => JSON.parse((await runMain(main, ['--json'], env)).stdout) as Shown & { noWrites?: string };
    expect(kinds(await json())).toEqual(['no-worker']);
    expect(await json()).not.toHaveProperty('noWrites');
    const [answer] =
      how === 'maxmemory'
        ? [/OOM command not allowed/, await admin.config('SET', 'maxmemory', '1')]
        : [/READONLY You can't write/, await admin.replicaof('127.0.0.1', 1)];
    const result = await json();
    expect(result).toMatchObject({
      ...{ ok: false, workersAlive: 0, noWrites: expect.stringMatching(answer) as string },
      ...(how === 'replica' && { shards: { version: 3, left: 0 } }),
    });
    expect(kinds(result)).toEqual(['no-writes']);
    const text = (await runMain(main, [], env)).stdout;
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
