import { z } from 'zod';

/** Any value that JSON can hold. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/** A JSON object: names with any values. */
export type JsonObject = Record<string, JsonValue>;

/** How many levels of objects and arrays a value may have. The check and the merge call themselves for each level. */
const MAX_LEVELS = 20;

/** What `isJson` requires, in words. */
const JSON_FORMAT = `JSON of at most ${MAX_LEVELS} levels, without the key __proto__`;

/**
 * Whether the value is the same after it was written as JSON and read again. The key `__proto__` is refused, because programs
 * that copy an object often lose it.
 */
function isJson(value: unknown, levels = MAX_LEVELS): value is JsonValue {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || levels === 0) return false;
  if (Array.isArray(value)) return value.every((inner) => isJson(inner, levels - 1));
  return (
    isPlain(value) && Object.entries(value).every(([key, inner]) => key !== '__proto__' && isJson(inner, levels - 1))
  );
}

/** Whether a value is an object, and neither null nor an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `T` in which each field that may be undefined is optional instead. */
type Defined<T> = { readonly [Name in keyof T as undefined extends T[Name] ? never : Name]: T[Name] } & {
  readonly [Name in keyof T as undefined extends T[Name] ? Name : never]?: Exclude<T[Name], undefined>;
};

/** The fields that are not undefined. */
export function defined<T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>;
}

/** The value of a JSON text; undefined if the text is something else. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The object of a JSON text; an empty object for any other text. */
export function parseObject(text: string): Readonly<Record<string, unknown>> {
  return objectOr(parseJson(text));
}

/** The value at a path of names, such as `apns.payload.aps`; undefined if there is none. */
export function valueAt(raw: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => (isObject(value) ? value[name] : undefined), raw);
}

/** Whether an object has no class: JSON would change a Date, a Map and the like. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/**
 * Replaces each lone surrogate (half of a character, for example of an emoji that was cut) by U+FFFD, in texts and names at any
 * depth. JSON would write a lone surrogate as an escape that stands for no character. Only for values whose depth was checked.
 */
export function wellFormed<T>(value: T): T {
  return isWellFormed(value) ? value : (repaired(value) as T);
}

function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (Array.isArray(value)) return value.every(isWellFormed);
  if (!isObject(value)) return true;
  return Object.keys(value).every((name) => name.isWellFormed() && isWellFormed(value[name]));
}

function repaired(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (Array.isArray(value)) return value.map(repaired);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name.toWellFormed(), repaired(inner)]));
}

/** The schema with the type that its check proves, because zod cannot infer the type from the check. */
const typed = <T>(schema: z.ZodType) => schema as z.ZodType<T, T>;

export const jsonValue = () => typed<JsonValue>(z.unknown().refine((value) => isJson(value), { error: JSON_FORMAT }));

/** One fault within an object: its path from there, and what was expected at that path. */
export interface Misplaced {
  readonly path: readonly PropertyKey[];
  readonly expected: string;
}

/** A JSON object with any names except those that `misplaced` reports. */
export const jsonObject = (misplaced: (object: JsonObject) => readonly Misplaced[]) =>
  typed<JsonObject>(
    z
      .unknown()
      .superRefine((value, context) => {
        if (!isObject(value) || !isJson(value)) {
          context.addIssue({ code: 'custom', message: `an object, ${JSON_FORMAT}` });
          return;
        }
        for (const { path, expected } of misplaced(value)) {
          context.addIssue({ code: 'custom', message: expected, path: [...path] });
        }
      })
      .meta({ type: 'object' }),
  );

/** Text without control characters, line breaks or lone surrogates (halves of characters). */
const PRINTABLE = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]*$/u;
/** `PRINTABLE` for JSON Schema. It uses ranges, since not every language's patterns know `\p{Cc}`. */
const PRINTABLE_IN_JSON_SCHEMA = '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]+$';

/** The id of a notification, or of a broadcast. A new notification is not named `.` or `..` (`nameable`). */
export const ID = /^[A-Za-z0-9._~-]{1,128}$/;
export const ID_FORMAT = '1 to 128 of A-Z a-z 0-9 . _ ~ -';

/** 1 to `most` printable characters. */
export const printable = (most: number) =>
  z
    .string()
    .refine((text) => text !== '' && isAtMost(most, text) && PRINTABLE.test(text), {
      error: `1 to ${most} printable characters`,
    })
    .meta({ minLength: 1, maxLength: most, pattern: PRINTABLE_IN_JSON_SCHEMA });

/** Every URL parser takes these out of a path, also as `%2E`, so no page and no route could be that of a `..`. */
const UNNAMEABLE = ['.', '..'];

/** The texts of the schema that can be a part of a URL's path. */
export const nameable = (schema: z.ZodString) =>
  schema
    .refine((text) => !UNNAMEABLE.includes(text), { error: 'another text than . and .., which no URL can name' })
    .meta({ ...schema.meta(), not: { enum: UNNAMEABLE } });

/** Counts code points. A text never has more of them than UTF-16 units (`length`), so a short text need not be counted. */
const isAtMost = (most: number, text: string): boolean => text.length <= most || Array.from(text).length <= most;

/**
 * A JSON Merge Patch (RFC 7396): objects are merged name by name at every depth, null removes a name, and every other value
 * replaces what was there. Neither argument is changed.
 */
export function mergePatch(target: JsonObject, patch: JsonObject): JsonObject {
  const merged: JsonObject = { ...target };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) Reflect.deleteProperty(merged, name);
    else merged[name] = isObject(value) ? mergePatch(objectOr(merged[name]), value) : value;
  }
  return merged;
}

/** The value if it is an object; otherwise an empty object. */
export function objectOr(value: JsonValue | undefined): JsonObject;
export function objectOr(value: unknown): Readonly<Record<string, unknown>>;
export function objectOr(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}

/** More values than the largest notification has: 20 devices, and as many numbers as fit into 5,120 bytes. */
export const MAX_VALUES = 5_000;
/** More characters than the largest notification has: 20 tokens of 4,096 characters, and about as many for everything else. */
export const MAX_CHARACTERS = 200_000;

/**
 * Whether a value is larger than any notification can be. Stops as soon as that is certain, since checking a million fields
 * against the schema would block the worker's event loop for seconds. Does not recurse, so no depth overflows the stack.
 *
 * @param most how large a value of another kind can be
 */
export function isOversized(value: unknown, most = { values: MAX_VALUES, characters: MAX_CHARACTERS }): boolean {
  const rest: unknown[] = [value];
  let values = 0;
  let characters = 0;
  while (rest.length > 0) {
    const next = rest.pop();
    values += 1;
    if (typeof next === 'string') characters += next.length;
    if (typeof next === 'object' && next !== null) {
      const names = Array.isArray(next) ? [] : Object.keys(next);
      const length = Array.isArray(next) ? next.length : names.length;
      if (values + rest.length + length > most.values) return true;
      for (const name of names) characters += name.length;
      rest.push(...(Object.values(next) as unknown[]));
    }
    if (characters > most.characters) return true;
  }
  return false;
}
