import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Job } from 'bullmq';
import { describe, expect, test, onTestFinished } from 'vitest';
import { main as cancelCommand } from '../../scripts/cancel.ts';
import { completionOf } from '../../scripts/support/completion.ts';
import { main as enqueue } from '../../scripts/enqueue.ts';
import { main as recipient } from '../../scripts/recipient.ts';
import { main as redis } from '../../scripts/redis.ts';
import { main as replay } from '../../scripts/replay.ts';
import { main as retractCommand } from '../../scripts/retract.ts';
import { main as statusCommand } from '../../scripts/status.ts';
import { COMMANDS, loadCommand, main as pushpacer } from '../../scripts/support/commands.ts';
import { DEAD_LETTER_REASONS } from '../../src/notification/outcome.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { definitionOf } from '../../src/terminal/command.ts';
import { notification, openQueues } from '../queue/support.ts';
import { runMain } from '../support/command.ts';
import { startProcess } from '../support/process.ts';
import { runProgram, temporaryFolder } from '../support/program.ts';
import { connectRedis, queueEnv, testTarget } from '../support/redis.ts';

const completion = completionOf(COMMANDS);

describe('completion', () => {
  /** What bash offers for the last word of each line, all in one bash, which itself splits a line at `=`. */
  async function offered(lines: readonly (readonly string[])[], folder?: string): Promise<string[][]> {
    const cwd = folder ?? (await temporaryFolder());
    const { stdout: script } = await runMain(completion, ['bash']);
    const asks = lines.map((words) => `offer pushpacer ${words.map((word) => `'${word}'`).join(' ')}`);
    const source = `${script}
offer() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _pushpacer
  printf '%s\\n' "\${COMPREPLY[@]}" ---
}
${asks.join('\n')}`;
    const output = await runProgram('bash', ['-c', source], cwd);
    const blocks = output.split('---\n').slice(0, -1);
    return blocks.map((block) => block.split('\n').filter((word) => word !== ''));
  }

  test('bash completes every command, and every long flag of each, from its definition', async () => {
    const names = Object.keys(COMMANDS);
    const flags = new Map<readonly string[], string[]>();
    for (const name of names) {
      const command = await definitionOf((await loadCommand(name)) ?? completion);
      for (const [path, each] of [
        [[name], command] as const,
        ...command.commands.map((sub) => [[name, sub.name()], sub] as const),
      ]) {
        flags.set([...path, '--'], [...each.options.map((option) => option.long ?? ''), '--help'].toSorted());
      }
    }
    const [commands, ...found] = await offered([[''], ...flags.keys()]);
    expect(commands).toEqual([...names, '--help', '-h', '--version', '-V']);
    expect(found.map((words) => words.toSorted())).toEqual([...flags.values()]);
    expect(found.flat().length).toBeGreaterThan(60);
  });

  test('bash completes subcommands, known values and file names', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'morning rush.ndjson'), '');
    const cases: (readonly [line: string[], words: readonly string[]])[] = [
      [['rep'], ['replay']],
      [['recipient', 's'], ['show']],
      [['replay', '--reason', ''], DEAD_LETTER_REASONS],
      [['enqueue', '--priority', '=', 'h'], ['high']],
      [
        ['enqueue', '--priority', '='],
        ['high', 'normal'],
      ],
      [['completion', 'z'], ['zsh']],
      [['enqueue', '--file', 'mor'], ['morning rush.ndjson']],
      [['enqueue', '--recipient', 'sh'], []],
      [['recipient', 'show', 'teacher-42', '--j'], ['--json']],
    ];
    const lines = cases.map(([line]) => line);
    expect(await offered(lines, folder)).toEqual(cases.map(([, words]) => words));
  });

  test.each(['zsh', 'fish'])('%s gets every command and every known reason', async (shell) => {
    const { code, stdout, stderr } = await runMain(completion, [shell]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const word of [...Object.keys(COMMANDS), ...DEAD_LETTER_REASONS, 'on-throttle'])
      expect(stdout).toContain(word);
  });

  test.each([[[]], [['tcsh']]])('%j is bad usage', async (args) => {
    expect(await runMain(completion, args)).toMatchObject({ code: 2, stdout: '' });
  });
});

