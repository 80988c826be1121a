import type { RuleStanding, Standing } from '../limiter.ts';
import type { Limit } from '../pace.ts';
import type { Scope } from './scope.ts';
import type { Slot } from './slots.ts';

/**
 * The deciding rule of an admission: the limit that makes the next ask wait longest, or the first limit if none does. `scopes`
 * already contain the admitted slot.
 */
export function standingOf(scopes: readonly Scope[], now: number): Pick<Standing, 'rule' | 'remaining' | 'resetMs'> {
  const counted = scopes.flatMap(({ limits, slots: { sent } }) =>
    limits.map(({ name, max, perMs }) => ({ name, max, perMs, sent, end: (sent.at(-max)?.at ?? -Infinity) + perMs })),
  );
  const [first] = counted;
  if (first === undefined) return { rule: 'none', remaining: Infinity, resetMs: 0 };
  const slowest = counted.reduce((slower, other) => (other.end > slower.end ? other : slower));
  if (slowest.end > now) return { rule: slowest.name, remaining: 0, resetMs: slowest.end - now };
  const { rule, remaining, resetMs } = roomOf(first, first.sent, now);
  return { rule, remaining, resetMs };
}

/** How much room every limit has left. */
export function everyRule(scopes: readonly Scope[], now: number): readonly RuleStanding[] {
  return scopes.flatMap(({ limits, slots: { sent } }) => limits.map((limit) => roomOf(limit, sent, now)));
}

function roomOf({ name, max, perMs }: Limit, sent: readonly Slot[], now: number): RuleStanding {
  const inWindow = sent.filter(({ at }) => at > now - perMs).slice(-max);
  const oldest = inWindow[0]?.at ?? now - perMs;
  return { rule: name, max, perMs, remaining: max - inWindow.length, resetMs: oldest + perMs - now };
}
