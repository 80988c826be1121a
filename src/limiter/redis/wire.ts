import { ruleName, type Policy, type CategoryPolicy } from '../../domain/limits.ts';
import type { Window } from '../../domain/quiet-hours.ts';
import type {
  Admission,
  Ask,
  Block,
  Cause,
  Digest,
  NotToBeSent,
  RuleStanding,
  Standing,
  WaitingAsk,
} from '../limiter.ts';
import { paceOf, quietCause, quietLeft } from '../pace.ts';
import type { StoredPolicy } from '../recipient-state.ts';
import type { Clock } from '../../redis/clock.ts';

// What the scripts take and answer; each script explains its own arguments. In this order: an ask and its answer; settings and
// inspections; policies.

/**
 * ARGV[4] of admit.lua.
 *
 * @param name the notification's name, if its id is stored as a digest
 */
export function toOptions(ask: WaitingAsk, name: string | undefined, countBlocked: boolean): string {
  const { maxWaitMs, maxQuietMs, expiresInMs, maxPending, leadMs = 0, enqueuedAt, unusedAt } = ask;
  const { join, claim = false, untilAwake = false, goesFirst = false, behindOverdue = false } = ask;
  const text = JSON.stringify({
    ...bound('maxWait', maxWaitMs),
    ...bound('maxQuiet', maxQuietMs),
    ...bound('expiresIn', expiresInMs),
    ...(maxPending !== undefined && { maxPending }),
    ...(countBlocked && { countBlocked: 1 }),
    ...(leadMs > 0 && { lead: Math.ceil(leadMs) }),
    ...(join !== undefined && { join }),
    ...(claim && { claim: 1 }),
    ...(untilAwake && { untilAwake: 1 }),
    ...(goesFirst && { first: 1 }),
    ...(behindOverdue && { behindOverdue: 1 }),
    ...(enqueuedAt !== undefined && { born: enqueuedAt }),
    ...(name !== undefined && { name }),
    ...(unusedAt !== undefined && { unusedAt }),
  });
  return text === '{}' ? '' : text;
}

function bound(name: string, ms = Infinity): Readonly<Record<string, number>> {
  return ms === Infinity ? {} : { [name]: Math.max(0, Math.floor(ms)) };
}

export function toAdmission(
  answered: Answered,
  { everyRule = false }: Pick<Ask, 'everyRule'>,
  category: string | undefined,
  clock: Clock,
  quiet: readonly Window[],
): (Admission & { readonly digest?: Digest; readonly canMoveUp?: true }) | NotToBeSent {
  const { kind, at, now, more } = answered;
  const one = standingOf(answered, category);
  const standing = everyRule ? { ...one, rules: answered.rules.map((each) => ruleStanding(each, category)) } : one;
  switch (kind) {
    case 'admitted':
    case 'repeated':
      return {
        ...{ kind: 'admitted', at, sendAt: clock.toLocal(at), repeated: kind === 'repeated', ...standing },
        ...(more && { digest: { count: Number(more[0]), own: Number(more[1]) === 1 } }),
      };
    case 'reserved':
      return {
        ...{ kind, at, waitMs: at - now, ...standing, ...waitOf(answered, quiet) },
        ...(answered.canMoveUp === true && { canMoveUp: true }),
      };
    case 'max-wait':
    case 'max-pending':
      return {
        ...{ kind: 'refused', because: kind, waitMs: at - now, ...standing, ...waitOf(answered, quiet) },
        ...quietLeft(quiet, now),
      };
    case 'ended': {
      const [how, by] = (more ?? ['canceled', '']) as [NotToBeSent['how'], string];
      return { kind, how, ...(by !== '' && { by }), gaveBackSlot: at > 0 };
    }
  }
}

function standingOf(answered: Answered, category: string | undefined): Standing {
  const { remaining, resetMs, toleranceMs, gapMs } = answered;
  return { rule: ruleOf(answered, category), remaining, resetMs, toleranceMs, gapMs };
}

/** Fields of the answer to an ask that must wait. `remaining` is 0, because the deciding limit has no room. */
function waitOf(
  answered: Answered,
  quiet: readonly Window[],
): Pick<Cause, 'before' | 'ruleUntil'> & Pick<Standing, 'remaining'> {
  const { limit, at, now, windowMs, remaining: before } = answered;
  const until = limit === QUIET ? quietCause(quiet, at) : limit === BLOCK ? { ruleUntil: now + windowMs } : {};
  return { before, remaining: 0, ...until };
}

function ruleStanding(room: LimitRoom, category: string | undefined): RuleStanding {
  const { max, windowMs: perMs, remaining, resetMs } = room;
  return { rule: ruleOf(room, category), max, perMs, remaining, resetMs };
}

function ruleOf({ scope, limit, max, windowMs }: LimitRoom, category: string | undefined): string {
  const name = nameOf(limit, max, windowMs);
  return scope === 2 && category !== undefined ? `${category}:${name}` : name;
}

