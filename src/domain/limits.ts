import { DURATION_FORMAT, formatDuration, parseDuration } from './time.ts';
import { describeFound, type Fault } from './faults.ts';
import { nearest } from './nearest.ts';

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
export const MAX_PER_WINDOW = 100_000;
/** The most rules in one policy. */
export const MAX_RULES = 16;

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
  faults.push(...rulesFaults(rules, path, largest));
  return faults.length > 0 ? { ok: false, faults } : { ok: true, rules };
}

/** Every way in which a policy is unusable; paths are below `path`: `path[0].max`, `path.minGapMs`. */
export function policyFaults(policy: Policy, path: string): Fault[] {
  const faults = rulesFaults(policy.rules, path, LARGEST_RULE);
  const { minGapMs } = policy;
  if (!isInteger(minGapMs, 0, MAX_WINDOW_MS)) {
    const expected = `0 or ${DURATION_FORMAT}, at most ${formatDuration(MAX_WINDOW_MS)}`;
    faults.push({ path: `${path}.minGap`, expected, found: `${minGapMs} ms` });
  }
  return faults;
}

/** The same for a category, with its exemptions. */
export function categoryFaults(policy: CategoryPolicy, path: string): Fault[] {
  const faults = policyFaults(policy, path);
  const { exempt = [], rules, minGapMs } = policy;
  for (const [index, name] of exempt.entries()) {
    if (EXEMPTIONS.includes(name)) continue;
    const near = typeof name === 'string' ? nearest(name, EXEMPTIONS) : undefined;
    const expected = `gap, rules or quietHours${near === undefined ? '' : ` (did you mean ${near}?)`}`;
    faults.push({ path: `${path}.exempt[${index}]`, expected, found: describeFound(name, false) });
  }
  if (exempt.length > 0 && rules.length === 0 && minGapMs === 0) {
    const expected = 'rules or minGap of its own beside exempt, so that not every alert goes at once';
    faults.push({ path, expected, found: 'neither' });
  }
  return faults;
}

function rulesFaults(rules: readonly Rule[], path: string, largest: Rule): Fault[] {
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

function isInteger(value: number, least: number, most: number): boolean {
  return Number.isSafeInteger(value) && value >= least && value <= most;
}
