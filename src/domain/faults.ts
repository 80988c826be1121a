import type { z } from 'zod';
import { isObject } from './json.ts';

/** One thing that is wrong with an input: where, what was expected, what was found (never a secret's value). */
export interface Fault {
  /** `devices[0].token`, `LIMIT_RULES[1]`; empty for the input as a whole. */
  readonly path: string;
  /** What is allowed there, in words: `1 to 256 printable characters`. */
  readonly expected: string;
  /** What was there: the value itself, or only its kind and size (`a string of 64 characters`) if it is long or private. */
  readonly found: string;
}

/** The fault of a value; if the value is private, the fault says only its kind and size. */
export function faultOf(path: string, expected: string, value: unknown, isPrivate = false): Fault {
  return { path, expected, found: describeFound(value, isPrivate) };
}

/** A fault as one line of text: `devices[0].platform: expected "apns" or "fcm" or "webpush", found "sms"`. */
export function formatFault({ path, expected, found }: Fault): string {
  const where = path === '' ? '' : `${path}: `;
  return `${where}expected ${expected}, found ${found}`;
}

/** Bad input that a person can correct. Contains every fault, and its message lists them all. */
export class InputError extends Error {
  /** To recognise it without the class, such as across two copies of the package. */
  override readonly name = 'InputError';
  /** Everything that is wrong, one fault or more. No fault contains a token, a password or a text of an alert. */
  readonly faults: readonly Fault[];

  /** `what` is the beginning of the message: `invalid notification`. */
  constructor(what: string, faults: readonly Fault[]) {
    const lines = faults.map(formatFault);
    super(lines.length === 1 ? `${what}: ${lines.join()}` : [`${what}:`, ...lines].join('\n  '));
    this.faults = faults;
  }
}

/** Control characters, lone surrogates, line separators, and marks that change the direction of the text. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Makes a text from an unknown author safe for a terminal: an escape character becomes the text `\u{1b}`. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}

/** As `printable`, of a text of several lines. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

/** What JSON.stringify leaves of `UNPRINTABLE`. */
const UNPRINTABLE_IN_JSON = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** JSON of texts from unknown authors, made safe for a terminal: the same JSON, with more escapes. */
export function printableJson(json: string): string {
  return json.replace(
    UNPRINTABLE_IN_JSON,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

type Path = readonly PropertyKey[];

/** How the `expected` of a fault about an unknown field begins. */
const NO_SUCH_FIELD = 'no such field';

export function isUnknownField({ expected }: Fault): boolean {
  return expected.startsWith(NO_SUCH_FIELD);
}

/** Names that fields have elsewhere, with their names here: `{ uri: 'redisUrl' }` */
export type MeantNames = Readonly<Record<string, string>>;

/**
 * A fault for each field that is not `known`, with the known field that was probably meant.
 *
 * @param path where the object is
 */
export function unknownFields(value: object, known: readonly string[], path: string, meant: MeantNames = {}): Fault[] {
  return Object.keys(value)
    .filter((name) => !known.includes(name))
    .map((name) => noSuchField(path === '' ? name : `${path}.${name}`, meantName(name, known, meant)));
}

/** The known name that `meant` has for this one, otherwise one that is alike. */
function meantName(name: string, known: readonly string[], meant: MeantNames): string | undefined {
  return Object.hasOwn(meant, name) ? meant[name] : meantOption(name, known);
}

function noSuchField(path: string, meant: string | undefined): Fault {
  return { path, expected: `${NO_SUCH_FIELD}${didYouMean(meant)}`, found: 'one' };
}

/** ` (did you mean gap?)` for the end of an `expected`; empty if nothing similar is known. */
export function didYouMean(meant: string | undefined): string {
  return meant === undefined ? '' : ` (did you mean ${meant}?)`;
}

/** Each option of `Options` by name: the compiler reports a missing name and an unknown one. */
export type OptionNames<Options> = Readonly<Record<keyof Options, true>>;

/**
 * A fault for each option that does not exist: otherwise a mistyped option would silently be ignored. TypeScript finds most
 * wrong names, but callers may be plain JavaScript. Throws InputError if `options` is not an object.
 *
 * @param place where these options are, if they are within others: `sentinel`
 */
export function optionFaults(
  options: object,
  names: Readonly<Record<string, true>>,
  place = '',
  meant: MeantNames = {},
): Fault[] {
  if (!isObject(options)) {
    // A text may be a URL with a password, so it is not shown.
    throw new InputError('unusable options', [faultOf(place, 'an object with options', options, true)]);
  }
  const known = Object.keys(names);
  return Object.keys(options)
    .filter((name) => !Object.hasOwn(names, name))
    .map((name) => {
      const path = `${place === '' ? '' : `${place}.`}${formatPath([name])}`;
      return noSuchField(path, meantName(name, known, meant));
    });
}

/**
 * zod's issues as faults: where, what was expected, what was found. For a private value only its kind and size are shown.
 *
 * @param meant finds the known field that was probably meant by an unknown name
 * @param most makes at most this many faults: with thousands of unknown fields, finding what was meant takes long
 */
export function zodFaults(
  error: z.ZodError,
  input: unknown,
  isPrivate: (path: Path, value: unknown) => boolean = () => false,
  meant: (place: Path, name: string) => string | undefined = () => undefined,
  most = Infinity,
): Fault[] {
  const faults: Fault[] = [];
  for (const issue of error.issues) {
    if (faults.length >= most) break;
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys.slice(0, most - faults.length)) {
        faults.push(noSuchField(formatPath([...issue.path, key]), meant(issue.path, key)));
      }
      continue;
    }
    const value = inputAt(input, issue.path);
    faults.push(faultOf(formatPath(issue.path), expectation(issue), value, isPrivate(issue.path, value)));
  }
  return faults;
}

