import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { StoredDeadLetter } from '../../src/dead-letters/store.ts';
import { findLeaks, secretsOf, type Leak } from './secrets.ts';

export interface LeakSearch {
  /** Where the workers' output and pages were kept. */
  readonly folder: string;
  readonly marker: string;
  readonly env: Readonly<Record<string, string>>;
  readonly dead: readonly StoredDeadLetter[];
}

/** Looks for secrets in all that is shown: logs, pages, and what dead letters say beside the notification itself. */
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

/** Keeps what the command `dead-letters` says, for a person and for a program. */
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
