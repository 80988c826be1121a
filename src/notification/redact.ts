import { isOversized } from '../domain/json.ts';
import { LIVE_ACTIVITY_EVENTS, PLATFORMS } from './schema.ts';

const MAX_LENGTH = 300;
/** Only this many characters of a text are looked at; the rest is cut off. */
const MAX_READ = 2_000;
/** Values that are shorter than this are not redacted: they reveal little, and a message without any "a" could not be read. */
const MIN_SECRET_LENGTH = 4;
/** A private text is taken out if this many successive characters of it appear: a server may quote only a part. */
const RUN = 8;
/** Long runs of characters that look like a token, a key or a JWT. */
const TOKEN_LIKE = /[A-Za-z0-9_.~+/:=-]{60,}|[0-9a-fA-F]{32,}/g;
const REDACTED = '[redacted]';

/**
 * A message without the notification's tokens, alert texts and data texts. They are found whole or in part, in upper or lower
 * case, and encoded as JSON, URL, base64 or hexadecimal digits. The notification may be malformed, so every text in its private
 * fields is taken out.
 */
export function redact(text: string, notification: unknown): string {
  if (isOversized(notification)) return REDACTED; // it is too large to look for each of its texts
  const words = text.slice(0, MAX_READ);
  const isPrivate = marksOf(lowerCase(words), privateForms(notification));
  if (!isPrivate.includes(1)) return withoutTokens(words);
  const clean = Array.from({ length: words.length }, (_, at) => {
    if (isPrivate[at] === 0) return words.charAt(at);
    return isPrivate[at - 1] === 1 ? '' : REDACTED;
  }).join('');
  return withoutTokens(clean);
}

function withoutTokens(words: string): string {
  return withoutCredentials(words.replace(TOKEN_LIKE, REDACTED)).slice(0, MAX_LENGTH);
}

