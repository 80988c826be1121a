import type { Tier } from './tiers.ts';

/**
 * `('pushpacer', 'fcm', '7c5d…', [1m])` → `pushpacer:quota:{fcm}:lease:7c5d…`, `pushpacer:quota:{fcm}:tail`,
 * `pushpacer:quota:{fcm}:60000:taken` and `pushpacer:quota:{fcm}:60000:promised`. The hash tag is the quota's name, so all
 * its keys lie on one node of a cluster. Braces in the prefix are removed.
 */
export function quotaKeys(prefix: string, name: string, client: string, tiers: readonly Tier[]): string[] {
  const stem = `${prefix.replaceAll(/[{}]/g, '')}:quota:{${name}}`;
  const counters = tiers.flatMap(({ perMs }) => [`${stem}:${perMs}:taken`, `${stem}:${perMs}:promised`]);
  return [`${stem}:lease:${client}`, `${stem}:tail`, ...counters];
}
