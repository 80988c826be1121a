import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Fault } from '../domain/faults.ts';

export type Report = (path: string, expected: string, found: string) => void;

export function reporter(faults: Fault[]): Report {
  return (path, expected, found) => faults.push({ path, expected, found });
}

/** The text of the file at `path`, the value of the variable `name`. Undefined if there is none or it cannot be read. */
export function readFile(name: string, path: string | undefined, report: Report): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    report(name, 'a file that can be read', `${pathText(path)} (${(error as NodeJS.ErrnoException).code})`);
    return undefined;
  }
}

/** The same for a certificate, as PEM. TLS would take any text, and then trust nothing more. */
export function readCertificate(name: string, path: string | undefined, report: Report): string | undefined {
  const pem = readFile(name, path, report);
  if (pem === undefined) return undefined;
  try {
    new X509Certificate(pem);
    return pem;
  } catch {
    report(name, 'a certificate as PEM', 'something else');
    return undefined;
  }
}

/** Shows only what looks like a path: somebody may have set the variable to the key itself, or to a URL with a password. */
function pathText(path: string): string {
  const isPath = path.length <= 200 && !/[\n{]|-----BEGIN|:\/\/|^[A-Za-z0-9+/=_-]{60,}$/.test(path);
  return isPath ? JSON.stringify(path) : `a string of ${path.length} characters`;
}
