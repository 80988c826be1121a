import { createPublicKey } from 'node:crypto';
import type { Platform } from '../domain/notification.ts';
import { ApnsServer } from './apns-server.ts';
import { faultyCertificate, signCertificate, type CertificateFault } from './certificates.ts';
import { FcmServer } from './fcm-server.ts';
import { Journal } from './journal.ts';
import { keyFilesIn, openKeyDirectory, readKeys, writeKeys, type KeyFiles } from './key-files.ts';
import { isUsable, makeKeys } from './keys.ts';
import { seededRandom } from './random.ts';

export interface SandboxOptions {
  /** Where key files stay, for the next sandbox too; a temporary directory, removed on close, where left out. */
  readonly dir?: string;
  /** 0, the default, takes any free port. */
  readonly apnsPort?: number;
  readonly fcmPort?: number;
  /** The address to listen on; 127.0.0.1 where left out. */
  readonly host?: string;
  /** The host name that clients use and the certificates carry, such as a compose service's; the address where left out. */
  readonly name?: string;
  /** Decides what the rates draw. */
  readonly seed?: number;
  /** Epoch milliseconds: judges the age of credentials. The journal's instants do not come from it. */
  readonly now?: () => number;
  /** How many journal entries to keep, the latest; all where left out. */
  readonly keep?: number;
  /** Streams an APNs connection may have at once after its first accepted token; 1,000 where left out. */
  readonly apnsMaxStreams?: number;
  /** Least time between two provider tokens of one APNs connection; 20 minutes where left out. */
  readonly apnsTokenUpdateMs?: number;
}

/** APNs and FCM on the loopback: their real protocols over TLS, scripted answers, one journal. */
export interface Sandbox {
  readonly apns: ApnsServer;
  readonly fcm: FcmServer;
  /** Both providers write into it. */
  readonly journal: Journal;
  /** The certificate of the authority that signed both servers' certificates: a PEM file. */
  readonly caFile: string;
  /** New connections to that provider are shown a certificate with this fault; undefined ends it. */
  spoilCertificate(platform: Platform, fault: CertificateFault | undefined): Promise<void>;
  /** The variables that point a worker at these servers. */
  env(): Record<string, string>;
  /** Stops both servers at once and removes a temporary directory. */
  close(): Promise<void>;
}

const APNS_IDENTITY = { keyId: 'SANDBOXKEY', teamId: 'SANDBOXTM1', topic: 'dev.pushpacer.sandbox' } as const;
const PROJECT_ID = 'pushpacer-sandbox';
const LOOPBACK = ['127.0.0.1', '::1', 'localhost'];
/** Addresses that stand for every interface: to listen on, not to be reached at. */
const WILDCARDS = ['0.0.0.0', '::'];

export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { host = '127.0.0.1', now = Date.now, seed = 1 } = options;
  const name = options.name ?? (WILDCARDS.includes(host) ? '127.0.0.1' : host);
  const directory = await openKeyDirectory(options.dir);
  const files = keyFilesIn(directory.path);
  const kept = await readKeys(files);
  const keys = kept && isUsable(kept, now()) ? kept : await makeKeys(now());
  const ours = [...new Set([name, ...LOOPBACK])];
  // Clients keep checking the provider's real name where they are only sent to another address.
  const names = { apns: [...ours, 'api.push.apple.com'], fcm: [...ours, 'fcm.googleapis.com'] };
  const journal = new Journal({ keep: options.keep });
  const apns = new ApnsServer({
    journal,
    now,
    random: seededRandom(seed),
    certificate: await signCertificate(keys.authority, names.apns, now()),
    signer: { publicKey: createPublicKey(keys.apnsKey), ...APNS_IDENTITY },
    topic: APNS_IDENTITY.topic,
    maxStreams: options.apnsMaxStreams,
    tokenUpdateMs: options.apnsTokenUpdateMs,
  });
  const fcm = new FcmServer({
    journal,
    now,
    random: seededRandom(seed + 1),
    certificate: await signCertificate(keys.authority, names.fcm, now()),
    projectId: PROJECT_ID,
  });
  const spoilCertificate = async (platform: Platform, fault: CertificateFault | undefined) => {
    const certificate = fault && (await faultyCertificate(keys.authority, names[platform], fault, now()));
    (platform === 'apns' ? apns : fcm).useCertificate(certificate);
  };
  const stop = async () => {
    await Promise.all([apns.close(), fcm.close()]);
    await directory.remove();
  };
  let stopped: Promise<void> | undefined;
  const close = () => (stopped ??= stop());
  try {
    await apns.listen(options.apnsPort ?? 0, host, name);
    await fcm.listen(options.fcmPort ?? 0, host, name);
    // Nothing answers at the token's URI: a client that signs in fails here, and not at Google.
    await writeKeys(files, keys, { projectId: PROJECT_ID, tokenUri: `${fcm.url}/token` });
  } catch (error) {
    await close();
    throw error;
  }
  const env = () => environment(apns.url, fcm.url, files);
  return { apns, fcm, journal, caFile: files.ca, spoilCertificate, env, close };
}

function environment(apnsUrl: string, fcmUrl: string, files: KeyFiles): Record<string, string> {
  return {
    APNS_ENDPOINT: apnsUrl,
    APNS_KEY_FILE: files.apnsKey,
    APNS_KEY_ID: APNS_IDENTITY.keyId,
    APNS_TEAM_ID: APNS_IDENTITY.teamId,
    APNS_TOPIC: APNS_IDENTITY.topic,
    APNS_CA_FILE: files.ca,
    FCM_ENDPOINT: fcmUrl,
    FCM_CA_FILE: files.ca,
    FCM_PROJECT_ID: PROJECT_ID,
    GOOGLE_APPLICATION_CREDENTIALS: files.serviceAccount,
  };
}
