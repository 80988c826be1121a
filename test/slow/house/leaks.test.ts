import { expect, onTestFinished, test } from 'vitest';
import { startProcess } from '../../support/process.ts';

/** Runs fixtures as a suite of their own; `projects` of fixtures/vitest.config.ts. */
async function runSuite(...projects: string[]) {
  const config = ['--root', '.', '--config', 'test/house/fixtures/vitest.config.ts'];
  const { code, stdout, stderr } = await startProcess({
    args: ['node_modules/vitest/vitest.mjs', 'run', ...config, ...projects.flatMap((name) => ['--project', name])],
    env: { NO_COLOR: '1', FORCE_COLOR: undefined, VITEST: undefined },
  }).waitForExit(60_000);
  return { code, output: stdout + stderr };
}

test('a run that leaves a process or a key behind fails, though its tests pass', async () => {
  const { code, output } = await runSuite('leaky', 'tidy');
  const leaked = /process (\d+): sleep 60/.exec(output);
  onTestFinished(() => {
    if (leaked) process.kill(Number(leaked[1]), 'SIGKILL');
  });
  expect(output).toContain('2 passed');
  expect(leaked).not.toBeNull();
  expect(output).toContain('key {pushpacer}:stray');
  expect(code).not.toBe(0);
});

test('a run that leaves nothing behind passes', async () => {
  const { code, output } = await runSuite('tidy');
  expect(output).toContain('1 passed');
  expect(output).not.toContain('left behind');
  expect(code).toBe(0);
});
