import type { Queue } from 'bullmq';
import { expect, test } from 'vitest';
import { main } from '../../scripts/replay.ts';
import { shardPrefixes } from '../../src/queue/names.ts';
import { addDead, deadLetter, manyLetters } from '../dead-letters/letters.ts';
import { notification, openQueues } from '../queue/support.ts';
import { jsonOf, runMain, type CommandExit } from '../support/command.ts';
import { enterWorker } from '../support/presence.ts';
import { killedAfter, startProcess } from '../support/process.ts';
import { queueEnv, testPrefix } from '../support/redis.ts';

// Both commands are made by one adapter: what is said here of its flags, of shards and of what it prints holds for discard too.

const envOf = (prefix: string) => ({ ...queueEnv(prefix), LIMIT_RULES: undefined, LIMIT_MIN_GAP: undefined });

function run(prefix: string, ...args: string[]): Promise<CommandExit> {
  return runMain(main, args, envOf(prefix));
}

/** Without a question and a pause, unless the flags have a rate. */
function replay(prefix: string, ...args: string[]): Promise<Record<string, unknown>> {
  const rate = args.includes('--rate') ? [] : ['--rate', 'off'];
  return jsonOf(run(prefix, ...args, ...rate, '--yes', '--json'));
}

const ofTeacher = (id: string) => deadLetter(id, { notification: notification({ id }) });

const idsIn = async (queue: Queue) => (await queue.getPrioritized(0, -1)).map((job) => job.id).sort();

test('puts everything back, oldest first', async () => {
  const { prefix, queue, deadQueue } = openQueues();
  await addDead(deadQueue, manyLetters(250, { notification: notification() }));
  expect(await replay(prefix, '--all', '--limit', '120')).toMatchObject({ matched: 120, replayed: 120, left: 130 });
  const { lastAfterMs, ...counts } = await replay(prefix, '--all');
  expect(counts).toEqual({
    seen: 130,
    matched: 130,
    replayed: 130,
    newer: 0,
    byReason: { rejected: 130 },
    recipients: 1,
    expired: 0,
    left: 0,
    dryRun: false,
  });
  expect(lastAfterMs).toBe(12 * 60_000 + 9 * 3_000); // ten in each minute
  const ids = Object.keys(manyLetters(250)).map((id) => `${id}#r1`);
  expect((await queue.getPrioritized(0, -1)).map((job) => job.id)).toEqual(ids);
});

test('takes what the flags say, and leaves the rest', async () => {
  const { prefix, queue, deadQueue } = openQueues();
  const hour = 3_600_000;
  await addDead(deadQueue, {
    old: deadLetter('old', { deadAt: Date.now() - 3 * hour }),
    other: deadLetter('other'),
    stalled: deadLetter('stalled', { reason: 'stalled' }),
    broken: deadLetter('broken', { notification: 'text', reason: 'invalid' }),
    recent: deadLetter('recent'),
  });
  expect(await replay(prefix, '--all', '--dry-run')).toMatchObject({
    seen: 5,
    matched: 5,
    replayed: 0,
    left: 5,
    dryRun: true,
  });
  expect(await replay(prefix, '--recipient', 'recipient-other')).toMatchObject({ seen: 5, replayed: 1, left: 4 });
  expect(await idsIn(queue)).toEqual(['other#r1']);
  expect(await replay(prefix, '--reason', 'stalled')).toMatchObject({ byReason: { stalled: 1 }, left: 3 });
  expect(await replay(prefix, '--until', '2h')).toMatchObject({ replayed: 1, left: 2 });
  expect(await idsIn(queue)).toContain('old#r1');
  expect(await replay(prefix, '--since', new Date(Date.now() + hour).toISOString())).toMatchObject({ replayed: 0 });
  expect(await replay(prefix, '--since', String(Date.now() - hour), '--limit', '1')).toMatchObject({ replayed: 1 });
  expect(await replay(prefix, '--id', 'recent')).toMatchObject({ replayed: 1, left: 0 });
  expect(await idsIn(queue)).toEqual(['broken#r1', 'old#r1', 'other#r1', 'recent#r1', 'stalled#r1']);
});

test('killed half-way and started again, it neither loses nor doubles', async () => {
  const { prefix, queue, deadQueue } = openQueues();
  const letters = manyLetters(400);
  await addDead(deadQueue, letters);
  const counts = [0];
  for (let kills = 0; kills < 3; kills++) {
    const { flags, env } = killedAfter(100);
    const args = [...flags, 'scripts/replay.ts', '--all', '--yes', '--rate', 'off'];
    const command = startProcess({ args, env: { ...envOf(prefix), ...env } });
    expect((await command.waitForExit()).signal).toBe('SIGKILL');
    const replayed = await queue.getPrioritizedCount();
    expect(replayed).toBeGreaterThan(counts.at(-1) ?? 0);
    counts.push(replayed);
  }
  expect(counts.at(-1)).toBeLessThan(400);
  await replay(prefix, '--all');
  expect(await deadQueue.getJobCountByTypes()).toBe(0);
  const ids = Object.keys(letters).map((id) => `${id}#r1`);
  expect(await idsIn(queue)).toEqual(ids.sort());
});

