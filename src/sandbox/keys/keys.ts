import { generateKeyPair, X509Certificate, type KeyObject } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { makeAuthority, type Certificate } from './certificates.ts';

/** The keys that the next sandbox in the same folder uses again, so that a worker trusts it too. */
export interface SandboxKeys {
  /** Signs the servers' certificates. */
  readonly authority: Certificate;
  /** The key of provider tokens, as APNs hands it out: PKCS#8 PEM, P-256. */
  readonly apnsKey: string;
  /** The VAPID key of web push: PKCS#8 PEM, P-256. */
  readonly vapidKey: string;
  /** The service account's RSA key: PKCS#8 PEM. */
  readonly serviceAccountKey: string;
}

const makeKeyPair = promisify(generateKeyPair);
/** All sandboxes of a process share it: it takes the longest to make, and no client signs in with it. */
let accountKey: Promise<{ privateKey: KeyObject }> | undefined;
/** An authority that is valid for less than this is replaced. */
const LEAST_LEFT_MS = 86_400_000;

export async function makeKeys(nowMs: number): Promise<SandboxKeys> {
  accountKey ??= makeKeyPair('rsa', { modulusLength: 2048 });
  const [authority, apnsKey, vapidKey, account] = await Promise.all([
    makeAuthority(nowMs),
    makeSigningKey(),
    makeSigningKey(),
    accountKey,
  ]);
  return { authority, apnsKey, vapidKey, serviceAccountKey: toPem(account.privateKey) };
}

async function makeSigningKey(): Promise<string> {
  return toPem((await makeKeyPair('ec', { namedCurve: 'P-256' })).privateKey);
}

/** Whether the authority can sign for some time yet. */
export function isUsable({ authority }: SandboxKeys, nowMs: number): boolean {
  return new X509Certificate(authority.cert).validToDate.getTime() > nowMs + LEAST_LEFT_MS;
}

function toPem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }) as string;
}

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

/** The path of each key file; all absolute. */
export interface KeyFiles {
  readonly ca: string;
  readonly caKey: string;
  readonly apnsKey: string;
  readonly vapidKey: string;
  readonly serviceAccount: string;
}

export function keyFilesIn(dir: string): KeyFiles {
  return {
    ca: join(dir, 'ca.pem'),
    caKey: join(dir, 'ca-key.pem'),
    apnsKey: join(dir, 'apns-key.p8'),
    vapidKey: join(dir, 'vapid-key.pem'),
    serviceAccount: join(dir, 'service-account.json'),
  };
}

/** The keys of an earlier sandbox; undefined if one of the files is missing. A folder of before web push has no VAPID key yet. */
export async function readKeys(files: KeyFiles): Promise<SandboxKeys | undefined> {
  const paths = [files.ca, files.caKey, files.apnsKey, files.serviceAccount, files.vapidKey];
  const texts = await Promise.all(paths.map((path) => readFile(path, 'utf8').catch(missing)));
  const [cert, key, apnsKey, account, vapidKey = await makeSigningKey()] = texts;
  if (cert === undefined || key === undefined || apnsKey === undefined || account === undefined) return undefined;
  const { private_key: serviceAccountKey } = JSON.parse(account) as { private_key: string };
  return { authority: { cert, key }, apnsKey, vapidKey, serviceAccountKey };
}

/** Writes the keys, and a service account in Google's format. Only their owner can read the files. */
export async function writeKeys(
  files: KeyFiles,
  keys: SandboxKeys,
  account: { readonly projectId: string; readonly tokenUri: string },
): Promise<void> {
  const { projectId, tokenUri } = account;
  const serviceAccount = {
    type: 'service_account',
    project_id: projectId,
    private_key_id: '1',
    private_key: keys.serviceAccountKey,
    client_email: `worker@${projectId}.iam.gserviceaccount.com`,
    client_id: '1',
    token_uri: tokenUri,
  };
  await writePrivateFile(files.ca, keys.authority.cert);
  await writePrivateFile(files.caKey, keys.authority.key);
  await writePrivateFile(files.apnsKey, keys.apnsKey);
  await writePrivateFile(files.vapidKey, keys.vapidKey);
  await writePrivateFile(files.serviceAccount, `${JSON.stringify(serviceAccount, null, 2)}\n`);
}

/** Writes a file that only its owner can read. Atomic: a reader sees the old file or the new one, never half of it. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${crypto.randomUUID()}`;
  await writeFile(draft, text, { mode: 0o600, flag: 'wx' });
  await rename(draft, path);
}

function missing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
