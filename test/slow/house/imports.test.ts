import { readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startProcess } from '../../support/process.ts';
import { folderOf } from '../../support/program.ts';

/** A project with these sources, and this repository's packages. */
async function projectOf(sources: Readonly<Record<string, string>>): Promise<string> {
  const root = await folderOf({ ...sources, 'package.json': await readFile('package.json', 'utf8') });
  await symlink(join(process.cwd(), 'node_modules'), join(root, 'node_modules'));
  return root;
}

async function checkImports(root: string): Promise<{ code: number | null; lines: string[] }> {
  const { code, stdout } = await startProcess({
    args: ['tools/check-imports.ts', '--root', root],
  }).waitForExit();
  return { code, lines: stdout.trim().split('\n') };
}

/** Files that break no rule, but are imported by those that do. */
const GOOD = {
  'src/domain/word.ts': 'export type Word = string;',
  'src/providers/registry.ts': 'export {};',
  'src/limiter/redis/redis-limiter.ts': "import type { Word } from '../../domain/word.ts';\nexport type L = Word;",
  'src/queue/names.ts': "export const QUEUE = 'notifications';",
  'src/dead-letters/store.ts': "import '../queue/names.ts';",
  'src/delivery/deliver.ts': "import type { Word } from '../domain/word.ts';\nexport type Parts = Word;",
  'workers/worker.ts': "import '../src/limiter/redis/redis-limiter.ts';",
  'test/helper.ts': 'export {};',
};

/** A rule, a file that breaks it, and what that file imports. */
const BREAKING = [
  ['domain-only-imports-itself', 'src/domain/up.ts', '../delivery/deliver.ts'],
  ['devices-only-import-zod', 'src/notification/devices/sms/fields.ts', '../../../domain/word.ts'],
  ['queue-only-imports-domain-notification-redis', 'src/queue/sideways.ts', '../limiter/redis/redis-limiter.ts'],
  ['queue-only-imports-domain-notification-redis', 'src/queue/up.ts', '../dead-letters/store.ts'],
  ['dead-letters-only-imports-domain-notification-redis-queue', 'src/dead-letters/up.ts', '../delivery/deliver.ts'],
  ['src-stands-alone', 'src/observe/root.ts', '../../workers/worker.ts'],
  ['every-folder-of-src-has-a-floor', 'src/misc/homeless.ts', '../domain/word.ts'],
  ['concrete-parts-only-in-composition-roots', 'src/delivery/concrete.ts', '../limiter/redis/redis-limiter.ts'],
  ['concrete-parts-only-in-composition-roots', 'src/delivery/created.ts', '../providers/registry.ts'],
  ['one-home-for-each-client', 'src/limiter/client.ts', 'ioredis'],
  ['no-cycles', 'src/delivery/a.ts', './a.ts'],
  ['everything-resolves', 'src/delivery/lost.ts', './nowhere.ts'],
  ['published-code-needs-no-dev-dependency', 'scripts/developing.ts', 'vitest'],
  ['what-is-published-needs-no-tool-test-or-bench', 'scripts/published.ts', '../test/helper.ts'],
] as const;

test('every rule of the layout finds what breaks it', async () => {
  const breaking = Object.fromEntries(BREAKING.map(([, file, imported]) => [file, `import '${imported}';`] as const));
  const { code, lines } = await checkImports(await projectOf({ ...GOOD, ...breaking }));
  expect(code).toBe(1);
  for (const [rule, file] of BREAKING) {
    expect(lines).toContainEqual(expect.stringMatching(`^${rule}: ${file.replaceAll('.', String.raw`\.`)} imports `));
  }
});

test('a run that saw no imports is a fault, not a pass', async () => {
  const { code, lines } = await checkImports(await projectOf({ 'src/domain/alone.ts': 'export type Alone = string;' }));
  expect(lines).toEqual(['expected imports to look at, found none', '1 modules, 0 imports, 1 faults']);
  expect(code).toBe(1);
});
