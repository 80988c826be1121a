import type { CountedApart, CountedAs } from '../domain/counted-as.ts';
import type { Policy, Rule } from '../domain/limits.ts';

/**
 * What makes a limiter one of background pushes, or of Live Activities. It is apart from that of alerts: the same recipients,
 * under keys and rules of its own.
 *
 * @param prefix the prefix of the limiter of alerts: `{pushpacer}` → `{pushpacer}:background`
 */
export function apartOptions(
  kind: CountedApart,
  rules: readonly Rule[],
  prefix: string,
): { policy: Policy; prefix: string } {
  return { policy: { rules, minGapMs: 0 }, prefix: limiterPrefix(kind, prefix) };
}

/** `{pushpacer}` → `{pushpacer}:background`; that of alerts has no name of its own. */
export function limiterPrefix(kind: CountedAs, prefix: string): string {
  return kind === 'alert' ? prefix : `${prefix}:${kind}`;
}

/** One for each kind: `of` gets the prefix of its limiter. */
export function forEachKind<T>(prefix: string, of: (limiterPrefix: string) => T): Readonly<Record<CountedAs, T>> {
  const made = (kind: CountedAs): T => of(limiterPrefix(kind, prefix));
  return { alert: made('alert'), background: made('background'), liveactivity: made('liveactivity') };
}
