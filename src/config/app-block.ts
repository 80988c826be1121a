import { resolve } from 'node:path';
import { formatPath, zodFaults } from '../domain/faults.ts';
import type { Platform } from '../domain/notification.ts';
import type { Rule } from '../domain/limits.ts';
import type { Report } from '../environment/files.ts';
import type { Environment } from '../environment/values.ts';
import { PROVIDERS } from '../providers/registry.ts';
import { APP_FIELDS, isFileField } from './app-fields.ts';
import { shapeOf } from './json-file.ts';
import { quotaSchema, type ProviderConfigs } from './providers.ts';

/** A platform's block of an app, as the file has it. */
type Block = Readonly<Record<string, unknown>>;

/** What a platform's block in APPS_FILE says. */
export interface AppBlock {
  readonly options: ProviderConfigs[Platform];
  readonly quota: readonly Rule[] | undefined;
  /** The files that it names, as absolute paths. */
  readonly files: readonly string[];
}

/**
 * Reads one platform's block of one app: its fields are those of the environment, so the provider itself reads them. Reports
 * every fault by the field's name.
 *
 * @param folder relative paths are relative to it
 */
export function readAppBlock(platform: Platform, block: Block, folder: string, report: Report): AppBlock {
  const { settings } = PROVIDERS[platform];
  const fields = APP_FIELDS[platform];
  const faulty = new Set<string>();
  /** A second fault of a field would only follow from the first one. */
  const reportOnce: Report = (field, expected, found) => {
    if (faulty.has(field)) return;
    faulty.add(field);
    report(field, inFields(expected, fields), inFields(found, fields));
  };
  const given = givenOf(block, fields, folder, reportOnce);

  const { variable } = settings.quota;
  const schema = settings.variables.extend({ [variable]: quotaSchema(variable) });
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
  return { options, quota: quotaSchema(variable).parse(wellFormed[variable]), files: filesOf(given, fields) };
}

/** The block's fields as variables; those that there are not, or that are no text, are reported. */
function givenOf(block: Block, fields: ReadonlyMap<string, string>, folder: string, report: Report): Environment {
  const given: Record<string, string> = {};
  for (const [field, value] of Object.entries(block)) {
    const variable = fields.get(field);
    if (variable === undefined) report(formatPath([field]), `one of ${[...fields.keys()].join(', ')}`, 'another field');
    else if (typeof value !== 'string') report(field, 'a string', shapeOf(value));
    else given[variable] = isFileField(field) ? resolve(folder, value) : value;
  }
  return given;
}

function filesOf(given: Environment, fields: ReadonlyMap<string, string>): string[] {
  return [...fields].flatMap(([field, variable]) => (isFileField(field) ? (given[variable] ?? []) : []));
}

/** A text with the names of fields in place of those of variables. */
function inFields(text: string, fields: ReadonlyMap<string, string>): string {
  const longestFirst = [...fields].toSorted(([, a], [, b]) => b.length - a.length);
  return longestFirst.reduce((rest, [field, variable]) => rest.replaceAll(variable, field), text);
}
