import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { main } from '../../scripts/completion.ts';
import { COMMANDS, loadCommand } from '../../scripts/support/commands.ts';
import { definitionOf } from '../../src/terminal/command.ts';
import { DEAD_LETTER_REASONS } from '../../src/domain/outcome.ts';
import { runMain } from '../support/command.ts';
import { startProcess } from '../support/process.ts';
import { runProgram, temporaryFolder } from '../support/program.ts';

/** What bash offers for the last word; bash itself splits the line at `=`. */
async function offered(words: readonly string[], folder?: string): Promise<string[]> {
  const cwd = folder ?? (await temporaryFolder());
  const { stdout: script } = await runMain(main, ['bash']);
  const source = `${script}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pushpacer; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const output = await runProgram('bash', ['-c', source, 'bash', 'pushpacer', ...words], cwd);
  return output.split('\n').filter((word) => word !== '');
}

test('bash completes every command, and every long flag of each, from its definition', async () => {
  const names = Object.keys(COMMANDS);
  expect(await offered([''])).toEqual([...names, '--help', '-h', '--version', '-V']);
  let flags = 0;
  for (const name of names) {
    const command = await definitionOf((await loadCommand(name)) ?? main);
    for (const [path, each] of [
      [[name], command] as const,
      ...command.commands.map((sub) => [[name, sub.name()], sub] as const),
    ]) {
      const long = each.options.map((option) => option.long ?? '');
      expect((await offered([...path, '--'])).sort()).toEqual([...long, '--help'].sort());
      flags += long.length;
    }
  }
  expect(flags).toBeGreaterThan(60);
});

test('bash completes subcommands, known values and file names', async () => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'morning rush.ndjson'), '');
  expect(await offered(['rep'])).toEqual(['replay']);
  expect(await offered(['recipient', 's'])).toEqual(['show']);
  expect(await offered(['replay', '--reason', ''])).toEqual(DEAD_LETTER_REASONS);
  expect(await offered(['enqueue', '--priority', '=', 'h'])).toEqual(['high']);
  expect(await offered(['enqueue', '--priority', '='])).toEqual(['high', 'normal']);
  expect(await offered(['completion', 'z'])).toEqual(['zsh']);
  expect(await offered(['enqueue', '--file', 'mor'], folder)).toEqual(['morning rush.ndjson']);
  expect(await offered(['enqueue', '--recipient', 'sh'], folder)).toEqual([]);
  expect(await offered(['recipient', 'show', 'teacher-42', '--j'])).toEqual(['--json']);
});

test('the script is the same from a process of its own', async () => {
  const { code, stdout, stderr } = await startProcess({ args: ['scripts/completion.ts', 'bash'] }).waitForExit();
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toBe((await runMain(main, ['bash'])).stdout);
});

test.each(['zsh', 'fish'])('%s gets every command and every known reason', async (shell) => {
  const { code, stdout, stderr } = await runMain(main, [shell]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  for (const word of [...Object.keys(COMMANDS), ...DEAD_LETTER_REASONS, 'on-throttle']) expect(stdout).toContain(word);
});

test.each([[[]], [['tcsh']]])('%j is bad usage', async (args) => {
  expect(await runMain(main, args)).toMatchObject({ code: 2, stdout: '' });
});