/** The most faults that an answer or a message lists. */
export const MOST_FAULTS = 20;

/**
 * At most 20 faults; a last one says how many more there are. Of more than 20, unknown fields come last: they say less than what
 * a known field lacks.
 *
 * @param count how many there are in all
 */
export function firstFaults(faults: readonly Fault[], count = faults.length): readonly Fault[] {
  const isAll = faults.length <= MOST_FAULTS;
  const sorted = isAll ? faults : faults.toSorted((a, b) => Number(isUnknownField(a)) - Number(isUnknownField(b)));
  const first = sorted.slice(0, MOST_FAULTS);
  const rest = count - first.length;
  return rest > 0 ? [...first, { path: '', expected: 'no more faults', found: String(rest) }] : first;
}

/** How many faults `zodFaults` would make of this error without `most`. */
export function countZodFaults({ issues }: z.ZodError): number {
  return issues.reduce((sum, issue) => sum + (issue.code === 'unrecognized_keys' ? issue.keys.length : 1), 0);
}

/** Field names that are safe to repeat. Another name may be a token in the wrong place, or contain terminal control codes. */
const PLAIN_NAME = /^[A-Za-z0-9_.-]{1,40}$/;

/** `['devices', 0, 'token']` → `devices[0].token` */
export function formatPath(path: Path): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      const name = String(part);
      return `${index === 0 ? '' : '.'}${PLAIN_NAME.test(name) ? name : `(a name of ${name.length} characters)`}`;
    })
    .join('');
}

function expectation(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return article(issue.expected === 'int' ? 'integer' : issue.expected);
    case 'invalid_value':
      return issue.values.map((value) => JSON.stringify(value)).join(' or ');
    case 'too_small':
      return `at least ${issue.minimum} ${unit(issue.origin, issue.minimum)}`.trim();
    case 'too_big':
      return `at most ${issue.maximum} ${unit(issue.origin, issue.maximum)}`.trim();
    case 'invalid_union':
      return issue.message;
    case 'invalid_key':
      return issue.issues[0]?.message ?? issue.message;
    default:
      return issue.message;
  }
}

