import { describeFound, didYouMean, faultOf, optionFaults, type Fault, type OptionNames, nearest } from './faults.ts';
import { isObject, objectOr } from './json.ts';
import { DURATION_FORMAT, formatDuration, parseDuration } from './time.ts';

/** At most `max` alerts in any rolling window of `perMs` milliseconds. */
export interface Rule {
  /** The most alerts: an integer from 1 to 100,000 (of a quota: to 1,000,000,000). */
  readonly max: number;
  /** The length of the window in milliseconds: from 1 to 31 days. */
  readonly perMs: number;
}

/** The limits of one recipient: every rule, and the shortest time between two alerts (0 for none). */
export interface Policy {
  /** At most 16 rules; all apply at once. If there are none, only the gap applies. */
  readonly rules: readonly Rule[];
  /** Milliseconds between two alerts: 0 to 31 days. */
  readonly minGapMs: number;
}

/** A limit of the overall policy, or the quiet hours, that an urgent category may skip. */
export type Exemption = 'gap' | 'rules' | 'quietHours';
export const EXEMPTIONS: readonly Exemption[] = ['gap', 'rules', 'quietHours'];

/** The limits of one category of one recipient, in addition to the overall policy. */
export interface CategoryPolicy extends Policy {
  /**
   * Which overall limits do not apply to this category. A category with `gap` or `rules` here is urgent: its notifications do
   * not wait behind others, and it needs rules or a gap of its own. Default: none.
   */
  readonly exempt?: readonly Exemption[];
}

/** Whether a category's notifications do not wait behind others. */
export function isUrgent({ exempt = [] }: Pick<CategoryPolicy, 'exempt'>): boolean {
  return exempt.includes('gap') || exempt.includes('rules');
}

/** The overall policy as it applies to a category. */
export function withoutExempt({ rules, minGapMs }: Policy, { exempt = [] }: Pick<CategoryPolicy, 'exempt'>): Policy {
  return { rules: exempt.includes('rules') ? [] : rules, minGapMs: exempt.includes('gap') ? 0 : minGapMs };
}

/** The longest rolling window: 31 days. Redis keeps every send of the longest window. */
export const MAX_WINDOW_MS = 31 * 86_400_000;
/** The most sends that a rule may count; Redis keeps one entry for each send. */
const MAX_PER_WINDOW = 100_000;
const MAX_RULES = 16;
/** No 16 rules are as long as this. A longer text is not divided: a million commas would be a million faults. */
const MAX_RULES_TEXT = 1_000;

/** The name of a rule in answers, logs and metrics: `10/1m`. The gap's name is `gap`. */
export function ruleName(rule: Rule): string {
  return `${rule.max}/${formatDuration(rule.perMs)}`;
}

export type ParsedRules = { ok: true; rules: Rule[] } | { ok: false; faults: Fault[] };

/** The largest rule that a recipient's policy may have. */
const LARGEST_RULE: Rule = { max: MAX_PER_WINDOW, perMs: MAX_WINDOW_MS };

/**
 * `"1/1s,20/1m"` → rules, or every fault at once. `path` names the variable or flag of the text; `largest` limits both the max
 * and the window of each rule.
 */
export function parseRules(text: string, path: string, largest: Rule = LARGEST_RULE): ParsedRules {
  if (text.length > MAX_RULES_TEXT) return { ok: false, faults: [countFault(path, describeFound(text))] };
  const parts = text.split(',').map((part) => part.trim());
  if (parts.length > MAX_RULES) return { ok: false, faults: [countFault(path, String(parts.length))] };
  const faults: Fault[] = [];
  const rules = parts.map((part, index): Rule => {
    const [max, per, ...rest] = part.split('/');
    const perMs = per === undefined || rest.length > 0 ? undefined : parseDuration(per);
    if (!/^\d{1,10}$/.test(max ?? '') || perMs === undefined) {
      faults.push({ path: `${path}[${index}]`, expected: 'max/per, such as 10/1m', found: describeFound(part) });
      return { max: 1, perMs: 1 }; // a rule that is allowed, so that no second fault is reported for this part
    }
    return { max: Number(max), perMs };
  });
  faults.push(...rules.flatMap((rule, index) => boundFaults(rule, `${path}[${index}]`, largest, 'per')));
  return faults.length > 0 ? { ok: false, faults } : { ok: true, rules };
}

