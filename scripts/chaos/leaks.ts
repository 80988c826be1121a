import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { StoredDeadLetter } from '../../src/queue/dead-letters.ts';
import { findLeaks, secretsOf, type Leak } from './secrets.ts';

export interface LeakSearch {
  /** Where the workers' output and pages were kept. */
  readonly folder: string;
  readonly marker: string;
  readonly env: Readonly<Record<string, string>>;
  readonly dead: readonly StoredDeadLetter[];
}

/** Searches everything that is shown for secrets: logs, pages, and dead letters without the notification itself. */
export async function searchForLeaks({ folder, marker, env, dead }: LeakSearch): Promise<Leak[]> {
  const secrets = await secretsOf(marker, env);
  const files = (await readdir(folder)).filter((name) => /\.(log|txt)$/.test(name));
  const leaks: Leak[] = [];
  for (const name of files) leaks.push(...findLeaks(name, await readFile(join(folder, name), 'utf8'), secrets));
  for (const { id, letter } of dead) {
    const said = [letter.reason, letter.message, ...letter.attempts.map(({ error }) => error)].join('\n');
    leaks.push(...findLeaks(`dead letter ${id}`, said, secrets));
  }
  return leaks;
}

const LISTING = fileURLToPath(new URL(`../dead-letters${extname(import.meta.url)}`, import.meta.url));

/** Writes the output of the command `dead-letters`, plain and as JSON, to a file. */
export async function saveListing(env: Readonly<Record<string, string>>, file: string): Promise<void> {
  const said = await Promise.all(
    [[], ['--json']].map((flags) =>
      promisify(execFile)(process.execPath, [LISTING, ...flags], {
        env: { ...process.env, ...env },
        maxBuffer: Infinity,
      }),
    ),
  );
  await writeFile(file, said.flatMap(({ stdout, stderr }) => [stdout, stderr]).join('\n'));
}
