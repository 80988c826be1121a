import { ruleName, withoutExempt, type CategoryPolicy, type Policy } from '../../src/domain/limits.ts';
import type { Window } from '../../src/domain/quiet-hours.ts';
import type { Admission, Cause, RuleStanding, SlotView, Standing } from '../../src/limiter/limiter.ts';

/** What a limiter answers, without the instant on this process's own clock. */
export interface Answer extends Omit<Admission, 'sendAt' | 'kind'>, Partial<Pick<Cause, 'before' | 'ruleUntil'>> {
  readonly kind: Admission['kind'];
  readonly because?: 'max-wait' | 'max-pending';
  readonly at?: number;
  readonly waitMs?: number;
  readonly repeated?: boolean;
}

/** A slot; without an id it is what a blocked ask by `markOf` left. */
export interface KeptSlot {
  readonly id?: string;
  readonly markOf?: string;
  readonly category?: string | undefined;
  readonly at: number;
  /** Reserved in its category alone. */
  readonly isHeldBack?: boolean;
  /** Of a mark: the scopes in which no limit looks at it any more, by category, '' for the overall one. */
  readonly goneIn?: readonly string[];
}

/** A limit, and the instants that count for it. */
export interface Check extends Limit {
  readonly instants: readonly number[];
  /** It is in force from here on, and before here. Default: always. */
  readonly from?: number;
  readonly until?: number;
}

interface Limit {
  readonly name: string;
  readonly max: number;
  readonly perMs: number;
}

export interface Scope {
  readonly category: string | undefined;
  readonly limits: readonly Limit[];
  readonly gapMs: number;
  /** The late tolerance. */
  readonly lateMs: number;
  /** Of the overall scope: the ask stands behind nobody in line. */
  readonly isUrgent?: boolean;
  /** Of an urgent ask: also the limits that are skipped for it. */
  readonly allLimits?: readonly Limit[];
  /** Under a stored policy with an end: that end, and the limits from then on. */
  readonly later?: { readonly from: number; readonly limits: readonly Limit[] };
}

/** An instant, and the rule that makes it so late. */
export interface Instant {
  readonly at: number;
  readonly rule: string;
}

/** Quiet instants, `edgeMs` before each window too. */
export interface QuietTimes {
  readonly windows: readonly Window[];
  readonly edgeMs: number;
}

export function scopeOf({ rules, minGapMs }: Policy, category?: string): Scope {
  const prefix = category === undefined ? '' : `${category}:`;
  const gap = minGapMs > 0 ? [{ name: `${prefix}gap`, max: 1, perMs: minGapMs }] : [];
  const limits = [...gap, ...rules.map((rule) => ({ ...rule, name: prefix + ruleName(rule) }))];
  return { category, limits, gapMs: minGapMs, lateMs: lateToleranceOf({ rules, minGapMs }) };
}

/** The overall scope for an ask of a category that may be exempt from some of its limits. */
export function overallScope(policy: Policy, { exempt = [] }: Pick<CategoryPolicy, 'exempt'> = {}): Scope {
  if (!exempt.includes('gap') && !exempt.includes('rules')) return scopeOf(policy);
  return { ...scopeOf(withoutExempt(policy, { exempt })), allLimits: scopeOf(policy).limits, isUrgent: true };
}

/** How much later than its slot, or than now, an id may still be sent. */
export function lateToleranceOf({ rules, minGapMs }: Policy): number {
  const spacingMs = minGapMs > 0 ? minGapMs : Math.min(...rules.map(({ perMs }) => perMs));
  return Math.floor(Math.min(0.9 * spacingMs, 2_000));
}

/** How much before its slot an id may come back and be admitted. */
export function earlyToleranceOf(lateMs: number): number {
  return Math.min(Math.floor(lateMs / 2), 120);
}

/** Every slot counts overall, except what a category holds back; in a category, all of its own. */
export function countsIn({ category }: Pick<Scope, 'category'>, slot: KeptSlot): boolean {
  if (slot.goneIn?.includes(category ?? '') === true) return false;
  return category === undefined ? slot.isHeldBack !== true : slot.category === category;
}

export function isHeldBackIn({ category }: Scope, slot: KeptSlot): boolean {
  return category !== undefined && slot.isHeldBack === true && slot.category === category;
}

