import { X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { PLATFORMS, type Platform } from '../src/notification/notification.ts';
import { AnswerRules } from './answers.ts';
import { APNS_SERVER } from './apns/server.ts';
import { FCM_SERVER } from './fcm/server.ts';
import type { Sandbox as UserSandbox, SandboxOptions as UserOptions } from './interface.ts';
import { Journal } from './journal.ts';
import {
  faultyCertificate,
  signCertificate,
  type CertificateFault,
  makeAuthority,
  type Certificate,
} from './loopback/certificates.ts';
import type { ServerOptions, ServerKey } from './loopback/server.ts';
import { seededRandom, timingOf, type TimingOptions } from './loopback/timing.ts';
import { WEBPUSH_SERVER } from './webpush/server.ts';

/** What tests of this project set as well. */
export interface SandboxOptions extends UserOptions, Omit<TimingOptions, 'latency'>, ServerOptions {
  /** Epoch milliseconds: judges the age of credentials. The journal's instants do not come from it. */
  readonly now?: () => number;
}

/** Every provider on the loopback, with all that tests of this project do to the servers. Users see interface.ts. */
export interface Sandbox extends Servers, Omit<UserSandbox, Platform> {
  /** All of them write into it. */
  readonly journal: Journal;
  /** New connections to that provider are shown a certificate with this fault; undefined ends it. */
  spoilCertificate(platform: Platform, fault: CertificateFault | undefined): Promise<void>;
}

const LOOPBACK = ['127.0.0.1', '::1', 'localhost'];
/** Addresses that stand for every interface: to listen on, not to be reached at. */
export const WILDCARDS = ['0.0.0.0', '::'];

/** @throws RangeError where one of the numbers for the timing does not fit, InputError where the script does not. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { host = '127.0.0.1', now = Date.now, seed = 1 } = options;
  const name = options.name ?? (WILDCARDS.includes(host) ? '127.0.0.1' : host);
  // First, because this throws for a number that is out of range, and nothing has been opened yet.
  const plans = PLATFORMS.map((platform, index) => ({
    platform,
    random: seededRandom(seed + index),
    timing: timingOf(options, seed + PLATFORMS.length + index),
  }));
  const rules = new AnswerRules(seededRandom(seed + 2 * PLATFORMS.length), now);
  rules.set(options.answers ?? []);
  const directory = await openKeyDirectory(options.dir);
  const authority = await readAuthority(directory.path, now());
  const caFile = caFileIn(directory.path);
  // Clients keep checking the provider's real name where they are only sent to another address.
  const namesOf = (platform: Platform) => [...new Set([name, ...LOOPBACK]), SERVER_KINDS[platform].host];
  const journal = new Journal({ keep: options.keep });
  const made = await Promise.all(
    plans.map(async ({ platform, ...plan }) => {
      const kind = SERVER_KINDS[platform];
      const certificate = await signCertificate(authority, namesOf(platform), now());
      const key = await readKey(directory.path, kind.key);
      const server = kind.create({ ...options, ...plan, rules, journal, now, certificate }, key);
      return { platform, kind, key, server };
    }),
  );
  // The type of entries does not say which server belongs to which platform.
  const servers = Object.fromEntries(made.map(({ platform, server }) => [platform, server])) as Servers;

  const spoilCertificate = async (platform: Platform, fault: CertificateFault | undefined) => {
    const certificate = fault && (await faultyCertificate(authority, namesOf(platform), fault, now()));
    servers[platform].useCertificate(certificate);
  };
  const stop = async () => {
    await Promise.all(made.map(({ server }) => server.close()));
    await directory.remove();
  };
  let stopped: Promise<void> | undefined;
  const close = () => (stopped ??= stop());
  try {
    await writeAuthority(directory.path, authority);
    for (const { platform, kind, key, server } of made) {
      await server.listen(options.ports?.[platform] ?? 0, host, name);
      await writeKey(directory.path, kind.key, { key, url: server.url });
    }
    await servers.apns.listenForChannels(options.ports?.channels ?? 0, host, name);
  } catch (error) {
    await close();
    throw error;
  }
  const variables = () =>
    made.map(({ kind, server }) => ({
      [kind.urlVariable]: server.url,
      ...kind.env({ ca: caFile, key: join(directory.path, kind.key.file) }),
    }));
  const env = () =>
    Object.assign({}, ...variables(), { [CHANNELS_VARIABLE]: servers.apns.channelsUrl }) as Record<string, string>;
  return {
    ...servers,
    journal,
    caFile,
    spoilCertificate,
    env,
    setAnswers: (answers) => rules.set(answers),
    answers: () => rules.left,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** One for every provider: a platform without a server does not compile. */
export const SERVER_KINDS = {
  apns: APNS_SERVER,
  fcm: FCM_SERVER,
  webpush: WEBPUSH_SERVER,
} satisfies Readonly<Record<Platform, unknown>>;

/** The server of each platform. */
export type Servers = { readonly [P in Platform]: ReturnType<(typeof SERVER_KINDS)[P]['create']> };

/** The variable with the URL of APNs' management of channels. */
export const CHANNELS_VARIABLE = 'APNS_CHANNELS_ENDPOINT';

/** An authority that is valid for less than this is replaced. */
const LEAST_LEFT_MS = 86_400_000;

/** A directory for key files: the given one, which stays, or a new one, which `remove` deletes. */
export interface KeyDirectory {
  /** Absolute. */
  readonly path: string;
  remove(): Promise<void>;
}

async function openKeyDirectory(path: string | undefined): Promise<KeyDirectory> {
  if (path !== undefined) {
    await mkdir(path, { recursive: true });
    return { path: resolve(path), remove: () => Promise.resolve() };
  }
  const made = await mkdtemp(join(tmpdir(), 'pushpacer-sandbox-'));
  return { path: made, remove: () => rm(made, { recursive: true, force: true }) };
}

/** The path of the certificate that workers trust. */
function caFileIn(directory: string): string {
  return join(directory, 'ca.pem');
}

function caKeyFileIn(directory: string): string {
  return join(directory, 'ca-key.pem');
}

/**
 * What signs the servers' certificates: that of an earlier sandbox in the directory, so that a worker trusts the next one too,
 * or a new one.
 */
async function readAuthority(directory: string, nowMs: number): Promise<Certificate> {
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
function writeKey(
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
