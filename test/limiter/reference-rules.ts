import type { Window } from '../../src/domain/quiet-windows.ts';
import { ruleName, type Policy } from '../../src/domain/limits.ts';
import type { RuleStanding, Standing } from '../../src/limiter/limiter.ts';

/** A limit, and the instants that count for it. */
export interface Check {
  readonly name: string;
  readonly max: number;
  readonly perMs: number;
  readonly instants: readonly number[];
}

export interface Soonest {
  readonly at: number;
  readonly rule: string;
}

/** Quiet instants, `edgeMs` before each window too. */
export interface QuietTimes {
  readonly windows: readonly Window[];
  readonly edgeMs: number;
}

function isQuiet({ windows, edgeMs }: QuietTimes, at: number): boolean {
  return windows.some(({ from, until }) => at >= from - edgeMs && at < until);
}

/** The same instant, or the first end of a quiet time after it that is not quiet itself. */
export function awakeFrom(place: Soonest, quiet: QuietTimes): Soonest {
  if (!isQuiet(quiet, place.at)) return place;
  const ends = quiet.windows.map(({ until }) => until).filter((end) => end > place.at && !isQuiet(quiet, end));
  return { at: Math.min(...ends), rule: 'quiet' };
}

export function quietBetween({ windows }: QuietTimes, from: number, until: number): number {
  return windows.reduce((sum, each) => {
    return sum + Math.max(0, Math.min(each.until, until) - Math.max(each.from, from));
  }, 0);
}

export function limitsOf({ rules, minGapMs }: Policy, prefix: string): readonly Omit<Check, 'instants'>[] {
  const gap = minGapMs > 0 ? [{ name: `${prefix}gap`, max: 1, perMs: minGapMs }] : [];
  return [...gap, ...rules.map((rule) => ({ ...rule, name: prefix + ruleName(rule) }))];
}

export function toleranceOf({ rules, minGapMs }: Policy): number {
  const spacingMs = minGapMs > 0 ? minGapMs : Math.min(...rules.map(({ perMs }) => perMs));
  return Math.min(150, Math.floor((spacingMs - 1) / 2));
}

export function countAfter({ instants, perMs }: Pick<Check, 'instants' | 'perMs'>, at: number): number {
  return instants.filter((instant) => instant > at - perMs).length;
}

/** The first instant from `from`, not before `until`, that has fewer than max of each limit in the window before it, or later. */
export function soonest(checks: readonly Check[], from: number, until: number | undefined, quiet: QuietTimes): Soonest {
  const allows = (check: Check, at: number) => countAfter(check, at) < check.max;
  return awakeFrom(first(checks, from, until ?? -Infinity, { windows: [], edgeMs: 0 }, allows), quiet);
}

/** The same, but for the windows that hold it alone: of those that lie behind it, only what they hold matters. */
export function soonestBetween(
  checks: readonly Check[],
  from: number,
  until: number | undefined,
  quiet: QuietTimes,
): Soonest {
  return first(checks, from, until ?? -Infinity, quiet, ({ instants, perMs, max }, at) => {
    const all = [...instants, at];
    const starts = all.filter((start) => start <= at && start + perMs > at);
    return starts.every((start) => all.filter((each) => each >= start && each < start + perMs).length <= max);
  });
}

function first(
  checks: readonly Check[],
  from: number,
  until: number,
  quiet: QuietTimes,
  allows: (check: Check, at: number) => boolean,
): Soonest {
  const ends = checks.flatMap(({ instants, perMs }) => instants.flatMap((instant) => [instant, instant + perMs]));
  const isFree = (at: number) => !isQuiet(quiet, at) && checks.every((check) => allows(check, at));
  const tried = [from, until, ...ends, ...quiet.windows.map((window) => window.until)].filter(
    (at) => at >= from && at >= until,
  );
  const at = Math.min(...[...new Set(tried)].filter(isFree));
  if (at - 1 < until) return { at, rule: 'block' };
  if (isQuiet(quiet, at - 1)) return { at, rule: 'quiet' };
  const deciding = checks.find((check) => !allows(check, at - 1)) ?? checks[0];
  return { at, rule: deciding?.name ?? 'none' };
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
