import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { addDead, deadLetter, manyLetters } from '../../dead-letters/letters.ts';
import { notification, openQueues } from '../../queue/support.ts';
import { startProcess } from '../../support/process.ts';
import { runProgram, temporaryFolder } from '../../support/program.ts';
import { queueEnv } from '../../support/redis.ts';
import { runOnTerminal } from '../../support/terminal.ts';

/** Valid lines with bad ones between them; the bad ones are the first, the last, and each tenth of the rest. */
async function fileWith(count: number, isBad: (line: number) => boolean): Promise<string> {
  const file = join(await temporaryFolder(), 'f.ndjson');
  const lines = Array.from({ length: count }, (_, at) =>
    isBad(at + 1) ? `bad ${at + 1}` : JSON.stringify(notification({ id: `n${at + 1}` })),
  );
  await writeFile(file, lines.join('\n'));
  return file;
}

test.each([
  ['a few, on a narrow terminal', 8, 30],
  ['so many that the bar is shown', 60_000, 100],
])('enqueue on a terminal shows every bad line: %s', async (_, count, columns) => {
  const bad = [1, 2, 4, 7, count];
  const file = await fileWith(count, (line) => bad.includes(line));
  const command = `node scripts/enqueue.ts --file ${file} --dry-run`;
  const { code, raw, lines } = await runOnTerminal({ command, columns });
  expect(code).toBe(1);
  if (count > 1_000) expect(raw).toMatch(/read █.*% .*MB.*\/s/); // else nothing was tested
  const text = lines.join(''); // a long line goes on in the next one
  for (const line of bad)
    expect(text).toContain(`line ${line}: expected JSON, found ${`bad ${line}`.length} characters`);
  expect(text.endsWith(`${count - bad.length} valid, ${bad.length} invalid`)).toBe(true);
  expect(text).not.toMatch(/[█░%]/);
});

test('Ctrl-C takes the bar away, prints what was added, and ends the command as ever', async () => {
  const { prefix, queue } = openQueues();
  const file = await fileWith(150_000, () => false);
  const command = `node scripts/enqueue.ts --file ${file}`;
  const env = queueEnv(prefix);
  const { code, raw, lines } = await runOnTerminal({ command, columns: 80, env, interruptAt: '█' });
  expect(raw).toContain('█');
  expect(code).toBe(130); // as the shell says of SIGINT
  const added = (await queue.getJobCountByTypes('prioritized')).toString();
  const text = lines.join('').replace(/; \d+ more \w+ read and not added$/, '');
  expect(text).toBe(`error: interrupted; ${added} added, 0 duplicates, 0 invalid before`);
});

test('errors are red on a terminal, unless NO_COLOR is set; FORCE_COLOR makes them so elsewhere', async () => {
  const command = 'node scripts/replay.ts --limit x';
  const message = '--limit: expected an integer of 1 or more, found "x"';
  const red = `\u001B[31merror:\u001B[39m ${message}`;
  expect((await runOnTerminal({ command, columns: 80 })).raw).toContain(red);
  expect((await runOnTerminal({ command, columns: 80, env: { NO_COLOR: '1' } })).raw).toContain(`error: ${message}`);
  const redirected = async (env: Record<string, string | undefined>) =>
    (await startProcess({ args: ['scripts/replay.ts', '--limit', 'x'], env }).waitForExit()).stderr;
  expect(await redirected({ FORCE_COLOR: undefined, NO_COLOR: undefined })).toBe(`error: ${message}\n`);
  expect(await redirected({ FORCE_COLOR: '1', NO_COLOR: undefined })).toBe(`${red}\n`);
});

test.each([
  ['y', 0, 'replayed 2 of 3 dead letters (1 rejected, 1 stalled); 1 there now'],
  ['n', 1, 'error: nothing was replayed'],
])('replay on a terminal says what it would do, and asks; %s', async (answer, code, last) => {
  const { prefix, queue, deadQueue } = openQueues();
  await addDead(deadQueue, {
    a: deadLetter('a'),
    b: deadLetter('b', { reason: 'stalled' }),
    c: deadLetter('c', { deadAt: 1 }),
  });
  const command = 'node scripts/replay.ts --since 1h';
  const env = { ...queueEnv(prefix), LIMIT_RULES: '10/1m', LIMIT_MIN_GAP: '3s' };
  const exit = await runOnTerminal({ command, columns: 80, env, typed: { at: '[y/N]', text: `${answer}\n` } });
  expect(exit.lines.map((line) => line.replace(`] ${answer}`, ']'))).toEqual([
    '2 dead letters (1 rejected, 1 stalled), to 2 recipients',
    'At 50/s, and under 10/1m, gap 3s, the last goes out at once.',
    'Replay them? [y/N]',
    last,
  ]);
  expect(exit.code).toBe(code);
  expect(await queue.getPrioritizedCount()).toBe(answer === 'y' ? 2 : 0);
});

test.each([
  ['scripts/pushpacer.ts --help'],
  ['scripts/pushpacer.ts completion bash'],
  ['chaos/chaos.ts --plan --seconds 3600'],
])('%s ends quietly when its reader goes away', async (command) => {
  // The reader is gone before the command writes for the first time.
  const shell = `{ ${process.execPath} ${command}; echo "code $?" >&3; } 2>&1 >&4 | cat >&3`;
  const output = await runProgram('bash', ['-c', `exec 3>&1; (${shell}) 4> >(exec true)`], process.cwd());
  expect(output).toBe('code 0\n');
});

test('dead-letters --json ends quietly in the middle of a long answer', async () => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, manyLetters(2_000, { message: 'no '.repeat(60) }));
  const command = `${process.execPath} scripts/dead-letters.ts --json 2>&1 >&4 | cat >&3`;
  const env = Object.entries(queueEnv(prefix))
    .map(([name, value]) => `${name}='${value ?? ''}'`)
    .join(' ');
  const shell = `exec 3>&1; export ${env}; unset QUEUE_SHARDS REDIS_CLUSTER; (${command}) 4> >(head -c 100 >/dev/null)`;
  expect(await runProgram('bash', ['-c', shell], process.cwd())).toBe('');
});

test('a command goes on when nobody reads its standard error any more', async () => {
  const file = await fileWith(50, (line) => line % 2 === 0);
  const shell = `${process.execPath} scripts/enqueue.ts --file ${file} --dry-run 2> >(exec true); echo "code $?"`;
  const output = await runProgram('bash', ['-c', shell], process.cwd());
  expect(output).toBe('25 valid, 25 invalid\ncode 1\n');
});
