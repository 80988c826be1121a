import type { BreakerChange, Breakers, OpenBreaker } from '../src/breaker/breaker.ts';
import { createBreakers, type BreakerRedis } from '../src/breaker/redis-breakers.ts';
import type { Config } from '../src/config/config.ts';
import type { Trouble } from '../src/domain/outcome.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';

export interface BreakerParts {
  readonly redis: BreakerRedis;
  readonly metrics: Pick<Metrics, 'breakerOpened' | 'breakerTrial'>;
  readonly log: Logger;
}

/** The circuit breakers of this replica's providers, told in the log and counted. */
export function startBreakers(
  { providerPause, queue }: Pick<Config, 'providerPause' | 'queue'>,
  { redis, metrics, log }: BreakerParts,
): Breakers {
  return createBreakers({
    ...providerPause,
    redis,
    prefix: queue.prefix,
    onChange: createBreakerListener({ metrics, log }),
    onTrial: ({ platform, result }) => {
      metrics.breakerTrial(platform, result);
    },
  });
}

const OPENED: Readonly<Record<Trouble, string>> = {
  auth:
    'the provider refuses our credentials: no worker sends to it until it takes them; check its key or service account ' +
    'and restart the workers with a valid one',
  configuration:
    'the provider refuses our topic or the tokens of many recipients: no worker sends to it until it takes one; check ' +
    'that endpoint, topic or project and tokens are of the same app and environment, and restart the workers',
  quota: 'the provider asks for fewer requests: no worker sends to it for a while',
  outage: 'the provider cannot be reached or answers with errors: this worker sends nothing to it for a while',
};
const STILL_OPEN: Readonly<Record<Trouble, string>> = {
  auth: 'the provider still refuses our credentials; check its key or service account',
  configuration: 'the provider still refuses our topic or tokens; check endpoint, topic or project, and tokens',
  quota: 'the provider still asks for fewer requests',
  outage: 'the provider still cannot be reached or answers with errors',
};

/** Tells of breakers in the log, as errors where somebody has to do something, and counts openings. */
export function createBreakerListener({ metrics, log }: Omit<BreakerParts, 'redis'>): (change: BreakerChange) => void {
  return ({ platform, open, before }) => {
    const at = Date.now();
    if (open === undefined) {
      if (before === undefined) return;
      const { trouble, since } = before;
      log.info({ platform, trouble, openMs: Math.max(0, at - since) }, 'the provider is back: it is sent to again');
      return;
    }
    const { trouble, code } = open;
    const isNew = before?.trouble !== trouble;
    if (isNew) metrics.breakerOpened(platform, trouble);
    const level = trouble === 'auth' || trouble === 'configuration' ? 'error' : 'warn';
    log[level]({ platform, trouble, code, forMs: openMs(open, at) }, (isNew ? OPENED : STILL_OPEN)[trouble]);
  };
}

/** How much longer nothing is sent to the provider, in milliseconds; 0 where its breaker is closed or half open. */
export function openMs(open: Pick<OpenBreaker, 'until'> | undefined, at: number = Date.now()): number {
  return open === undefined ? 0 : Math.max(0, Math.round(open.until - at));
}

/** A provider's part of `/readyz`. */
export function describeBreaker(open: OpenBreaker | undefined, at: number): Readonly<Record<string, unknown>> {
  if (open === undefined) return { breaker: 'closed' };
  const { trouble, code, since } = open;
  return { breaker: 'open', trouble, code, since: new Date(since).toISOString(), forMs: openMs(open, at) };
}
