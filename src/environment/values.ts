import { z } from 'zod';
import { formatFault } from '../domain/faults.ts';
import { parseRules, type Rule } from '../domain/limits.ts';
import { DURATION_FORMAT, parseDuration } from '../domain/time.ts';

/** A process's environment. */
export type Environment = Readonly<Record<string, string | undefined>>;

export function anyText() {
  return z.string().min(1);
}

/** A text that matches the pattern. `expected` says in a fault what the pattern requires. */
export function text(pattern: RegExp, expected: string) {
  return z.string().regex(pattern, { error: expected });
}

/** Turns a variable's text into a value. `parse` returns undefined for a bad text; the fault then says `expected`. */
export function parsed<T>(expected: string, parse: (text: string) => T | undefined) {
  return z.string().transform((value, context): T => {
    const result = parse(value.trim());
    if (result !== undefined) return result;
    context.addIssue({ code: 'custom', message: expected });
    return z.NEVER;
  });
}

export function integer(least: number, most: number) {
  return parsed(`an integer from ${least} to ${most}`, (value) => {
    const number = /^\d{1,9}$/.test(value) ? Number(value) : NaN;
    return number >= least && number <= most ? number : undefined;
  });
}

export function flag() {
  return parsed('true or false', (value) => ({ true: true, false: false })[value]);
}

/** `3s` → milliseconds. */
export function duration(most = '31d', least = '0') {
  const range =
    least === '0' ? `0 or ${DURATION_FORMAT}, at most ${most}` : `${DURATION_FORMAT}, from ${least} to ${most}`;
  return parsed(range, (value) => {
    const ms = parseDuration(value);
    const isWithin = ms !== undefined && ms >= (parseDuration(least) ?? 0) && ms <= (parseDuration(most) ?? 0);
    return isWithin ? ms : undefined;
  });
}

/** An address such as `https://api.push.apple.com`: only scheme, host and port. */
export function httpsUrl() {
  return parsed('an https:// URL without a path and without a user', httpsOrigin);
}

/** Several such addresses, comma-separated. */
export function httpsOrigins() {
  return parsed(
    'https:// URLs without a path and without a user, comma-separated',
    (value): readonly string[] | undefined => {
      const origins = value.split(',').map((part) => httpsOrigin(part.trim()));
      return origins.every((origin) => origin !== undefined) ? origins : undefined;
    },
  );
}

function httpsOrigin(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isBare = url.pathname === '/' && url.search === '' && url.username === '' && url.password === '';
  return url.protocol === 'https:' && isBare ? url.origin : undefined;
}

/** A variable that contains rules: `10/1m,200/1h`. */
export function rules(name: string, largest?: Rule) {
  return z.string().transform((value, context): readonly Rule[] => {
    const result = parseRules(value, name, largest);
    if (result.ok) return result.rules;
    const message = `rules as max/per, such as 10/1m,200/1h (${result.faults.map(formatFault).join('; ')})`;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  });
}
