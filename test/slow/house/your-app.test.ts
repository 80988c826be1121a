import { readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';

const ROOT = process.cwd();

/** `'from' → 'to'`, which must be there once. */
function replaced(text: string, from: string, to: string): string {
  expect(text.split(from)).toHaveLength(2);
  return text.replace(from, to);
}

test("the example of a user's tests passes, as a user runs it but against the sources", async () => {
  const folder = await temporaryFolder();
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const source = await readFile('examples/your-app.test.ts', 'utf8');
  const pathOf = (file: string): string => JSON.stringify(join(ROOT, file));
  const withPackage = replaced(source, "'pushpacer'", pathOf('src/index.ts'));
  const withSandbox = replaced(withPackage, "'pushpacer/sandbox'", pathOf('sandbox/index.ts'));
  const code = replaced(withSandbox, "'node_modules/.bin/pushpacer'", pathOf('scripts/pushpacer.ts'));
  await writeFile(join(folder, 'your-app.test.ts'), code);

  const args = ['node_modules/vitest/vitest.mjs', 'run', '--root', folder];
  const env = { NO_COLOR: '1', VITEST: undefined, VITEST_POOL_ID: undefined, VITEST_WORKER_ID: undefined };
  const { code: exitCode, stdout, stderr } = await startProcess({ args, env }).waitForExit(50_000);
  expect(stderr).toBe('');
  expect(stdout).toMatch(/Tests\s+3 passed \(3\)/);
  expect(exitCode).toBe(0);
});
