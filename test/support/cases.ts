/**
 * How many cases a property test tries: all of them in the slow suite, which sets ALL_CASES (vitest.config.ts); a fifth in
 * the fast one. `ALL_CASES=1 npm test -- FILE` tries all of one file.
 */
export function cases(all: number): number {
  return process.env['ALL_CASES'] === '1' ? all : Math.ceil(all / 5);
}
