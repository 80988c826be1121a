import { describeFound, isOptions, optionFaults, type Fault, type OptionNames, nearest } from './faults.ts';
import { DURATION_FORMAT, formatDuration, parseDuration } from './time.ts';

/** At most `max` alerts in any rolling window of `perMs` milliseconds. */
export interface Rule {
  /** The most alerts: an integer from 1 to 100,000 (of a quota: to 1,000,000,000). */
  readonly max: number;
  /** The length of the window in milliseconds: from 1 to 31 days. */
  readonly perMs: number;
}

/** What holds for one recipient: every rule, and the least time between two alerts (0 for none). */
export interface Policy {
  /** At most 16; all hold at once. None: only the gap holds. */
  readonly rules: readonly Rule[];
  /** Milliseconds between two alerts: 0 to 31 days. */
  readonly minGapMs: number;
}

/** A limit of the overall policy that may be skipped for an urgent category, or the quiet hours. */
export type Exemption = 'gap' | 'rules' | 'quietHours';
/** Every exemption. */
export const EXEMPTIONS: readonly Exemption[] = ['gap', 'rules', 'quietHours'];

/** What holds for one category of one recipient, in addition to the overall policy. */
export interface CategoryPolicy extends Policy {
  /**
   * Which overall limits do not hold for this category. With `gap` or `rules` it is urgent: it does not wait behind others
   * either. It needs rules or a gap of its own then. Default: none.
   */
  readonly exempt?: readonly Exemption[];
}

/** Whether a category goes before others that wait. */
export function isUrgent({ exempt = [] }: Pick<CategoryPolicy, 'exempt'>): boolean {
  return exempt.includes('gap') || exempt.includes('rules');
}

/** The overall policy as it holds for a category. */
export function withoutExempt({ rules, minGapMs }: Policy, { exempt = [] }: Pick<CategoryPolicy, 'exempt'>): Policy {
  return { rules: exempt.includes('rules') ? [] : rules, minGapMs: exempt.includes('gap') ? 0 : minGapMs };
}

/** The longest rolling window: 31 days. Redis keeps every send of the longest window. */
export const MAX_WINDOW_MS = 31 * 86_400_000;
/** The most sends that a rule may count; Redis keeps one entry for each. */
const MAX_PER_WINDOW = 100_000;
/** The most rules in one policy. */
const MAX_RULES = 16;

/** The name of a rule in answers, logs and metrics: `10/1m`. The gap's name is `gap`. */
export function ruleName(rule: Rule): string {
  return `${rule.max}/${formatDuration(rule.perMs)}`;
}

export type ParsedRules = { ok: true; rules: Rule[] } | { ok: false; faults: Fault[] };

/** The largest rule that a recipient's policy may have. */
const LARGEST_RULE: Rule = { max: MAX_PER_WINDOW, perMs: MAX_WINDOW_MS };

/**
 * `"1/1s,20/1m"` → rules, or every fault at once. `path` names the variable or flag that the text came from; `largest`
 * bounds both the max and the window of each rule.
 */
export function parseRules(text: string, path: string, largest: Rule = LARGEST_RULE): ParsedRules {
  const faults: Fault[] = [];
  const parts = text.split(',').map((part) => part.trim());
  const rules = parts.map((part, index): Rule => {
    const [max, per, ...rest] = part.split('/');
    const perMs = per === undefined || rest.length > 0 ? undefined : parseDuration(per);
    if (!/^\d{1,10}$/.test(max ?? '') || perMs === undefined) {
      faults.push({ path: `${path}[${index}]`, expected: 'max/per, such as 10/1m', found: JSON.stringify(part) });
      return { max: 1, perMs: 1 }; // within the bounds, so that no second fault is reported for it
    }
    return { max: Number(max), perMs };
  });
  faults.push(...textRuleFaults(rules, path, largest));
  return faults.length > 0 ? { ok: false, faults } : { ok: true, rules };
}

const RULE_FIELDS: OptionNames<Rule> = { max: true, perMs: true };
const POLICY_FIELDS: OptionNames<Policy> = { rules: true, minGapMs: true };
/** The fields of a policy that may be a category's. */
export const CATEGORY_FIELDS: OptionNames<CategoryPolicy> = { ...POLICY_FIELDS, exempt: true };
/** The names of a rule's fields in other limiters. */
const MEANT_IN_RULE = {
  ...{ window: 'perMs', windowMs: 'perMs', duration: 'perMs', interval: 'perMs', period: 'perMs' },
  ...{ limit: 'max', points: 'max', count: 'max' },
};
/** A rule in the place of the policy. */
const MEANT_IN_POLICY = Object.fromEntries(
  [...Object.keys(RULE_FIELDS), ...Object.keys(MEANT_IN_RULE), 'per'].map((name) => [name, 'rules']),
);

/** Every way in which a policy is unusable, as its caller wrote it; paths are below `path`: `path.rules[0].max`, `path.minGapMs`. */
export function policyFaults(
  policy: Policy,
  path: string,
  fields: Readonly<Record<string, true>> = POLICY_FIELDS,
): Fault[] {
  if (!isOptions(policy)) {
    return [{ path, expected: 'an object: { rules: [{ max, perMs }], minGapMs }', found: describeFound(policy) }];
  }
  const faults = optionFaults(policy, fields, path, MEANT_IN_POLICY);
  const { rules, minGapMs, exempt } = policy as Partial<Record<keyof CategoryPolicy, unknown>>;
  faults.push(...ruleFaults(rules, `${path}.rules`, LARGEST_RULE));
  if (!isInteger(minGapMs, 0, MAX_WINDOW_MS)) {
    const expected = `${integerMs(0, MAX_WINDOW_MS)}; 0 for no gap`;
    faults.push({ path: `${path}.minGapMs`, expected, found: describeFound(minGapMs) });
  }
  if ('exempt' in fields && exempt !== undefined && !Array.isArray(exempt)) {
    const expected = 'an array of gap, rules, quietHours';
    faults.push({ path: `${path}.exempt`, expected, found: describeFound(exempt) });
  }
  return faults;
}

