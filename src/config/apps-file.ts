import { resolve, dirname } from 'node:path';
import type { z } from 'zod';
import { accountOf, type Account, namesOf, type Service, serviceOf } from '../notification/device.ts';
import { type Fault, formatPath, zodFaults } from '../domain/faults.ts';
import { isObject } from '../domain/json.ts';
import type { Rule } from '../domain/limits.ts';
import { PLATFORMS, type Platform } from '../notification/notification.ts';
import { reporter, type Report, readJsonFile, shapeOf } from '../environment/files.ts';
import { type Environment, LARGEST_QUOTA, type QuotaRule, rules, serverRules } from '../environment/values.ts';
import { appNameSchema } from '../notification/devices/device-kind.ts';
import { PROVIDERS, type OptionsOf } from '../providers/registry.ts';

/** The credentials of all apps. `providers` and `quotas` belong to the environment's app. */
export interface Credentials extends AppConfig {
  /** The apps of APPS_FILE, by name. */
  readonly apps: ReadonlyMap<string, AppConfig>;
  /** The files from which credentials were read, as absolute paths. */
  readonly files: readonly string[];
}

export interface CredentialsRead {
  readonly credentials: Credentials;
  /** Whether the settings of this account had faults. If so, the account may be missing or wrong in `credentials`. */
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

/** The files that the variables of a platform name, as absolute paths. */
function filesOf(platform: Platform, given: Environment): string[] {
  return [...APP_FIELDS[platform]].flatMap(([field, variable]) => {
    const path = given[variable];
    return path !== undefined && isFileField(field) ? [resolve(path)] : [];
  });
}

/** What is needed to create an account's provider and quota. */
export interface AccountConfig {
  readonly options: NonNullable<ProviderConfigs[Platform]>;
  /** Undefined: no bound. */
  readonly quota: readonly QuotaRule[] | undefined;
}

/** The accounts that have credentials; the accounts of the environment's app come first. */
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

/** The credentials of an app: the options of each provider that it uses, and their quotas. */
interface AppConfig {
  readonly providers: ProviderConfigs;
  readonly quotas: QuotaConfigs;
}

interface AppsFile {
  readonly apps: ReadonlyMap<string, AppConfig>;
  /** The file itself and the files that it names, as absolute paths. */
  readonly files: readonly string[];
  /** Whether the account belongs to an app whose part of the file has faults. If so, it may be missing or wrong in `apps`. */
  readonly isFaulty: (account: Account) => boolean;
}

const NAME = 'APPS_FILE';

/**
 * The apps of the file at `path`, which is relative to the working directory:
 * `{ "apps": { "teacher": { "apns": { "keyFile": "teacher.p8", … }, "fcm": { "credentialsFile": "teacher.json" } } } }`.
 */
function readAppsFile(path: string | undefined, faults: Fault[]): AppsFile {
  const apps = new Map<string, AppConfig>();
  if (path === undefined) return { apps, files: [], isFaulty: () => false };
  const report = reporter(faults);
  const json = readJsonFile(NAME, path, report);
  const faulty = new Set<Account>();
  let isAllFaulty = json === undefined;

  /** Reports faults below `where`, and notes their accounts. Without `accounts` the faults concern the whole file. */
  const below =
    (where: string, accounts?: readonly Account[]): Report =>
    (field, expected, found) => {
      report([path, [where, field].filter(Boolean).join('.')].filter(Boolean).join(': '), expected, found);
      if (accounts === undefined) isAllFaulty = true;
      for (const account of accounts ?? []) faulty.add(account);
    };

  const root = json && objectAt(json.value, ['apps'], below(''));
  const files = [resolve(path)];
  for (const [app, value] of Object.entries((root && objectAt(root['apps'], undefined, below('apps'))) ?? {})) {
    if (!appNameSchema.safeParse(app).success) {
      below('apps')(formatPath([app]), 'a name of 1 to 64 of A-Z a-z 0-9 . _ -', 'another one');
      continue;
    }
    const blocks = readApp(app, value, dirname(resolve(path)), below);
    files.push(...blocks.flatMap(([, block]) => block.files));
    apps.set(app, {
      providers: Object.fromEntries(blocks.map(([platform, { options }]) => [platform, options])),
      quotas: Object.fromEntries(blocks.flatMap(([platform, { quota }]) => (quota ? [[platform, quota]] : []))),
    });
  }
  return {
    apps,
    files,
    isFaulty: (account) => faulty.has(account) || (isAllFaulty && namesOf(account).app !== undefined),
  };
}

/** Reads the blocks of one app's platforms. */
function readApp(
  app: string,
  value: unknown,
  folder: string,
  below: (where: string, accounts: readonly Account[]) => Report,
): readonly (readonly [Platform, AppBlock])[] {
  const where = `apps.${app}`;
  const report = below(
    where,
    PLATFORMS.map((platform) => accountOf({ platform, app })),
  );
  const platforms = objectAt(value, PLATFORMS, report);
  if (platforms === undefined) return [];
  if (Object.keys(platforms).length === 0) report('', `an object with ${PLATFORMS.join(' or ')}`, 'an empty one');
  return PLATFORMS.flatMap((platform) => {
    if (platforms[platform] === undefined) return [];
    const reportIts = below(`${where}.${platform}`, [accountOf({ platform, app })]);
    const block = objectAt(platforms[platform], undefined, reportIts);
    return block === undefined ? [] : [[platform, readAppBlock(platform, block, folder, reportIts)] as const];
  });
}

/** The fields of an object; undefined, with a report, if the value is not an object. Fields that are not `known` are reported. */
function objectAt(value: unknown, known: readonly string[] | undefined, report: Report) {
  if (!isObject(value)) {
    report('', 'an object', shapeOf(value));
    return undefined;
  }
  for (const name of Object.keys(value)) {
    if (known?.includes(name) === false) report(formatPath([name]), `one of ${known.join(', ')}`, 'another field');
  }
  return value;
}

/** What a platform's block in APPS_FILE contains. */
interface AppBlock {
  readonly options: ProviderConfigs[Platform];
  readonly quota: readonly QuotaRule[] | undefined;
  /** The files that the block names, as absolute paths. */
  readonly files: readonly string[];
}

/**
 * Reads one platform's block of one app. Its fields mean the same as variables of the environment, so the provider itself reads
 * them. Reports every fault by the field's name.
 *
 * @param folder relative paths are relative to this folder
 */
function readAppBlock(platform: Platform, block: object, folder: string, report: Report): AppBlock {
  const { settings } = PROVIDERS[platform];
  const fields = APP_FIELDS[platform];
  const faulty = new Set<string>();
  /** Reports only the first fault of a field: a second one would only follow from the first. */
  const reportOnce: Report = (field, expected, found) => {
    if (faulty.has(field)) return;
    faulty.add(field);
    report(field, inFields(expected, fields), inFields(found, fields));
  };
  const given = givenOf(block, fields, folder, reportOnce);

  const { variable } = settings.quota;
  const schema = settings.variables.extend({ [variable]: quotaSchema(settings.quota) });
  const checked = schema.safeParse(given);
  const faults = checked.success
    ? []
    : zodFaults(checked.error, given, ([name]) => settings.secrets.includes(String(name)));
  for (const { path, expected, found } of faults) reportOnce(inFields(path, fields), expected, found);
  const bad = new Set(faults.map(({ path }) => path));
  const wellFormed = Object.fromEntries(Object.entries(given).filter(([name]) => !bad.has(name)));

  const byField: Report = (name, expected, found) => reportOnce(inFields(name, fields), expected, found);
  const options = settings.read(wellFormed, byField, 'apps-file');
  if (options === undefined && faulty.size === 0) report('', 'credentials', 'none');
  return { options, quota: quotaSchema(settings.quota).parse(wellFormed[variable]), files: filesOf(platform, given) };
}

/** The block's fields as variables. Reports fields that do not exist, and values that are not texts. */
function givenOf(block: object, fields: ReadonlyMap<string, string>, folder: string, report: Report): Environment {
  const given: Record<string, string> = {};
  for (const [field, value] of Object.entries(block)) {
    const variable = fields.get(field);
    if (variable === undefined) report(formatPath([field]), `one of ${[...fields.keys()].join(', ')}`, 'another field');
    else if (typeof value !== 'string') report(field, 'a string', shapeOf(value));
    else given[variable] = isFileField(field) ? resolve(folder, value) : value;
  }
  return given;
}

/** Replaces the names of variables in a text by the names of their fields. */
function inFields(text: string, fields: ReadonlyMap<string, string>): string {
  const longestFirst = [...fields].toSorted(([, a], [, b]) => b.length - a.length);
  return longestFirst.reduce((rest, [field, variable]) => rest.replaceAll(variable, field), text);
}

/** The fields of a platform's block in APPS_FILE, each with the variable that means the same: `keyFile` → `APNS_KEY_FILE`. */
export const APP_FIELDS: Readonly<Record<Platform, ReadonlyMap<string, string>>> = Object.fromEntries(
  PLATFORMS.map((platform) => [platform, fieldsOf(platform)]),
) as Record<Platform, ReadonlyMap<string, string>>;

function fieldsOf(platform: Platform): ReadonlyMap<string, string> {
  const { variables, quota, appFields = {} } = PROVIDERS[platform].settings;
  const names = [...Object.keys(variables.shape), quota.variable];
  return new Map(names.map((variable) => [appFields[variable] ?? fieldOf(variable, platform), variable]));
}

/** `APNS_KEY_FILE`, `apns` → `keyFile` */
function fieldOf(variable: string, platform: Platform): string {
  const prefix = `${platform.toUpperCase()}_`;
  if (!variable.startsWith(prefix)) throw new Error(`${variable}: name its field in \`appFields\` of ${platform}`);
  const words = variable.slice(prefix.length).toLowerCase();
  return words.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}

/** Whether the field's value is the path of a file. */
function isFileField(field: string): boolean {
  return field.endsWith('File');
}

/** The options of each provider; an absent platform is off. */
type ProviderConfigs = { readonly [P in Platform]?: OptionsOf<P> };
/** The quota of each provider, which all workers share. A provider that is absent has no bound. */
type QuotaConfigs = { readonly [P in Platform]?: readonly QuotaRule[] };

/** The variables of all providers, in the README's order: for each provider its own variables, then its quota. */
export function providerVariables(): Readonly<Record<string, z.ZodType>> {
  const variables: Record<string, z.ZodType> = {};
  for (const platform of PLATFORMS) {
    const { settings } = PROVIDERS[platform];
    const { variable, meaning } = settings.quota;
    Object.assign(variables, settings.variables.shape, { [variable]: quotaSchema(settings.quota).describe(meaning) });
  }
  return variables;
}

/** Variables of the providers whose value an error must not repeat. */
export const PROVIDER_SECRETS: readonly string[] = PLATFORMS.flatMap(
  (platform) => PROVIDERS[platform].settings.secrets,
);

/** The options of each provider, from variables that are well-formed, and the platforms whose variables have faults. */
function readProviders(
  given: Environment,
  faults: Fault[],
): { readonly providers: ProviderConfigs; readonly faulty: ReadonlySet<string> } {
  const faulty = new Set<string>();
  const report = reporter(faults);
  const read = PLATFORMS.map((platform) => {
    const before = faults.length;
    const options = PROVIDERS[platform].settings.read(given, report, 'environment');
    if (faults.length > before) faulty.add(platform);
    return [platform, options] as const;
  });
  return { providers: Object.fromEntries(read.filter(([, options]) => options !== undefined)), faulty };
}

/** The quotas that are set, from variables that are well-formed. */
function readQuotas(given: Environment): QuotaConfigs {
  const quotas: { [P in Platform]?: readonly QuotaRule[] } = {};
  for (const platform of PLATFORMS) {
    const { quota: settings } = PROVIDERS[platform].settings;
    const quota = quotaSchema(settings).parse(given[settings.variable]);
    if (quota !== undefined) quotas[platform] = quota;
  }
  return quotas;
}

function quotaSchema({ variable, hasServers }: (typeof PROVIDERS)[Platform]['settings']['quota']) {
  const schema: z.ZodType<readonly QuotaRule[], string> =
    hasServers === true ? serverRules(variable, LARGEST_QUOTA) : rules(variable, LARGEST_QUOTA);
  return schema.optional();
}

/** For each service of an account with a quota (the account itself, or one server): its rules. */
export function quotasOf(account: Account, rules: readonly QuotaRule[] = []): [Service, Rule[]][] {
  const byServer = Map.groupBy(rules, ({ server }) => serviceOf(account, server));
  return [...byServer].map(([service, own]) => [service, own.map(({ max, perMs }) => ({ max, perMs }))]);
}
