import { existsSync, globSync } from 'node:fs';
import { copyFile, readFile, symlink, mkdir, writeFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { COMMANDS } from '../../../scripts/support/commands.ts';
import { runProgram, temporaryFolder } from '../../support/program.ts';
import { startProcess } from '../../support/process.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../../support/redis.ts';

interface Packed {
  readonly filename: string;
  readonly files: readonly { readonly path: string; readonly mode: number }[];
}

const ROOT = process.cwd();

test(
  'the packed package has what it needs, types included, and works where it is installed',
  { timeout: 600_000 },
  async () => {
    const consumer = await temporaryFolder();
    const answer = await runProgram('npm', ['pack', '--json', '--silent', '--pack-destination', consumer], ROOT);
    const [packed] = Object.values(JSON.parse(answer.slice(answer.search(/^[[{]/m))) as Record<string, Packed>);
    const paths = packed?.files.map(({ path }) => path) ?? [];
    expect(paths).toEqual(
      expect.arrayContaining([
        'LICENSE',
        'dist/src/dead-letters/discard.lua',
        'dist/sandbox/redis/redis-guardian.sh',
        'docs/notification.schema.json',
        'deploy/kubernetes/chart/templates/_helpers.tpl',
        'deploy/kubernetes/manifests/worker.yaml',
      ]),
    );
    expect(
      paths.filter((path) => /^(src|sandbox|test|scripts|demo|chaos|tools|bench|workers|node_modules)\//.test(path)),
    ).toEqual([]);
    expect(paths.filter((path) => /^dist\/(chaos|tools|test|bench|examples)\//.test(path))).toEqual([]);

    await writeFile(join(consumer, 'package.json'), '{ "type": "module", "private": true }');
    await runProgram(
      'npm',
      ['install', '--prefer-offline', '--no-audit', '--no-fund', packed?.filename ?? ''],
      consumer,
    );
    await copyFile(join(ROOT, 'test/house/fixtures/consumer.ts.txt'), join(consumer, 'consumer.ts'));

    await typeCheck(consumer);
    await expectLinksLeadSomewhere(join(consumer, 'node_modules/pushpacer'));

    const prefix = testPrefix();
    const args = ['consumer.ts', testRedisUrl(), prefix];
    const { stdout, stderr, code } = await startProcess({ args, cwd: consumer }).waitForExit();
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toEqual({
      kinds: ['admitted', 'reserved'],
      id: 'msg-8841',
      added: true,
      topic: 'dev.pushpacer.sandbox',
    });
    expect(code).toBe(0);
    expect(await connectRedis().exists(`${prefix}:notifications:msg-8841`)).toBe(1);

    const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
    const pushpacer = join(consumer, 'node_modules/.bin/pushpacer');
    expect(await runProgram(pushpacer, ['--version'], consumer)).toBe(`${version}\n`);
    const help = await runProgram(pushpacer, ['--help'], consumer);
    const commands = [...help.matchAll(/^ {2}([a-z-]+) {2,}/gm)].map(([, command]) => command ?? '');
    expect(commands).toEqual(Object.keys(COMMANDS));
    const description = pathToFileURL(join(consumer, 'node_modules/pushpacer/dist/api/openapi.js')).href;
    const print = `import { openApiDocument } from '${description}'; console.log(openApiDocument().openapi)`;
    expect(await runProgram('node', ['--input-type=module', '-e', print], consumer)).toBe('3.1.0\n');
    for (const served of [['console', '--port', '0'], ['serve']]) {
      const child = startProcess({
        args: [join(consumer, 'node_modules/pushpacer/dist/scripts/pushpacer.js'), ...served],
        env: { REDIS_URL: testRedisUrl(), QUEUE_PREFIX: testPrefix(), CONSOLE_PORT: '0', API_PORT: '0' },
        cwd: consumer,
      });
      const line = JSON.parse(await child.waitForLine(/console (is|are) ready/)) as { url?: string; console?: string };
      for (const path of ['/', '/assets/style.css', '/assets/console.js']) {
        expect([path, (await fetch(`${line.url ?? line.console ?? ''}${path}`)).status]).toEqual([path, 200]);
      }
      child.kill('SIGTERM');
      expect((await child.waitForExit()).code).toBe(0);
    }
    for (const command of commands) {
      expect(await runProgram(pushpacer, [command, '--help'], consumer)).toContain(`Usage: ${command}`);
    }
  },
);

/** Of every page: what it links to beside itself is packed too. */
async function expectLinksLeadSomewhere(folder: string): Promise<void> {
  const pages = globSync('{*,docs/**/*}.md', { cwd: folder });
  expect(pages).toEqual(expect.arrayContaining(['README.md', 'CHANGELOG.md', 'docs/errors.md']));
  const links: string[] = [];
  for (const page of pages) {
    const text = await readFile(join(folder, page), 'utf8');
    const targets = [...text.matchAll(/(?:\]\(|\b(?:src|href)=")([^)"\s]+)/g)].map(([, target = '']) => target);
    const beside = targets.filter((target) => !/^([a-z]+:|#)/.test(target));
    links.push(...beside.map((target) => join(dirname(page), target.replace(/#.*$/, ''))));
  }
  expect(links).toEqual(expect.arrayContaining(['examples/express.ts', 'docs/notification.schema.json']));
  expect(links.filter((path) => !existsSync(join(folder, path)))).toEqual([]);
}

/** As strictly as a user may: the packed types are checked too. */
async function typeCheck(consumer: string): Promise<void> {
  await mkdir(join(consumer, 'node_modules/@types'), { recursive: true });
  await symlink(join(ROOT, 'node_modules/@types/node'), join(consumer, 'node_modules/@types/node')).catch(
    (error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error; // it came with a dependency
    },
  );
  const flags = ['--target', 'es2024', '--types', 'node', '--strict', '--noEmit'];
  const exact = '--exactOptionalPropertyTypes';
  for (const more of [
    ['--module', 'nodenext', exact, 'true'],
    ['--module', 'nodenext', exact, 'false'],
    ['--module', 'esnext', '--moduleResolution', 'bundler'],
    // It does not know `exports`. Projects that have not moved on yet have it.
    ['--module', 'esnext', '--moduleResolution', 'node10', '--ignoreDeprecations', '6.0'],
  ]) {
    await runProgram('tsc', [...flags, ...more, 'consumer.ts'], consumer);
  }
}
