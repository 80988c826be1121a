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

const GOOD = {
  'src/index.ts': "export { RedisLimiter } from './limiter/redis/redis-limiter.ts';",
  'src/domain/word.ts': 'export type Word = string;',
  'src/notification/notification.ts': "import './devices/devices.ts';",
  'src/notification/devices/devices.ts': "import './apns/fields.ts';",
  'src/notification/devices/apns/fields.ts': "import 'zod';",
  'src/limiter/limiter.ts':
    "import type { Word } from '../domain/word.ts';\nexport interface Limiter { admit(word: Word): void }",
  'src/redis/connection.ts': "import { Redis } from 'ioredis';\nexport const connect = () => new Redis();",
  'src/limiter/redis/redis-limiter.ts': "import '../../redis/connection.ts';\nexport class RedisLimiter {}",
  'src/queue/names.ts': "export const QUEUE = 'notifications';",
  'src/dead-letters/store.ts': "import '../queue/names.ts';",
  'src/delivery/deliver.ts':
    "import type { Limiter } from '../limiter/limiter.ts';\nexport type Parts = { limiter: Limiter };",
  'workers/worker.ts': "import { RedisLimiter } from '../src/limiter/redis/redis-limiter.ts';\nnew RedisLimiter();",
};

test('every rule of the layout finds what breaks it', async () => {
  const { code, lines } = await checkImports(
    await projectOf({
      ...GOOD,
      'src/domain/up.ts': "import '../delivery/deliver.ts';",
      'src/domain/providers.ts': "import '../providers/registry.ts';",
      'src/providers/registry.ts': 'export {};',
      'src/notification/devices/sms/fields.ts': "import '../../../domain/time.ts';",
      'src/domain/time.ts': 'export {};',
      'src/queue/sideways.ts':
        "import type { RedisLimiter } from '../limiter/redis/redis-limiter.ts';\nexport type L = RedisLimiter;",
      'src/queue/up.ts': "import '../dead-letters/store.ts';",
      'src/dead-letters/sideways.ts': "import '../delivery/deliver.ts';",
      'src/limiter/client.ts': "import { Redis } from 'ioredis';\nnew Redis();",
      'src/observe/root.ts': "import '../../workers/worker.ts';",
      'src/misc/homeless.ts': "import '../domain/word.ts';",
      'src/delivery/concrete.ts':
        "import { RedisLimiter } from '../limiter/redis/redis-limiter.ts';\nnew RedisLimiter();",
      'src/delivery/created.ts': "import '../providers/registry.ts';",
      'src/delivery/client.ts': "import { Redis } from 'ioredis';\nnew Redis();",
      'src/delivery/a.ts': "import './b.ts';",
      'src/delivery/b.ts': "import './a.ts';",
      'src/delivery/lost.ts': "import './nowhere.ts';",
      'scripts/published.ts': "import 'vitest';\nimport '../test/helper.ts';",
      'test/helper.ts': 'export {};',
    }),
  );
  expect(code).toBe(1);
  for (const fault of [
    /^domain-only-imports-itself: src\/domain\/up\.ts imports src\/delivery\/deliver\.ts$/,
    /^domain-only-imports-itself: src\/domain\/providers\.ts imports src\/providers\/registry\.ts$/,
    /^devices-only-import-zod: src\/notification\/devices\/sms\/fields\.ts imports src\/domain\/time\.ts$/,
    /^queue-only-imports-domain-notification-redis: src\/queue\/sideways\.ts imports src\/limiter\/redis\/redis-limiter\.ts$/,
    /^queue-only-imports-domain-notification-redis: src\/queue\/up\.ts imports src\/dead-letters\/store\.ts$/,
    /^dead-letters-only-imports-domain-notification-redis-queue: src\/dead-letters\/sideways\.ts imports src\/delivery\/deliver\.ts$/,
    /^src-stands-alone: src\/observe\/root\.ts imports workers\/worker\.ts$/,
    /^every-folder-of-src-has-a-floor: src\/misc\/homeless\.ts imports src\/domain\/word\.ts$/,
    /^concrete-parts-only-in-composition-roots: src\/delivery\/concrete\.ts imports src\/limiter\/redis\/redis-limiter\.ts$/,
    /^concrete-parts-only-in-composition-roots: src\/delivery\/created\.ts imports src\/providers\/registry\.ts$/,
    /^one-home-for-each-client: src\/delivery\/client\.ts imports .*node_modules\/ioredis\//,
    /^one-home-for-each-client: src\/limiter\/client\.ts imports .*node_modules\/ioredis\//,
    /^no-cycles: src\/delivery\/[ab]\.ts imports src\/delivery\/[ab]\.ts$/,
    /^everything-resolves: src\/delivery\/lost\.ts imports \.\/nowhere\.ts$/,
    /^published-code-needs-no-dev-dependency: scripts\/published\.ts imports .*node_modules\/vitest\//,
    /^what-is-published-needs-no-tool-test-or-bench: scripts\/published\.ts imports test\/helper\.ts$/,
  ]) {
    expect(lines).toContainEqual(expect.stringMatching(fault));
  }
});

test('a run that saw no imports is a fault, not a pass', async () => {
  const { code, lines } = await checkImports(await projectOf({ 'src/domain/alone.ts': 'export type Alone = string;' }));
  expect(lines).toEqual(['expected imports to look at, found none', '1 modules, 0 imports, 1 faults']);
  expect(code).toBe(1);
});