/** The limits of the scopes, with the slots that count for each. */
export function checksOf(scopes: readonly Scope[], slots: readonly KeptSlot[]): readonly Check[] {
  return scopes.flatMap((scope) => {
    const instants = slots.filter((slot) => countsIn(scope, slot)).map(({ at }) => at);
    return scope.limits.map((limit) => ({ ...limit, instants }));
  });
}

/** As `checksOf`, with those that come into force later. */
export function allChecksOf(scopes: readonly Scope[], slots: readonly KeptSlot[]): readonly Check[] {
  return scopes.flatMap(({ later, ...scope }) => {
    const until = later?.from ?? Infinity;
    const present = checksOf([scope], slots).map((check) => ({ ...check, until }));
    if (later === undefined) return present;
    const next = checksOf([{ ...scope, limits: later.limits }], slots).map((check) => ({ ...check, from: until }));
    return [...present, ...next];
  });
}

/** How many slots lie in the window before `at`, or later. */
function countAfter({ instants, perMs }: Pick<Check, 'instants' | 'perMs'>, at: number): number {
  return instants.filter((instant) => instant > at - perMs).length;
}

/**
 * The first instant from `from`, not before the end of a block and not quiet, that has fewer than max of each limit in the
 * window before it, or later. It tries every instant at which a window ends.
 */
export function soonest(checks: readonly Check[], from: number, blockedUntil: number, quiet: QuietTimes): Instant {
  const ends = checks.flatMap(({ instants, perMs, until = Infinity }) => [
    ...instants.map((instant) => instant + perMs),
    until,
  ]);
  const allows = (check: Check, at: number) =>
    at < (check.from ?? -Infinity) || at >= (check.until ?? Infinity) || countAfter(check, at) < check.max;
  const tried = [from, blockedUntil, ...ends].filter((at) => at >= from && at >= blockedUntil);
  const at = Math.min(...tried.filter((instant) => checks.every((check) => allows(check, instant))));
  const deciding = checks.find((check) => !allows(check, at - 1)) ?? checks[0];
  const free = { at, rule: at <= blockedUntil ? 'block' : (deciding?.name ?? 'none') };
  const awake = awakeFrom(free, quiet);
  // Other limits may hold when the quiet time ends.
  const isAllowed = checks.every((check) => allows(check, awake.at));
  return isAllowed ? awake : soonest(checks, awake.at, blockedUntil, quiet);
}

/** The same instant, or the first end of a quiet time after it that is not quiet itself. */
export function awakeFrom(instant: Instant, quiet: QuietTimes): Instant {
  if (!isQuiet(quiet, instant.at)) return instant;
  const ends = quiet.windows.map(({ until }) => until).filter((end) => end > instant.at && !isQuiet(quiet, end));
  return { at: Math.min(...ends), rule: 'quiet' };
}

function isQuiet({ windows, edgeMs }: QuietTimes, at: number): boolean {
  return windows.some(({ from, until }) => at >= from - edgeMs && at < until);
}

/** How much time between two instants is quiet. */
export function quietBetween({ windows }: QuietTimes, from: number, until: number): number {
  return windows.reduce((sum, each) => {
    return sum + Math.max(0, Math.min(each.until, until) - Math.max(each.from, from));
  }, 0);
}

/** Newcomers stand behind a reservation that is overdue by up to this. */
export const GRACE_MS = 2_000;

/** All that decides about one ask. */
export interface Seeking {
  readonly scopes: readonly [Scope, Scope?];
  readonly now: number;
  /** The slot that it comes back for, or the admission that it renews; undefined for a newcomer. */
  readonly due: number | undefined;
  /** Its category holds it back. */
  readonly isHeldBack: boolean;
  readonly leadMs: number;
  readonly lateMs: number;
  readonly earlyMs: number;
  readonly blockedUntil: number;
  readonly quiet: QuietTimes;
  /** All that were sent, without the id itself. */
  readonly sent: readonly KeptSlot[];
  /** All that wait, without the id itself. */
  readonly others: readonly KeptSlot[];
}

