import { Queue } from 'bullmq';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { main } from '../../scripts/discard.ts';
import { main as replay } from '../../scripts/replay.ts';
import type { DeadLetter } from '../../src/notification/outcome.ts';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { DEAD_LETTERS, shardPrefixes } from '../../src/queue/names.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { deadLetter } from '../dead-letters/letters.ts';
import { openQueues } from '../queue/support.ts';
import { runMain, type CommandExit } from '../support/command.ts';
import { startProcess } from '../support/process.ts';
import { connectRedis, isOnCluster, queueEnv, testPrefix } from '../support/redis.ts';

function run(
  prefix: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandExit> {
  return runMain(main, args, { ...queueEnv(prefix), ...env });
}

async function discard(prefix: string, args: readonly string[], env = {}): Promise<Record<string, unknown>> {
  const exit = await run(prefix, [...args, '--yes', '--json'], env);
  expect(exit).toMatchObject({ code: 0, stderr: '' });
  return JSON.parse(exit.stdout.trimEnd().split('\n').at(-1) ?? '') as Record<string, unknown>;
}

const named = (count: number) => Array.from({ length: count }, (_, n) => [`n${n}`, deadLetter(`n${n}`)] as const);

async function addDead(deadQueue: Queue, letters: readonly (readonly [id: string, data: DeadLetter])[]): Promise<void> {
  await deadQueue.addBulk(letters.map(([jobId, data]) => ({ name: 'push', data, opts: { jobId } })));
}

const idsIn = async (deadQueue: Queue) => (await deadQueue.getJobs(['wait'])).map(({ id }) => id).sort();

test('removes what the flags say, and leaves nothing of it', async () => {
  const { prefix, deadQueue } = openQueues();
  const hour = 3_600_000;
  await addDead(deadQueue, [
    ['old', deadLetter('old', { deadAt: Date.now() - 3 * hour })],
    ['stalled', deadLetter('stalled', { reason: 'stalled' })],
    ['other', deadLetter('other')],
    ['recent', deadLetter('recent')],
  ]);
  await deadQueue.addJobLog('old', 'a line');
  expect(await discard(prefix, ['--all', '--dry-run'])).toEqual({
    ...{ seen: 4, matched: 4, discarded: 0, newer: 0, byReason: { rejected: 3, stalled: 1 }, left: 4, dryRun: true },
  });
  expect(await discard(prefix, ['--until', '2h'])).toMatchObject({ seen: 4, matched: 1, discarded: 1, left: 3 });
  expect(await connectRedis().keys(`${prefix}:dead-letters:old*`)).toEqual([]);
  expect(await discard(prefix, ['--reason', 'stalled'])).toMatchObject({ byReason: { stalled: 1 }, left: 2 });
  expect(await discard(prefix, ['--recipient', 'recipient-other'])).toMatchObject({ discarded: 1 });
  expect(await idsIn(deadQueue)).toEqual(['recent']);
  expect(await discard(prefix, ['--id', 'recent'])).toMatchObject({ discarded: 1, left: 0 });
  expect(await discard(prefix, ['--all'])).toMatchObject({ seen: 0, discarded: 0 });
});

test('of many, the oldest go first', async () => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, named(250));
  expect(await discard(prefix, ['--all', '--limit', '120'])).toMatchObject({ discarded: 120, left: 130 });
  const deadLetters = createDeadLetters(openQueues(prefix));
  expect((await deadLetters.page(0, 1))[0]?.id).toBe('n120');
  expect(await discard(prefix, ['--all'])).toMatchObject({ seen: 130, discarded: 130, left: 0 });
});

test('killed half-way and started again, it takes the rest, and nothing that came meanwhile', async () => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, named(4_000));
  const args = ['scripts/discard.ts', '--reason', 'rejected', '--yes'];
  const command = startProcess({ args, env: queueEnv(prefix) });
  await vi.waitFor(async () => expect(await deadQueue.getJobCountByTypes('wait')).toBeLessThan(3_900), {
    timeout: 15_000,
    interval: 5,
  });
  command.kill('SIGKILL');
  expect((await command.waitForExit()).signal).toBe('SIGKILL'); // else it was over before, and nothing was tested
  const left = await deadQueue.getJobCountByTypes('wait');
  expect(left).toBeGreaterThan(0);
  expect((await connectRedis().keys(`${prefix}:dead-letters:n*`)).length).toBe(left);
  await addDead(deadQueue, [['late', deadLetter('late', { reason: 'stalled' })]]);
  expect(await discard(prefix, ['--reason', 'rejected'])).toMatchObject({ discarded: left, left: 1 });
  expect(await idsIn(deadQueue)).toEqual(['late']);
});

