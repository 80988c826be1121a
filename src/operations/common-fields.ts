import { z } from 'zod';
import { InputError, printable, type Fault } from '../domain/faults.ts';
import { DURATION_FORMAT, formatDuration, INSTANT_FORMAT, parseDuration } from '../domain/time.ts';
import { MAX_BLOCK_MS } from '../limiter/checks.ts';
import { parseInstant } from '../terminal/command.ts';
import { unfit, written, type FieldLook, type Names, type Read } from './fields.ts';
import type { PlanContext } from './operation.ts';

// Fields that several operations have, and their faults.

const MAX_TEXT = 500;

/** A text for people: 1 to 500 printable characters. */
export function textField(look: FieldLook & { readonly description: string }) {
  return written(z.string(), look, (text): Read<string> => {
    const length = Array.from(text).length;
    if (length >= 1 && length <= MAX_TEXT && printable(text) === text) return { value: text };
    return unfit(`1 to ${MAX_TEXT} printable characters`, text);
  });
}

type End = Readonly<Partial<Record<'for' | 'until', number | undefined>>>;

export function forField(description: string) {
  return written(z.string(), { label: 'For', value: 'duration', description }, (text): Read<number> => {
    const ms = parseDuration(text);
    if (ms !== undefined && ms > 0 && ms <= MAX_BLOCK_MS) return { value: ms };
    return unfit(`${DURATION_FORMAT}, at most ${formatDuration(MAX_BLOCK_MS)}`, text);
  });
}

/** An instant, as epoch milliseconds. @param ofDuration what a fault says in addition if a duration is there */
export function instantField(look: FieldLook & { readonly description: string }, ofDuration = '') {
  return written(z.union([z.string(), z.number()], { error: INSTANT_FORMAT }), look, (input): Read<number> => {
    const at = parseInstant(String(input));
    if (at !== undefined) return { value: at };
    const isDuration = typeof input === 'string' && parseDuration(input) !== undefined;
    return unfit(`${INSTANT_FORMAT}${isDuration ? ofDuration : ''}`, input);
  });
}

/** Stands beside `forField`, which takes durations: other commands have an age under the name `until`. */
export const untilField = instantField(
  { label: 'Until', value: 'time', kind: 'none', description: 'RFC 3339 or epoch milliseconds' },
  ' (a duration from now goes into "for")',
);

export function endFaults(given: Readonly<Record<string, unknown>>, { of }: Names): readonly Fault[] {
  if (given['for'] === undefined || given['until'] === undefined) return [];
  return [{ path: of('until'), expected: `${of('until')} or ${of('for')}`, found: 'both' }];
}

/** The end in epoch milliseconds; undefined for no end. It may be at most `mostMs` ahead of the limiter's clock. */
export function endOf(end: End, { now, names }: PlanContext, mostMs = Infinity): number | undefined {
  const { until, for: forMs } = end;
  if (until === undefined) return forMs === undefined ? undefined : now + forMs;
  if (until > now && until <= now + mostMs) return until;
  const bound = mostMs === Infinity ? '' : `, by ${formatDuration(mostMs)} at most`;
  const expected = `an instant ahead of now, which is ${new Date(now).toISOString()}${bound}`;
  const found = JSON.stringify(new Date(until).toISOString());
  throw new InputError('unusable end', [{ path: names.of('until'), expected, found }]);
}

/** A fault if none of these fields is given, although one is needed. */
export function noneFaults(given: Readonly<Record<string, unknown>>, fields: readonly string[], names: Names): Fault[] {
  if (fields.some((field) => given[field] !== undefined)) return [];
  const all = [...fields.map(names.of), ...names.others];
  const expected = `${all.slice(0, -1).join(', ')} or ${all.at(-1) ?? ''}`;
  return [{ path: all[0] ?? '', expected, found: all.length === 2 ? 'neither' : 'none of them' }];
}