const RULE_NAMES = new Map<number, string>();
const MAX_RULE_NAMES = 10_000;

/** The numbers of the causes that are not limits. */
const [BLOCK, NONE, QUIET] = [-1, -2, -3];
const NAMES_BELOW: Readonly<Record<number, string>> = { [BLOCK]: 'block', [NONE]: 'none', [QUIET]: 'quiet' };

/** Rule names are cached: formatting a duration was measured to take as long as all the rest of an answer. */
function nameOf(limit: number, max: number, perMs: number): string {
  if (limit === 0) return 'gap';
  if (limit < 0) return NAMES_BELOW[limit] ?? 'none';
  const key = max * 2 ** 32 + perMs; // windows are shorter than 2^32 ms
  const known = RULE_NAMES.get(key);
  if (known !== undefined) return known;
  const name = ruleName({ max, perMs });
  if (RULE_NAMES.size < MAX_RULE_NAMES) RULE_NAMES.set(key, name);
  return name;
}

/** A number, or its text where the client has `stringNumbers`. */
export type Numeric = number | string;

/** admit.lua explains each part; its short answer is only its `now`. */
export type AdmitReply = Numeric | readonly Numeric[];

/** The whole answer of admit.lua. Instants are epoch milliseconds on the limiter's clock. */
export interface Answered {
  readonly kind: 'admitted' | 'repeated' | 'reserved' | 'max-wait' | 'max-pending' | 'ended';
  readonly at: number;
  readonly now: number;
  readonly toleranceMs: number;
  readonly gapMs: number;
  /** 1 if the deciding limit is overall, 2 if it is the category's. */
  readonly scope: number;
  /** 0: the gap, -1: the block, -2: none, -3: quiet hours, else the number of a rule. */
  readonly limit: number;
  readonly max: number;
  /** The window of the limit; for a block, the time until its end. */
  readonly windowMs: number;
  /** Infinity for no bound. For a wait: how many ids are before this one in its line. */
  readonly remaining: number;
  readonly resetMs: number;
  /** What every limit has left; empty unless the ask wants that. */
  readonly rules: readonly LimitRoom[];
  /** The two last parts of the answer: {how, by} of an id that ended, {count, own} of a digest that is sent now. */
  readonly more?: readonly [Numeric, Numeric];
  /** For a wait: the first of the line could have an earlier slot. */
  readonly canMoveUp?: true;
}

/** A limit, and what it has left. */
type LimitRoom = Pick<Answered, 'scope' | 'limit' | 'max' | 'windowMs' | 'remaining' | 'resetMs'>;

const KINDS = ['admitted', 'repeated', 'reserved', 'max-wait', 'max-pending', 'ended'] as const;

/** The short answer contains no gap and no tolerance: they are taken from the ask's policies. `firstGapMs`: the overall gap. */
export function readAdmit(
  reply: AdmitReply,
  { firstGapMs, gapMs, toleranceMs }: Pick<ScopePolicies, 'firstGapMs' | 'gapMs' | 'toleranceMs'>,
): Answered {
  if (!Array.isArray(reply)) {
    const now = Number(reply);
    const gap = { limit: 0, max: 1, windowMs: firstGapMs, remaining: 0, resetMs: firstGapMs };
    return { kind: 'admitted', at: now, now, toleranceMs, gapMs, scope: 1, ...gap, rules: [] };
  }
  const parts = reply as readonly Numeric[];
  const part = (index: number) => Number(parts[index]);
  const [first, second] = parts.slice(11, 13);
  return {
    ...(parts.length === 13 && first !== undefined && second !== undefined && { more: [first, second] as const }),
    ...(parts.length === 12 && { canMoveUp: true }),
    kind: KINDS[part(0) - 1] ?? 'reserved',
    at: part(1),
    now: part(2),
    toleranceMs: part(3),
    gapMs: part(4),
    ...roomFrom(parts, 5),
    rules: Array.from({ length: Math.floor((parts.length - 5) / ROOM_PARTS) - 1 }, (_, index) =>
      roomFrom(parts, 5 + ROOM_PARTS * (index + 1)),
    ),
  };
}

const ROOM_PARTS = 6;

function roomFrom(parts: readonly Numeric[], first: number): LimitRoom {
  const part = (index: number) => Number(parts[first + index]);
  return {
    scope: part(0),
    limit: part(1),
    max: part(2),
    windowMs: part(3),
    remaining: part(4) === -1 ? Infinity : part(4),
    resetMs: part(5),
  };
}

export type SettingsReply = readonly [done: Numeric, now: Numeric];

export function readSettings([done, now]: SettingsReply): { readonly done: boolean; readonly now: number } {
  return { done: Number(done) === 1, now: Number(now) };
}