describe('flags that npm kept', () => {
  const HINT = 'npm kept a flag for itself, because there is no -- before the flags; write: ';

  // As npm 11 sets them.
  test.each([
    [enqueue, ['x'], { event: 'enqueue', recipient: 'true' }, 'npm run enqueue -- --recipient x'],
    [
      enqueue,
      ['x', 'y'],
      { event: 'enqueue', recipient: 'true', title: 'true' },
      '-- x y --recipient <id> --title <text>',
    ],
    [enqueue, ['a=b', 'c=d'], { event: 'enqueue', data: 'true\n\ntrue' }, '-- a=b c=d --data <key=value>'],
    [replay, [], { event: 'replay', reason: 'stalled' }, 'npm run replay -- --reason stalled'],
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
});

describe('cancel and retract', () => {
  const KEY = { recipientId: 'teacher-42', cancellationKey: 'trip-77' };
  const BY_KEY = ['--recipient', KEY.recipientId, '--key', KEY.cancellationKey];
  const WHO = expect.stringMatching(/^.+ \(terminal\)$/) as string;

  function openCommands() {
    const { prefix, queue } = openQueues();
    const producer = createProducer({ ...testTarget(), prefix });
    onTestFinished(() => producer.close());
    const cancel = (...args: string[]) => runMain(cancelCommand, args, queueEnv(prefix));
    const retract = (...args: string[]) => runMain(retractCommand, args, queueEnv(prefix));
    return { queue, producer, cancel, retract, audit: createAudit(connectRedis(), prefix) };
  }

  test('a cancel is by id, or of all that wait under a key; repeated, it says the same', async () => {
    const { producer, cancel, audit } = openCommands();
    await producer.enqueueMany([notification({ id: 'msg-1' }), notification(KEY), notification(KEY)]);
    const canceled = { code: 0, stdout: 'canceled 1\n', stderr: '' };
    for (const id of [['--id', 'msg-1'], ['msg-1']]) expect(await cancel(...id)).toEqual(canceled);
    const done = { code: 0, stdout: '{"canceled":2,"tooLate":0}\n', stderr: '' };
    expect(await cancel(...BY_KEY, '--json')).toEqual(done);
    const facts = { key: 'trip-77', canceled: 2, tooLate: 0 };
    const [entry] = await audit.read({ count: 1 });
    expect(entry).toMatchObject({ who: WHO, action: 'recipient cancel', on: 'teacher-42', facts });
  });

  test('a cancel says what is not there, and what it is too late for', async () => {
    const { queue, cancel } = openCommands();
    expect((await cancel('--id', 'msg-1')).stdout).toBe(
      'canceled 0: no notification with the id msg-1 waits, or ended within the last hour\n',
    );
    expect((await cancel(...BY_KEY)).stdout).toBe('canceled 0: nothing waits for teacher-42 under trip-77\n');
    const job = await queue.add('push', notification(), { jobId: 'msg-2', delay: 60_000 });
    await job.updateProgress({ devices: { 'apns#0': 'delivered' } });
    expect((await cancel('--id', 'msg-2')).stdout).toBe(
      'canceled 0; too late for 1, which is being sent, may have alerted a device, or has ended\n',
    );
  });

  test('a retract cancels what waits, takes back what was sent, and says so; repeated, it says the same', async () => {
    const { queue, producer, retract, audit } = openCommands();
    await producer.enqueueMany([notification({ id: 'waits', ...KEY }), notification({ id: 'sent' })]);
    const job = (await queue.getJob('sent')) as Job;
    await job.updateProgress({ devices: { 'apns#0': 'delivered' } });
    const sent = { code: 0, stdout: 'retracting 1: sent, and to be taken from the devices\n', stderr: '' };
    for (const id of [['--id', 'sent'], ['sent']]) expect(await retract(...id, '--badge', '3')).toEqual(sent);
    const counts = { canceled: 0, retracting: 0, ended: 0, unknown: 0 };
    expect(await audit.read({ count: 1 })).toMatchObject([
      { who: WHO, action: 'notification retract', on: 'sent', facts: { ...counts, retracting: 1, badge: 3 } },
    ]);
    expect((await retract(...BY_KEY)).stdout).toBe('canceled 1\n');
    expect(JSON.parse((await retract(...BY_KEY, '--json')).stdout)).toEqual({ ...counts, canceled: 1 });
    expect(await audit.read({ count: 1 })).toMatchObject([
      { who: WHO, action: 'recipient retract', on: 'teacher-42', facts: { key: 'trip-77', ...counts, canceled: 1 } },
    ]);
    expect((await retract('--id', 'msg-1')).stdout).toBe(
      'no notification has the id msg-1; if it is enqueued within the next hour, it is not sent\n',
    );
    expect((await retract('--recipient', 'nobody', '--key', 'trip-77')).stdout).toBe(
      'retracted 0: nothing waits for nobody under trip-77, or ended within the last hour\n',
    );
  });

  test.each([
    [['--badge', '3'], 'expected an id, or --recipient and --key together'],
    [['--id', 'msg-1', '--key', 'trip-77'], 'expected an id, or --recipient and --key together'],
    [['--id', 'a b', '--badge', '-1'], '--id: expected 1 to 128 of A-Z a-z 0-9 . _ ~ -, found "a b"; --badge: '],
    [['--id', 'msg-1', '--badge', 'many'], '--badge: expected a number, found "many"'],
    [['--recipient', 'teacher-42', '--key', ''], '--key: expected 1 to 128 printable characters, found ""'],
  ])('%j is bad usage', async (args, message) => {
    const exit = await openCommands().retract(...args);
    expect(exit).toMatchObject({ code: 2, stdout: '' });
    expect(exit.stderr).toContain(message);
  });
});

/** Ends a title of the terminal, colours what follows, and turns its direction. */
const HOSTILE = '\u001b]0;x\u0007\u009b31m\u202e';

test.each([
  ['an unknown option', statusCommand, [`--${HOSTILE}`]],
  ['an unknown subcommand', recipient, [HOSTILE]],
  ['a value that we refuse', redis, ['--port', HOSTILE]],
  ['an id', recipient, ['show', HOSTILE]],
  ['an unknown command', pushpacer, [HOSTILE]],
])('%s is repeated without its codes for the terminal', async (_, main, args) => {
  const { code, stdout, stderr } = await runMain(main, args);
  expect(code).toBe(2);
  expect(stdout + stderr).toContain('202e');
  for (const raw of HOSTILE.match(/[^ -~]/g) ?? []) expect(stdout + stderr).not.toContain(raw);
});

const KEEPS_NOTHING =
  'Note: it keeps all in memory alone: what waits in it is gone when it ends. With --dir FOLDER it is kept.\n';

describe('redis', () => {
  test('npm run redis serves until a signal, and ends with 0', async () => {
    const command = startProcess({ args: ['scripts/redis.ts', '--hz', '50'] });
    const url = (await command.waitForLine(/^REDIS_URL=/)).replace('REDIS_URL=', '');
    expect(await connectRedis(url).config('GET', 'hz')).toEqual(['hz', '50']);
    command.kill('SIGTERM');
    expect(await command.waitForExit()).toMatchObject({ code: 0, stdout: `REDIS_URL=${url}\n`, stderr: KEEPS_NOTHING });
  });

  test('the same Ctrl-C once more, as npm hands it on, does not break its end off', async () => {
    const command = startProcess({ args: ['scripts/redis.ts', '--dir', await temporaryFolder()] });
    const url = (await command.waitForLine(/^REDIS_URL=/)).replace('REDIS_URL=', '');
    const info = await connectRedis(url).info('server');
    const server = Number(/process_id:(\d+)/.exec(info)?.[1]);
    process.kill(server, 'SIGSTOP'); // so that its end lasts
    command.kill('SIGINT');
    await sleep(100);
    command.kill('SIGINT');
    await sleep(100);
    process.kill(server, 'SIGCONT');
    expect(await command.waitForExit()).toMatchObject({ code: 0, signal: null });
  });

  test('with a folder it keeps what it has, and says nothing of that', async () => {
    const dir = join(await temporaryFolder(), 'data');
    const command = startProcess({ args: ['scripts/redis.ts', '--dir', dir] });
    await command.waitForLine(/^REDIS_URL=/);
    command.kill();
    expect(await command.waitForExit()).toMatchObject({ code: 0, stderr: '' });
    expect(await readdir(dir)).toContain('appendonlydir');
  });

  test('a server that ends by itself is a failure', async () => {
    const command = startProcess({ args: ['scripts/redis.ts'] });
    const url = (await command.waitForLine(/^REDIS_URL=/)).replace('REDIS_URL=', '');
    const info = await connectRedis(url).info('server');
    process.kill(Number(/process_id:(\d+)/.exec(info)?.[1]), 'SIGKILL');
    expect(await command.waitForExit()).toMatchObject({
      code: 1,
      stderr: `${KEEPS_NOTHING}error: the Redis server ended by itself\n`,
    });
  });

  test.each([
    [['--port', '0'], '--port: expected an integer from 1 to 65535, found "0"'],
    [['--hz', 'many'], '--hz: expected an integer from 1 to 500, found "many"'],
  ])('%j is bad usage', async (flags, message) => {
    const { code, stderr } = await runMain(redis, flags);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
