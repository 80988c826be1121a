import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EARLIER, linkPackages, unpackVersion } from '../../chaos/pairs/earlier.ts';
import { temporaryFolder } from './program.ts';

// Workers of other versions than the one that is tested. Each function answers the path of a worker's program.

/** The package of an earlier version, which reads and writes what was stored before formats had a number. */
export async function earlierVersion(): Promise<string> {
  return unpackVersion(EARLIER, await temporaryFolder());
}

/** What the next version could change: it knows format 2 of two things, and writes one of them in it. */
const CHANGES: readonly (readonly [file: string, before: string, after: string])[] = [
  ['src/domain/format.ts', "'job data': 1,", "'job data': 2,"],
  ['src/domain/format.ts', "'job progress': 1,", "'job progress': 2,"],
  ['src/notification/schema.ts', '\n  id: ', '\n  format: z.literal(2).optional(),\n  id: '],
  [
    'src/queue/job-lock.ts',
    'progress: JSON.stringify(progress)',
    'progress: JSON.stringify({ ...progress, format: 2 })',
  ],
];

/** The present sources with those changes. Notifications of the next version have `format: 2`. */
export async function nextVersion(): Promise<string> {
  const folder = await temporaryFolder();
  for (const name of ['src', 'workers', 'scripts', 'package.json'])
    await cp(name, join(folder, name), { recursive: true });
  await linkPackages(folder);
  for (const [name, before, after] of CHANGES) {
    const file = join(folder, name);
    const text = await readFile(file, 'utf8');
    if (text.split(before).length !== 2) throw new Error(`${name}: expected "${before}" once`);
    await writeFile(file, text.replace(before, after));
  }
  return join(folder, 'workers/notifications.ts');
}
