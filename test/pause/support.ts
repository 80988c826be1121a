import { onTestFinished } from 'vitest';
import type { Evidence, Pause, PauseChange, Pauses, Probe } from '../../src/pause/pauses.ts';
import type { ProbeEnd } from '../../src/pause/provider-pause.ts';
import { createPauses, type PausesOptions } from '../../src/pause/redis-pauses.ts';
import type { PauseRedis } from '../../src/pause/store.ts';
import { connectRedis } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

/** Pauses on a connection of their own, as a worker has them, with what they told. */
export interface PauseWorker {
  readonly pauses: Pauses;
  readonly changes: readonly PauseChange[];
  readonly probeEnds: readonly ProbeEnd[];
}

/** Short enough to be waited for, and longer than what a busy machine takes between two lines of a test. */
export const BASE_MS = 300;

export function openPauses(
  prefix: string,
  options: Partial<PausesOptions> = {},
  redis: PauseRedis = connectRedis(),
): PauseWorker {
  const changes: PauseChange[] = [];
  const probeEnds: ProbeEnd[] = [];
  const pauses = createPauses({
    redis,
    prefix,
    baseMs: BASE_MS,
    maxMs: 4 * BASE_MS,
    onChange: (change) => void changes.push(change),
    onProbe: (end) => void probeEnds.push(end),
    ...options,
  });
  onTestFinished(() => pauses.close());
  return { pauses, changes, probeEnds };
}

let made = 0;

/** An answer of APNs about a notification of its own. */
function answer(fields: Partial<Evidence>): Evidence {
  made += 1;
  return { platform: 'apns', notificationId: `msg-${made}`, code: 'accepted', ...fields };
}

export const accepted = (): Evidence => answer({});
export const refused = (): Evidence => answer({ trouble: 'auth', code: 'InvalidProviderToken' });
export const unreached = (): Evidence => answer({ trouble: 'outage', code: 'connection-refused' });
export const wanted = (retryAfterMs: number | undefined): Evidence =>
  answer({ trouble: 'quota', code: 'QUOTA_EXCEEDED', retryAfterMs });

/** What a worker knows of the pause of APNs. */
export function pauseOf({ pauses }: Pick<PauseWorker, 'pauses'>): Pause {
  const pause = pauses.current('apns');
  if (pause === undefined) throw new Error('expected APNs to be paused, found it open');
  return pause;
}

/** The probe, as soon as the pause is over. */
export function probeOf({ pauses }: Pick<PauseWorker, 'pauses'>): Promise<Probe> {
  return waitFor(async () => {
    const entry = await pauses.enter('apns');
    if (entry.kind !== 'probe') throw new Error(`expected a probe, found ${entry.kind}`);
    return entry.probe;
  });
}
