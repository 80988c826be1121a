import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, it, vi } from 'vitest';
import { processesWith } from '../../support/leaks.ts';
import { runProgram, temporaryFolder } from '../../support/program.ts';
import { startShell, userEnvironment } from '../../support/shell.ts';

const MINUTE = 60_000;
/** The demo judges its own timing; on a busy machine it may fail, and is run again. */
const AGAIN = { timeout: 3 * MINUTE, interval: 1_000 };
/** The default ports are those of the test of the README, which may run beside this one. */
const FREE_PORTS = ['redis', 'api', 'console', 'control', 'metrics'].map((server) => `--${server}-port=0`);
/** What npx ends with after Ctrl-C, whatever the program ends with. */
const BY_CTRL_C = 130;
/** How soon a process that npm has left behind must notice it. */
const NOTICED = { timeout: 15_000, interval: 100 };

it(
  'the packed package runs dev and the demo in an empty folder, and nothing is left',
  { timeout: 8 * MINUTE },
  async () => {
    const home = await temporaryFolder();
    const [app, temporary] = [join(home, 'app'), join(home, 'tmp')];
    await Promise.all([mkdir(app), mkdir(temporary)]);
    const name = (await runProgram('npm', ['pack', '--silent', '--pack-destination', home], process.cwd()))
      .trim()
      .split('\n')
      .at(-1);
    const mark = crypto.randomUUID();
    const left = () => processesWith(`PUSHPACER_TEST_PACKED=${mark}`);
    const env = { ...userEnvironment(), TMPDIR: temporary, PUSHPACER_TEST_PACKED: mark };
    const shell = (line: string) => startShell(line, { cwd: app, env });
    const run = async (line: string): Promise<string> => {
      const one = shell(line);
      expect(await one.ended, one.output()).toBe(0);
      return one.output();
    };

    await run(`npm install --no-audit --no-fund ../${name ?? ''}`);
    const installed = await readdir(app);
    const dev = shell(`npx pushpacer dev ${FREE_PORTS.join(' ')}`);
    await dev.until(/limit' [^]*\n/);
    const [burst = '', limit = ''] = dev.output().match(/^curl [^\r\n]*/gm) ?? [];
    const sent = await run(burst);
    expect(sent.match(/"result":"added"/g)).toHaveLength(20);
    expect(await run(limit)).toMatch(/"moved":[1-9]/);
    await dev.until(/fcm .* accepted "Room 12"/);
    dev.interrupt();
    expect([0, BY_CTRL_C]).toContain(await dev.ended);
    await vi.waitFor(async () => expect(await left()).toEqual([]), NOTICED);
    expect(await readdir(app)).toEqual(installed);
    expect((await readdir(temporary)).filter((file) => file.startsWith('pushpacer-'))).toEqual([]); // npm has files there too

    const again = ['pushpacer', 'dev', '--json', ...FREE_PORTS];
    const npx = spawn('npx', again, { cwd: app, env, stdio: ['ignore', 'pipe', 'ignore'] });
    await once(createInterface(npx.stdout), 'line');
    expect(await left()).not.toEqual([]);
    npx.kill('SIGKILL');
    await vi.waitFor(async () => expect(await left()).toEqual([]), NOTICED);

    await vi.waitFor(
      async () => expect(await run('npx pushpacer demo')).toMatch(/PASS: all \d+ promises were kept\./),
      AGAIN,
    );
  },
);