test('is over all shards', async () => {
  const prefix = testPrefix();
  const queues = shardPrefixes(prefix, 2).map((shardPrefix) => openQueues(shardPrefix).deadQueue);
  for (const deadQueue of queues) await addDead(deadQueue, named(30));
  const env = { QUEUE_SHARDS: '2' };
  expect(await discard(prefix, ['--all', '--limit', '40'], env)).toMatchObject({ discarded: 40, left: 20 });
  expect(await discard(prefix, ['--all'], env)).toMatchObject({ discarded: 20, left: 0 });
});

test('says what it did', async () => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, [...named(2), ['s', deadLetter('s', { reason: 'stalled' })]]);
  expect(await run(prefix, ['--all', '--dry-run'])).toMatchObject({
    code: 0,
    stdout: 'would discard 3 of 3 dead letters (2 rejected, 1 stalled)\n',
  });
  expect(await run(prefix, ['--reason', 'stalled', '-y'])).toMatchObject({
    stdout: 'discarded 1 of 3 dead letters (1 stalled); 2 there now\n',
  });
});

test.each([
  [
    [],
    'say which dead letters to discard: with --reason, --recipient, --platform, --app, --category, --id, --since or --until,',
  ],
  [['--limit', '5', '--yes'], 'pushpacer discard --reason unregistered --dry-run'],
  [
    ['--all', '--reason', 'stalled', '--yes'],
    '--all: expected no filter beside it, since it means all dead letters, found one',
  ],
  [['--all'], 'there is no terminal to ask on: add --yes'],
  [['--reason', 'bored', '--yes'], "'bored' is invalid. Allowed choices are invalid"],
])('%j is bad usage, and removes nothing', async (args, message) => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, named(1));
  const { code, stderr } = await run(prefix, args);
  expect(stderr).toContain(message);
  expect(code).toBe(2);
  expect(await idsIn(deadQueue)).toEqual(['n0']);
});

test.each([
  [{ npm_command: 'exec', npm_lifecycle_event: 'npx' }, 'npx pushpacer discard --reason'],
  [{ npm_command: 'run-script', npm_lifecycle_event: 'discard' }, 'npm run discard -- --reason'],
  [{ npm_command: undefined, npm_lifecycle_event: undefined }, ' pushpacer discard --reason'],
])('the example is called as the command was: %j', async (env, call) => {
  expect((await runMain(main, [], env)).stderr).toContain(`counts: ${call}`.replace(':  ', ': '));
});

test('its begin and its end are in the audit; what takes nothing is not', async () => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, named(3));
  expect((await run(prefix, ['--dry-run'])).stdout).toMatch(/^would discard 3 of 3 dead letters/);
  expect((await run(prefix, ['--reason', 'stalled', '--yes'])).stdout).toMatch(/^discarded 0 of 3/);
  const audit = createAudit(connectRedis(), prefix);
  expect(await audit.read({ count: 9 })).toEqual([]);
  await run(prefix, ['--id', 'n1', '--yes']);
  const entry = { who: expect.stringMatching(/ \(terminal\)$/) as string, action: 'dead-letters discard', on: 'id n1' };
  expect(await audit.read({ count: 9 })).toMatchObject([
    { ...entry, facts: { state: 'done', done: 1, of: 1 } },
    { ...entry, facts: { state: 'began', rate: 'off' } },
  ]);
});

test.skipIf(isOnCluster)('makes room in a Redis that is full; a replay does not begin in it', async () => {
  await using redis = await startEmbeddedRedis();
  const admin = connectRedis(redis.url);
  const [prefix, env] = [testPrefix(), { REDIS_URL: redis.url }];
  const deadQueue = new Queue(DEAD_LETTERS, { connection: connectRedis(redis.url), prefix });
  onTestFinished(() => deadQueue.close());
  await addDead(deadQueue, named(40));
  await run(prefix, ['--dry-run'], env); // scripts are loaded
  await run(prefix, ['--id', 'n0', '--yes'], env);
  await admin.config('SET', 'maxmemory', 1_000_000);
  const replayed = await runMain(replay, ['--all', '--yes'], { ...queueEnv(prefix), ...env });
  expect([replayed.code, await deadQueue.getWaitingCount()]).toEqual([1, 39]);
  expect(replayed.stderr).toContain('OOM');
  const exit = await run(prefix, ['--all', '--yes'], env);
  expect(exit.stdout).toBe('discarded 39 of 39 dead letters (39 rejected); 0 there now\n');
  expect(exit.stderr).toContain('warning: that it has ended could not be written to the audit\n');
  expect(exit.code).toBe(0);
});

test('Redis away is reported at once', async () => {
  const exit = await run('{unused}', ['--all', '--yes'], { REDIS_URL: 'redis://127.0.0.1:1' });
  expect(exit.code).toBe(1);
  expect(exit.stderr).toMatch(/^error: Redis is away: 127\.0\.0\.1:1 \(.+\); start again to go on\n$/);
});
