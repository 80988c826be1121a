import { setTimeout as sleep } from 'node:timers/promises';
import type { Limiter } from '../limiter/limiter.ts';
import type { Arrived } from './send.ts';
import type { Go } from './slot.ts';

/** Alerts that went out this much after their slot are told to the limiter; less is what timers and loops always take. */
const LATE_MS = 10;
/** A limiter that does not answer is told again, for about as long as the next alert may follow closely. */
const AGAIN_MS = 50;
const INSIST_MS = 2_000;

/**
 * Gives the slot back where nobody was alerted, and counts it from when the alert went out where that was late: the next
 * one would come too close behind it otherwise. The send has happened: whatever goes wrong here must not make the
 * notification go out again, and leaves the slot counted as it is.
 */
export async function accountFor(
  slot: Go,
  tried: readonly Arrived[],
  limiter: Pick<Limiter, 'refund' | 'postpone'>,
): Promise<void> {
  const alerts = tried.filter(({ reply }) => reply.alerted !== 'no');
  const lateMs = Math.max(...alerts.map(({ arrivedAt }) => arrivedAt)) - slot.sendAt;
  if (alerts.length === 0) await succeeds(limiter.refund(slot.held));
  else if (lateMs > LATE_MS) await insist(() => limiter.postpone(slot.held, slot.at + lateMs));
}

async function insist(tell: () => Promise<unknown>): Promise<void> {
  const deadline = performance.now() + INSIST_MS;
  while (!(await succeeds(tell())) && performance.now() < deadline) await sleep(AGAIN_MS);
}

function succeeds(told: Promise<unknown>): Promise<boolean> {
  return told.then(
    () => true,
    () => false,
  );
}
