import type { Standing } from '../limiter.ts';
import type { Scope } from './scope.ts';

/**
 * What an admission tells about the next one: the limit that makes it wait longest, or, where none does, how much room
 * the first limit has left. The slots are those after the admission.
 */
export function standingOf(scopes: readonly Scope[], now: number): Pick<Standing, 'rule' | 'remaining' | 'resetMs'> {
  const counted = scopes.flatMap(({ limits, slots: { sent } }) =>
    limits.map(({ name, max, perMs }) => ({ name, max, perMs, sent, end: (sent.at(-max)?.at ?? -Infinity) + perMs })),
  );
  const [first] = counted;
  if (first === undefined) return { rule: 'none', remaining: Infinity, resetMs: 0 };
  const slowest = counted.reduce((slower, other) => (other.end > slower.end ? other : slower));
  if (slowest.end > now) return { rule: slowest.name, remaining: 0, resetMs: slowest.end - now };
  const inWindow = first.sent.filter(({ at }) => at > now - first.perMs);
  const oldest = inWindow[0]?.at ?? now - first.perMs;
  return { rule: first.name, remaining: first.max - inWindow.length, resetMs: oldest + first.perMs - now };
}
