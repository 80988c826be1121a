import fc from 'fast-check';
import type { QuietHours, Window } from '../../src/domain/quiet-hours.ts';

const MINUTE_MS = 60_000;

/** Which minutes are quiet, from that of the start on. */
export const pattern = fc.array(fc.boolean(), { minLength: 0, maxLength: 12 });

/** The pattern as quiet hours that begin at the minute of `start`. */
export function hoursOf(minutes: readonly boolean[], start: number): QuietHours {
  return {
    timezone: 'UTC',
    quietHours: windowsOf(minutes, start).map(({ from, until }) => ({ from: timeOf(from), until: timeOf(until) })),
  };
}

/** The same minutes as instants, on the day of the start. */
export function windowsOf(minutes: readonly boolean[], start: number): readonly Window[] {
  const first = Math.floor(start / MINUTE_MS) * MINUTE_MS;
  return minutes.flatMap((isQuiet, index) => {
    const from = first + index * MINUTE_MS;
    return isQuiet ? [{ from, until: from + MINUTE_MS }] : [];
  });
}

function timeOf(at: number): string {
  return new Date(at).toISOString().slice(11, 16);
}
