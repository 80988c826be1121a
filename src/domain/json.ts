/** Any value that JSON can hold. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/** A JSON object: names with any values. */
export type JsonObject = Record<string, JsonValue>;

/** How deep objects and arrays may lie in each other. The check and the merge call themselves for each level. */
const MAX_LEVELS = 20;

/** What `isJson` and `isJsonObject` ask for, in words. */
export const JSON_FORMAT = `JSON of at most ${MAX_LEVELS} levels, without the key __proto__`;

/** Whether JSON carries the value as it is. `__proto__` is refused, because clients lose it. */
export function isJson(value: unknown, levels = MAX_LEVELS): value is JsonValue {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || levels === 0) return false;
  if (Array.isArray(value)) return value.every((inner) => isJson(inner, levels - 1));
  return (
    isPlain(value) && Object.entries(value).every(([key, inner]) => key !== '__proto__' && isJson(inner, levels - 1))
  );
}

/** The same of an object, which is not an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return isObject(value) && isJson(value);
}

/** Whether a JSON value, or any other, is an object and not an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What lies at a path of names: `apns.payload.aps`; undefined where it leads nowhere. */
export function valueAt(raw: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => (isObject(value) ? value[name] : undefined), raw);
}

/** Not a Date, a Map or another class, which JSON would change. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/**
 * The value with U+FFFD in place of each lone surrogate (half a character, such as a cut emoji leaves), in texts and names however
 * deep. JSON would carry it as an escape without a meaning, which is no UTF-8. The value itself where there is none. Only for values
 * whose depth was checked.
 */
export function wellFormed<T>(value: T): T {
  return isWellFormed(value) ? value : (repaired(value) as T);
}

function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (Array.isArray(value)) return value.every(isWellFormed);
  if (!isObject(value)) return true;
  return Object.entries(value).every(([name, inner]) => name.isWellFormed() && isWellFormed(inner));
}

function repaired(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (Array.isArray(value)) return value.map(repaired);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name.toWellFormed(), repaired(inner)]));
}
