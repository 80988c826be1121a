import { DURATION_FORMAT, formatDuration, parseDuration } from '../domain/time.ts';
import { type Fault, faultOf, unknownFields } from '../domain/faults.ts';
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
import { notificationSchema } from '../notification/notification.ts';
import { reporter, readJsonFile } from '../environment/files.ts';

const NAME = 'LIMITS_FILE';
type Categories = Readonly<Record<string, CategoryPolicy>>;
const NO_CATEGORIES: Categories = Object.freeze(Object.create(null) as Record<string, CategoryPolicy>);

export interface LimitsFile {
  /** The limits of categories. The record has no prototype, since `constructor` is a valid category. */
  readonly categories: Categories;
  /** The quiet hours of all recipients without quiet hours of their own. */
  readonly quietHours?: QuietHours;
}

/**
 * Reads the file at `path`: `{ "categories": { "messages": { "rules": "5/1m", "minGap": "10s" } }, "timezone": "Europe/Paris",
 * "quietHours": [{ "from": "21:00", "until": "07:00" }] }`. If rules or a gap are left out, there are none.
 */
export function readLimitsFile(path: string | undefined, faults: Fault[]): LimitsFile {
  const json = readJsonFile(NAME, path, reporter(faults));
  if (json === undefined) return { categories: NO_CATEGORIES };
  const inFile: Fault[] = [];
  const content = contentOf(json.value, inFile);
  faults.push(...inFile.map((fault) => ({ ...fault, path: fault.path === '' ? NAME : `${NAME}: ${fault.path}` })));
  return content;
}

function contentOf(value: unknown, faults: Fault[]): LimitsFile {
  const file = fieldsOf(value, '', ['categories', 'timezone', 'quietHours'], faults);
  if (file === undefined) return { categories: NO_CATEGORIES };
  const { timezone, quietHours } = file;
  const hasQuietHours = timezone !== undefined || quietHours !== undefined;
  const hasCategories = file['categories'] !== undefined || !hasQuietHours;
  const categories = hasCategories ? categoriesOf(file['categories'], faults) : NO_CATEGORIES;
  if (!hasQuietHours) return { categories };
  const hours = { timezone, quietHours };
  const ofHours = quietFaults(hours);
  faults.push(...ofHours);
  return ofHours.length > 0 ? { categories } : { categories, quietHours: hours as QuietHours };
}

function categoriesOf(value: unknown, faults: Fault[]): Categories {
  const categories = fieldsOf(value, 'categories', undefined, faults) ?? {};
  const policies = Object.create(null) as Record<string, CategoryPolicy>;
  for (const [name, policy] of Object.entries(categories)) {
    const checked = notificationSchema.shape.category.safeParse(name);
    if (checked.success) policies[name] = policyOf(policy, `categories.${name}`, faults);
    else
      faults.push({
        path: 'categories',
        expected: `names of ${checked.error.issues[0]?.message ?? ''}`,
        found: JSON.stringify(name),
      });
  }
  return Object.freeze(policies);
}

/** The policy in this object. A bad field is reported, and then counts as left out. */
function policyOf(value: unknown, path: string, faults: Fault[]): CategoryPolicy {
  const fields = fieldsOf(value, path, ['rules', 'minGap', 'exempt'], faults);
  if (fields === undefined) return { rules: [], minGapMs: 0 };
  const { rules, minGap, exempt } = fields;
  if (rules === undefined && minGap === undefined && exempt === undefined) {
    faults.push({ path, expected: 'rules, minGap or both', found: 'neither' });
  }
  const policy = { rules: rulesOf(rules, `${path}.rules`, faults), minGapMs: gapOf(minGap, `${path}.minGap`, faults) };
  const exemptions = exemptOf(exempt, `${path}.exempt`, faults);
  if (exemptions === undefined) return policy;
  const own = { ...policy, exempt: exemptions };
  // Bad rules have been reported already, and must not be reported as missing too.
  faults.push(...exemptFaults(rules === undefined ? own : { ...own, minGapMs: 1 }, path, 'minGap'));
  return own;
}

function exemptOf(value: unknown, path: string, faults: Fault[]): readonly Exemption[] | undefined {
  if (value === undefined) return undefined;
  if (Array.isArray(value) && value.length > 0) return value as readonly Exemption[]; // exemptFaults checks each
  faults.push(faultOf(path, 'an array of gap, rules, quietHours', value));
  return undefined;
}

function rulesOf(value: unknown, path: string, faults: Fault[]): readonly Rule[] {
  if (value === undefined) return [];
  if (typeof value !== 'string') {
    faults.push(faultOf(path, 'a string of rules, such as "10/1m,200/1h"', value));
    return [];
  }
  const parsed = parseRules(value, path);
  if (parsed.ok) return parsed.rules;
  faults.push(...parsed.faults);
  return [];
}

function gapOf(value: unknown, path: string, faults: Fault[]): number {
  if (value === undefined) return 0;
  const gapMs = typeof value === 'string' ? parseDuration(value.trim()) : undefined;
  if (gapMs !== undefined && gapMs <= MAX_WINDOW_MS) return gapMs;
  faults.push(faultOf(path, `"0" or ${DURATION_FORMAT}, at most ${formatDuration(MAX_WINDOW_MS)}`, value));
  return 0;
}

/** Names that newcomers give to fields of the file. */
const MEANT = { category: 'categories', max: 'rules', per: 'rules', limit: 'rules', limits: 'rules' };

/** An object's fields; fields that are not `known` are reported. Undefined, with a report, if the value is not an object. */
function fieldsOf(value: unknown, path: string, known: readonly string[] | undefined, faults: Fault[]) {
  if (!isObject(value)) {
    faults.push(faultOf(path, 'an object', value));
    return undefined;
  }
  faults.push(...(known === undefined ? [] : unknownFields(value, known, path, MEANT)));
  return value;
}
