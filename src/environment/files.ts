import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Fault } from '../domain/faults.ts';
import type { Environment } from './values.ts';

export type Report = (path: string, expected: string, found: string) => void;

export function reporter(faults: Fault[]): Report {
  return (path, expected, found) => faults.push({ path, expected, found });
}

/**
 * The text of the file at `path`, which is the value of the variable `name`. Undefined if there is no path, or the file cannot
 * be read.
 */
export function readFile(name: string, path: string | undefined, report: Report): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    report(name, 'a file that can be read', `${pathText(path)} (${(error as NodeJS.ErrnoException).code})`);
    return undefined;
  }
}

/**
 * A key, from its variable or from the file that the variable `<variable>_FILE` names. `source` is the variable that was used.
 *
 * @param what kind of key it is: `the .p8 key`
 * @param service what needs the key: `APNs`
 */
export function readKey(
  variable: string,
  given: Environment,
  { what, service, report }: { what: string; service: string; report: Report },
): { readonly key: string; readonly source: string } | undefined {
  const fileVariable = `${variable}_FILE`;
  const { [variable]: own, [fileVariable]: file } = given;
  if (own !== undefined && file !== undefined) report(variable, `either ${variable} or ${fileVariable}`, 'both');
  const key = own ?? readFile(fileVariable, file, report);
  if (own === undefined && file === undefined) {
    report(fileVariable, `${what} (or ${variable}), since ${service} is configured`, 'nothing');
  }
  return key === undefined ? undefined : { key, source: own === undefined ? fileVariable : variable };
}

/** The certificate in the file at `path`, as PEM. Checked here, because TLS ignores any text that is no certificate. */
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

/** The private key in the file at `path`, as PEM. */
export function readPrivateKey(name: string, path: string | undefined, report: Report): string | undefined {
  const pem = readFile(name, path, report);
  if (pem === undefined) return undefined;
  if (isPrivateKey(pem)) return pem;
  report(name, 'a private key as PEM, without a password', 'something else');
  return undefined;
}

export function isPrivateKey(pem: string): boolean {
  try {
    createPrivateKey(pem);
    return true;
  } catch {
    return false;
  }
}

/** The path, if the value looks like a path: an operator may have set the variable to a key, or to a URL with a password. */
function pathText(path: string): string {
  const isPath = path.length <= 200 && !/[\n{]|-----BEGIN|:\/\/|^[A-Za-z0-9+/=_-]{60,}$/.test(path);
  return isPath ? JSON.stringify(path) : `a string of ${path.length} characters`;
}

/**
 * The JSON in the file at `path`, which is the value of the variable `name`. Undefined, with a report, if it cannot be read or
 * is not JSON.
 */
export function readJsonFile(name: string, path: string | undefined, report: Report): { value: unknown } | undefined {
  const text = readFile(name, path, report);
  if (text === undefined) return undefined;
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    // The parser's own message quotes the file's content. The file may be the wrong one, with a secret in it.
    const where = /line \d+ column \d+/.exec((error as Error).message)?.[0];
    report(name, 'JSON', where === undefined ? 'text that is not JSON' : `text that is not JSON at ${where}`);
    return undefined;
  }
}

/** The kind of a JSON value, without its content, which may be a secret in the wrong place. */
export function shapeOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'string') return `a string of ${value.length} characters`;
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

export interface FileWatch {
  /** Watches these files from now on, and calls `onChange` once soon, since they may have changed after they were read. */
  use(paths: readonly string[]): void;
  stop(): void;
}

/**
 * Calls `onChange` when one of the files has changed and then stayed the same for `everyMs` milliseconds, so that no file is
 * read while it is being written. It looks at the files every `everyMs`, because `fs.watch` reports neither a symbolic link
 * that now points elsewhere (Kubernetes changes mounted secrets in this way), nor files on some network file systems.
 */
export function watchFiles(onChange: () => void, everyMs = 2_000): FileWatch {
  let watched: readonly string[] = [];
  let handled = '';
  let seen = '';
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;

  async function look(): Promise<void> {
    const now = (await Promise.all(watched.map(stampOf))).join('\n');
    if (isStopped) return;
    const isNew = now !== handled && now === seen;
    seen = now;
    if (isNew) {
      handled = now;
      onChange();
    }
    timer = setTimeout(() => void look(), everyMs).unref();
  }

  timer = setTimeout(() => void look(), everyMs).unref();
  return {
    use(paths) {
      watched = [...new Set(paths)];
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

/** A text that changes with each change of the file, also if another file replaces it. */
async function stampOf(path: string): Promise<string> {
  try {
    const { mtimeNs, size, ino, dev } = await stat(path, { bigint: true });
    return [path, mtimeNs, size, ino, dev].join(' ');
  } catch (error) {
    return `${path} ${(error as NodeJS.ErrnoException).code}`;
  }
}
