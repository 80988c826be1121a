import { generateKeyPair, type KeyObject } from 'node:crypto';
import { isIP } from 'node:net';
import { promisify } from 'node:util';
import { generate } from 'selfsigned';

/** A private key and the certificate that goes with it, both PEM. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

const DAY_MS = 86_400_000;
const P256 = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;

/** A new certificate authority, valid for a year, and since yesterday, because a container's clock may be a little behind. */
export async function makeAuthority(nowMs: number): Promise<Certificate> {
  const made = await generate([{ name: 'commonName', value: 'pushpacer sandbox CA' }], {
    ...P256,
    ...validity(nowMs),
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  return { key: made.private, cert: made.cert };
}

/** A server certificate for host names and IP addresses, signed by the authority; self-signed without one. */
export async function signCertificate(
  authority: Certificate | undefined,
  names: readonly string[],
  nowMs: number,
): Promise<Certificate> {
  const made = await generate([{ name: 'commonName', value: names[0] ?? 'localhost' }], {
    ...P256,
    ...validity(nowMs),
    ...(authority === undefined ? {} : { ca: authority }),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: names.map((name) => (isIP(name) === 0 ? { type: 2, value: name } : { type: 7, ip: name })),
      },
    ],
  });
  return { key: made.private, cert: made.cert };
}

/** What can be wrong with a certificate. */
export const CERTIFICATE_FAULTS = ['other-authority', 'self-signed', 'wrong-name', 'expired'] as const;
export type CertificateFault = (typeof CERTIFICATE_FAULTS)[number];

/** A certificate with this fault, which a client of a server with these names must not accept. */
export async function faultyCertificate(
  authority: Certificate,
  names: readonly string[],
  fault: CertificateFault,
  nowMs: number,
): Promise<Certificate> {
  switch (fault) {
    case 'other-authority':
      return signCertificate(await makeAuthority(nowMs), names, nowMs);
    case 'self-signed':
      return signCertificate(undefined, names, nowMs);
    case 'wrong-name':
      return signCertificate(authority, ['push.example'], nowMs);
    case 'expired':
      return signCertificate(authority, names, nowMs - 366 * DAY_MS);
  }
}

function validity(nowMs: number) {
  return { notBeforeDate: new Date(nowMs - DAY_MS), notAfterDate: new Date(nowMs + 365 * DAY_MS) };
}

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