const RULE_FIELDS: OptionNames<Rule> = { max: true, perMs: true };
const POLICY_FIELDS: OptionNames<Policy> = { rules: true, minGapMs: true };
export const CATEGORY_FIELDS: OptionNames<CategoryPolicy> = { ...POLICY_FIELDS, exempt: true };
/** The names of a rule's fields in other limiters. */
const MEANT_IN_RULE = {
  ...{ window: 'perMs', windowMs: 'perMs', duration: 'perMs', interval: 'perMs', period: 'perMs' },
  ...{ limit: 'max', points: 'max', count: 'max' },
};
/** If a rule's field stands in the policy itself, `rules` was meant. */
const MEANT_IN_POLICY = Object.fromEntries(
  [...Object.keys(RULE_FIELDS), ...Object.keys(MEANT_IN_RULE), 'per'].map((name) => [name, 'rules']),
);

/** Every fault of a policy that a caller wrote. Each fault's path begins with `path`: `path.rules[0].max`, `path.minGapMs`. */
export function policyFaults(
  policy: Policy,
  path: string,
  fields: Readonly<Record<string, true>> = POLICY_FIELDS,
): Fault[] {
  if (!isObject(policy)) return [faultOf(path, 'an object: { rules: [{ max, perMs }], minGapMs }', policy)];
  const faults = optionFaults(policy, fields, path, MEANT_IN_POLICY);
  const { rules, minGapMs, exempt } = policy as Partial<Record<keyof CategoryPolicy, unknown>>;
  faults.push(...ruleFaults(rules, `${path}.rules`, LARGEST_RULE));
  if (!isInteger(minGapMs, 0, MAX_WINDOW_MS)) {
    faults.push(faultOf(`${path}.minGapMs`, `${integerMs(0, MAX_WINDOW_MS)}; 0 for no gap`, minGapMs));
  }
  if ('exempt' in fields && exempt !== undefined && !Array.isArray(exempt)) {
    faults.push(faultOf(`${path}.exempt`, 'an array of gap, rules, quietHours', exempt));
  }
  return faults;
}

/** As `policyFaults`, for a category with its exemptions. */
export function categoryFaults(policy: CategoryPolicy, path: string): Fault[] {
  const faults = policyFaults(policy, path, CATEGORY_FIELDS);
  return faults.length > 0 ? faults : exemptFaults(policy, path, 'minGapMs');
}

/**
 * Every fault of a list of rules that a caller wrote, with paths such as `path[0].perMs`.
 *
 * @param least how many rules there must be
 */
export function ruleFaults(rules: unknown, path: string, largest: Rule, least = 0): Fault[] {
  if (!Array.isArray(rules)) {
    return [faultOf(path, 'an array of rules, such as [{ max: 10, perMs: 60_000 }]', rules)];
  }
  if (rules.length > MAX_RULES) return [countFault(path, String(rules.length), least)];
  const faults = rules.flatMap((rule: unknown, index) => {
    const place = `${path}[${index}]`;
    if (!isObject(rule)) return [faultOf(place, 'a rule, such as { max: 10, perMs: 60_000 }', rule)];
    return [...optionFaults(rule, RULE_FIELDS, place, MEANT_IN_RULE), ...boundFaults(rule, place, largest, 'perMs')];
  });
  return rules.length < least ? [countFault(path, String(rules.length), least), ...faults] : faults;
}

/** The fault of too many rules, or of fewer than `least`. */
function countFault(path: string, found: string, least = 0): Fault {
  return { path, expected: `${least === 0 ? 'at most' : `${least} to`} ${MAX_RULES} rules`, found };
}

/** @param window the name of the window's field: `perMs` in code, `per` in a text, where windows are durations */
function boundFaults(
  { max, perMs }: { readonly max?: unknown; readonly perMs?: unknown },
  place: string,
  largest: Rule,
  window: 'per' | 'perMs',
): Fault[] {
  const faults: Fault[] = [];
  if (!isInteger(max, 1, largest.max)) {
    faults.push(faultOf(`${place}.max`, `an integer from 1 to ${largest.max}`, max));
  }
  if (!isInteger(perMs, 1, largest.perMs)) {
    const duration = `${DURATION_FORMAT}, from 1ms to ${formatDuration(largest.perMs)}`;
    faults.push(
      window === 'perMs'
        ? faultOf(`${place}.perMs`, integerMs(1, largest.perMs), perMs)
        : { path: `${place}.per`, expected: duration, found: `${String(perMs)} ms` },
    );
  }
  return faults;
}