test('is over all shards, and --limit too', async () => {
  const prefix = testPrefix();
  const shards = shardPrefixes(prefix, 2).map((shardPrefix) => openQueues(shardPrefix));
  for (const { deadQueue } of shards) {
    await addDead(deadQueue, {
      a: deadLetter('a'),
      b: deadLetter('b'),
      c: deadLetter('c', { reason: 'stalled' }),
    });
  }
  const args = ['--reason', 'rejected', '--limit', '3', '-y'];
  expect(await runMain(main, args, { ...envOf(prefix), QUEUE_SHARDS: '2' })).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^replayed 3 of \d dead letters \(3 rejected\); 3 there now\n$/) as string,
  });
  expect(await Promise.all(shards.map(({ queue }) => idsIn(queue)))).toEqual([['a#r1', 'b#r1'], ['a#r1']]);
});

test('an id that no dead letter has is a failure, with nothing else on standard output', async () => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, { known: deadLetter('known') });
  const stderr = 'error: no dead letter has the id "nope"\n';
  expect(await run(prefix, '--id', 'nope', '--yes')).toEqual({ code: 1, stdout: '', stderr });
  expect(await run(prefix, '--id', 'nope', '--dry-run')).toEqual({ code: 1, stdout: '', stderr });
  const json = await run(prefix, '--id', 'nope', '--yes', '--json');
  expect([json.code, json.stderr, JSON.parse(json.stdout)]).toMatchObject([1, stderr, { matched: 0, replayed: 0 }]);
  expect(await run(prefix, '--id', 'known', '--reason', 'invalid', '--yes')).toMatchObject({
    ...{ code: 1, stderr: 'error: no dead letter has the id "known" and fits the other flags\n' },
  });
  expect(await run(prefix, '--reason', 'invalid', '--yes')).toMatchObject({ code: 0 });
  expect(await deadQueue.getWaitingCount()).toBe(1);
});

test('says what it did', async () => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, { a: ofTeacher('a'), b: { ...ofTeacher('b'), reason: 'stalled' } });
  expect(await run(prefix, '--all', '--dry-run')).toMatchObject({
    code: 0,
    stdout:
      'would replay 2 of 2 dead letters (1 rejected, 1 stalled), to teacher-42\n' +
      'At 50/s, and under 10/1m, gap 3s, the last goes out in about 3s.\n',
  });
  expect(await run(prefix, '--all', '--limit', '1', '--yes')).toMatchObject({
    stdout: 'replayed 1 of 1 dead letter (1 rejected); 1 there now\n',
  });
});

test('its forecast is by the limits of the living workers', async () => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, { a: ofTeacher('a'), b: ofTeacher('b') });
  await enterWorker(prefix, {}, { policy: { rules: [{ max: 1, perMs: 3_600_000 }], minGapMs: 0 } });
  expect((await run(prefix, '--all', '--dry-run')).stdout).toContain(
    'under 1/1h, no gap, the last goes out in about 1h',
  );
});

test.each([
  [
    ['--since', 'yesterday'],
    '--since: expected an RFC 3339 date-time or epoch milliseconds, or a duration ago such as 2h',
  ],
  [['--limit', '0'], '--limit: expected an integer of 1 or more, found "0"'],
  [['--all', '--rate', 'fast'], '--rate: expected a rate such as 50/s, 30/m or 500/h, or off, found "fast"'],
  [[], 'say which dead letters to replay: with --reason, --recipient, --platform, --app, --category, --id, --since or'],
  [['--limit', '5', '--yes'], 'pushpacer replay --reason provider-auth --dry-run'],
  [['--all', '--reason', 'stalled', '--yes'], '--all: expected no filter beside it'],
  [
    ['--reason', 'stalled'],
    'there is no terminal to ask on: add --yes to replay them without a question, or --dry-run',
  ],
])('%j is bad usage, and replays nothing', async (args, message) => {
  const { prefix, queue, deadQueue } = openQueues();
  await addDead(deadQueue, { a: deadLetter('a', { reason: 'stalled' }) });
  const { code, stderr, stdout } = await run(prefix, ...args);
  expect(stderr).toContain(message);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(await idsIn(queue)).toEqual([]);
});

test('leaves what a newer version wrote, says so, and ends with exit 1', async () => {
  const { prefix, queue, deadQueue } = openQueues();
  const ofNextVersion = { format: 2, said: 'what only the next version understands' };
  await addDead(deadQueue, { newer: ofNextVersion, known: deadLetter('known') });
  const { code, stdout, stderr } = await run(prefix, '--all', '--yes', '--json');
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ seen: 2, matched: 1, replayed: 1, newer: 1, left: 1 });
  expect(stderr).toContain('1 dead letter was written by a newer version of pushpacer, and is not replayed');
  expect(await idsIn(queue)).toEqual(['known#r1']);
  expect((await deadQueue.getJob('newer'))?.data).toEqual(ofNextVersion);
});
