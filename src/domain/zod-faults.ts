import type { z } from 'zod';
import type { Fault } from './faults.ts';
import { printable } from './printable.ts';

type Path = readonly PropertyKey[];

/** zod's issues as faults: where, what was expected, what was found. Of a private value only its kind and size are shown. */
export function zodFaults(
  error: z.ZodError,
  input: unknown,
  isPrivate: (path: Path, value: unknown) => boolean = () => false,
): Fault[] {
  return error.issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({
        path: formatPath([...issue.path, key]),
        expected: 'no such field',
        found: 'one',
      }));
    }
    const value = valueAt(input, issue.path);
    const found = describe(value, isPrivate(issue.path, value));
    return [{ path: formatPath(issue.path), expected: expectation(issue), found }];
  });
}

/** Field names that are safe to repeat. Other names may be a token in the wrong place, or hold terminal control codes. */
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

function valueAt(input: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, key) => (value as Record<PropertyKey, unknown> | undefined)?.[key], input);
}

function describe(value: unknown, isPrivate: boolean): string {
  if (value === undefined) return 'nothing';
  if (value === null || typeof value === 'boolean' || typeof value === 'number') return String(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'string') {
    if (isPrivate || value.length > 80) return `a string of ${value.length} characters`;
    return printable(JSON.stringify(value));
  }
  return article(typeof value);
}
