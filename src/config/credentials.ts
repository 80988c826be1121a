import { resolve } from 'node:path';
import { accountOf, type Account } from '../domain/account.ts';
import type { Fault } from '../domain/faults.ts';
import type { Rule } from '../domain/limits.ts';
import { PLATFORMS, type Platform } from '../domain/notification.ts';
import type { Environment } from '../environment/values.ts';
import { APP_FIELDS, isFileField } from './app-fields.ts';
import { readAppsFile, type AppConfig } from './apps-file.ts';
import { readProviders, readQuotas, type ProviderConfigs } from './providers.ts';

/** The credentials of all apps: at the top those of the environment's app. */
export interface Credentials extends AppConfig {
  /** The apps of APPS_FILE, by name. */
  readonly apps: ReadonlyMap<string, AppConfig>;
  /** All files that they were read from, as absolute paths. */
  readonly files: readonly string[];
}

export interface CredentialsRead {
  readonly credentials: Credentials;
  /** Whether there were faults in what belongs to the account: it may be missing in `credentials`, or be wrong there. */
  readonly isFaulty: (account: Account) => boolean;
}

/** Reads the credentials of all apps. @param given the variables that are well-formed */
export function readCredentials(given: Environment, faults: Fault[]): CredentialsRead {
  const { providers, faulty } = readProviders(given, faults);
  const { apps, files, isFaulty } = readAppsFile(given['APPS_FILE'], faults);
  const own = PLATFORMS.flatMap((platform) => filesOf(platform, given));
  return {
    credentials: { providers, quotas: readQuotas(given), apps, files: [...own, ...files] },
    isFaulty: (account) => faulty.has(account) || isFaulty(account),
  };
}

function filesOf(platform: Platform, given: Environment): string[] {
  return [...APP_FIELDS[platform]].flatMap(([field, variable]) => {
    const path = given[variable];
    return path !== undefined && isFileField(field) ? [resolve(path)] : [];
  });
}

/** What an account is created from. */
export interface AccountConfig {
  readonly options: NonNullable<ProviderConfigs[Platform]>;
  /** Undefined: no bound. */
  readonly quota: readonly Rule[] | undefined;
}

/** The accounts that have credentials, those of the environment's app first. */
export function accountsOf({ providers, quotas, apps }: Omit<Credentials, 'files'>): Map<Account, AccountConfig> {
  const accounts = new Map<Account, AccountConfig>();
  const add = (app: string | undefined, of: AppConfig): void => {
    for (const platform of PLATFORMS) {
      const options = of.providers[platform];
      const account = accountOf(app === undefined ? { platform } : { platform, app });
      if (options !== undefined) accounts.set(account, { options, quota: of.quotas[platform] });
    }
  };
  add(undefined, { providers, quotas });
  for (const [app, of] of apps) add(app, of);
  return accounts;
}
