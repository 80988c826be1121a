import { generateKeyPair, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';

const makeKeyPair = promisify(generateKeyPair);

/** A private key on P-256: PKCS#8 PEM. */
export async function makeSigningKey(): Promise<string> {
  return toPem((await makeKeyPair('ec', { namedCurve: 'P-256' })).privateKey);
}

/** An RSA private key: PKCS#8 PEM. */
export async function makeRsaKey(): Promise<string> {
  return toPem((await makeKeyPair('rsa', { modulusLength: 2048 })).privateKey);
}

function toPem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }) as string;
}
