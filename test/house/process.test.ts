import { describe, expect, test, vi } from 'vitest';
import { startProcess } from '../support/process.ts';

const script = (source: string) => ['--input-type=module', '--eval', source];

describe('a process under test', () => {
  test('gives its lines, its output and its exit code', async () => {
    const child = startProcess({
      args: script(
        'console.log("one"); console.error("two"); process.stdin.pipe(process.stdout); process.exitCode = 3;',
      ),
      input: 'three\n',
    });
    expect(await child.waitForLine(/^tw/)).toBe('two');
    expect(await child.waitForLine(/^three$/)).toBe('three');
    expect(await child.waitForExit()).toEqual({ code: 3, signal: null, stdout: 'one\nthree\n', stderr: 'two\n' });
    expect(await child.waitForLine(/one/)).toBe('one');
  });

  test('takes variables, and has them taken away', async () => {
    const child = startProcess({
      args: ['--print', 'process.env.A + process.env.PATH'],
      env: { A: 'a', PATH: undefined },
    });
    expect((await child.waitForExit()).stdout).toBe('aundefined\n');
  });

  test('fails the wait for a line that does not come, with what it said instead', async () => {
    const ended = startProcess({ args: script('console.log("hello")') });
    await expect(ended.waitForLine(/bye/)).rejects.toThrow(/ended without a line like \/bye\/:\nhello/);
    const silent = startProcess({ args: script('console.log("hello"); setInterval(() => 0, 1e6)') });
    await silent.waitForLine(/hello/);
    await expect(silent.waitForLine(/bye/, 50)).rejects.toThrow(/no line like \/bye\/ from [^]* within 50 ms.*\nhello/);
    await expect(silent.waitForExit(50)).rejects.toThrow(/no exit from/);
  });

  test('ends when whoever started it is killed', async () => {
    const preload = new URL('../support/end-with-parent.ts', import.meta.url).href;
    const parent = startProcess({
      args: script(`
        import { spawn } from 'node:child_process';
        const child = spawn(process.execPath, ['--import', '${preload}', '--eval', 'console.log(1); setInterval(() => 0, 1e6)'], {
          stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
          detached: true,
        });
        child.stdout.once('data', () => console.log('child ' + child.pid));
      `),
    });
    const pid = Number((await parent.waitForLine(/^child \d+$/)).slice('child '.length));
    expect(process.kill(pid, 0)).toBe(true);
    parent.kill('SIGKILL');
    await vi.waitFor(() => {
      expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    }, 5_000);
  });
});
