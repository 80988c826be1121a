import { X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { ServerKey } from '../server-kind.ts';
import { makeAuthority, type Certificate } from './certificates.ts';

/** An authority that is valid for less than this is replaced. */
const LEAST_LEFT_MS = 86_400_000;

/** A directory for key files: the given one, which stays, or a new one, which `remove` deletes. */
export interface KeyDirectory {
  /** Absolute. */
  readonly path: string;
  remove(): Promise<void>;
}

export async function openKeyDirectory(path: string | undefined): Promise<KeyDirectory> {
  if (path !== undefined) {
    await mkdir(path, { recursive: true });
    return { path: resolve(path), remove: () => Promise.resolve() };
  }
  const made = await mkdtemp(join(tmpdir(), 'pushpacer-sandbox-'));
  return { path: made, remove: () => rm(made, { recursive: true, force: true }) };
}

/** The path of the certificate that workers trust. */
export function caFileIn(directory: string): string {
  return join(directory, 'ca.pem');
}

function caKeyFileIn(directory: string): string {
  return join(directory, 'ca-key.pem');
}

/**
 * What signs the servers' certificates: that of an earlier sandbox in the directory, so that a worker trusts the next one too,
 * or a new one.
 */
export async function readAuthority(directory: string, nowMs: number): Promise<Certificate> {
  const [cert, key] = await Promise.all([caFileIn(directory), caKeyFileIn(directory)].map(readIfThere));
  if (cert === undefined || key === undefined) return makeAuthority(nowMs);
  const isUsable = new X509Certificate(cert).validToDate.getTime() > nowMs + LEAST_LEFT_MS;
  return isUsable ? { cert, key } : makeAuthority(nowMs);
}

export async function writeAuthority(directory: string, { cert, key }: Certificate): Promise<void> {
  await writePrivateFile(caFileIn(directory), cert);
  await writePrivateFile(caKeyFileIn(directory), key);
}

/** The key of an earlier sandbox in the directory, or a new one: PKCS#8 PEM. */
export async function readKey(directory: string, { file, make, format }: ServerKey): Promise<string> {
  const text = await readIfThere(join(directory, file));
  return text === undefined ? make() : (format?.read(text) ?? text);
}

/** Writes the file that a worker reads. @param url the server's */
export function writeKey(
  directory: string,
  { file, format }: ServerKey,
  { key, url }: { readonly key: string; readonly url: string },
): Promise<void> {
  return writePrivateFile(join(directory, file), format?.write(key, url) ?? key);
}

/** Writes a file that only its owner can read. Atomic: a reader sees the old file or the new one, never half of it. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${crypto.randomUUID()}`;
  await writeFile(draft, text, { mode: 0o600, flag: 'wx' });
  await rename(draft, path);
}

function readIfThere(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return undefined;
  });
}
