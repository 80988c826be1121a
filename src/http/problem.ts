import { toSeconds, type Fields } from './fields.ts';

/** A problem document (RFC 9457), sent as `application/problem+json`. */
export interface Problem {
  /** Left out where the status says it all. */
  readonly type?: string;
  readonly title: string;
  readonly status: number;
  /** The rule that decided: `["10/1m"]`. */
  readonly 'violated-policies'?: readonly string[];
}

/** A request that is not let through. */
export interface Refusal {
  readonly kind: 'refused';
  /** 429 by the limiter's answer, 503 where it had none. */
  readonly status: 429 | 503;
  /** In whole seconds, rounded up, at least 1; the same as the field says. */
  readonly retryAfterSeconds: number;
  /** `Retry-After` and the RateLimit fields, but not the body's type. */
  readonly headers: Fields;
  /** What to send where the application has nothing better. */
  readonly problem: Problem;
}

export const PROBLEM_TYPE = 'application/problem+json';

/** The draft's problem type for a quota that is used up. */
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded';
/** Most outages are a restart or a failover: seconds. */
const AWAY_SECONDS = 5;

export function tooMany(rule: string, waitMs: number, fields: Fields): Refusal {
  const retryAfterSeconds = Math.max(1, toSeconds(waitMs));
  return {
    kind: 'refused',
    status: 429,
    retryAfterSeconds,
    headers: { ...fields, 'Retry-After': String(retryAfterSeconds) },
    problem: { type: QUOTA_EXCEEDED, title: 'Quota Exceeded', status: 429, 'violated-policies': [rule] },
  };
}

export function unavailable(): Refusal {
  return {
    kind: 'refused',
    status: 503,
    retryAfterSeconds: AWAY_SECONDS,
    headers: { 'Retry-After': String(AWAY_SECONDS) },
    problem: { title: 'Service Unavailable', status: 503 },
  };
}
