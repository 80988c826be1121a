import { dirname, resolve } from 'node:path';
import { accountOf, namesOf, type Account } from '../domain/account.ts';
import { formatPath, type Fault } from '../domain/faults.ts';
import { PLATFORMS, type Platform } from '../domain/notification.ts';
import { reporter, type Report } from '../environment/files.ts';
import { appNameSchema } from '../providers/device-kind.ts';
import { readAppBlock, type AppBlock } from './app-block.ts';
import { readJsonFile, shapeOf } from './json-file.ts';
import type { ProviderConfigs, QuotaConfigs } from './providers.ts';

/** The credentials of an app: the options of each provider that it uses, and their quotas. */
export interface AppConfig {
  readonly providers: ProviderConfigs;
  readonly quotas: QuotaConfigs;
}

export interface AppsFile {
  /** By name. */
  readonly apps: ReadonlyMap<string, AppConfig>;
  /** The file itself and those that it names, as absolute paths. */
  readonly files: readonly string[];
  /** Whether the account is one of an app, and its part of the file has faults: it may be missing above, or be wrong there. */
  readonly isFaulty: (account: Account) => boolean;
}

const NAME = 'APPS_FILE';

/**
 * The apps of the file at `path`, which is relative to the working directory:
 * `{ "apps": { "teacher": { "apns": { "keyFile": "teacher.p8", … }, "fcm": { "credentialsFile": "teacher.json" } } } }`.
 */
export function readAppsFile(path: string | undefined, faults: Fault[]): AppsFile {
  const apps = new Map<string, AppConfig>();
  if (path === undefined) return { apps, files: [], isFaulty: () => false };
  const report = reporter(faults);
  const json = readJsonFile(NAME, path, report);
  const faulty = new Set<Account>();
  let isWhole = json === undefined;

  /** Reports faults below `where`, and notes whose they are; without accounts, that nothing of the file can be trusted. */
  const below =
    (where: string, accounts?: readonly Account[]): Report =>
    (field, expected, found) => {
      report([path, [where, field].filter(Boolean).join('.')].filter(Boolean).join(': '), expected, found);
      if (accounts === undefined) isWhole = true;
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
  return { apps, files, isFaulty: (account) => faulty.has(account) || (isWhole && namesOf(account).app !== undefined) };
}

/** The blocks of one app's platforms. */
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

/** The fields of an object; undefined, and reported, if it is none. Fields that are not `known` are reported. */
function objectAt(value: unknown, known: readonly string[] | undefined, report: Report) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    report('', 'an object', shapeOf(value));
    return undefined;
  }
  for (const name of Object.keys(value)) {
    if (known?.includes(name) === false) report(formatPath([name]), `one of ${known.join(', ')}`, 'another field');
  }
  return value as Readonly<Record<string, unknown>>;
}
