import { DURATION_FORMAT, formatDuration } from '../domain/time.ts';
import { InputError, type Fault } from '../domain/faults.ts';
import { MAX_RULES, MAX_WINDOW_MS, ruleName, type Rule } from '../domain/limits.ts';
import type { QuotaTerms } from './quota.ts';

/** A rule as the quota counts it: in buckets of `widthMs` milliseconds, numbered from the epoch. */
export interface Tier {
  /** The rule's name: `600000/1m`. */
  readonly name: string;
  readonly max: number;
  readonly perMs: number;
  readonly widthMs: number;
  /** For how many buckets a token counts, including the one in which it was taken. */
  readonly span: number;
  /** For how many buckets more a promised token is planned to count: it may be claimed late by up to `leaseMs`. */
  readonly slack: number;
}

/** Checked terms, with the values that are computed from them. */
export interface CheckedTerms {
  readonly name: string;
  /** One for each window length, the shortest first. */
  readonly tiers: readonly Tier[];
  readonly leaseMs: number;
}

/** The most tokens that a rule may count: a count is one number, so this only keeps sums exact. */
const MAX_TOKENS = 1_000_000_000;
/** Buckets in a window. Counting by buckets loses up to 1/100 of a window, and Redis stores 128 entries compactly. */
const BUCKETS = 100;
/** Not longer than the time for which newcomers wait for an overdue promise (GRACE_MS of quota.lua). */
const MAX_LEASE_MS = 1_000;
const NAME = /^[\w.~-]{1,128}$/;

/** Throws InputError with every fault of the terms. */
export function checkTerms({ name, rules, leaseMs }: QuotaTerms): CheckedTerms {
  const faults: Fault[] = [];
  if (!NAME.test(name)) {
    faults.push({ path: 'name', expected: '1 to 128 of A-Z a-z 0-9 . _ ~ -', found: JSON.stringify(name) });
  }
  faults.push(...quotaFaults(rules, 'rules'));
  const shortestMs = Math.min(...rules.map(({ perMs }) => perMs));
  const longestLeaseMs = Math.min(MAX_LEASE_MS, shortestMs);
  if (faults.length === 0 && leaseMs !== undefined && !isInteger(leaseMs, 1, longestLeaseMs)) {
    const expected = `an integer from 1 to ${longestLeaseMs} (the shortest window, 1 s at the most)`;
    faults.push({ path: 'leaseMs', expected, found: String(leaseMs) });
  }
  if (faults.length > 0) throw new InputError('unusable quota', faults);
  const lease = leaseMs ?? Math.max(1, Math.min(500, Math.floor(shortestMs / 20)));
  return { name, leaseMs: lease, tiers: tiersOf(rules, lease) };
}

/** Throws InputError if this cannot be the `at` of an earlier answer. */
export function checkPromise(promisedAt: number | undefined): void {
  if (promisedAt === undefined || Number.isSafeInteger(promisedAt)) return;
  const fault = { path: 'promisedAt', expected: '`at` of an earlier answer, in epoch ms', found: String(promisedAt) };
  throw new InputError('unusable promise', [fault]);
}

/** Every fault of the rules of a quota; paths are below `path`: `path[0].max`. */
export function quotaFaults(rules: readonly Rule[], path: string): Fault[] {
  const faults: Fault[] = [];
  if (rules.length === 0 || rules.length > MAX_RULES) {
    faults.push({ path, expected: `1 to ${MAX_RULES} rules`, found: String(rules.length) });
  }
  for (const [index, { max, perMs }] of rules.entries()) {
    if (!isInteger(max, 1, MAX_TOKENS)) {
      const expected = `an integer from 1 to ${MAX_TOKENS}`;
      faults.push({ path: `${path}[${index}].max`, expected, found: String(max) });
    }
    if (!isInteger(perMs, 1, MAX_WINDOW_MS)) {
      const expected = `${DURATION_FORMAT}, from 1ms to ${formatDuration(MAX_WINDOW_MS)}`;
      faults.push({ path: `${path}[${index}].per`, expected, found: `${perMs} ms` });
    }
  }
  return faults;
}

/** Of two rules with the same window only the stricter one matters. */
function tiersOf(rules: readonly Rule[], leaseMs: number): Tier[] {
  const strictest = new Map<number, number>();
  for (const { max, perMs } of rules) strictest.set(perMs, Math.min(max, strictest.get(perMs) ?? Infinity));
  const sorted = [...strictest].toSorted(([a], [b]) => a - b);
  return sorted.map(([perMs, max]) => {
    const widthMs = Math.ceil(perMs / BUCKETS);
    const span = 1 + Math.ceil((perMs + leaseMs) / widthMs);
    return { name: ruleName({ max, perMs }), max, perMs, widthMs, span, slack: Math.ceil(leaseMs / widthMs) };
  });
}

function isInteger(value: number, least: number, most: number): boolean {
  return Number.isSafeInteger(value) && value >= least && value <= most;
}
