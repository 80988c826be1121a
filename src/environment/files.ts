import { readFileSync } from 'node:fs';
import type { Fault } from '../domain/faults.ts';

export type Report = (path: string, expected: string, found: string) => void;

export function reporter(faults: Fault[]): Report {
  return (path, expected, found) => faults.push({ path, expected, found });
}

/** The text of the file that the variable `name` tells; undefined where it tells none, or one that cannot be read. */
export function readFile(name: string, path: string | undefined, report: Report): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    report(name, 'a file that can be read', `${pathText(path)} (${(error as NodeJS.ErrnoException).code})`);
    return undefined;
  }
}

/** A key in place of a path must not be told, whether as PEM, as JSON or as bare base64, nor an address with a password. */
function pathText(path: string): string {
  const isPath = path.length <= 200 && !/[\n{]|-----BEGIN|:\/\/|^[A-Za-z0-9+/=_-]{60,}$/.test(path);
  return isPath ? JSON.stringify(path) : `a string of ${path.length} characters`;
}
