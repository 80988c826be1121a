import type { FailedAttempt } from '../domain/outcome.ts';
import type { Ready } from './devices.ts';
import type { Pass } from './pass.ts';
import { withAttempts, type Progress } from './progress.ts';

const ENDED = 'its worker ended while it was being sent';

/**
 * Under AT_MOST_ONCE: what was being sent when its worker ended may have been alerted, and is not sent again. It is noted
 * before each send, since afterwards there may be nobody left to note it.
 */
export function resume(progress: Progress, at: number): Progress {
  const { trying = [], ...rest } = progress;
  const lost = trying.filter((label) => !(label in progress.devices));
  if (lost.length === 0) return rest;
  const devices = { ...progress.devices, ...Object.fromEntries(lost.map((label) => [label, 'ambiguous' as const])) };
  const failures = lost.map((device): FailedAttempt => ({ at, device, error: ENDED }));
  return withAttempts({ ...rest, devices }, failures);
}

/** Why nothing was sent: the job is another worker's by now, or what was to be sent could not be noted. */
export type Unsent = 'not-ours' | 'not-noted';

/** The progress while these devices are being sent to. */
export function announced(progress: Progress, ready: readonly Ready[]): Progress {
  return { ...progress, trying: ready.map(({ label }) => label) };
}

/** Notes what is about to be sent. Where the job is somebody else's, or Redis cannot note it, nothing may be sent. */
export async function announce({ lease }: Pick<Pass, 'lease'>, progress: Progress): Promise<'noted' | Unsent> {
  try {
    return (await lease.save(progress)) ? 'noted' : 'not-ours';
  } catch {
    return 'not-noted';
  }
}
