import { PLATFORMS } from './notification.ts';
import { isOversized } from './size.ts';

const MAX_LENGTH = 300;
/** Only this many characters of a text are looked at; the rest is cut off. */
const MAX_READ = 2_000;
/** Shorter values are not redacted: they reveal little, and taking out every "a" would make a message unreadable. */
const MIN_SECRET_LENGTH = 4;
/** This many successive characters of a private text are enough to be taken out: a server may quote only a part. */
const RUN = 8;
/** Long runs of characters that look like a token, a key or a JWT. */
const TOKEN_LIKE = /[A-Za-z0-9_.~+/:=-]{60,}|[0-9a-fA-F]{32,}/g;
const REDACTED = '[redacted]';

/**
 * A message about a notification (from a provider, from Redis, of an unexpected error) without its tokens and without the
 * texts of its alert and data. Finds them whole or in part, in upper or lower case, and encoded as JSON, URL, base64 or
 * hexadecimal digits. The notification may be malformed: every text in the private fields is taken out.
 */
export function redact(text: string, notification: unknown): string {
  if (isOversized(notification)) return REDACTED; // it holds too many texts to look for
  const words = text.slice(0, MAX_READ);
  const isPrivate = marksOf(lowerCase(words), privateTexts(notification).flatMap(formsOf));
  if (!isPrivate.includes(true)) return withoutTokens(words);
  const clean = Array.from({ length: words.length }, (_, at) => {
    if (!isPrivate[at]) return words.charAt(at);
    return isPrivate[at - 1] ? '' : REDACTED;
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
  // Redis repeats the arguments of a command that it does not know; up to the end of the line, in JSON too.
  [/(with args beginning with: )([^"\\\n]|\\[^n])*/g, `$1${REDACTED}`],
];

/** A quick check, since it runs on every log line: a text without a match holds no credentials. */
const MAY_HOLD = /PRIVATE KEY|:\/\/|eyJ|bearer |with args beginning/i;

/** Any text without credentials: private keys, passwords in URLs, bearer tokens, and command arguments that Redis repeats. */
export function withoutCredentials(text: string): string {
  if (!MAY_HOLD.test(text)) return text;
  return CREDENTIALS.reduce((rest, [pattern, instead]) => rest.replace(pattern, instead), text);
}

const PRIVATE_FIELDS = ['devices', 'alert', 'data', 'imageUrl', 'digest', 'apns', 'android', 'fcm'];
/** Words of the schema that private fields contain too, such as `apns`: they are not secret. */
const PUBLIC_WORDS: ReadonlySet<string> = new Set(PLATFORMS);

/** Every text in the private fields, however deep. */
function privateTexts(notification: unknown): string[] {
  if (typeof notification !== 'object' || notification === null) return [];
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

/** Marks the characters of `words` that belong to a form: the whole of a short form, any `RUN` characters of a longer one. */
function marksOf(words: string, forms: readonly string[]): boolean[] {
  const marks = Array.from({ length: words.length }, () => false);
  const placesOf = new Map<string, number[]>();
  for (let at = 0; at + RUN <= words.length; at++) {
    const run = words.slice(at, at + RUN);
    placesOf.set(run, [...(placesOf.get(run) ?? []), at]);
  }
  for (const form of forms) {
    if (form.length < RUN) {
      for (let at = words.indexOf(form); at >= 0; at = words.indexOf(form, at + 1))
        marks.fill(true, at, at + form.length);
    }
    for (let from = 0; from + RUN <= form.length; from++) {
      for (const at of placesOf.get(form.slice(from, from + RUN)) ?? []) marks.fill(true, at, at + RUN);
    }
  }
  return marks;
}

/** In lower case, with each character at the same index. `İ` would become two characters, so it stays. */
function lowerCase(text: string): string {
  const lower = text.toLowerCase();
  if (lower.length === text.length) return lower;
  return Array.from(text, (character) => {
    const small = character.toLowerCase();
    return small.length === character.length ? small : character;
  }).join('');
}
