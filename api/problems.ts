import { STATUS_CODES } from 'node:http';
import type { Fault } from '../src/domain/faults.ts';

/** What a refusal is about, for programs: `code` in the answer. docs/http-api.md lists all codes. */
export const PROBLEM_CODES = [
  'not-json',
  'invalid',
  'unauthorized',
  'too-many-failures',
  'forbidden',
  'not-found',
  'method-not-allowed',
  'conflict',
  'too-slow',
  'too-large',
  'unsupported-media-type',
  'queue-full',
  'too-much-at-once',
  'limited',
  'redis-away',
  'internal',
] as const;
export type ProblemCode = (typeof PROBLEM_CODES)[number];

/** A refusal (RFC 9457). `type` is `about:blank`, so `title` is the status in words. */
export interface Problem {
  readonly status: number;
  readonly code: ProblemCode;
  /** What is wrong, for people. */
  readonly detail: string;
  /** Everything that is wrong with the input, each with its path. */
  readonly faults?: readonly Fault[];
  readonly headers?: Readonly<Record<string, string>>;
  /** Further members of the answer's body. */
  readonly more?: Readonly<Record<string, unknown>>;
}

/** The members of the answer's body. */
export function problemBody({ status, code, detail, faults, more }: Problem): Readonly<Record<string, unknown>> {
  const title = STATUS_CODES[status] ?? 'Error';
  return { type: 'about:blank', title, status, code, detail, ...(faults && { faults }), ...more };
}

export function problemResponse(problem: Problem): Response {
  const headers = { 'content-type': 'application/problem+json', ...problem.headers };
  return new Response(`${JSON.stringify(problemBody(problem))}\n`, { status: problem.status, headers });
}

export function invalid(faults: readonly Fault[], what = 'the notification'): Problem {
  const count = faults.length === 1 ? 'one fault' : `${faults.length} faults`;
  return { status: 422, code: 'invalid', detail: `${what} has ${count}`, faults };
}

export const UNKNOWN_ID: Problem = {
  ...{ status: 404, code: 'not-found' },
  detail:
    'no notification has this id; or it ended more than an hour ago; or it was a dead letter that was removed; or Redis lost it',
};

/** After this many seconds a producer may try again. */
const REDIS_AGAIN_S = 2;

/** Redis did not answer. Nothing that was answered with 202 is lost. */
export function redisAway(detail: string): Problem {
  return { status: 503, code: 'redis-away', detail, headers: { 'retry-after': String(REDIS_AGAIN_S) } };
}
