import { formatFault } from '../domain/faults.ts';
import { SEND_AFTER, tooFarAhead } from '../domain/send-after.ts';
import type { Context } from './context.ts';
import type { Result } from './decide.ts';
import type { DeliverParts } from './parts.ts';

/** What a producer let pass, a worker whose clock is behind must not refuse. */
const CLOCK_SKEW_MS = 3_600_000;

/**
 * Puts a notification back whose `sendAfter` lies ahead; undefined if it may be sent. Our producer delays the job itself, and
 * refuses what lies too far ahead, so this is for jobs of other clients, and for a producer whose clock is ahead.
 */
export function beforeSendAfter(context: Context, { now }: Pick<DeliverParts, 'now'>): Result | undefined {
  const { sendAfter, expiresAt } = context.notification;
  if (sendAfter === undefined && expiresAt === undefined) return undefined;
  const at = now();
  const faults = tooFarAhead({ sendAfter, expiresAt }, at, CLOCK_SKEW_MS);
  if (faults.length > 0) {
    return { kind: 'dead-letter', reason: 'invalid', message: faults.map(formatFault).join('; ') };
  }
  if (sendAfter === undefined || sendAfter <= at) return undefined;
  const waitMs = sendAfter - at;
  context.progress = { ...context.progress, dueAt: sendAfter, rule: SEND_AFTER };
  return { kind: 'requeued', waitMs, delayMs: waitMs, rule: SEND_AFTER };
}
