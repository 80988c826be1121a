import { isObject, type JsonObject, type JsonValue } from './json.ts';

/**
 * A JSON Merge Patch (RFC 7396): objects are merged name by name at every depth, null removes a name, and every other value
 * takes the place of what was there. Neither argument is changed.
 */
export function mergePatch(target: JsonObject, patch: JsonObject): JsonObject {
  const merged: JsonObject = { ...target };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) Reflect.deleteProperty(merged, name);
    else merged[name] = isJsonObjectValue(value) ? mergePatch(objectOr(merged[name]), value) : value;
  }
  return merged;
}

function objectOr(value: JsonValue | undefined): JsonObject {
  return value !== undefined && isJsonObjectValue(value) ? value : {};
}

function isJsonObjectValue(value: JsonValue): value is JsonObject {
  return isObject(value);
}
