import { InputError } from '../domain/faults.ts';
import { policyFaults, type Policy } from '../domain/limits.ts';
import { sleepUntil } from '../domain/time.ts';
import type { Held, Limiter } from '../limiter/limiter.ts';
import { rateLimitFields, type Fields } from './fields.ts';
import { tooMany, unavailable, type Refusal } from './problem.ts';

export interface HttpLimitOptions<Request> {
  /** While it rejects with LimiterUnavailableError, requests are answered with 503; its own `onUnavailable` may answer instead. */
  readonly limiter: Pick<Limiter, 'admit' | 'refund'>;
  /**
   * Whom a request counts for: the limiter's recipient, a string of one character or more. Take what the server has
   * checked (the user or API client that signed in), else the address: a header that the client writes as it likes limits
   * nobody. A request of `undefined` is not limited. What it throws, or rejects with, goes to the framework's error handling.
   */
  readonly key: (request: Request) => string | undefined | Promise<string | undefined>;
  /** The category of a request: where the limiter has a policy for it, both hold. */
  readonly category?: (request: Request) => string | undefined;
  /** What holds for these requests in place of the limiter's own policy. */
  readonly policy?: Policy;
}

/** What becomes of a request. */
export type Decision =
  | {
      /** Let it through, with these header fields. */
      readonly kind: 'allowed';
      readonly headers: Fields;
    }
  | Refusal
  | {
      /** The client left while it waited; its slot was given back, and nobody is there to answer. */
      readonly kind: 'gone';
    };

/**
 * Decides about a request for any framework. Resolves at the request's instant, which is at most the tolerance (150 ms or
 * less) ahead; `signal` ends that wait. Throws InputError where the policy is unusable.
 */
export function httpLimit<Request>(
  options: HttpLimitOptions<Request>,
): (request: Request, signal: AbortSignal) => Promise<Decision> {
  const { limiter, key, category, policy } = options;
  const faults = policy === undefined ? [] : policyFaults(policy, 'policy');
  if (faults.length > 0) throw new InputError('unusable policy', faults);

  async function decide(held: Held, signal: AbortSignal): Promise<Decision> {
    const answer = await limiter.admit({
      ...held,
      maxWaitMs: 0,
      everyRule: true,
      ...(policy !== undefined && { policy }),
    });
    const headers = rateLimitFields(answer, answer.kind !== 'admitted');
    if (answer.kind !== 'admitted') return tooMany(answer.rule, answer.waitMs, headers);
    if (await sleepUntil(answer.sendAt, signal)) return { kind: 'allowed', headers };
    await limiter.refund(held);
    return { kind: 'gone' };
  }

  return async (request, signal) => {
    const recipientId = await key(request);
    if (recipientId === undefined) return { kind: 'allowed', headers: {} };
    const name = category?.(request);
    const held = { recipientId, id: crypto.randomUUID(), ...(name !== undefined && { category: name }) };
    try {
      return await decide(held, signal);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return signal.aborted ? { kind: 'gone' } : unavailable();
    }
  };
}

/** By name: a type is all that this folder takes from the limiter's. */
function isUnavailable(error: unknown): boolean {
  return error instanceof Error && error.name === 'LimiterUnavailableError';
}

/** What is used of a response to see that its client has left: node:http's and HTTP/2's both have it. */
export interface Closable {
  readonly destroyed?: boolean;
  once(event: 'close', listener: () => void): unknown;
  removeListener(event: 'close', listener: () => void): unknown;
}

/** Runs with a signal that comes when the client of this response has left. */
export async function whilePresent<T>(response: Closable, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const presence = new AbortController();
  const leave = (): void => {
    presence.abort();
  };
  if (response.destroyed === true) leave();
  response.once('close', leave);
  try {
    return await run(presence.signal);
  } finally {
    response.removeListener('close', leave);
  }
}
