import { generateKeyPair, X509Certificate, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import { makeAuthority, type Certificate } from './certificates.ts';

/** The keys that the next sandbox in the same folder uses again, so that a worker trusts it too. */
export interface SandboxKeys {
  /** Signs both servers' certificates. */
  readonly authority: Certificate;
  /** The key of provider tokens, as APNs hands it out: PKCS#8 PEM, P-256. */
  readonly apnsKey: string;
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
  const [authority, provider, account] = await Promise.all([
    makeAuthority(nowMs),
    makeKeyPair('ec', { namedCurve: 'P-256' }),
    accountKey,
  ]);
  return { authority, apnsKey: toPem(provider.privateKey), serviceAccountKey: toPem(account.privateKey) };
}

/** Whether the authority can sign for some time yet. */
export function isUsable({ authority }: SandboxKeys, nowMs: number): boolean {
  return new X509Certificate(authority.cert).validToDate.getTime() > nowMs + LEAST_LEFT_MS;
}

function toPem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }) as string;
}
