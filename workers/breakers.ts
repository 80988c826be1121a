import type { BreakerChange, Breakers, OpenBreaker } from '../src/breaker/breaker.ts';
import { createBreakers, type BreakerRedis } from '../src/breaker/redis-breakers.ts';
import type { Config } from '../src/config/config.ts';
import { namesOf } from '../src/notification/device.ts';
import { needsOperator, type Trouble } from '../src/notification/outcome.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';

export interface BreakerParts {
  readonly redis: BreakerRedis;
  readonly metrics: Pick<Metrics, 'breakerOpened' | 'breakerTrial'>;
  readonly log: Logger;
  /** Epoch milliseconds on the clock of `DeliverParts.now`. Default: this machine's clock. */
  readonly now?: () => number;
}

/** Creates the circuit breakers of this worker, which are logged and counted. */
export function startBreakers(
  { providerPause, queue }: Pick<Config, 'providerPause' | 'queue'>,
  { redis, metrics, log, now = Date.now }: BreakerParts,
): Breakers {
  return createBreakers({
    ...providerPause,
    ...{ redis, now },
    prefix: queue.prefix,
    onChange: createBreakerListener({ metrics, log, now }),
    onTrial: ({ service, result }) => metrics.breakerTrial(service, result),
  });
}

const OPENED: Readonly<Record<Trouble, string>> = {
  auth:
    'circuit breaker open: the provider refuses the credentials; all workers defer its notifications until a trial is ' +
    'accepted; replace the key or service account: a changed file is read without a restart',
  configuration:
    'circuit breaker open: the provider refuses the topic, or the tokens of many recipients; all workers defer its ' +
    'notifications until a trial is accepted; check that endpoint, topic or project, and tokens are of the same app ' +
    'and environment; a changed file is read without a restart',
  quota:
    'circuit breaker open: the provider asks for fewer requests; all workers defer its notifications, and try one after `forMs`',
  outage:
    'circuit breaker open: the provider cannot be reached, or answers with errors; this worker defers its notifications, ' +
    'and tries one after `forMs`',
};
const STILL_OPEN: Readonly<Record<Trouble, string>> = {
  auth: 'circuit breaker stays open: the provider still refuses the credentials; check the key or service account',
  configuration:
    'circuit breaker stays open: the provider still refuses topic or tokens; check endpoint, topic or project, and tokens',
  quota: 'circuit breaker stays open: the provider still asks for fewer requests; the next trial comes after `forMs`',
  outage:
    'circuit breaker stays open: the provider still cannot be reached, or answers with errors; the next trial comes after `forMs`',
};

const CLOSED = 'circuit breaker closed: the provider accepted a trial, and deferred notifications are sent';
const NOT_OPEN =
  'circuit breaker not open any more: another worker closed it, or its state is gone from Redis; deferred notifications are sent';

/** Logs what happens to breakers, as an error if an operator has to act, and counts openings. */
export function createBreakerListener({
  metrics,
  log,
  now = Date.now,
}: Omit<BreakerParts, 'redis'>): (change: BreakerChange) => void {
  return ({ service, open, before, byTrial }) => {
    const at = now();
    const names = namesOf(service);
    if (open === undefined) {
      if (before === undefined) return;
      const { trouble, since } = before;
      log.info({ ...names, trouble, openMs: Math.max(0, at - since) }, byTrial ? CLOSED : NOT_OPEN);
      return;
    }
    const { trouble, code } = open;
    const isNew = before?.trouble !== trouble;
    if (isNew) metrics.breakerOpened(service, trouble);
    const level = needsOperator(trouble) ? 'error' : 'warn';
    log[level]({ ...names, trouble, code, forMs: openMs(open, at) }, (isNew ? OPENED : STILL_OPEN)[trouble]);
  };
}

/** How much longer the breaker stays open, in milliseconds; 0 if it is closed or half open. */
export function openMs(open: Pick<OpenBreaker, 'until'> | undefined, at: number = Date.now()): number {
  return open === undefined ? 0 : Math.max(0, Math.round(open.until - at));
}
