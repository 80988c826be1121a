import { formatFault } from '../domain/faults.ts';
import { SEND_AFTER, tooFarAhead } from '../domain/send-after.ts';
import type { Context } from './context.ts';
import type { Result } from './decide.ts';
import type { DeliverParts } from './parts.ts';

/**
 * Puts a notification back whose `sendAfter` lies ahead; undefined if it may be sent. Our producer delays the job itself, so this is
 * for jobs of other clients, and for a producer whose clock is ahead.
 */
export function beforeSendAfter(context: Context, { now }: Pick<DeliverParts, 'now'>): Result | undefined {
  const { sendAfter } = context.notification;
  if (sendAfter === undefined) return undefined;
  const at = now();
  const waitMs = sendAfter - at;
  if (waitMs <= 0) return undefined;
  const fault = tooFarAhead(sendAfter, at);
  if (fault !== undefined) return { kind: 'dead-letter', reason: 'invalid', message: formatFault(fault) };
  context.progress = { ...context.progress, dueAt: sendAfter, rule: SEND_AFTER };
  return { kind: 'requeued', waitMs, delayMs: waitMs, rule: SEND_AFTER };
}
