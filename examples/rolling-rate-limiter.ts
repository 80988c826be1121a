// What rolling-rate-limiter's calls become, for code that reads its answers (docs/moving-over.md). Create the limiter with
// `policy: toPolicy(...)`, and with `countBlocked: true`, since there blocked actions count.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Admission, Inspection, Limiter, Policy } from 'pushpacer';

/** Its options, in milliseconds. */
export interface RollingOptions {
  readonly interval: number;
  readonly maxInInterval: number;
  readonly minDifference?: number;
}

export interface RollingInfo {
  readonly blocked: boolean;
  readonly blockedDueToCount: boolean;
  readonly blockedDueToMinDifference: boolean;
  readonly millisecondsUntilAllowed: number;
  readonly actionsRemaining: number;
}

export function toPolicy({ interval, maxInInterval, minDifference = 0 }: RollingOptions): Policy {
  return { rules: [{ max: maxInInterval, perMs: interval }], minGapMs: minDifference };
}

/** `limitWithInfo`: resolves when the action may begin, or at once where it may not. */
export async function limitWithInfo(limiter: Limiter, id: string): Promise<RollingInfo> {
  const answer = await limiter.admit({ recipientId: id, id: randomUUID(), maxWaitMs: 0 });
  if (answer.kind === 'admitted') await untilInstant(answer.sendAt);
  return toInfo(answer);
}

/** `wouldLimitWithInfo`. */
export async function wouldLimitWithInfo(limiter: Limiter, id: string): Promise<RollingInfo> {
  return toInfo(await limiter.peek({ recipientId: id, id: randomUUID(), maxWaitMs: 0 }));
}

/** Timers may fire a fraction of a millisecond early, so the clock is looked at again. */
async function untilInstant(sendAt: number): Promise<void> {
  while (performance.now() < sendAt) await sleep(Math.ceil(sendAt - performance.now()));
}

/** What an answer tells of its fields: `millisecondsUntilAllowed` exactly, the others of the rule that decides. */
function toInfo({ kind, rule, remaining, resetMs }: Admission): RollingInfo {
  const blocked = kind !== 'admitted';
  return {
    blocked,
    blockedDueToCount: blocked && rule !== 'gap',
    blockedDueToMinDifference: blocked && rule === 'gap',
    millisecondsUntilAllowed: remaining > 0 ? 0 : resetMs,
    actionsRemaining: remaining,
  };
}

/**
 * What an ask would be told there, from `inspect` before it. That is a look of its own: another process may ask between
 * the two. It reads every slot that was sent.
 */
export function toCounts({ now, sent, policy }: Inspection): Omit<RollingInfo, 'blocked' | 'millisecondsUntilAllowed'> {
  const { max, perMs } = policy.rules[0] ?? { max: Infinity, perMs: 0 };
  const inInterval = sent.filter(({ at }) => at > now - perMs).length;
  const lastAt = sent.at(-1)?.at ?? -Infinity;
  return {
    blockedDueToCount: inInterval >= max,
    blockedDueToMinDifference: now - lastAt < policy.minGapMs,
    actionsRemaining: Math.max(0, max - inInterval - 1),
  };
}
