import type { Policy, Rule } from '../domain/limits.ts';

/**
 * What makes a limiter one of background pushes. It is apart from that of alerts: the same recipients, under keys and rules of its
 * own.
 *
 * @param prefix the prefix of the limiter of alerts: `{pushpacer}` → `{pushpacer}:background`
 */
export function backgroundOptions(rules: readonly Rule[], prefix: string): { policy: Policy; prefix: string } {
  return { policy: { rules, minGapMs: 0 }, prefix: backgroundPrefix(prefix) };
}

/** `{pushpacer}` → `{pushpacer}:background` */
export function backgroundPrefix(prefix: string): string {
  return `${prefix}:background`;
}
