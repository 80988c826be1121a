import { join } from 'node:path';
import { PLATFORMS, type Platform } from '../domain/notification.ts';
import { faultyCertificate, signCertificate, type CertificateFault } from './keys/certificates.ts';
import { AnswerRules } from './answers/rules.ts';
import type { Sandbox as UserSandbox, SandboxOptions as UserOptions } from './interface.ts';
import { Journal } from './journal.ts';
import { caFileIn, openKeyDirectory, readAuthority, readKey, writeAuthority, writeKey } from './keys/keys.ts';
import { seededRandom } from './random.ts';
import type { ServerOptions } from './server-kind.ts';
import { SERVER_KINDS, type Servers } from './servers.ts';
import { timingOf, type TimingOptions } from './loopback/timing.ts';

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
const WILDCARDS = ['0.0.0.0', '::'];

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
  // The type of entries does not tell which server belongs to which platform.
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
  } catch (error) {
    await close();
    throw error;
  }
  const variables = () =>
    made.map(({ kind, server }) => ({
      [kind.urlVariable]: server.url,
      ...kind.env({ ca: caFile, key: join(directory.path, kind.key.file) }),
    }));
  const env = () => Object.assign({}, ...variables()) as Record<string, string>;
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
