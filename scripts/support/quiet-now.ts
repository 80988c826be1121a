import type { QuietHours } from '../../src/domain/quiet-hours.ts';

const HOUR_MS = 3_600_000;

/** Quiet hours that began an hour ago and end in two, so that a run does not depend on the time. */
export function quietNow(now: number): QuietHours {
  const clockAt = (at: number): string => new Date(at).toISOString().slice(11, 16);
  return { timezone: 'UTC', quietHours: [{ from: clockAt(now - HOUR_MS), until: clockAt(now + 2 * HOUR_MS) }] };
}
