import { expect, test } from 'vitest';
import { startProcess } from '../support/process.ts';

const pushpacer = (...args: string[]) => startProcess({ args: ['scripts/pushpacer.ts', ...args] }).waitForExit();

test('tells its commands, with and without --help', async () => {
  for (const args of [[], ['--help'], ['-h']]) {
    const { code, stdout } = await pushpacer(...args);
    expect(stdout).toMatch(/^Usage: pushpacer <command>/);
    expect(code).toBe(0);
  }
});

test('hands the flags on, and the exit code back', async () => {
  expect(await pushpacer('redis', '--help')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Usage: redis') as string,
  });
  expect(await pushpacer('redis', '--port', 'x')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--port: expected an integer from 1 to 65535, found "x"') as string,
  });
});

test.each(['rediss', 'constructor', '--nope'])('refuses %s as bad usage', async (name) => {
  const { code, stderr, stdout } = await pushpacer(name);
  expect(stderr).toContain(`no command "${name}"`);
  expect(stdout).toBe('');
  expect(code).toBe(2);
});
