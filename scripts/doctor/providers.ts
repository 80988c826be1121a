import { accountsOf, type AccountConfig, type Credentials } from '../../src/config/apps-file.ts';
import { namesOf, type Account } from '../../src/notification/device.ts';
import { formatFault, InputError } from '../../src/domain/faults.ts';
import { notificationSchema, PLATFORMS, type Platform } from '../../src/notification/notification.ts';
import { within } from '../../src/domain/time.ts';
import type { DryRun, Provider, Reply } from '../../src/providers/provider.ts';
import { PROVIDERS, type OptionsOf } from '../../src/providers/registry.ts';
import { createFindings, type Finding } from './check.ts';

/**
 * Checks the credentials of each provider, and whether it can be reached. As a starting worker does, it connects (DNS, TCP,
 * TLS, HTTP/2) and signs in, and sends nothing; with `isDryRun` it also sends a request that alerts nobody.
 */
export async function checkProviders(credentials: Omit<Credentials, 'files'>, isDryRun: boolean): Promise<Finding[]> {
  const accounts = [...accountsOf(credentials)];
  const findings: Finding[] = [];
  for (let from = 0; from < accounts.length; from += AT_ONCE) {
    const some = accounts.slice(from, from + AT_ONCE);
    findings.push(...(await Promise.all(some.map((account) => checkAccount(...account, isDryRun)))).flat());
  }
  return findings;
}

/** Names the platforms without credentials: a warning if none has any, since a worker starts so only if that is allowed. */
export function noCredentialsFindings(credentials: Omit<Credentials, 'files'>): Finding[] {
  const accounts = [...accountsOf(credentials).keys()];
  const none = PLATFORMS.filter((platform) => !accounts.some((account) => namesOf(account).platform === platform));
  if (none.length < PLATFORMS.length) {
    const text = `none for ${none.join(', ')}: this worker sends nothing there`;
    return none.length === 0 ? [] : [createFindings('credentials').ok(text)];
  }
  const text = 'no platform has credentials: this worker sends nothing (ALLOW_NO_CREDENTIALS)';
  const advice = 'set the variables of APNs, FCM or web push (pushpacer worker --help)';
  return [createFindings('providers').warning(text, advice)];
}

/** This many accounts are checked at once. */
const AT_ONCE = 8;
/** Connecting takes at most 5 s, and a sign-in at most 10 s. */
const ANSWER_MS = 20_000;
const CLOSE_MS = 2_000;

async function checkAccount(account: Account, config: AccountConfig, isDryRun: boolean): Promise<Finding[]> {
  const { platform, app } = namesOf(account);
  const check = app === undefined ? platform : `${platform} of ${app}`;
  const { fault } = createFindings(check);
  let provider: Provider;
  try {
    provider = create(platform, config.options as OptionsOf<Platform>);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return error.faults.map((each) => fault(formatFault(each), 'correct the credentials'));
  }
  try {
    const { dryRun } = PROVIDERS[platform];
    const servers = serversOf(platform, config.options as OptionsOf<Platform>);
    if (servers !== undefined) return await checkServers(check, provider, servers);
    const reached = await reach(check, provider);
    if (reached.result !== 'ok' || !isDryRun) return [reached];
    return dryRun === undefined ? [reached] : [reached, await tryOut(check, provider, dryRun)];
  } finally {
    provider.abort();
    await within(provider.close(), CLOSE_MS);
  }
}

function create<P extends Platform>(platform: P, options: OptionsOf<P>): Provider {
  return PROVIDERS[platform].create(options);
}

function serversOf<P extends Platform>(platform: P, options: OptionsOf<P>): readonly string[] | undefined {
  return PROVIDERS[platform].usualServers?.(options);
}

/** Tries the servers. Only the devices say which servers are needed, so a server that cannot be reached is not a fault. */
async function checkServers(check: string, provider: Provider, origins: readonly string[]): Promise<Finding[]> {
  const found = await Promise.all(origins.map((origin) => reach(check, provider, origin)));
  const lost = found.filter(({ result }) => result !== 'ok');
  if (lost.length > 0) return lost.map((finding) => ({ ...finding, result: 'warning' }));
  return [createFindings(check).ok(`the credentials can be read, and reached: ${origins.map(hostOf).join(', ')}`)];
}

function hostOf(origin: string): string {
  return new URL(origin).host;
}

/** Connects and signs in as for a notification, and gives back the stream that it reserved. */
async function reach(check: string, provider: Provider, origin?: string): Promise<Finding> {
  const { ok, fault } = createFindings(check);
  const reserved = await within(Promise.resolve(provider.reserve(origin === undefined ? {} : { origin })), ANSWER_MS);
  const hosts = provider.reach().map(({ host }) => host);
  if (reserved?.kind === 'permit') {
    reserved.permit.release();
    return ok(`the credentials can be read, and ${hosts.join(' and ')} is reached`);
  }
  const server = origin === undefined ? (hosts[0] ?? 'the server') : hostOf(origin);
  if (reserved === undefined) return fault(`${server} does not answer within ${ANSWER_MS / 1_000} s`, CHECK_WAY);
  const { code, detail } = reserved.reply;
  const advice = code === 'sign-in-refused' ? 'correct the service account: the sign-in refuses it' : CHECK_WAY;
  return fault(`${server}: ${code}${detail === undefined ? '' : ` (${detail})`}`, advice);
}

const CHECK_WAY = 'look at the name servers, the firewall, the endpoint and the CA file';

/** @param dryRun what to send on this platform */
async function tryOut(check: string, provider: Provider, dryRun: DryRun<Platform>): Promise<Finding> {
  const { ok, warning, fault } = createFindings(`${check} dry run`);
  const notification = notificationSchema.parse({
    ...{ id: 'doctor', recipientId: 'doctor', devices: [dryRun.device] },
    alert: { title: 'pushpacer', body: 'A dry run, which nobody gets.' },
  });
  const [device] = notification.devices;
  if (device === undefined) throw new TypeError('expected a device, found none');
  const prepared = provider.prepare({ notification, device, pushId: crypto.randomUUID(), silent: false });
  if (prepared.kind !== 'ready') throw new TypeError(`expected a push that is ready, found ${prepared.reply.code}`);
  const reply = await provider.send(dryRun.request(prepared.encoded));
  if (reply.meaning === 'accepted' || dryRun.goodCodes.includes(reply.code)) return ok('the credentials are good');
  const text = `${reply.code}${reply.detail === undefined ? '' : ` (${reply.detail})`}`;
  return isPassing(reply) ? warning(`not known: ${text}`, 'try it again later') : fault(text, WRONG);
}

/** Whether the answer says nothing about the credentials. */
function isPassing({ meaning, trouble }: Reply): boolean {
  return meaning === 'later' && trouble !== 'auth' && trouble !== 'configuration';
}

const WRONG = 'correct the key, its ids, the topic or the project; docs/provider-faults.md explains the code';
