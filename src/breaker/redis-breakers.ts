import { randomUUID } from 'node:crypto';
import type { Platform } from '../domain/notification.ts';
import type { BreakerChange, Breakers, TrialEnd } from './breaker.ts';
import { createCircuit } from './circuit.ts';
import type { Terms } from './state.ts';
import { createStore, type BreakerRedis } from './store.ts';
import { createSuspicion } from './suspicion.ts';

export interface BreakersOptions extends Terms {
  /** A client that the caller opens and closes. It must not be a subscriber. */
  readonly redis: BreakerRedis;
  /** The first part of all keys, with a hash tag; one that has none becomes one. */
  readonly prefix: string;
  readonly platforms: readonly Platform[];
  /** Epoch milliseconds on this machine's clock. */
  readonly now?: () => number;
  /** Told of each change that this worker learns of. */
  readonly onChange: (change: BreakerChange) => void;
  /** Told of what became of each trial of this worker. */
  readonly onTrial?: (end: TrialEnd) => void;
}

/** How long a worker may take to learn what another one found out, beside Redis's answer. */
export const SYNC_EVERY_MS = 1_000;

/** Breakers for auth, configuration and quota that all workers of a prefix share, and for outages that they do not. */
export function createBreakers(options: BreakersOptions): Breakers {
  const { redis, prefix, platforms, now = Date.now, onChange, onTrial = () => undefined } = options;

  function breakersOf(platform: Platform) {
    const suspicion = createSuspicion();
    const parts = {
      terms: options,
      now,
      newId: randomUUID,
      onChange(change: BreakerChange) {
        // What was answered while it was open says nothing of the time after it.
        if (change.open === undefined) suspicion.clear();
        onChange(change);
      },
      onTrial,
    };
    const shared = createCircuit(platform, parts, createStore(redis, prefix, platform));
    return { suspicion, shared, outage: createCircuit(platform, parts) };
  }

  const breakers = new Map(platforms.map((platform) => [platform, breakersOf(platform)]));
  const all = [...breakers.values()];

  function of(platform: Platform): ReturnType<typeof breakersOf> {
    const found = breakers.get(platform);
    if (found === undefined) throw new Error(`there is no circuit breaker for ${platform}`);
    return found;
  }

  /** Nothing waits for one call before it makes the next: all travel to Redis and back together. */
  const sync = (): void => void all.map(({ shared }) => shared.sync());
  const timer = setInterval(sync, SYNC_EVERY_MS).unref();
  sync();

  return {
    current(platform) {
      const { shared, outage } = of(platform);
      return shared.current() ?? outage.current();
    },
    async enter(platform, notificationId) {
      const { shared, outage } = of(platform);
      const entry = await shared.enter(notificationId);
      return entry.kind === 'closed' ? outage.enter(notificationId) : entry;
    },
    report(evidence, trial) {
      const { suspicion, shared, outage } = of(evidence.platform);
      const { code, retryAfterMs } = evidence;
      if (trial) (trial.isShared ? shared : outage).settle(trial, evidence);
      const suspected = suspicion.add(evidence, now());
      const trouble = evidence.trouble ?? suspected;
      if (trouble) (trouble === 'outage' ? outage : shared).find({ trouble, code, retryAfterMs });
    },
    release(trial) {
      const { shared, outage } = of(trial.platform);
      (trial.isShared ? shared : outage).release(trial);
    },
    deferUntil(platform, enqueuedAt) {
      const { shared, outage } = of(platform);
      return (shared.current() ? shared : outage).deferUntil(enqueuedAt);
    },
    async close() {
      clearInterval(timer);
      await Promise.all(all.flatMap(({ shared, outage }) => [shared.close(), outage.close()]));
    },
  };
}