const CREDENTIALS: readonly (readonly [pattern: RegExp, rest: string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*?(-----END [A-Z ]*PRIVATE KEY-----|(?="|$))/g, REDACTED],
  // `redis://user:password@host`
  [/(:\/\/)[^\s"'/\\@]+@/g, `$1${REDACTED}@`],
  // A JWT, or its beginning.
  [/\beyJ[\w-]{8,}(\.[\w-]*)*/gi, REDACTED],
  [/(\bBearer )[\w.~+/=-]+/gi, `$1${REDACTED}`],
  // Redis repeats the arguments of a command that it does not know. They are taken out up to the end of the line, in JSON too.
  [/(with args beginning with: )([^"\\\n]|\\[^n])*/g, `$1${REDACTED}`],
];

/** A quick check, since every log line is checked: a text that does not match contains no credentials. */
const MAY_HOLD = /PRIVATE KEY|:\/\/|eyJ|bearer |with args beginning/i;

/** Any text without credentials: private keys, passwords in URLs, bearer tokens, and command arguments that Redis repeats. */
export function withoutCredentials(text: string): string {
  if (!MAY_HOLD.test(text)) return text;
  return CREDENTIALS.reduce((rest, [pattern, instead]) => rest.replace(pattern, instead), text);
}

/** The fields that contain lists or objects, in which a sender may write much. All of them are private. */
export const LARGE_FIELDS = [
  ...['devices', 'channel', 'alert', 'data', 'digest'],
  ...['apns', 'android', 'fcm', 'webpush', 'liveActivity'],
];
const PRIVATE_FIELDS = [...LARGE_FIELDS, 'imageUrl'];
/** Words of the schema that private fields contain too, such as `apns` or `update`: they are not secret. */
const PUBLIC_WORDS: ReadonlySet<string> = new Set([...PLATFORMS, ...LIVE_ACTIVITY_EVENTS]);

/** The forms of each notification are kept, because every refused device of the notification has a message of its own. */
const KNOWN_FORMS = new WeakMap<object, readonly string[]>();

function privateForms(notification: unknown): readonly string[] {
  if (typeof notification !== 'object' || notification === null) return [];
  const known = KNOWN_FORMS.get(notification);
  if (known !== undefined) return known;
  const forms = privateTexts(notification).flatMap(formsOf);
  KNOWN_FORMS.set(notification, forms);
  return forms;
}

/** Every text in the private fields, however deep. */
function privateTexts(notification: object): string[] {
  const rest = PRIVATE_FIELDS.map((field) => (notification as Record<string, unknown>)[field]);
  const texts = new Set<string>();
  while (rest.length > 0) {
    const next = rest.pop();
    if (typeof next === 'string') texts.add(next);
    else if (typeof next === 'object' && next !== null) rest.push(...(Object.values(next) as unknown[]));
  }
  return [...texts].filter((text) => text.length >= MIN_SECRET_LENGTH && !PUBLIC_WORDS.has(text));
}

/** The forms in which a server may quote a text: as it is, and encoded as URL, JSON, base64 or hexadecimal digits. */
function formsOf(text: string): string[] {
  const bytes = Buffer.from(text);
  const json = JSON.stringify(text).slice(1, -1);
  const url = encodeURIComponent(text.toWellFormed());
  const ascii = json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const encoded = [bytes.toString('base64').replace(/=+$/, ''), bytes.toString('base64url'), bytes.toString('hex')];
  return [...new Set([text, json, ascii, url, url.replaceAll('%20', '+'), ...encoded].map(lowerCase))];
}

/** In a long form, only every `STRIDE`th place is looked up in the words: any `RUN` characters contain one such place. */
const GRAM = 3;
const STRIDE = RUN - GRAM + 1;
/** A power of two. */
const HASHES = 0x10000;

/**
 * Marks the characters of `words` that belong to a form: all of a short form, and any `RUN` characters of a longer one. 20
 * tokens of 4,096 characters have half a million characters in all forms, so most places are not looked up.
 */
function marksOf(words: string, forms: readonly string[]): Uint8Array {
  const marks = new Uint8Array(words.length);
  const placesOf = new Map<number, number[]>();
  const mayBeThere = new Uint8Array(HASHES);
  for (let at = 0; at + GRAM <= words.length; at++) {
    const gram = gramAt(words, at);
    mayBeThere[hashAt(words, at)] = 1;
    const places = placesOf.get(gram);
    if (places === undefined) placesOf.set(gram, [at]);
    else places.push(at);
  }
  for (const form of forms) {
    if (form.length < RUN) {
      for (let at = words.indexOf(form); at >= 0; at = words.indexOf(form, at + 1)) marks.fill(1, at, at + form.length);
    }
    for (let place = 0; place + GRAM <= form.length; place += STRIDE) {
      if (mayBeThere[hashAt(form, place)] === 0) continue; // a look into the map takes ten times as long
      for (const at of placesOf.get(gramAt(form, place)) ?? []) {
        if (marks[at] === 0 || marks[at + GRAM - 1] === 0) markAround(marks, { words, at, form, place });
      }
    }
  }
  return marks;
}

/** The code of `GRAM` characters: a different number for each combination. */
function gramAt(text: string, at: number): number {
  return (text.charCodeAt(at) * 0x10000 + text.charCodeAt(at + 1)) * 0x10000 + text.charCodeAt(at + 2);
}

/** A smaller number for `GRAM` characters; different combinations may have the same one. */
function hashAt(text: string, at: number): number {
  return (text.charCodeAt(at) * 961 + text.charCodeAt(at + 1) * 31 + text.charCodeAt(at + 2)) & (HASHES - 1);
}

/** A place in the words and a place in a form that have the same `GRAM` characters. */
interface Match {
  readonly words: string;
  readonly at: number;
  readonly form: string;
  readonly place: number;
}

/** Marks the run around this place that is the same in the words and in the form, if it has at least `RUN` characters. */
function markAround(marks: Uint8Array, { words, at, form, place }: Match): void {
  let before = 0;
  while (before < at && before < place && words[at - before - 1] === form[place - before - 1]) before += 1;
  let after = GRAM;
  while (at + after < words.length && place + after < form.length && words[at + after] === form[place + after])
    after += 1;
  if (before + after >= RUN) marks.fill(1, at - before, at + after);
}

/** The text in lower case, with each character at the same index. `İ` would become two characters, so it stays. */
function lowerCase(text: string): string {
  const lower = text.toLowerCase();
  if (lower.length === text.length) return lower;
  return Array.from(text, (character) => {
    const small = character.toLowerCase();
    return small.length === character.length ? small : character;
  }).join('');
}

/** The depth is limited because an error may be its own cause, directly or through others. */
const MAX_DEPTH = 10;

interface ErrorLike {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly code?: unknown;
  readonly cause?: unknown;
  readonly errors?: unknown;
}

/**
 * The messages of an error and of its causes, outermost first: `write failed < socket hang up < read ECONNRESET`. An
 * `AggregateError` shows all its errors: `(connect ECONNREFUSED ::1:443; connect ETIMEDOUT 17.188.143.34:443)`. A message that
 * an outer message already contains is left out. The caller must redact, because only the caller knows the notification.
 */
export function errorChain(error: unknown): string {
  return linksOf(error, MAX_DEPTH)
    .filter((words, index, all) => !all.slice(0, index).some((outer) => outer.includes(words)))
    .join(' < ');
}

function linksOf(error: unknown, depth: number): string[] {
  if (depth === 0) return [];
  if (typeof error !== 'object' || error === null) return [textOf(error)].filter((text) => text !== '');
  const like: ErrorLike = error;
  const several = Array.isArray(like.errors) ? like.errors.map((each) => linksOf(each, depth - 1).join(' < ')) : [];
  const inner = several.length > 0 ? [`(${[...new Set(several)].join('; ')})`] : causeOf(like, depth);
  const own = wordsOf(like);
  return own === '' ? inner : [own, ...inner];
}

function causeOf(like: ErrorLike, depth: number): string[] {
  // VError's `cause` is a method.
  const cause = typeof like.cause === 'function' ? (like.cause as () => unknown).call(like) : like.cause;
  return cause === undefined || cause === null ? [] : linksOf(cause, depth - 1);
}

/** The message, followed by the code if the message lacks it. Without a message: the code, or else the name. */
function wordsOf({ name, message, code }: ErrorLike): string {
  const [words, short] = [textOf(message).trim(), textOf(code)];
  if (words !== '') return short === '' || words.includes(short) ? words : `${words} (${short})`;
  return short === '' ? textOf(name) : short;
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