/** The instant to which the ask is admitted; undefined if it must wait. */
export function admissionOf(ask: Seeking): number | undefined {
  const { scopes, now, due, leadMs, lateMs, earlyMs, blockedUntil, sent } = ask;
  if (due === undefined) {
    const { at } = behindBoth(ask, behind(ask, scopes[0], true), scopes[1] && behind(ask, scopes[1], true));
    return at <= now + earlyMs ? at : undefined;
  }
  const quiet = { ...ask.quiet, edgeMs: 0 };
  const from = Math.max(now + leadMs, due);
  const held = { ...ask, quiet };
  const inLine = behind(held, scopes[0], false);
  const own = scopes[1] === undefined ? inLine : behind(held, scopes[1], false);
  const last = { ...own, at: Math.max(own.at, from) };
  const { at } = ask.isHeldBack
    ? awakeFrom(behindBoth(held, inLine, last), quiet)
    : soonest(allChecksOf(present(scopes), sent), from, blockedUntil, quiet);
  return at <= from + lateMs ? at : undefined;
}

/** Where an ask that must wait is reserved: in line, or in its category alone. */
export function placeOf(ask: Seeking): Instant & { readonly isHeldBack: boolean } {
  const [line, category] = ask.scopes;
  if (ask.isHeldBack && category !== undefined && line.isUrgent !== true) {
    const [inLine, own] = [behind(ask, line, false), behind(ask, category, false)];
    if (own.at <= inLine.at + line.gapMs) return { ...behindBoth(ask, inLine, own), isHeldBack: false };
  }
  const inLine = behind(ask, line, true);
  if (category === undefined) return { ...inLine, isHeldBack: false };
  const own = behind(ask, category, true);
  if (line.isUrgent === true) return { ...behindBoth(ask, inLine, own), isHeldBack: true };
  const holdsBackOthers = ask.others.some((each) => isHeldBackIn(category, each) && each.at >= ask.now - GRACE_MS);
  return holdsBackOthers || own.at > inLine.at ? { ...own, isHeldBack: true } : { ...inLine, isHeldBack: false };
}

/** The first instant behind all that was sent and is reserved in a scope; `heldToo`: also what the category holds back. */
function behind(ask: Seeking, scope: Scope, withHeldBack: boolean, from = ask.now): Instant {
  const { sent, others, now, blockedUntil, quiet } = ask;
  const checks = allChecksOf([scope], sent);
  const newest = Math.max(0, ...sent.filter((each) => countsIn(scope, each)).map(({ at }) => at));
  const floor = Math.max(soonest(checks, now, blockedUntil, { ...quiet, windows: [] }).at, newest);
  const waiting = others.filter(({ at }) => at >= now - GRACE_MS);
  const line = slotsInLine(scope, waiting).map((at) => Math.max(at, floor));
  const heldBack = withHeldBack ? waiting.filter((each) => isHeldBackIn(scope, each)) : [];
  const queue = [...line, ...heldBack.map(({ at }) => Math.max(at, floor, ...line))];
  const all = checks.map((check) => ({ ...check, instants: [...check.instants, ...queue] }));
  return soonest(all, Math.max(from, ...queue), blockedUntil, quiet);
}

/** The later of both; where a stored policy has ended by then, also as the overall limits after it allow. */
function behindBoth(ask: Seeking, inLine: Instant, own: Instant = inLine): Instant {
  const [{ later, ...line }] = ask.scopes;
  const last = own.at > inLine.at ? own : inLine;
  if (later === undefined || last.at < later.from || last.at === inLine.at) return last;
  return behind(ask, { ...line, later }, false, last.at);
}

/** What an ask stands behind in a scope, without what is held back. */
export function slotsInLine(scope: Scope, waiting: readonly KeptSlot[]): readonly number[] {
  if (scope.isUrgent === true) return [];
  return waiting.filter((each) => each.isHeldBack !== true && countsIn(scope, each)).map(({ at }) => at);
}

/** What a cause depends on. */
interface Pondered extends Pick<Seeking, 'sent' | 'others' | 'now' | 'blockedUntil' | 'quiet'> {
  /** How much quiet time counts. */
  readonly quietMs: number;
}