function unit(origin: string, count: number | bigint): string {
  const [one, many] = { string: ['character', 'characters'], array: ['entry', 'entries'] }[origin] ?? ['', ''];
  return (count === 1 ? one : many) ?? '';
}

function article(type: string): string {
  return `${/^[aeio]/.test(type) ? 'an' : 'a'} ${type}`;
}

function inputAt(input: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, key) => (value as Record<PropertyKey, unknown> | undefined)?.[key], input);
}

/** A fault's `found`: the value if it is short, else its kind and size. For a private text it is only the size. */
export function describeFound(value: unknown, isPrivate = false): string {
  if (value === undefined) return 'nothing';
  if (value === null || typeof value === 'boolean' || typeof value === 'number') return String(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'string') {
    if (isPrivate || value.length > 80) return `a string of ${value.length} characters`;
    return printable(JSON.stringify(value));
  }
  return article(typeof value);
}

/**
 * The known name that is most similar to `name`: with at most two typing mistakes, or one if a name has up to five letters.
 * Undefined if there is none. Upper and lower case count as equal.
 */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  const given = name.toLowerCase();
  let letters: number | undefined;
  let best: { readonly candidate: string; readonly mistakes: number } | undefined;
  for (const candidate of known) {
    const most = Math.min(name.length, candidate.length) > 5 ? 2 : 1;
    if (Math.abs(name.length - candidate.length) > most) continue; // a bad job may have thousands of long names
    const other = candidate.toLowerCase();
    const others = lettersIn(other);
    letters ??= lettersIn(given);
    if (Math.max(countBits(letters & ~others), countBits(others & ~letters)) > most) continue; // or of short ones
    const mistakes = typingMistakes(given, other);
    if (mistakes <= most && mistakes < (best?.mistakes ?? Infinity)) best = { candidate, mistakes };
  }
  return best?.candidate;
}

/** A bit for each letter of the text; some share a bit. A letter that only one of two texts has is at least one mistake. */
function lettersIn(text: string): number {
  let letters = 0;
  for (let at = 0; at < text.length; at++) letters |= 1 << (text.charCodeAt(at) & 31);
  return letters;
}

function countBits(bits: number): number {
  let count = 0;
  for (let rest = bits; rest !== 0; rest &= rest - 1) count++;
  return count;
}

/** Shorter names are not looked for within other names, because too many names contain them by chance. */
const LEAST_SHARED = 3;

/**
 * The known option that was probably meant by `name`: a similar option, otherwise the shortest option that contains `name` or
 * is contained in it (`url` → `redisUrl`, `queuePrefix` → `prefix`). Undefined if there is none.
 */
export function meantOption(name: string, known: readonly string[]): string | undefined {
  const similar = nearest(name, known);
  if (similar !== undefined || name.length < LEAST_SHARED) return similar;
  const given = name.toLowerCase();
  let best: string | undefined; // without lists: a bad job may have thousands of names
  for (const each of known) {
    const other = each.toLowerCase();
    const isKin = other.includes(given) || (other.length >= LEAST_SHARED && given.includes(other));
    if (isKin && each.length < (best?.length ?? Infinity)) best = each;
  }
  return best;
}

/** How many letters are missing, too many, wrong, or swapped with the next letter (the optimal string alignment distance). */
export function typingMistakes(a: string, b: string): number {
  let [before, previous]: [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, at) => at)];
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let at = 1; at <= b.length; at++) {
      const changed = (previous[at - 1] ?? 0) + (a[row - 1] === b[at - 1] ? 0 : 1);
      const isSwapped = row > 1 && at > 1 && a[row - 1] === b[at - 2] && a[row - 2] === b[at - 1];
      const swapped = isSwapped ? (before[at - 2] ?? 0) + 1 : Infinity;
      current.push(Math.min((previous[at] ?? 0) + 1, (current[at - 1] ?? 0) + 1, changed, swapped));
    }
    [before, previous] = [previous, current];
  }
  return previous[b.length] ?? 0;
}

/** `1 worker`, `12 workers` */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

export function isOrAre(count: number): string {
  return count === 1 ? 'is' : 'are';
}
