import { copyFile, cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { expect, it } from 'vitest';
import { CONFIG_VARIABLES } from '../../../src/config/variables.ts';
import { freePort } from '../../../sandbox/redis/embedded-redis.ts';
import { temporaryFolder } from '../../support/program.ts';
import { startShell, userEnvironment, type Shell } from '../../support/shell.ts';
import { waitFor } from '../../support/wait.ts';

const ROOT = process.cwd();
/** A fenced block and what the comment above it says of it: `<!-- test: run {"added":true} -->` */
const BLOCK = /^(?:<!-- test: (\S+) ?(.*) -->\n\n)?```(sh|js|ini)\n([^]*?)^```$/gm;

interface Block {
  readonly verb: string;
  readonly rest: string;
  readonly code: string;
}

it(
  'docs/getting-started.md works as typed, in a fresh folder from the packed package',
  { timeout: 600_000 },
  async () => {
    const [redis, app, metrics] = [await freePort(), await freePort(), await freePort()];
    const ports = { 6379: redis, 3000: app, 9464: metrics, 'pushpacer dev': `pushpacer dev --redis-port ${redis}` };
    const [clone, folder] = await projects();
    const env = { ...userEnvironment(), REDIS_URL: `redis://127.0.0.1:${redis}`, METRICS_PORT: String(metrics) };
    const start = async (cwd: string, code: string, text: string): Promise<Shell> => {
      const shell = startShell(code, { cwd, env });
      await shell.until(new RegExp(text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)));
      return shell;
    };
    const run = async (cwd: string, code: string): Promise<string> => {
      const shell = startShell(`set -e\n${code}`, { cwd, env });
      expect(await shell.ended, shell.output()).toBe(0);
      return shell.output();
    };
    const left: string[] = [];
    let dev: Shell | undefined;
    let sandbox: Shell | undefined;
    for (const { verb, rest, code: written } of await blocksOf('docs/getting-started.md')) {
      const code = Object.entries(ports).reduce((text, [port, own]) => text.replaceAll(port, String(own)), written);
      if (verb === 'clone') {
        await run(clone, code.replace('npm ci\n', '')); // the packages are linked
      } else if (verb === 'install' || verb === 'run') {
        expect(await run(folder, code)).toContain(rest);
      } else if (verb === 'background') {
        if (code.includes('pushpacer redis')) {
          dev?.interrupt();
          await dev?.ended;
        }
        if (code.includes('pushpacer worker')) {
          sandbox = await start(folder, 'npx pushpacer sandbox --dir .sandbox', 'FCM_ENDPOINT');
          await copyFile(join(folder, '.sandbox/sandbox.env'), join(folder, '.env')); // in place of real credentials
        }
        const terminal = await start(folder, code, rest.replaceAll('"', '').replace('6379', String(redis)));
        if (code.includes('pushpacer dev')) dev = terminal;
      } else if (verb === 'app.js') {
        await writeFile(join(folder, 'app.js'), code);
      } else if (verb === 'env') {
        expectVariables(code);
      } else left.push(verb);
    }
    expect(left).toEqual(['docker', 'docker']);
    // The alerts of the app, and the one that the command enqueued, by the beginning of their tokens.
    await waitFor(() => expect(sandbox?.output()).toMatch(/apns.* 00fc/));
    expect(dev?.output()).toMatch(/fcm.* a-re/);
    for (const { verb, code } of await blocksOf('docs/upgrading.md')) {
      expect(verb).toBe('run');
      await run(folder, code);
    }
  },
);

async function blocksOf(page: string): Promise<Block[]> {
  const found = [...(await readFile(page, 'utf8')).matchAll(BLOCK)];
  expect(found.length).toBeGreaterThan(0);
  return found.map(([, verb = 'untold', rest = '', , code = '']) => ({ verb, rest, code }));
}

/** A clone without its history, and an app beside it that has Express. */
async function projects(): Promise<[clone: string, app: string]> {
  const parent = await temporaryFolder();
  const [clone, app] = [join(parent, 'pushpacer'), join(parent, 'app')];
  const isLeftOut = (path: string) => /(^|\/)node_modules(\/|$)|^(dist|\.git)(\/|$)/.test(relative(ROOT, path));
  await cp(ROOT, clone, { recursive: true, filter: (path) => !isLeftOut(path) });
  await symlink(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  await mkdir(app);
  const { dependencies } = JSON.parse(await readFile('test/slow/package.json', 'utf8')) as { dependencies: object };
  const express = Object.fromEntries(Object.entries(dependencies).filter(([name]) => name === 'express'));
  await writeFile(join(app, 'package.json'), JSON.stringify({ type: 'module', private: true, dependencies: express }));
  return [clone, app];
}

/** Variables of the page exist. Their values are a user's own. */
function expectVariables(code: string): void {
  const names = [...code.matchAll(/^([A-Z_]+)=\S+$/gm)].map(([, name]) => name ?? '');
  expect(names.length).toBeGreaterThan(0);
  const known = CONFIG_VARIABLES.map(({ name }) => name);
  expect(known).toEqual(expect.arrayContaining(names));
}
