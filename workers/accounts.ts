import { isDeepStrictEqual } from 'node:util';
import { accountsOf, quotasOf, type AccountConfig, type Credentials } from '../src/config/apps-file.ts';
import { reloadCredentials } from '../src/config/config.ts';
import { accountIn, namesOf, quotaNameOf, type Account, type Service } from '../src/notification/device.ts';
import { InputError, type Fault, formatFault } from '../src/domain/faults.ts';
import type { Platform } from '../src/notification/notification.ts';
import { watchFiles } from '../src/environment/files.ts';
import type { Environment } from '../src/environment/values.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Provider, Reach } from '../src/providers/provider.ts';
import { PROVIDERS, type OptionsOf } from '../src/providers/registry.ts';
import type { Quota } from '../src/quota/quota.ts';
import type { Rule } from '../src/domain/limits.ts';
import { createRedisQuota } from '../src/quota/redis-quota.ts';
import type { ScriptRedis } from '../src/redis/scripts.ts';

export interface AccountsOptions {
  /** The Redis of the quotas. A quota waits `timeoutMs` for an answer of Redis. */
  readonly redis: ScriptRedis;
  readonly prefix: string;
  readonly timeoutMs: number;
  /** Whether the account's notifications are deferred now. Then the account is not idle, although nothing is sent. */
  readonly isWaiting: (account: Account) => boolean;
  /** How often to look for idle accounts, milliseconds. */
  readonly everyMs?: number;
}

/** What was done to an account, and the names of the options that changed. */
export interface AccountChange {
  readonly account: Account;
  readonly change: 'added' | 'replaced' | 'removed';
  readonly fields?: readonly string[];
}

/** The provider and the quota of each account. Each pass looks up both, and keeps them until its end. */
export interface Accounts {
  readonly providers: { get(account: Account): Provider | undefined };
  readonly quotas: { get(service: Service): Quota | undefined };
  names(): Account[];
  /** For each service with a quota: its rules. */
  quotaRules(): readonly (readonly [service: Service, rules: readonly Rule[]])[];
  /**
   * Puts these credentials into force. A replaced provider is closed a minute later, so that passes under way can still use it.
   * Accounts that are faulty (`isFaulty`) or cannot be created stay as they are. Sends nothing, and connects only the
   * environment's app.
   */
  apply(
    credentials: Omit<Credentials, 'files'>,
    isFaulty?: (account: Account) => boolean,
  ): { readonly changes: readonly AccountChange[]; readonly faults: readonly Fault[] };
  /** The servers that were tried, and whether they can be reached. Sends nothing. */
  reach(): readonly AccountReach[];
  /** Tries the sign-in again, which otherwise only a notification would cause. */
  signIn(account: Account): void;
  /** Connects the environment's app. Other apps connect with their first notification. */
  connect(): Promise<void>;
  abort(): void;
  close(): Promise<void>;
}

export interface AccountReach extends Reach {
  readonly account: Account;
}

interface Open {
  readonly config: AccountConfig;
  readonly provider: Provider;
  readonly quotas: ReadonlyMap<Service, Quota>;
  /** How many checks have found the account unused since its last use; undefined if it was not used at all. */
  unusedChecks: number | undefined;
}

/** A replaced provider is closed after this time. Only a pass that waits for a connection is longer: it is then deferred. */
const RETIRED_FOR_MS = 60_000;
/**
 * The connections of an app that had no notification for half an hour are closed. Not earlier: Apple wants connections to be
 * kept, and with new connections Google needs a new sign-in. The token for APNs stays longer (src/providers/apns/apns.ts).
 */
const IDLE_CHECKS = 30;
const CHECK_EVERY_MS = 60_000;

