import { access, cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { freePort } from '../../../sandbox/redis/embedded-redis.ts';
import { fencesOf } from '../../support/fences.ts';
import { runProgram, temporaryFolder } from '../../support/program.ts';
import { startShell, userEnvironment, type Shell } from '../../support/shell.ts';

const MINUTE = 60_000;
/** The long-running commands of the README, and what each prints when it is there. */
const READY: Readonly<Record<string, RegExp>> = { dev: /Ctrl-C ends/ };
/** The demo judges its own timing; on a busy machine it may fail, and is run again. */
const AGAIN = { timeout: 4 * MINUTE, interval: 1_000 };
const DEFAULT_PORT = 6379;

it('the README works as typed from top to bottom, in a clone and in an app', { timeout: 8 * MINUTE }, async () => {
  const home = await temporaryFolder();
  const clone = join(home, 'pushpacer');
  const app = join(home, 'app');
  await copyTracked(clone);
  await mkdir(app);
  await writeFile(join(app, 'package.json'), '{ "type": "module", "private": true }');
  const user = userEnvironment();
  const { env, typed } = await besideARedis(user);
  const terminals: Shell[] = [];

  const run = async (text: string, cwd: string, environment = env): Promise<void> => {
    const shell = startShell(`set -e\n${typed(text)}`, { cwd, env: environment });
    expect(await shell.ended, shell.output()).toBe(0);
  };
  /** Each line in a terminal of its own, when what the line before started is there; the last line has an end. */
  const runInTerminals = async (text: string): Promise<void> => {
    const lines = typed(text).trim().split('\n');
    for (const line of lines) {
      const shell = startShell(line, { cwd: app, env });
      terminals.push(shell);
      const [, command = ''] = /npx pushpacer ([a-z]+)/.exec(line) ?? [];
      const ready = READY[command];
      if (ready !== undefined) await shell.until(ready);
      else expect(await shell.ended, shell.output()).toBe(0);
    }
  };
  const runScript = async (text: string, name: string): Promise<void> => {
    await writeFile(join(app, `${name}.js`), text);
    await run(`node ${name}.js`, app);
  };

  const seen: string[] = [];
  for (const { comment = 'without a comment', text } of fencesOf(await readFile('README.md', 'utf8'))) {
    const [kind, name = ''] = comment.split(': ');
    seen.push(comment);
    // The demo starts its own Redis: the one that REDIS_URL names is started by a later block.
    if (comment === 'run: clone') await vi.waitFor(() => run(text, clone, user), AGAIN);
    else if (comment === 'run: app') await run(text, app);
    else if (comment === 'run: terminals') await runInTerminals(text);
    else if (comment === 'run: ci') await expectInCi(text);
    else if (kind === 'test') await runScript(text, name);
    else throw new Error(`nothing runs this block of the README (${comment}):\n${text}`);
  }
  expect(seen).toEqual([
    ...['run: clone', 'run: app', 'run: terminals'],
    ...['test: enqueue', 'test: plain-bullmq', 'run: app', 'run: ci'],
  ]);

  const [dev] = terminals;
  const deliveries = () => dev?.output().match(/ fcm .* accepted /g) ?? [];
  await vi.waitFor(() => expect(deliveries()).toHaveLength(3), { timeout: 20_000 });
});

/** The files that git knows, as they are now: what a clone of the next commit has. */
async function copyTracked(folder: string): Promise<void> {
  const listed = await runProgram('git', ['ls-files', '-z'], process.cwd());
  for (const file of listed.split('\0').filter((name) => name !== '')) {
    const isThere = await access(file).then(
      () => true,
      () => false,
    );
    if (isThere) await cp(file, join(folder, file), { recursive: true });
  }
}

/** The README's Redis listens on the default port. Where a Redis has it already, this one gets another port, as its page says. */
async function besideARedis(env: NodeJS.ProcessEnv) {
  if (await isFree(DEFAULT_PORT)) return { env, typed: (text: string) => text };
  const port = String(await freePort());
  return {
    env: { ...env, REDIS_URL: `redis://127.0.0.1:${port}` },
    typed: (text: string) => text.replaceAll('pushpacer dev', `pushpacer dev --redis-port ${port}`),
  };
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(false)).once('error', () => resolve(true));
    socket.once('connect', () => socket.destroy());
  });
}

/** What developers run takes long, and CI runs it. */
async function expectInCi(text: string): Promise<void> {
  const ci = await readFile('.ci/run', 'utf8');
  expect(ci).toContain('npm ci');
  expect(ci).toContain('for suite in test test:slow');
  expect(ci).toContain('npm run check');
  const commands = text.split('\n').map((line) => line.split('#')[0]?.trim());
  expect(commands.filter(Boolean)).toEqual(['npm ci && npm test', 'npm run test:slow', 'npm run check']);
}
