/** More values than the largest notification has: 20 devices, and as many data fields as fit into 4,096 bytes. */
export const MAX_VALUES = 2_500;
/** 20 tokens of 4,096 characters, and about as much again for the rest. */
export const MAX_CHARACTERS = 200_000;

/**
 * Whether a value is larger than any notification can be. Stops as soon as that is certain, since checking a million fields
 * against the schema would block the worker's event loop for seconds. Does not recurse, so no depth overflows the stack.
 */
export function isOversized(value: unknown): boolean {
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
      if (values + rest.length + length > MAX_VALUES) return true;
      for (const name of names) characters += name.length;
      rest.push(...(Object.values(next) as unknown[]));
    }
    if (characters > MAX_CHARACTERS) return true;
  }
  return false;
}
