import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CONFIG_VARIABLES } from '../../../src/config/variables.ts';
import { parseDuration } from '../../../src/domain/time.ts';
import { debianProgram } from '../../../tools/debian.ts';
import { runProgram, temporaryFolder } from '../../support/program.ts';

const UNITS = ['deploy/pushpacer@.service', 'deploy/pushpacer-serve.service'];

describe.each(UNITS)('%s', (unit) => {
  test('is what systemd takes, and gives the program few rights', async () => {
    const analyze = await debianProgram('systemd-analyze', 'systemd');
    const folder = await temporaryFolder();
    const text = await readFile(unit, 'utf8');
    const [, program = ''] = /^ExecStart=(\S+)/m.exec(text) ?? [];
    // systemd looks whether the program is there, and ours is not on this machine.
    const there = join(folder, 'node_modules/.bin/pushpacer');
    await mkdir(join(folder, 'node_modules/.bin'), { recursive: true });
    await writeFile(there, '#!/bin/sh\n', { mode: 0o755 });
    const verify = async (name: string, content: string): Promise<string> => {
      const file = join(folder, name);
      await writeFile(file, content.replaceAll(program, there));
      return runProgram('sh', ['-c', `${analyze} verify ${file} 2>&1 || true`], folder);
    };
    expect(await verify(basename(unit), text)).toBe('');
    expect(await verify('wrong.service', text.replace('UMask', 'UMaks'))).toMatch(/Unknown key( name)? 'UMaks'/);

    // From 0 (no rights) to 100 (all of them); systemd calls it OK up to 49. It ends with 1 above the threshold.
    const security = ['security', '--offline=true', '--no-pager', '--threshold=25', join(folder, basename(unit))];
    expect(await runProgram(analyze, security, folder)).toMatch(/exposure level for .*: [\d.]+ OK/);
  });
});

test('a worker has more time to stop than it takes', async () => {
  const text = await readFile('deploy/pushpacer@.service', 'utf8');
  const stopMs = Number(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1]) * 1_000;
  const grace = CONFIG_VARIABLES.find(({ name }) => name === 'SHUTDOWN_GRACE')?.default;
  expect(stopMs).toBeGreaterThan(parseDuration(grace ?? '') ?? Infinity);
  expect(text).toMatch(/^ExecReload=\/bin\/kill -HUP \$MAINPID$/m);
});
