import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startProcess } from '../support/process.ts';

test('what an app imports loads no package of a provider, an HTTP server or a worker', async () => {
  const hooks = `
    import { registerHooks } from 'node:module';
    const load = (url, context, next) => {
      console.log(/node_modules\\/((@[^/]+\\/)?[^/]+)/.exec(url)?.[1] ?? url);
      return next(url, context);
    };
    registerHooks({ load });
    await import(process.argv[1]);`;
  const args = ['--input-type=module', '-e', hooks, join(process.cwd(), 'src/index.ts')];
  const { stdout } = await startProcess({ args }).waitForExit();
  const loaded = new Set(stdout.split('\n'));
  const { dependencies } = JSON.parse(await readFile('package.json', 'utf8')) as { dependencies: object };
  expect(Object.keys(dependencies).filter((name) => loaded.has(name))).toEqual(['bullmq', 'ioredis', 'zod']);
});
