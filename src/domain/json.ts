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