export function createAccounts(options: AccountsOptions): Accounts {
  const { redis, prefix, timeoutMs, isWaiting, everyMs = CHECK_EVERY_MS } = options;
  const open = new Map<Account, Open>();
  const retired = new Map<Open, NodeJS.Timeout>();
  const signingIn = new Set<Provider>();
  const timer = setInterval(closeIdle, everyMs).unref();

  function create(account: Account, config: AccountConfig): Open {
    const { platform } = namesOf(account);
    const provider = createProvider(platform, config.options as OptionsOf<Platform>);
    const quotas = quotasOf(account, config.quota).map(([service, rules]) => {
      return [service, createRedisQuota({ redis, name: quotaNameOf(service), rules, prefix, timeoutMs })] as const;
    });
    return { config, provider, quotas: new Map(quotas), unusedChecks: undefined };
  }

  function use(account: Account): Open | undefined {
    const found = open.get(account);
    if (found !== undefined) found.unusedChecks = 0;
    return found;
  }

  function retire(old: Open | undefined): void {
    if (old === undefined) return;
    retired.set(old, setTimeout(() => void closeNow(old), RETIRED_FOR_MS).unref());
  }

  async function closeNow(old: Open): Promise<void> {
    clearTimeout(retired.get(old));
    retired.delete(old);
    await Promise.all([old.provider.close(), ...[...old.quotas.values()].map((quota) => quota.close())]);
  }

  /** Closes accounts that are idle. An app that is used again later connects again. */
  function closeIdle(): void {
    for (const [account, found] of open) {
      if (found.unusedChecks === undefined || isOfEnvironment(account)) continue;
      found.unusedChecks += 1;
      if (found.unusedChecks <= IDLE_CHECKS || isWaiting(account)) continue;
      open.set(account, create(account, found.config));
      void closeNow(found);
    }
  }

  /** The change, or undefined if there is none. Throws InputError if the new account cannot be created. */
  function applyTo(account: Account, config: AccountConfig): AccountChange | undefined {
    const old = open.get(account);
    const fields = old === undefined ? [] : changedFields(old.config, config);
    if (old !== undefined && fields.length === 0) return undefined;
    const created = create(account, config);
    open.set(account, created);
    retire(old);
    if (old === undefined) return { account, change: 'added' };
    if (isOfEnvironment(account)) void created.provider.connect();
    return { account, change: 'replaced', fields };
  }

  return {
    providers: { get: (account) => use(account)?.provider },
    quotas: { get: (service) => open.get(accountIn(service))?.quotas.get(service) },
    names: () => [...open.keys()],
    quotaRules: () => [...open].flatMap(([account, { config }]) => quotasOf(account, config.quota)),
    apply(credentials, isFaulty = () => false) {
      const changes: AccountChange[] = [];
      const faults: Fault[] = [];
      const wanted = accountsOf(credentials);
      for (const [account, config] of wanted) {
        if (isFaulty(account)) continue;
        try {
          const change = applyTo(account, config);
          if (change !== undefined) changes.push(change);
        } catch (error) {
          if (!(error instanceof InputError)) throw error;
          faults.push(...error.faults.map((fault) => ({ ...fault, path: faultPath(account, fault) })));
        }
      }
      for (const [account, old] of open) {
        if (wanted.has(account) || isFaulty(account)) continue;
        open.delete(account);
        retire(old);
        changes.push({ account, change: 'removed' });
      }
      return { changes, faults };
    },
    reach: () => [...open].flatMap(([account, { provider }]) => provider.reach().map((each) => ({ ...each, account }))),
    signIn(account) {
      const provider = open.get(account)?.provider;
      if (provider === undefined || signingIn.has(provider)) return;
      signingIn.add(provider);
      void provider.connect().finally(() => signingIn.delete(provider));
    },
    async connect() {
      const own = [...open].filter(([account]) => isOfEnvironment(account));
      await Promise.all(own.map(([, { provider }]) => provider.connect()));
    },
    abort() {
      for (const { provider } of [...open.values(), ...retired.keys()]) provider.abort();
    },
    async close() {
      clearInterval(timer);
      await Promise.all([...open.values(), ...retired.keys()].map(closeNow));
    },
  };
}

function createProvider<P extends Platform>(platform: P, options: OptionsOf<P>): Provider {
  return PROVIDERS[platform].create(options);
}

function isOfEnvironment(account: Account): boolean {
  return namesOf(account).app === undefined;
}

/** `key`, `keyId`, …, `quota`: only the names of what changed, never the values. */
function changedFields(before: AccountConfig, after: AccountConfig): string[] {
  const [old, next] = [before, after].map(({ options, quota }): Readonly<Record<string, unknown>> => ({
    ...options,
    quota,
  }));
  return Object.keys({ ...old, ...next }).filter((name) => !isDeepStrictEqual(old?.[name], next?.[name]));
}

/** `fcm.credentials` of the account `fcm~teacher` → `apps.teacher.fcm.credentials` */
function faultPath(account: Account, { path }: Fault): string {
  const { app } = namesOf(account);
  return app === undefined ? path : `apps.${app}.${path}`;
}

interface RotationParts {
  /** The worker's environment, which names the files. */
  readonly env: Environment;
  /** The files from which the credentials in force were read. */
  readonly files: readonly string[];
  readonly accounts: Pick<Accounts, 'apply' | 'names'>;
  /** Called with all accounts that exist from now on. */
  readonly use: (accounts: readonly Account[]) => void;
  readonly log: Logger;
}

/** Reads the credentials again when one of their files changes, and at `reload(why)`; logs what changed. */
export function startRotation({ env, files, accounts, use, log }: RotationParts) {
  const watch = watchFiles(() => reload('a file changed'));
  watch.use(files);
  let isStopped = false;
  let loggedFaults = '';

  /** All workers read a changed file at the same time, so an unexpected error here must not end them all. */
  function reload(why: string): void {
    try {
      if (!isStopped) readAnew(why);
    } catch (error) {
      log.error({ why, err: error }, FAILED);
    }
  }

  function readAnew(why: string): void {
    const { credentials, isFaulty, faults: readFaults } = reloadCredentials(env);
    const { changes, faults: createFaults } = accounts.apply(credentials, isFaulty);
    use(accounts.names());
    watch.use(credentials.files);
    const faults = [...readFaults, ...createFaults].map(formatFault);
    // The files are read once more soon after they changed: then the same faults are not logged again.
    const isLogged = faults.join('\n') === loggedFaults && why !== SIGHUP;
    loggedFaults = faults.join('\n');
    if (faults.length > 0 && !isLogged) log.error({ why, faults }, KEPT);
    if (changes.length > 0) {
      const named = changes.map(({ account, ...change }) => ({ ...namesOf(account), ...change }));
      log.info({ why, changes: named }, CHANGED);
    } else if (faults.length === 0 && why === SIGHUP) {
      log.info({ why }, 'credentials read anew: nothing has changed');
    }
  }

  return {
    reload,
    stop(): void {
      isStopped = true;
      watch.stop();
    },
  };
}

/** The operator who sends this signal gets a log line in any case. */
const SIGHUP = 'SIGHUP';
const CHANGED = 'credentials read anew: they hold from now on; notifications under way end with the old ones';
const FAILED = 'unexpected error while new credentials were read: some may not hold before the worker is restarted';
const KEPT =
  'new credentials have faults: what they belong to keeps the credentials that it has; put the files right, they are read ' +
  'again when they change';
