/** More than the largest notification has: 20 devices, and as many pairs of data as the providers' 4,096 bytes can hold. */
export const MAX_VALUES = 2_500;
/** 20 tokens of 4,096 characters, and as much again. */
export const MAX_CHARACTERS = 200_000;

/**
 * Whether a value holds more than any notification could, told in a time that does not grow with it: checking each of a
 * million fields would keep a worker from everything else for seconds. Never recurses, whatever the depth.
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
