import type { FailedAttempt } from '../domain/outcome.ts';
import type { Context } from './context.ts';
import type { Ready } from './devices.ts';
import { withAttempts, type Progress } from './progress.ts';

const ENDED = 'its worker ended while it was being sent';

/**
 * Under AT_MOST_ONCE: what was being sent when its worker ended may have been alerted, and is not sent again. It is noted
 * before each send, since afterwards there may be nobody left to note it.
 */
export function resume(progress: Progress, at: number): Progress {
  if (progress.trying === undefined) return progress;
  const { trying, ...rest } = progress;
  const lost = trying.filter((label) => !(label in progress.devices));
  if (lost.length === 0) return rest;
  const devices = { ...progress.devices, ...Object.fromEntries(lost.map((label) => [label, 'ambiguous' as const])) };
  const failures = lost.map((device): FailedAttempt => ({ at, device, error: ENDED }));
  return withAttempts({ ...rest, devices }, failures);
}

/** Notes what is about to be sent. Where the job is another worker's, or Redis cannot note it, nothing may be sent. */
export async function announce(context: Context, ready: readonly Ready[]): Promise<'noted' | 'not-ours' | 'not-noted'> {
  const announced = { ...context.progress, trying: ready.map(({ label }) => label) };
  try {
    if (!(await context.lease.save(announced))) return 'not-ours';
  } catch {
    return 'not-noted';
  }
  context.progress = announced;
  return 'noted';
}
