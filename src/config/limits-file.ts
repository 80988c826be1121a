import { DURATION_FORMAT, formatDuration, parseDuration } from '../domain/time.ts';
import type { Fault } from '../domain/faults.ts';
import { MAX_WINDOW_MS, parseRules, type Policy, type Rule } from '../domain/limits.ts';
import { notificationSchema } from '../domain/notification.ts';
import { reporter, type Report } from '../environment/files.ts';
import { readJsonFile } from './json-file.ts';

type Fields = Readonly<Record<string, unknown>>;

const NAME = 'LIMITS_FILE';
const NO_CATEGORIES: Readonly<Record<string, Policy>> = Object.freeze(Object.create(null) as Record<string, Policy>);

/**
 * Category → policy, from the file at `path`: `{ "categories": { "messages": { "rules": "5/1m", "minGap": "10s" } } }`,
 * where rules or a gap that are left out do not exist. The record has no prototype, since `constructor` is a valid category.
 */
export function readLimitsFile(path: string | undefined, faults: Fault[]): Readonly<Record<string, Policy>> {
  const toldAbove = reporter(faults);
  const json = readJsonFile(NAME, path, toldAbove);
  if (json === undefined) return NO_CATEGORIES;
  return categoriesOf(json.value, (where, expected, found) => {
    toldAbove(where === '' ? NAME : `${NAME}: ${where}`, expected, found);
  });
}

function categoriesOf(value: unknown, report: Report): Readonly<Record<string, Policy>> {
  const file = fieldsOf(value, '', ['categories'], report);
  if (file === undefined) return NO_CATEGORIES;
  const categories = fieldsOf(file['categories'], 'categories', undefined, report) ?? {};
  const policies = Object.create(null) as Record<string, Policy>;
  for (const [name, policy] of Object.entries(categories)) {
    const checked = notificationSchema.shape.category.safeParse(name);
    if (checked.success) policies[name] = policyOf(policy, `categories.${name}`, report);
    else report('categories', `names of ${checked.error.issues[0]?.message ?? ''}`, JSON.stringify(name));
  }
  return Object.freeze(policies);
}

/** A bad field is reported and then counts as left out. */
function policyOf(value: unknown, path: string, report: Report): Policy {
  const fields = fieldsOf(value, path, ['rules', 'minGap'], report);
  if (fields === undefined) return { rules: [], minGapMs: 0 };
  const { rules, minGap } = fields;
  if (rules === undefined && minGap === undefined) report(path, 'rules, minGap or both', 'neither');
  return { rules: rulesOf(rules, `${path}.rules`, report), minGapMs: gapOf(minGap, `${path}.minGap`, report) };
}

function rulesOf(value: unknown, path: string, report: Report): readonly Rule[] {
  if (value === undefined) return [];
  if (typeof value !== 'string') {
    report(path, 'a string of rules, such as "10/1m,200/1h"', kindOf(value));
    return [];
  }
  const parsed = parseRules(value, path);
  if (parsed.ok) return parsed.rules;
  for (const fault of parsed.faults) report(fault.path, fault.expected, fault.found);
  return [];
}

function gapOf(value: unknown, path: string, report: Report): number {
  if (value === undefined) return 0;
  const gapMs = typeof value === 'string' ? parseDuration(value.trim()) : undefined;
  if (gapMs !== undefined && gapMs <= MAX_WINDOW_MS) return gapMs;
  const expected = `"0" or ${DURATION_FORMAT}, at most ${formatDuration(MAX_WINDOW_MS)}`;
  report(path, expected, kindOf(value));
  return 0;
}

/** An object's fields; those that are not `known` are reported. Undefined, and reported, if it is no object. */
function fieldsOf(value: unknown, path: string, known: readonly string[] | undefined, report: Report) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    report(path, 'an object', kindOf(value));
    return undefined;
  }
  for (const name of Object.keys(value)) {
    const where = path === '' ? name : `${path}.${name}`;
    if (known?.includes(name) === false) report(where, 'no such field', 'one');
  }
  return value as Fields;
}

/** A short description of a JSON value, for a fault. */
function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === 'object' && value !== null ? 'an object' : JSON.stringify(value).slice(0, 80);
}
