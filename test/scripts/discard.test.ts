import { Queue } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { main } from '../../scripts/discard.ts';
import { main as replay } from '../../scripts/replay.ts';
import { DEAD_LETTERS } from '../../src/queue/names.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { addDead, deadIdsIn, deadLetter, manyLetters } from '../dead-letters/letters.ts';
import { openQueues } from '../queue/support.ts';
import { jsonOf, runMain, type CommandExit } from '../support/command.ts';
import { connectRedis, queueEnv, testPrefix } from '../support/redis.ts';

// What it has in common with replay is tested there.

function run(
  prefix: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandExit> {
  return runMain(main, args, { ...queueEnv(prefix), ...env });
}

function discard(prefix: string, ...args: string[]): Promise<Record<string, unknown>> {
  return jsonOf(run(prefix, [...args, '--yes', '--json']));
}

test('removes what the flags say, and leaves nothing of it', async () => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, {
    old: deadLetter('old', { deadAt: Date.now() - 3 * 3_600_000 }),
    stalled: deadLetter('stalled', { reason: 'stalled' }),
    other: deadLetter('other'),
  });
  await deadQueue.addJobLog('old', 'a line');
  expect(await discard(prefix, '--all', '--dry-run')).toEqual({
    ...{ seen: 3, matched: 3, discarded: 0, newer: 0, byReason: { rejected: 2, stalled: 1 }, left: 3, dryRun: true },
  });
  expect(await discard(prefix, '--until', '2h')).toMatchObject({ seen: 3, matched: 1, discarded: 1, left: 2 });
  expect(await connectRedis().keys(`${prefix}:dead-letters:old*`)).toEqual([]);
  expect(await deadIdsIn(deadQueue)).toEqual(['other', 'stalled']);
  expect(await discard(prefix, '--all')).toMatchObject({ seen: 2, discarded: 2, left: 0 });
  expect(await discard(prefix, '--all')).toMatchObject({ seen: 0, discarded: 0 });
});

test.each([
  [
    [],
    'say which dead letters to discard: with --reason, --recipient, --platform, --app, --category, --id, --since or',
  ],
  [['--limit', '5', '--yes'], 'pushpacer discard --reason unregistered --dry-run'],
  [['--all'], 'there is no terminal to ask on: add --yes'],
])('%j is bad usage, and removes nothing', async (args, message) => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, manyLetters(1));
  const { code, stderr } = await run(prefix, args);
  expect(stderr).toContain(message);
  expect(code).toBe(2);
  expect(await deadIdsIn(deadQueue)).toEqual(['n0']);
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
  await addDead(deadQueue, manyLetters(3));
  expect((await run(prefix, ['--dry-run'])).stdout).toBe('would discard 3 of 3 dead letters (3 rejected)\n');
  const none = 'discarded 0 of 3 dead letters; 3 there now\n';
  expect((await run(prefix, ['--reason', 'stalled', '--yes'])).stdout).toBe(none);
  const audit = createAudit(connectRedis(), prefix);
  expect(await audit.read({ count: 9 })).toEqual([]);
  await run(prefix, ['--id', 'n1', '--yes']);
  const entry = { who: expect.stringMatching(/ \(terminal\)$/) as string, action: 'dead-letters discard', on: 'id n1' };
  expect(await audit.read({ count: 9 })).toMatchObject([
    { ...entry, facts: { state: 'done', done: 1, of: 1 } },
    { ...entry, facts: { state: 'began', rate: 'off' } },
  ]);
});

test('makes room in a Redis that is full; a replay does not begin in it', async () => {
  await using redis = await startEmbeddedRedis();
  const admin = connectRedis(redis.url);
  const [prefix, env] = [testPrefix(), { REDIS_URL: redis.url }];
  const deadQueue = new Queue(DEAD_LETTERS, { connection: connectRedis(redis.url), prefix });
  onTestFinished(() => deadQueue.close());
  await addDead(deadQueue, manyLetters(40));
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