/** Why an id waits until this place: each cause is played alone, and the longest wins; of equals the block, then the first limit. `ms`: how long it is. */
export function longestCauseOf(
  scopes: readonly [Scope, Scope?],
  { at, isHeldBack }: Pick<KeptSlot, 'at' | 'isHeldBack'>,
  facts: Pondered,
): { readonly cause: Cause; readonly ms: number } {
  const { sent, others, now, blockedUntil, quiet, quietMs } = facts;
  const earlier = others.filter((other) => other.at < at && other.at >= now - GRACE_MS);
  const counts = present(scopes).map(
    (scope) => slotsInLine(scope, earlier).length + earlier.filter((other) => isHeldBackIn(scope, other)).length,
  );
  const byLimits = present(scopes).flatMap(({ later, ...scope }, index) => {
    const alone = (limits: Scope['limits']) =>
      checksOf([{ ...scope, limits }], sent).map((check) => ({
        rule: check.name,
        ms: playAlone(check, counts[index] ?? 0, now) - now,
      }));
    const untilEnd = alone(scope.limits);
    const endMs = (later?.from ?? Infinity) - now;
    const longestMs = Math.max(...untilEnd.map(({ ms }) => ms));
    if (untilEnd.length === 0 || longestMs < endMs) return untilEnd;
    // They make it wait until they end; then the later ones may.
    const after = alone(later?.limits ?? []).filter(({ ms }) => ms > endMs);
    if (after.length > 0) return after;
    return untilEnd.filter(({ ms }) => ms === longestMs).map(({ rule }) => ({ rule, ms: endMs }));
  });
  const lastQuiet = quiet.windows.filter(({ from }) => from < at).at(-1)?.until;
  const causes = [
    { rule: 'block', ms: Math.min(blockedUntil, at) - now, ruleUntil: blockedUntil },
    ...(byLimits.length > 0 ? byLimits : [{ rule: 'none', ms: 0 }]),
    { rule: 'quiet', ms: quietMs, ...(lastQuiet !== undefined && { ruleUntil: lastQuiet }) },
  ].filter(({ rule, ms }) => ms > 0 || (rule !== 'block' && rule !== 'quiet'));
  const longestMs = Math.max(...causes.map(({ ms }) => ms));
  const longest: Partial<Cause> | undefined = causes.find(({ ms }) => ms === longestMs);
  const ruleUntil = longest?.ruleUntil === undefined ? {} : { ruleUntil: longest.ruleUntil };
  const before = counts[isHeldBack === true ? 1 : 0] ?? 0;
  return { cause: { rule: longest?.rule ?? 'none', ...ruleUntil, before }, ms: longestMs };
}

/** The instant of an id behind `before` others, if nothing but this limit applies. */
function playAlone({ instants, max, perMs }: Check, before: number, now: number): number {
  const line = [...instants].sort((a, b) => a - b);
  for (let number = 0; number <= before; number++) line.push(Math.max(now, (line.at(-max) ?? -Infinity) + perMs));
  return line.at(-1) ?? now;
}

export function present(scopes: readonly [Scope, Scope?]): readonly Scope[] {
  return scopes.filter((scope) => scope !== undefined);
}

/** What an admission says about the next one. */
export function roomAfter(checks: readonly Check[], now: number): Pick<Standing, 'rule' | 'remaining' | 'resetMs'> {
  const [first] = checks;
  if (first === undefined) return { rule: 'none', remaining: Infinity, resetMs: 0 };
  const waits = checks.map((check) => {
    const ends = check.instants.map((instant) => instant + check.perMs - now);
    return Math.min(...[0, ...ends].filter((ms) => ms >= 0 && countAfter(check, now + ms) < check.max));
  });
  const longest = Math.max(...waits);
  const slowest = checks[waits.indexOf(longest)];
  if (longest > 0) return { rule: slowest?.name ?? '', remaining: 0, resetMs: longest };
  const { rule, remaining, resetMs } = roomOf(first, now);
  return { rule, remaining, resetMs };
}

/** What one limit has left. */
export function roomOf({ name, instants, max, perMs }: Check, now: number): RuleStanding {
  const counted = instants
    .filter((instant) => instant > now - perMs)
    .sort((a, b) => b - a)
    .slice(0, max);
  const oldest = counted.at(-1) ?? now - perMs;
  return { rule: name, max, perMs, remaining: max - counted.length, resetMs: oldest + perMs - now };
}

/** Slots of one instant in the order of their ids: which of them is reported first says nothing. */
export function inOrder(slots: readonly SlotView[]): readonly SlotView[] {
  return slots.toSorted((a, b) => a.at - b.at || ((a.id ?? '') < (b.id ?? '') ? -1 : 1));
}
