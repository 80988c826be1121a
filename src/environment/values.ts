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

/** Several https addresses, comma-separated. */
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

/**
 * A quota stores a number for each bucket of time, not an entry for each send, so it may be larger than a recipient's rule. Its
 * window is at most an hour, since a notification that finds no room may have to wait that long.
 */
export const LARGEST_QUOTA: Rule = { max: 1_000_000_000, perMs: 3_600_000 };

export interface QuotaRule extends Rule {
  /** The host of the server that the rule is for: `fcm.googleapis.com`. Absent: all other servers together. */
  readonly server?: string;
}

const SERVER_RULE = /^\s*([A-Za-z0-9.-]{1,100}(?::\d{1,5})?)\s*=(.*)$/s;

/** A variable that contains rules, some of them for one server: `5000/1m,fcm.googleapis.com=1000/1m`. */
export function serverRules(name: string, largest?: Rule) {
  return z.string().transform((value, context): readonly QuotaRule[] => {
    const parts = value.split(',').map((part) => SERVER_RULE.exec(part) ?? [part, undefined, part]);
    const result = parseRules(parts.map(([, , rule]) => rule).join(','), name, largest);
    if (result.ok) {
      return result.rules.map((rule, index): QuotaRule => {
        const server = parts[index]?.[1];
        return server === undefined ? rule : { ...rule, server: hostOf(server) };
      });
    }
    const expected = 'rules as max/per, or as host=max/per for one push service, such as fcm.googleapis.com=1000/1m';
    context.addIssue({ code: 'custom', message: `${expected} (${result.faults.map(formatFault).join('; ')})` });
    return z.NEVER;
  });
}

/** The server's host as devices name it: in lower case, and without the port of https. */
function hostOf(server: string): string {
  return URL.canParse(`https://${server}`) ? new URL(`https://${server}`).host : server;
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
