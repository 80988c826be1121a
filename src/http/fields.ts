import { parseRules, ruleName, type Policy } from '../domain/limits.ts';
import type { Standing } from '../limiter/limiter.ts';

/** Names and values of header fields, as they go out. */
export type Fields = Readonly<Record<string, string>>;

type Counted = Pick<Standing, 'rule' | 'remaining' | 'resetMs' | 'gapMs'>;

/** What `RateLimit-Policy` tells of one rule; a block has no window. */
interface Quota {
  readonly name: string;
  readonly max: number;
  readonly perMs?: number;
}

/**
 * `RateLimit-Policy: "gap";q=1;w=3, "10/1m";q=10;w=60` and `RateLimit: "10/1m";r=9;t=53`, as revision 11 of
 * draft-ietf-httpapi-ratelimit-headers has them: `policy` in full where it is given, and what the answer says of the rule
 * that decides. None where nothing is counted. Seconds are rounded up, so a client that keeps to them keeps the limit.
 */
export function rateLimitFields(standing: Counted, policy?: Policy): Fields {
  const { rule, remaining, resetMs, gapMs } = standing;
  if (!Number.isFinite(remaining)) return {};
  const quotas = policy === undefined ? [] : quotasOf(policy);
  const announced = quotas.some(({ name }) => name === rule) ? quotas : [...quotas, quotaOf(rule, gapMs)];
  return {
    'RateLimit-Policy': announced.map(policyItem).join(', '),
    RateLimit: `${sfString(rule)};r=${remaining};t=${toSeconds(resetMs)}`,
  };
}

/** Whole seconds, rounded up. */
export function toSeconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

/**
 * A string of RFC 9651 (structured fields), which has room for printable ASCII only: quotes and backslashes are escaped
 * by a backslash, all else is written as its UTF-8 in percents, so that no name ends the field or begins another.
 */
function sfString(text: string): string {
  const printable = text.toWellFormed().replaceAll(/[^ -~]+/g, encodeURIComponent);
  return `"${printable.replaceAll(/["\\]/g, '\\$&')}"`;
}

function policyItem({ name, max, perMs }: Quota): string {
  const window = perMs === undefined ? '' : `;w=${toSeconds(perMs)}`;
  return `${sfString(name)};q=${max}${window}`;
}

function quotasOf({ rules, minGapMs }: Policy): Quota[] {
  const gap = minGapMs > 0 ? [{ name: 'gap', max: 1, perMs: minGapMs }] : [];
  return [...gap, ...rules.map((rule) => ({ ...rule, name: ruleName(rule) }))];
}

/** A quota from the rule's name: `messages:10/1m` → 10 in a minute, `gap` → 1 in `gapMs`. Nothing goes through a block. */
function quotaOf(name: string, gapMs: number): Quota {
  const bare = name.slice(name.lastIndexOf(':') + 1);
  if (bare === 'gap') return { name, max: 1, perMs: gapMs };
  const parsed = parseRules(bare, 'rule');
  const [rule] = parsed.ok ? parsed.rules : [];
  return rule === undefined ? { name, max: 0 } : { ...rule, name };
}