export type InspectReply = readonly [
  now: Numeric,
  policy: string | null,
  policyUntil: Numeric | null,
  blockedUntil: Numeric | null,
  blockReason: string | null,
  sets: readonly (readonly string[])[],
  quiet: string | null,
];

/** A part of what is stored about a recipient and still in force. */
export interface Inspected {
  readonly now: number;
  readonly stored: StoredPolicy | undefined;
  readonly block: Block | undefined;
  /** The stored quiet hours, as JSON. */
  readonly quiet: string | undefined;
  /** For each scope its sent, reserved and held-back entries, with their slots. */
  readonly sets: readonly (readonly (readonly [entry: string, at: number])[])[];
}

export function readInspect([now, policy, policyUntil, blockedUntil, reason, sets, quiet]: InspectReply): Inspected {
  const storedPolicy = policy === null ? undefined : toPolicy(JSON.parse(policy) as PolicyNumbers);
  return {
    now: Number(now),
    stored: storedPolicy && { policy: storedPolicy, until: policyUntil === null ? Infinity : Number(policyUntil) },
    block: blockedUntil === null ? undefined : { until: Number(blockedUntil), reason: reason ?? '' },
    quiet: quiet ?? undefined,
    sets: sets.map(pairs),
  };
}

function pairs(entriesAndScores: readonly string[]): [string, number][] {
  const found: [string, number][] = [];
  for (let index = 0; index < entriesAndScores.length; index += 2) {
    found.push([String(entriesAndScores[index]), Number(entriesAndScores[index + 1])]);
  }
  return found;
}

/** The policies of an ask's scopes, and what follows from them. */
export interface ScopePolicies {
  /** ARGV[5] of admit.lua. */
  readonly text: string;
  readonly firstGapMs: number;
  /** The largest gap. */
  readonly gapMs: number;
  /** The smallest tolerance. */
  readonly toleranceMs: number;
}

/** The policies of a limiter, in the form in which its scripts take them. */
export interface Policies {
  readonly policy: Policy;
  readonly categories: readonly (readonly [name: string, policy: CategoryPolicy])[];
  /** The category, if it has a policy of its own. */
  categoryOf(slot: { readonly category?: string }): string | undefined;
  /** The policies of an ask's scopes; computed once and remembered. */
  policiesOf(overall: Policy | undefined, category: string | undefined): ScopePolicies;
  /** The policies of the overall scope and of every category. */
  readonly allPolicies: string;
  /** A policy as it is stored for a recipient. */
  textOf(policy: Policy): string;
}

/**
 * Throws InputError if a policy is not usable.
 *
 * @param keepMs sent slots are kept for at least this long; those of the overall scope for at least `overallKeepMs`
 */
export function createPolicies(
  policy: Policy,
  categories: Readonly<Record<string, CategoryPolicy>>,
  keepMs: number,
  overallKeepMs = keepMs,
): Policies {
  const ofCategories = new Map(Object.entries(categories));
  // The overall scope decides whether an id was admitted before, so it must keep ids as long as any category counts them.
  const ownKeepMs = Math.max(
    overallKeepMs,
    ...[policy, ...ofCategories.values()].map((each) => paceOf(each).longestMs),
  );
  const known = new WeakMap<Policy, Map<string | undefined, ScopePolicies>>();

  const textsOf = (first: Policy, others: Iterable<Policy>): string =>
    `[${[textOf(first, ownKeepMs), ...Array.from(others, (each) => textOf(each, keepMs))].join(',')}]`;

  function policiesOf(overall: Policy | undefined, category: string | undefined): ScopePolicies {
    const first = overall ?? policy;
    const ofFirst = known.get(first) ?? new Map<string | undefined, ScopePolicies>();
    const found = ofFirst.get(category);
    if (found !== undefined) return found;
    const second = category === undefined ? [] : [ofCategories.get(category) ?? first];
    const both = [first, ...second];
    const policies = {
      text: textsOf(first, second),
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
    allPolicies: textsOf(policy, ofCategories.values()),
    textOf: (each) => textOf(each, 0),
  };
}

/** A policy as it is stored for a recipient: how long slots are kept, the tolerance, the gap or 0, max and window of each rule. */
type PolicyNumbers = readonly [keepMs: number, toleranceMs: number, gapMs: number, ...maxAndWindow: number[]];

function textOf(policy: Policy, keepMs: number): string {
  const { toleranceMs, longestMs } = paceOf(policy);
  const pairs = policy.rules.flatMap(({ max, perMs }) => [max, perMs]);
  const numbers: PolicyNumbers = [Math.max(keepMs, longestMs), toleranceMs, policy.minGapMs, ...pairs];
  return JSON.stringify(numbers);
}

function toPolicy([, , minGapMs, ...pairs]: PolicyNumbers): Policy {
  const rules = Array.from({ length: pairs.length / 2 }, (_, index) => {
    const [max = NaN, perMs = NaN] = pairs.slice(2 * index);
    return { max, perMs };
  });
  return { rules, minGapMs };
}
