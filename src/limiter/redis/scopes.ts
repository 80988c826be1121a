import type { Policy } from '../../domain/limits.ts';
import { paceOf } from '../pace.ts';

/** The policies of an ask's scopes. */
export interface ScopePolicies {
  /** As the scripts take them. */
  readonly text: string;
  /** The gap of the first scope. */
  readonly firstGapMs: number;
  /** The widest of the gaps. */
  readonly gapMs: number;
  /** The least of the holds. */
  readonly holdMs: number;
}

/** The policies of a limiter, and how they are told to its scripts. */
export interface Scopes {
  readonly policy: Policy;
  readonly categories: readonly (readonly [name: string, policy: Policy])[];
  /** The category where it has a policy of its own. */
  categoryOf(held: { readonly category?: string }): string | undefined;
  /** The policies of an ask's scopes, worked out once for each. */
  policiesOf(overall: Policy | undefined, category: string | undefined): ScopePolicies;
  /** Those of every scope there is. */
  readonly allPolicies: string;
  /** One policy as it is stored for a recipient. */
  textOf(policy: Policy): string;
}

export interface ScopesOptions {
  readonly policy: Policy;
  readonly categories: Readonly<Record<string, Policy>>;
  readonly keepMs: number;
}

/** Throws InputError where a policy is unusable. */
export function createScopes({ policy, categories, keepMs }: ScopesOptions): Scopes {
  const ofCategories = new Map(Object.entries(categories));
  // The first scope knows the ids, for as long as any scope counts them.
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
      holdMs: Math.min(...both.map((each) => paceOf(each).holdMs)),
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

/** The hold, the gap or 0, then max and window of each rule: as a policy is stored for a recipient. */
export type PolicyNumbers = readonly [keepMs: number, holdMs: number, gapMs: number, ...maxAndWindow: number[]];

export function toNumbers(policy: Policy, keepMs: number): PolicyNumbers {
  const { holdMs, longestMs } = paceOf(policy);
  const pairs = policy.rules.flatMap(({ max, perMs }) => [max, perMs]);
  return [Math.max(keepMs, longestMs), holdMs, policy.minGapMs, ...pairs];
}

export function toPolicy([, , minGapMs, ...pairs]: PolicyNumbers): Policy {
  const rules = Array.from({ length: pairs.length / 2 }, (_, index) => {
    const [max = NaN, perMs = NaN] = pairs.slice(2 * index);
    return { max, perMs };
  });
  return { rules, minGapMs };
}
