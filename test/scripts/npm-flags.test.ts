import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { main as discard } from '../../scripts/discard.ts';
import { main as enqueue } from '../../scripts/enqueue.ts';
import { main as recipient } from '../../scripts/recipient.ts';
import { main as replay } from '../../scripts/replay.ts';
import { runMain } from '../support/command.ts';
import { runProgram, temporaryFolder } from '../support/program.ts';

const HINT = 'npm kept a flag for itself, because there is no -- before the flags; write: ';

// As npm 11 sets them.
test.each([
  [enqueue, ['x'], { event: 'enqueue', recipient: 'true' }, 'npm run enqueue -- --recipient x'],
  [enqueue, [], { event: 'enqueue', recipient: 'x', dry_run: 'true' }, 'npm run enqueue -- --dry-run --recipient x'],
  [
    enqueue,
    ['x', 'y'],
    { event: 'enqueue', recipient: 'true', title: 'true' },
    '-- x y --recipient <id> --title <text>',
  ],
  [enqueue, ['a=b', 'c=d'], { event: 'enqueue', data: 'true\n\ntrue' }, '-- a=b c=d --data <key=value>'],
  [replay, [], { event: 'replay', reason: 'stalled' }, 'npm run replay -- --reason stalled'],
  [discard, ['--all', '--yes'], { event: 'discard', dry_run: 'true' }, 'npm run discard -- --all --yes --dry-run'],
  [recipient, ['block', 't', '2h'], { event: 'recipient', for: 'true' }, '-- block t 2h --for <duration>'],
] as const)('a flag that npm kept stops the command: %#', async (main, args, { event, ...flags }, instead) => {
  const { code, stdout, stderr } = await runMain(main, args, environment(event, flags));
  expect(stderr).toContain(`error: ${HINT}`);
  expect(stderr.trimEnd().endsWith(instead)).toBe(true);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});

test('of flags that npm has too, only a warning says so', async () => {
  const file = await emptyFile();
  const { code, stderr } = await runMain(
    enqueue,
    ['--file', file, '--dry-run'],
    environment('enqueue', { json: 'true' }),
  );
  expect(stderr).toBe(`warning: ${HINT}npm run enqueue -- --file ${file} --dry-run --json\n`);
  expect(code).toBe(0);
});

test.each([
  ['the command was not started by npm', {}],
  ['npm runs a script of another name', { npm_lifecycle_event: 'test', npm_config_recipient: 'x' }],
  ['npm kept nothing', { npm_lifecycle_event: 'enqueue', npm_config_dry_run: '', npm_config_file: 'false' }],
  ['the flag came through', { npm_lifecycle_event: 'enqueue', npm_config_dry_run: 'true' }],
])('nothing is said where %s', async (_, env) => {
  const args = ['--file', await emptyFile(), '--dry-run'];
  expect(await runMain(enqueue, args, env)).toMatchObject({ code: 0, stderr: '' });
});

test('npm itself: the flag is missed, and the hint is right', async () => {
  const npm = (...args: string[]) => runProgram('npm', ['run', '--silent', ...args], process.cwd());
  await expect(npm('enqueue', '--recipient', 'x')).rejects.toThrow('write: npm run enqueue -- --recipient x');
  await expect(npm('replay', '--reason=stalled')).rejects.toThrow('write: npm run replay -- --reason stalled');
  expect(await npm('enqueue', '--', '--file', await emptyFile(), '--dry-run')).toBe('0 valid, 0 invalid\n');
});

function environment(event: string, flags: Readonly<Record<string, string>>): Record<string, string> {
  const kept = Object.entries(flags).map(([name, value]) => [`npm_config_${name}`, value]);
  return { npm_lifecycle_event: event, ...(Object.fromEntries(kept) as Record<string, string>) };
}

async function emptyFile(): Promise<string> {
  const file = join(await temporaryFolder(), 'empty.ndjson');
  await writeFile(file, '');
  return file;
}
