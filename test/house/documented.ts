import { readFile } from 'node:fs/promises';
import { expect } from 'vitest';

const PAGE = 'docs/commands.md';

interface Documented {
  readonly field: string;
  /** Whether an answer may lack it. */
  readonly isOptional: boolean;
}

/** The fields of the JSON of a command, as the page has them. */
async function documented(command: string): Promise<Documented[]> {
  const text = await readFile(PAGE, 'utf8');
  const [, section = ''] = text.split(`\n## \`${command}\`\n`);
  const rows = [...(section.split('\n## ')[0] ?? '').matchAll(/^\| `([^`]+)` +\| ([^|]+)\| ([^|]+)\|$/gm)];
  return rows.map(([, field = '', , meaning = '']) => ({
    field,
    isOptional: meaning.includes('absent') || /[A-Z]{2,}|\*/.test(field),
  }));
}

/** `deadLetters[].attempts[].at`: the path of every value that is not an object. */
function fieldsOf(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((each) => fieldsOf(each, `${path}[]`));
  if (typeof value !== 'object' || value === null) return [path];
  return Object.entries(value).flatMap(([name, each]) => fieldsOf(each, path === '' ? name : `${path}.${name}`));
}

/** Every field is on the page, and every field of the page is in one of the answers, but for those that may be absent. */
export async function expectDocumented(command: string, ...answers: readonly unknown[]): Promise<void> {
  const rows = await documented(command);
  expect(rows.length, `the fields of ${command} on ${PAGE}`).toBeGreaterThan(0);
  const found = new Set(answers.flatMap((answer) => fieldsOf(answer)));
  // A name in capitals stands for any: byReason.REASON.
  const patterns = rows.map(({ field }) => {
    const escaped = field.replaceAll(/[.[\]]/g, '\\$&');
    return new RegExp(`^${escaped.replace(/[A-Z]{2,}/, '[^.]+').replace('*', '.+')}$`);
  });
  expect([...found].filter((field) => !patterns.some((pattern) => pattern.test(field)))).toEqual([]);
  const missing = rows.filter(
    ({ isOptional }, at) => !isOptional && ![...found].some((field) => patterns[at]?.test(field)),
  );
  expect(missing).toEqual([]);
}
