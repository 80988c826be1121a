import type { RuleStanding, Standing } from '../limiter/limiter.ts';

/** Header fields of a response: name → value. */
export type Fields = Readonly<Record<string, string>>;

/** A rule as the header fields show it; a block has no window. */
type Told = Omit<RuleStanding, 'perMs'> & { readonly perMs?: number };

/**
 * `RateLimit-Policy: "10/1m";q=10;w=60, "gap";q=1;w=3` and `RateLimit: "10/1m";r=9;t=53, "gap";r=0;t=3`, as revision 11 of
 * draft-ietf-httpapi-ratelimit-headers defines them: every rule in force and what it has left, gaps last. In a refusal the
 * rule that makes the request wait comes first. No fields if no rule is in force. Seconds are rounded up, so a client that
 * waits as long as they say stays within the limit.
 */
export function rateLimitFields(standing: Omit<Standing, 'toleranceMs' | 'gapMs'>, isRefused: boolean): Fields {
  const all = isRefused ? decidingFirst(standing) : gapsLast(standing.rules);
  if (all.length === 0) return {};
  return { 'RateLimit-Policy': all.map(policyItem).join(', '), RateLimit: all.map(limitItem).join(', ') };
}

function gapsLast(rules: readonly RuleStanding[] = []): readonly RuleStanding[] {
  const isGap = ({ rule }: RuleStanding) => rule === 'gap' || rule.endsWith(':gap');
  return [...rules.filter((each) => !isGap(each)), ...rules.filter(isGap)];
}

/** A deciding rule that is not in the list is a block: its max is 0. */
function decidingFirst({
  rule,
  remaining,
  resetMs,
  rules = [],
}: Omit<Standing, 'toleranceMs' | 'gapMs'>): readonly Told[] {
  const known = rules.find((each) => each.rule === rule) ?? { max: 0 };
  return [{ ...known, rule, remaining, resetMs }, ...gapsLast(rules.filter((each) => each.rule !== rule))];
}

/** Whole seconds, rounded up. */
export function toSeconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

/**
 * A string of RFC 9651 (structured fields), which allows printable ASCII only: quotes and backslashes are escaped by a
 * backslash, other characters are percent-encoded, so that no rule name can end the field or begin another one.
 */
function sfString(text: string): string {
  const printable = text.toWellFormed().replaceAll(/[^ -~]+/g, encodeURIComponent);
  return `"${printable.replaceAll(/["\\]/g, '\\$&')}"`;
}

function policyItem({ rule, max, perMs }: Told): string {
  const window = perMs === undefined ? '' : `;w=${toSeconds(perMs)}`;
  return `${sfString(rule)};q=${max}${window}`;
}

function limitItem({ rule, remaining, resetMs }: Told): string {
  return `${sfString(rule)};r=${remaining};t=${toSeconds(resetMs)}`;
}