function integerMs(least: number, most: number): string {
  return `an integer of milliseconds from ${least} to ${most} (${formatDuration(most)})`;
}

/**
 * Every fault of the exemptions of a category.
 *
 * @param gap what the gap is called there: `minGapMs` in code, `minGap` in a file
 */
export function exemptFaults(policy: CategoryPolicy, path: string, gap: 'minGap' | 'minGapMs'): Fault[] {
  const faults: Fault[] = [];
  const { exempt = [], rules, minGapMs } = policy;
  for (const [index, name] of exempt.entries()) {
    if (EXEMPTIONS.includes(name)) continue;
    const near = typeof name === 'string' ? nearest(name, EXEMPTIONS) : undefined;
    faults.push(faultOf(`${path}.exempt[${index}]`, `gap, rules or quietHours${didYouMean(near)}`, name));
  }
  if (exempt.length > 0 && rules.length === 0 && minGapMs === 0) {
    const expected = `rules or ${gap} of its own beside exempt, so that not every alert goes at once`;
    faults.push({ path, expected, found: 'neither' });
  }
  return faults;
}

function isInteger(value: unknown, least: number, most: number): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most;
}

/** The limits that a notification counts against: the limits of alerts, of background pushes or of Live Activities. */
export type CountedAs = 'alert' | CountedApart;
/** Pushes without sound and banner: they take no slot of the alerts. Each kind has rules, slots and keys of its own. */
export type CountedApart = (typeof COUNTED_APART)[number];
export const COUNTED_APART = ['background', 'liveactivity'] as const;

/**
 * Takes a notification, or the data of any job. A Live Activity's push with an alert takes a slot of the alerts, because it
 * alerts like any other notification.
 */
export function countedAs({ pushType, alert }: { readonly pushType?: unknown; readonly alert?: unknown }): CountedAs {
  if (pushType === 'background') return pushType;
  return pushType === 'liveactivity' && alert === undefined ? pushType : 'alert';
}

/** Whose limits a notification counts against, and which of their limits. */
export interface PlaceInLimits {
  readonly recipientId: string;
  readonly category?: string;
  readonly kind: CountedAs;
}

/** The place of a job's data, which may be invalid for this version; undefined if the data names no recipient. */
export function placeOf(data: unknown): PlaceInLimits | undefined {
  const fields = objectOr(data);
  const { recipientId, category } = fields;
  if (typeof recipientId !== 'string' || recipientId === '') return undefined;
  return { recipientId, ...(typeof category === 'string' && { category }), kind: countedAs(fields) };
}

/** Says which limits a recipient has: `is limited to 10/1m, gap 3s`, `has no limits` */
export function limitedText(policy: Policy): string {
  const text = policyText(policy);
  return text === NO_LIMITS ? `has ${text}` : `is limited to ${text}`;
}

const NO_LIMITS = 'no limits';

const EXEMPTION_NAMES = { gap: 'the overall gap', rules: 'the overall rules', quietHours: 'quiet hours' } as const;

/** `10/1m, 100/1h, gap 3s`; of a category `5/1h, no gap, exempt from the overall gap and quiet hours` */
export function policyText({ rules, minGapMs, exempt = [] }: CategoryPolicy): string {
  if (rules.length === 0 && minGapMs === 0) return NO_LIMITS; // then nothing is exempt
  const gap = minGapMs === 0 ? 'no gap' : `gap ${formatDuration(minGapMs)}`;
  const names = EXEMPTIONS.filter((name) => exempt.includes(name)).map((name) => EXEMPTION_NAMES[name]);
  const exemption = names.length === 0 ? [] : [`exempt from ${LIST.format(names)}`];
  return [...rules.map(ruleName), gap, ...exemption].join(', ');
}

/** `a, b and c` */
const LIST = new Intl.ListFormat('en-GB');

/** How far notifications of high priority may overtake the reservations of others. */
export interface Overtaking {
  /** No reservation is overtaken more often than this. 0: none is overtaken. */
  readonly mostTimes: number;
  /** A reservation that overtakings delayed by this many milliseconds in all is not overtaken. Quiet time does not count. */
  readonly mostMs: number;
}
