import { z } from 'zod';
import { UsageError } from './command.ts';

/** What `parseInstant` reads, for error messages. */
export const INSTANT_FORMAT = 'an RFC 3339 date-time or epoch milliseconds';

const dateTime = z.iso.datetime({ offset: true });

/** `2026-11-21T14:00:00Z`, `1795269600000` → epoch milliseconds; undefined where the text is neither. */
export function parseInstant(text: string): number | undefined {
  if (/^\d{12,14}$/.test(text)) return Number(text);
  const checked = dateTime.safeParse(text.toUpperCase());
  return checked.success ? Date.parse(checked.data) : undefined;
}

/** A flag's parser: a whole number from `least` to `most`. */
export function integer(flag: string, least: number, most: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
    if (value >= least && value <= most) return value;
    throw new UsageError(`${flag}: expected an integer from ${least} to ${most}, found ${JSON.stringify(text)}`);
  };
}
