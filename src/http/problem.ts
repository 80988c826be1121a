import { toSeconds, type Fields } from './fields.ts';

/** A problem document (RFC 9457), sent as `application/problem+json`. */
export interface Problem {
  /** Absent if the status says enough (503). */
  readonly type?: string;
  /** The problem in a few words: `Quota Exceeded`, `Service Unavailable`. */
  readonly title: string;
  /** The status of the response: 429 or 503. */
  readonly status: number;
  /** The rule that decided: `["10/1m"]`. */
  readonly 'violated-policies'?: readonly string[];
}

/** A request that is not let through. */
export interface Refusal {
  /** Do not let it through: answer with `status`, `headers` and `problem`. */
  readonly kind: 'refused';
  /** 429: the limiter refused. 503: the limiter could not be asked. */
  readonly status: 429 | 503;
  /** Whole seconds, rounded up, at least 1; the same as in `Retry-After`. */
  readonly retryAfterSeconds: number;
  /** `Retry-After` and the RateLimit fields, without `Content-Type`. */
  readonly headers: Fields;
  /** The body to send unless the application makes its own. */
  readonly problem: Problem;
}

export const PROBLEM_TYPE = 'application/problem+json';

/** The problem type that draft-ietf-httpapi-ratelimit-headers registers for a used-up quota. */
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded';
/** `Retry-After` while Redis is away: most outages are a restart or a failover, which take seconds. */
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
