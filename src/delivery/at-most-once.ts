import type { FailedAttempt } from '../domain/outcome.ts';
import type { Context } from './context.ts';
import { withAttempts, type Progress } from './progress.ts';

const WORKER_ENDED = 'its worker ended while it was being sent';

/**
 * Under AT_MOST_ONCE: a device that was being sent to when its worker ended may have been alerted, so it is not sent to
 * again. It was noted before the send, since a worker that ends cannot note it.
 */
export function endInterrupted(progress: Progress, at: number): Progress {
  if (progress.trying === undefined) return progress;
  const { trying, ...rest } = progress;
  const interrupted = trying.filter((label) => !(label in progress.devices));
  if (interrupted.length === 0) return rest;
  const states = Object.fromEntries(interrupted.map((label) => [label, 'ambiguous' as const]));
  const failures = interrupted.map((device): FailedAttempt => ({ at, device, error: WORKER_ENDED }));
  return withAttempts({ ...rest, devices: { ...progress.devices, ...states } }, failures);
}

/** Notes the devices that are about to be sent to. If it is not noted, nothing may be sent. */
export async function noteTrying(context: Context): Promise<'noted' | 'lock-lost' | 'not-noted'> {
  const progress = { ...context.progress, trying: context.ready.map(({ label }) => label) };
  try {
    if (!(await context.lock.save(progress))) return 'lock-lost';
  } catch {
    return 'not-noted';
  }
  context.progress = progress;
  return 'noted';
}
