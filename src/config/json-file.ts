import { readFile, type Report } from '../environment/files.ts';

/** The JSON in the file at `path`, the value of the variable `name`. Undefined, and reported, if it cannot be read or is not JSON. */
export function readJsonFile(name: string, path: string | undefined, report: Report): { value: unknown } | undefined {
  const text = readFile(name, path, report);
  if (text === undefined) return undefined;
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    // The parser's own message would quote the file's content, and somebody may have given the path of a secret file.
    const where = /line \d+ column \d+/.exec((error as Error).message)?.[0];
    report(name, 'JSON', where === undefined ? 'text that is not JSON' : `text that is not JSON at ${where}`);
    return undefined;
  }
}

/** What kind of JSON value it is, without any text of it: it may be a secret in the wrong place. */
export function shapeOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'string') return `a string of ${value.length} characters`;
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
