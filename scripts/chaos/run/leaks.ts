import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { StoredDeadLetter } from '../../../src/dead-letters/store.ts';

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

const LISTING = fileURLToPath(new URL(`../../dead-letters${extname(import.meta.url)}`, import.meta.url));

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

/** A text that must not appear anywhere, and its name for the report. */
export interface Secret {
  readonly name: string;
  readonly pattern: RegExp;
}

export interface Leak {
  readonly where: string;
  readonly name: string;
  readonly times: number;
}

/** A variable with the file of a key. */
const KEY_VARIABLE = /_KEY_FILE$|_CREDENTIALS$/;
/** A line of a key in PEM: 64 characters of base64. */
const KEY_LINE = /[A-Za-z0-9+/=]{40,}/g;

/** The marker in this run's tokens and texts, the lines of the keys, and patterns of credentials. */
export async function secretsOf(marker: string, env: Readonly<Record<string, string>>): Promise<Secret[]> {
  const keys = await Promise.all(
    Object.entries(env)
      .filter(([name]) => KEY_VARIABLE.test(name))
      .map(async ([name, file]) => {
        const text = await readFile(file, 'utf8');
        const lines = text.replaceAll('\\n', '\n').match(KEY_LINE) ?? [];
        return { name: `the key of ${name}`, pattern: new RegExp(lines.map(escaped).join('|'), 'g') };
      }),
  );
  return [
    { name: 'a token or a text', pattern: new RegExp(marker, 'gi') },
    ...keys,
    { name: 'a bearer token', pattern: /bearer\s+\S/gi },
    { name: 'a JWT', pattern: /\beyJ[\w-]{8,}\.[\w-]{8,}\./g },
  ];
}

/** How often each secret appears in a text, without the secret itself. */
export function findLeaks(where: string, text: string, secrets: readonly Secret[]): Leak[] {
  return secrets
    .map(({ name, pattern }) => ({ where, name, times: text.match(pattern)?.length ?? 0 }))
    .filter(({ times }) => times > 0);
}

/** `+` is the only character of base64 with a meaning in a regular expression. */
function escaped(base64: string): string {
  return base64.replaceAll('+', '\\+');
}
