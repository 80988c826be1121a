import { expect, onTestFinished, test } from 'vitest';
import { startProcess } from '../../support/process.ts';

test('a run that leaves a process or a key behind fails, though its tests pass', async () => {
  const { code, stdout, stderr } = await startProcess({
    args: ['node_modules/vitest/vitest.mjs', 'run', '--root', '.', '--config', 'test/house/fixtures/vitest.config.ts'],
    env: { NO_COLOR: '1', FORCE_COLOR: undefined, VITEST: undefined },
  }).waitForExit();
  const output = stdout + stderr;
  const leaked = /process (\d+): sleep 60/.exec(output);
  onTestFinished(() => {
    if (leaked) process.kill(Number(leaked[1]), 'SIGKILL');
  });
  expect(output).toContain('2 passed');
  expect(leaked).not.toBeNull();
  expect(output).toContain('key {pushpacer}:stray');
  expect(code).not.toBe(0);
});
