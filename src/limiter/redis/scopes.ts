import type { CategoryPolicy, Policy } from '../../domain/limits.ts';
import { paceOf } from '../pace.ts';

/** The policies of an ask's scopes, and what follows from them. */
export interface ScopePolicies {
  /** ARGV[6] of admit.lua. */
  readonly text: string;
  /** The gap of the first scope. */
  readonly firstGapMs: number;
  /** The largest gap. */
  readonly gapMs: number;
  /** The smallest tolerance. */
  readonly toleranceMs: number;
}

/** The policies of a limiter, in the form in which its scripts take them. */
export interface Scopes {
  readonly policy: Policy;
  readonly categories: readonly (readonly [name: string, policy: CategoryPolicy])[];
  /** The category, if it has a policy of its own. */
  categoryOf(held: { readonly category?: string }): string | undefined;
  /** The policies of an ask's scopes; computed once and remembered. */
  policiesOf(overall: Policy | undefined, category: string | undefined): ScopePolicies;
  /** The policies of the overall scope and of every category. */
  readonly allPolicies: string;
  /** A policy as it is stored for a recipient. */
  textOf(policy: Policy): string;
}

export interface ScopesOptions {
  readonly policy: Policy;
  readonly categories: Readonly<Record<string, CategoryPolicy>>;
  readonly keepMs: number;
}

/** Throws InputError if a policy is not usable. */
export function createScopes({ policy, categories, keepMs }: ScopesOptions): Scopes {
  const ofCategories = new Map(Object.entries(categories));
  // The overall scope decides whether an id was admitted before, so it must keep ids as long as any category counts them.
  const ownKeepMs = Math.max(keepMs, ...[policy, ...ofCategories.values()].map((each) => paceOf(each).longestMs));
  const known = new WeakMap<Policy, Map<string | undefined, ScopePolicies>>();

  function policiesOf(overall: Policy | undefined, category: string | undefined): ScopePolicies {
    const first = overall ?? policy;
    const ofFirst = known.get(first) ?? new Map<string | undefined, ScopePolicies>();
    const found = ofFirst.get(category);
    if (found !== undefined) return found;
    const second = category === undefined ? [] : [ofCategories.get(category) ?? first];
    const text = `[${[textOf(first, ownKeepMs), ...second.map((each) => textOf(each, keepMs))].join(',')}]`;
    const both = [first, ...second];
    const policies = {
      text,
      firstGapMs: first.minGapMs,
      gapMs: Math.max(...both.map(({ minGapMs }) => minGapMs)),
      toleranceMs: Math.min(...both.map((each) => paceOf(each).toleranceMs)),
    };
    known.set(first, ofFirst.set(category, policies));
    return policies;
  }

  return {
    policy,
    categories: [...ofCategories],
    categoryOf: ({ category }) => (category !== undefined && ofCategories.has(category) ? category : undefined),
    policiesOf,
    allPolicies: `[${[textOf(policy, ownKeepMs), ...[...ofCategories.values()].map((each) => textOf(each, keepMs))].join(',')}]`,
    textOf: (each) => textOf(each, 0),
  };
}

function textOf(policy: Policy, keepMs: number): string {
  return JSON.stringify(toNumbers(policy, keepMs));
}

/** A policy as it is stored for a recipient: how long slots are kept, the tolerance, the gap or 0, max and window of each rule. */
export type PolicyNumbers = readonly [keepMs: number, toleranceMs: number, gapMs: number, ...maxAndWindow: number[]];

export function toNumbers(policy: Policy, keepMs: number): PolicyNumbers {
  const { toleranceMs, longestMs } = paceOf(policy);
  const pairs = policy.rules.flatMap(({ max, perMs }) => [max, perMs]);
  return [Math.max(keepMs, longestMs), toleranceMs, policy.minGapMs, ...pairs];
}

export function toPolicy([, , minGapMs, ...pairs]: PolicyNumbers): Policy {
  const rules = Array.from({ length: pairs.length / 2 }, (_, index) => {
    const [max = NaN, perMs = NaN] = pairs.slice(2 * index);
    return { max, perMs };
  });
  return { rules, minGapMs };
}
