import { onTestFinished } from 'vitest';
import type { BreakerChange, Breakers, Evidence, OpenBreaker, Trial, TrialEnd } from '../../src/breaker/breaker.ts';
import { createBreakers, type BreakerRedis, type BreakersOptions } from '../../src/breaker/redis-breakers.ts';
import { connectRedis } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

/** The breakers of one worker, on a connection of their own, with what they reported. */
export interface BreakerWorker {
  readonly breakers: Breakers;
  readonly changes: readonly BreakerChange[];
  readonly trialEnds: readonly TrialEnd[];
}

/** Short enough to be waited for, and longer than what a busy machine takes between two lines of a test. */
export const BASE_MS = 300;
/** Does not end during a test. */
export const LONG = { baseMs: 60_000, maxMs: 240_000 };

export function openBreakers(
  prefix: string,
  options: Partial<BreakersOptions> = {},
  redis: BreakerRedis = connectRedis(),
): BreakerWorker {
  const changes: BreakerChange[] = [];
  const trialEnds: TrialEnd[] = [];
  const breakers = createBreakers({
    redis,
    prefix,
    baseMs: BASE_MS,
    maxMs: 4 * BASE_MS,
    onChange: (change) => void changes.push(change),
    onTrial: (end) => void trialEnds.push(end),
    ...options,
  });
  onTestFinished(() => breakers.close());
  return { breakers, changes, trialEnds };
}

/** A connection that counts what Redis answered on it. */
export function countAnswers(client: BreakerRedis = connectRedis()): {
  readonly redis: BreakerRedis;
  readonly answered: () => number;
} {
  let answered = 0;
  const redis: BreakerRedis = { eval: (...args) => client.eval(...args).finally(() => (answered += 1)) };
  return { redis, answered: () => answered };
}

/** Until the worker of this connection has read both providers twice more. */
export async function untilRead({ answered }: { readonly answered: () => number }): Promise<void> {
  const before = answered();
  await waitFor(() => {
    if (answered() < before + 4) throw new Error('expected two more readings of both providers');
  });
}

let made = 0;

/** An answer of APNs to a notification and a recipient of its own. */
function answer(fields: Partial<Evidence>): Evidence {
  made += 1;
  return {
    service: 'apns',
    recipientId: `person-${made}`,
    code: 'accepted',
    ...fields,
  };
}

export const accepted = (): Evidence => answer({});
export const refused = (): Evidence => answer({ trouble: 'auth', code: 'InvalidProviderToken' });
export const wanted = (retryAfterMs?: number): Evidence =>
  answer({ trouble: 'quota', code: 'QUOTA_EXCEEDED', retryAfterMs });
export const unreached = (): Evidence => answer({ suspect: 'outage', code: 'connection-refused' });
export const overQuota = (retryAfterMs?: number): Evidence =>
  answer({ suspect: 'quota', code: 'TooManyRequests', retryAfterMs });

export function reportTimes(count: number, { breakers }: BreakerWorker, evidence: () => Evidence): void {
  for (let done = 0; done < count; done++) breakers.report(evidence());
}

/** What a worker knows of the breaker of APNs. */
export function openOf({ breakers }: BreakerWorker): OpenBreaker {
  const open = breakers.current('apns');
  if (open === undefined) throw new Error('expected the breaker of APNs to be open, found it closed');
  return open;
}

/** The trial, as soon as there is one for this recipient. */
export function trialOf({ breakers }: BreakerWorker, recipientId = 'on-trial'): Promise<Trial> {
  return waitFor(async () => {
    const entry = await breakers.enter('apns', recipientId);
    if (entry.kind !== 'trial') throw new Error(`expected a trial, found ${entry.kind}`);
    return entry.trial;
  });
}

export function untilClosed({ breakers }: BreakerWorker): Promise<void> {
  return waitFor(() => {
    if (breakers.current('apns') !== undefined) throw new Error('expected the breaker of APNs to be closed');
  });
}
