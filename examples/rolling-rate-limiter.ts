// What rolling-rate-limiter's calls become, for code that reads its answers (docs/moving-over.md). Create the limiter with
// `policy: toPolicy(...)`, and with `countBlocked: true`, since there blocked actions count.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Admission, Limiter, Policy } from 'pushpacer';

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
  const answer = await limiter.admit({ recipientId: id, id: randomUUID(), maxWaitMs: 0, everyRule: true });
  if (answer.kind === 'admitted') await untilInstant(answer.sendAt);
  return toInfo(answer);
}

/** `wouldLimitWithInfo`. */
export async function wouldLimitWithInfo(limiter: Limiter, id: string): Promise<RollingInfo> {
  return toInfo(await limiter.peek({ recipientId: id, id: randomUUID(), maxWaitMs: 0, everyRule: true }));
}

/** Timers may fire a fraction of a millisecond early, so the clock is looked at again. */
async function untilInstant(sendAt: number): Promise<void> {
  while (performance.now() < sendAt) await sleep(Math.ceil(sendAt - performance.now()));
}

/** For a blocked action, `rules` do not count the action itself, but rolling-rate-limiter counts it: so one less is left. */
function toInfo({ kind, remaining, resetMs, rules = [] }: Admission): RollingInfo {
  const blocked = kind !== 'admitted';
  const gap = rules.find(({ rule }) => rule === 'gap');
  const inInterval = rules.find(({ rule }) => rule !== 'gap');
  const left = inInterval?.remaining ?? 0;
  return {
    blocked,
    blockedDueToCount: blocked && left === 0,
    blockedDueToMinDifference: blocked && gap?.remaining === 0,
    millisecondsUntilAllowed: remaining > 0 ? 0 : resetMs,
    actionsRemaining: blocked ? Math.max(0, left - 1) : left,
  };
}
