import type { Limit } from '../pace.ts';
import type { Instant } from './plan.ts';

/** Limits, and the instants that count for them, oldest first. */
export interface Filled {
  readonly limits: readonly Limit[];
  readonly instants: readonly number[];
}

/**
 * The first instant, `from` or later, that may be added in all scopes: no window around it then has more than its limit allows,
 * with the later instants counted too. And the limit that forbids an earlier instant.
 */
export function firstFit(scopes: readonly Filled[], from: number, blockedUntil = -Infinity): Instant {
  const checks = scopes.flatMap(({ limits, instants }) => limits.map((limit) => ({ limit, instants })));
  let at = Math.max(from, blockedUntil);
  for (let before = NaN; at !== before;) {
    before = at;
    for (const { limit, instants } of checks) at = nextFit(limit, instants, at);
  }
  if (at - 1 < blockedUntil) return { at, rule: 'block' };
  const deciding = checks.find(({ limit, instants }) => nextFit(limit, instants, at - 1) > at - 1) ?? checks[0];
  return { at, rule: deciding?.limit.name ?? 'none' };
}

/** `at` if this limit allows one more there, else a later instant; the limit allows none between the two. */
function nextFit({ max, perMs }: Limit, instants: readonly number[], at: number): number {
  const behind = instants.findLastIndex((instant) => instant <= at) + 1;
  const ahead = instants.length - behind;
  const oldest = instants[behind - max];
  if (oldest !== undefined && oldest + perMs > at) return oldest + perMs;
  // A window that is full already and has `at` inside.
  for (let count = Math.min(max - 1, ahead); count > 0; count -= 1) {
    const last = instants[behind + count - 1] ?? Infinity;
    const first = instants[behind + count - max];
    if (first !== undefined && last - first < perMs) return last;
  }
  if (ahead >= max && (instants[behind + max - 1] ?? Infinity) - at < perMs) return instants[behind] ?? at;
  return at;
}