/** The same for a category, with its exemptions. */
export function categoryFaults(policy: CategoryPolicy, path: string): Fault[] {
  const faults = policyFaults(policy, path, CATEGORY_FIELDS);
  return faults.length > 0 ? faults : exemptFaults(policy, path, 'minGapMs');
}

/**
 * Every way in which a list of rules is unusable, as its caller wrote it: `path[0].perMs`.
 *
 * @param least how many rules there must be
 */
export function ruleFaults(rules: unknown, path: string, largest: Rule, least = 0): Fault[] {
  if (!Array.isArray(rules)) {
    const expected = 'an array of rules, such as [{ max: 10, perMs: 60_000 }]';
    return [{ path, expected, found: describeFound(rules) }];
  }
  const faults: Fault[] = [];
  if (rules.length < least || rules.length > MAX_RULES) {
    const expected = `${least === 0 ? 'at most' : `${least} to`} ${MAX_RULES} rules`;
    faults.push({ path, expected, found: String(rules.length) });
  }
  for (const [index, rule] of rules.entries()) {
    const place = `${path}[${index}]`;
    if (!isOptions(rule)) {
      const expected = 'a rule, such as { max: 10, perMs: 60_000 }';
      faults.push({ path: place, expected, found: describeFound(rule) });
      continue;
    }
    faults.push(...optionFaults(rule, RULE_FIELDS, place, MEANT_IN_RULE));
    const { max, perMs } = rule as Partial<Record<keyof Rule, unknown>>;
    if (!isInteger(max, 1, largest.max)) {
      const expected = `an integer from 1 to ${largest.max}`;
      faults.push({ path: `${place}.max`, expected, found: describeFound(max) });
    }
    if (!isInteger(perMs, 1, largest.perMs)) {
      const expected = integerMs(1, largest.perMs);
      faults.push({ path: `${place}.perMs`, expected, found: describeFound(perMs) });
    }
  }
  return faults;
}

function integerMs(least: number, most: number): string {
  return `an integer of milliseconds from ${least} to ${most} (${formatDuration(most)})`;
}

/**
 * Every way in which the exemptions of a category are unusable.
 *
 * @param gap what the gap is called there: `minGapMs` in code, `minGap` in a file
 */
export function exemptFaults(policy: CategoryPolicy, path: string, gap: 'minGap' | 'minGapMs'): Fault[] {
  const faults: Fault[] = [];
  const { exempt = [], rules, minGapMs } = policy;
  for (const [index, name] of exempt.entries()) {
    if (EXEMPTIONS.includes(name)) continue;
    const near = typeof name === 'string' ? nearest(name, EXEMPTIONS) : undefined;
    const expected = `gap, rules or quietHours${near === undefined ? '' : ` (did you mean ${near}?)`}`;
    faults.push({ path: `${path}.exempt[${index}]`, expected, found: describeFound(name) });
  }
  if (exempt.length > 0 && rules.length === 0 && minGapMs === 0) {
    const expected = `rules or ${gap} of its own beside exempt, so that not every alert goes at once`;
    faults.push({ path, expected, found: 'neither' });
  }
  return faults;
}

/** Of rules that were read from a text, where windows are durations: `LIMIT_RULES[0].per`. */
function textRuleFaults(rules: readonly Rule[], path: string, largest: Rule): Fault[] {
  const faults: Fault[] = [];
  if (rules.length > MAX_RULES) {
    faults.push({ path, expected: `at most ${MAX_RULES} rules`, found: String(rules.length) });
  }
  for (const [index, { max, perMs }] of rules.entries()) {
    if (!isInteger(max, 1, largest.max)) {
      const expected = `an integer from 1 to ${largest.max}`;
      faults.push({ path: `${path}[${index}].max`, expected, found: String(max) });
    }
    if (!isInteger(perMs, 1, largest.perMs)) {
      const expected = `${DURATION_FORMAT}, from 1ms to ${formatDuration(largest.perMs)}`;
      faults.push({ path: `${path}[${index}].per`, expected, found: `${perMs} ms` });
    }
  }
  return faults;
}

function isInteger(value: unknown, least: number, most: number): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most;
}

/** Whose limits count a notification: those of alerts, or one of those that are apart from them. */
export type CountedAs = 'alert' | CountedApart;
/** They make no sound and show no banner, so they take no slot of the alerts. Each has rules, slots and keys of its own. */
export type CountedApart = (typeof COUNTED_APART)[number];
export const COUNTED_APART = ['background', 'liveactivity'] as const;

/**
 * By the fields of a notification, or of any job's data. A Live Activity's push with an alert alerts like any other one, so it
 * takes a slot of the alerts.
 */
export function countedAs({ pushType, alert }: { readonly pushType?: unknown; readonly alert?: unknown }): CountedAs {
  if (pushType === 'background') return pushType;
  return pushType === 'liveactivity' && alert === undefined ? pushType : 'alert';
}
