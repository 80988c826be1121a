import { DURATION_FORMAT, formatDuration, parseDuration } from '../domain/time.ts';
import { describeFound, type Fault, unknownFields } from '../domain/faults.ts';
import { isObject } from '../domain/json.ts';
import {
  exemptFaults,
  MAX_WINDOW_MS,
  parseRules,
  type CategoryPolicy,
  type Exemption,
  type Rule,
} from '../domain/limits.ts';
import { quietFaults, type QuietHours } from '../domain/quiet-hours.ts';
import { notificationSchema } from '../domain/notification.ts';
import { reporter, type Report, readJsonFile } from '../environment/files.ts';

const NAME = 'LIMITS_FILE';
type Categories = Readonly<Record<string, CategoryPolicy>>;
const NO_CATEGORIES: Categories = Object.freeze(Object.create(null) as Record<string, CategoryPolicy>);

/** What is in the file. */
export interface LimitsFile {
  /** The record has no prototype, since `constructor` is a valid category. */
  readonly categories: Categories;
  /** For all recipients without quiet hours of their own. */
  readonly quietHours?: QuietHours;
}

/**
 * The file at `path`: `{ "categories": { "messages": { "rules": "5/1m", "minGap": "10s" } }, "timezone": "Europe/Paris",
 * "quietHours": [{ "from": "21:00", "until": "07:00" }] }`, where rules or a gap that are left out do not exist.
 */
export function readLimitsFile(path: string | undefined, faults: Fault[]): LimitsFile {
  const report = reporter(faults);
  const json = readJsonFile(NAME, path, report);
  if (json === undefined) return { categories: NO_CATEGORIES };
  return contentOf(json.value, (where, expected, found) => {
    report(where === '' ? NAME : `${NAME}: ${where}`, expected, found);
  });
}

function contentOf(value: unknown, report: Report): LimitsFile {
  const file = fieldsOf(value, '', ['categories', 'timezone', 'quietHours'], report);
  if (file === undefined) return { categories: NO_CATEGORIES };
  const { timezone, quietHours } = file;
  const hasQuietHours = timezone !== undefined || quietHours !== undefined;
  const hasCategories = file['categories'] !== undefined || !hasQuietHours;
  const categories = hasCategories ? categoriesOf(file['categories'], report) : NO_CATEGORIES;
  if (!hasQuietHours) return { categories };
  const hours = { timezone, quietHours };
  const faults = quietFaults(hours);
  for (const fault of faults) reportFault(fault, report);
  return faults.length > 0 ? { categories } : { categories, quietHours: hours as QuietHours };
}

function categoriesOf(value: unknown, report: Report): Categories {
  const categories = fieldsOf(value, 'categories', undefined, report) ?? {};
  const policies = Object.create(null) as Record<string, CategoryPolicy>;
  for (const [name, policy] of Object.entries(categories)) {
    const checked = notificationSchema.shape.category.safeParse(name);
    if (checked.success) policies[name] = policyOf(policy, `categories.${name}`, report);
    else report('categories', `names of ${checked.error.issues[0]?.message ?? ''}`, JSON.stringify(name));
  }
  return Object.freeze(policies);
}

/** A bad field is reported and then counts as left out. */
function policyOf(value: unknown, path: string, report: Report): CategoryPolicy {
  const fields = fieldsOf(value, path, ['rules', 'minGap', 'exempt'], report);
  if (fields === undefined) return { rules: [], minGapMs: 0 };
  const { rules, minGap, exempt } = fields;
  const isEmpty = rules === undefined && minGap === undefined;
  if (isEmpty && exempt === undefined) report(path, 'rules, minGap or both', 'neither');
  const policy = { rules: rulesOf(rules, `${path}.rules`, report), minGapMs: gapOf(minGap, `${path}.minGap`, report) };
  const exemptions = exemptOf(exempt, `${path}.exempt`, report);
  if (exemptions === undefined) return policy;
  const own = { ...policy, exempt: exemptions };
  // Bad rules have been reported already, and are not reported as missing too.
  const checked = rules === undefined ? own : { ...own, minGapMs: 1 };
  for (const fault of exemptFaults(checked, path, 'minGap')) reportFault(fault, report);
  return own;
}

function exemptOf(value: unknown, path: string, report: Report): readonly Exemption[] | undefined {
  if (value === undefined) return undefined;
  if (Array.isArray(value) && value.length > 0) return value as readonly Exemption[]; // exemptFaults checks each
  report(path, 'an array of gap, rules, quietHours', describeFound(value));
  return undefined;
}

function rulesOf(value: unknown, path: string, report: Report): readonly Rule[] {
  if (value === undefined) return [];
  if (typeof value !== 'string') {
    report(path, 'a string of rules, such as "10/1m,200/1h"', describeFound(value));
    return [];
  }
  const parsed = parseRules(value, path);
  if (parsed.ok) return parsed.rules;
  for (const fault of parsed.faults) reportFault(fault, report);
  return [];
}

function gapOf(value: unknown, path: string, report: Report): number {
  if (value === undefined) return 0;
  const gapMs = typeof value === 'string' ? parseDuration(value.trim()) : undefined;
  if (gapMs !== undefined && gapMs <= MAX_WINDOW_MS) return gapMs;
  const expected = `"0" or ${DURATION_FORMAT}, at most ${formatDuration(MAX_WINDOW_MS)}`;
  report(path, expected, describeFound(value));
  return 0;
}

/** An object's fields; those that are not `known` are reported. Undefined, and reported, if it is no object. */
function fieldsOf(value: unknown, path: string, known: readonly string[] | undefined, report: Report) {
  if (!isObject(value)) {
    report(path, 'an object', describeFound(value));
    return undefined;
  }
  for (const fault of known === undefined ? [] : unknownFields(value, known, path)) reportFault(fault, report);
  return value;
}

function reportFault({ path, expected, found }: Fault, report: Report): void {
  report(path, expected, found);
}
