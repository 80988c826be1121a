import type { Config } from '../src/config/config.ts';
import type { Trouble } from '../src/domain/trouble.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';
import type { Pause, PauseChange, Pauses } from '../src/pause/pauses.ts';
import { createPauses } from '../src/pause/redis-pauses.ts';
import type { PauseRedis } from '../src/pause/store.ts';

export interface PauseParts {
  readonly redis: PauseRedis;
  readonly metrics: Pick<Metrics, 'paused' | 'probed'>;
  readonly log: Logger;
}

/** The pauses of this replica's providers: shared with all others, told in the log, counted. */
export function startPauses(
  { providerPause, queue }: Pick<Config, 'providerPause' | 'queue'>,
  { redis, metrics, log }: PauseParts,
): Pauses {
  return createPauses({
    ...providerPause,
    redis,
    prefix: queue.prefix,
    onChange: createPauseListener({ metrics, log }),
    onProbe: ({ platform, result }) => {
      metrics.probed(platform, result);
    },
  });
}

const OPENED: Readonly<Record<Trouble, string>> = {
  auth: 'the provider refuses our credentials: it is paused until it takes them',
  quota: 'the provider asks for less: it is paused',
  outage: 'the provider is away: it is paused',
};
const LASTS: Readonly<Record<Trouble, string>> = {
  auth: 'the provider still refuses our credentials',
  quota: 'the provider still asks for less',
  outage: 'the provider is still away',
};

/** Tells of pauses in the log, refused credentials as an alarm, and counts those that this replica opened. */
export function createPauseListener({ metrics, log }: Omit<PauseParts, 'redis'>): (change: PauseChange) => void {
  return ({ platform, pause, before, by }) => {
    const at = Date.now();
    if (pause === undefined) {
      if (before === undefined) return;
      const { trouble, since } = before;
      log.info({ platform, trouble, by, pausedMs: Math.round(at - since) }, 'the provider is back');
      return;
    }
    if (before === undefined && by === 'us') metrics.paused(platform, pause.trouble);
    const { trouble, code } = pause;
    const isNews = before?.trouble !== trouble;
    const level = trouble === 'auth' ? 'error' : 'warn';
    log[level]({ platform, trouble, code, by, forMs: pausedMs(pause, at) }, (isNews ? OPENED : LASTS)[trouble]);
  };
}

/** How much longer nothing is sent to the provider; 0 where it is open, and while it is probed. */
export function pausedMs(pause: Pick<Pause, 'until'> | undefined, at: number = Date.now()): number {
  return pause === undefined ? 0 : Math.max(0, Math.round(pause.until - at));
}

/** A provider's part of `/readyz`. */
export function describePause(pause: Pause | undefined, at: number): Readonly<Record<string, unknown>> {
  if (pause === undefined) return { paused: false };
  const { trouble, code, since } = pause;
  return { paused: true, trouble, code, since: new Date(since).toISOString(), forMs: pausedMs(pause, at) };
}
