import { dirname, resolve } from 'node:path';
import { accountOf, type Account } from '../domain/account.ts';
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
  /** Whether the account's part of the file has faults: it may be missing above, or be wrong there. */
  readonly isFaulty: (account: Account) => boolean;
}

const NAME = 'APPS_FILE';

/**
 * The apps of the file at `path`, which is relative to the working directory:
 * `{ "apps": { "teacher": { "apns": { "keyFile": "teacher.p8", … }, "fcm": { "credentialsFile": "teacher.json" } } } }`.
 */
export function readAppsFile(path: string | undefined, faults: Fault[]): AppsFile {
  const apps = new Map<string, AppConfig>();
  const files: string[] = [];
  if (path === undefined) return { apps, files, isFaulty: () => false };
  files.push(resolve(path));
  const report = reporter(faults);
  const json = readJsonFile(NAME, path, report);
  const faulty = new Set<Account>();
  let isWhole = json === undefined;

  /** Reports faults below `where`, and notes whose they are; without accounts, that nothing of the file can be trusted. */
  const reportBelow =
    (where: string, accounts?: readonly Account[]): Report =>
    (field, expected, found) => {
      report(`${path}: ${[where, field].filter((part) => part !== '').join('.')}`, expected, found);
      if (accounts === undefined) isWhole = true;
      for (const account of accounts ?? []) faulty.add(account);
    };

  const root = json && objectAt(json.value, ['apps'], reportBelow(''));
  const named = root && objectAt(root['apps'], undefined, reportBelow('apps'));
  for (const [app, value] of Object.entries(named ?? {})) {
    if (!appNameSchema.safeParse(app).success) {
      reportBelow('apps')(formatPath([app]), 'a name of 1 to 64 of A-Z a-z 0-9 . _ -', 'another one');
      continue;
    }
    const where = `apps.${app}`;
    const blocks = objectAt(
      value,
      PLATFORMS,
      reportBelow(
        where,
        PLATFORMS.map((platform) => accountOf({ platform, app })),
      ),
    );
    if (blocks === undefined) continue;
    const read = PLATFORMS.flatMap((platform): [Platform, AppBlock][] => {
      if (blocks[platform] === undefined) return [];
      const reportIts = reportBelow(`${where}.${platform}`, [accountOf({ platform, app })]);
      const block = objectAt(blocks[platform], undefined, reportIts);
      return block === undefined ? [] : [[platform, readAppBlock(platform, block, dirname(resolve(path)), reportIts)]];
    });
    files.push(...read.flatMap(([, block]) => block.files));
    apps.set(app, {
      providers: Object.fromEntries(read.map(([platform, { options }]) => [platform, options])),
      quotas: Object.fromEntries(
        read.flatMap(([platform, { quota }]) => (quota === undefined ? [] : [[platform, quota]])),
      ),
    });
  }
  return { apps, files, isFaulty: (account) => isWhole || faulty.has(account) };
}

/** An object with one entry or more. Undefined, and reported, if it is something else; fields that are not `known` are reported. */
function objectAt(value: unknown, known: readonly string[] | undefined, report: Report) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    report('', 'an object', shapeOf(value));
    return undefined;
  }
  const names = Object.keys(value);
  if (names.length === 0 && known !== undefined) report('', `an object with ${known.join(' or ')}`, 'an empty one');
  for (const name of names) {
    if (known?.includes(name) === false) report(formatPath([name]), `one of ${known.join(', ')}`, 'another field');
  }
  return value as Readonly<Record<string, unknown>>;
}
