import type { Platform } from '../domain/notification.ts';
import type { PauseChange, Pauses } from './pauses.ts';
import { createProviderPause, type ProbeEnd } from './provider-pause.ts';
import type { PauseTerms } from './rules.ts';
import { createStore, type PauseRedis } from './store.ts';

export interface PausesOptions extends PauseTerms {
  /** A client that the caller opens and closes. It must not be a subscriber. */
  readonly redis: PauseRedis;
  /** The first part of both keys, with a hash tag; one that has none becomes one. */
  readonly prefix: string;
  /** Epoch milliseconds on this machine's clock. */
  readonly now?: () => number;
  /** Told once of each opening, change and end that this worker learns of. */
  readonly onChange: (change: PauseChange) => void;
  /** Told of what became of each probe of this worker. */
  readonly onProbe?: (end: ProbeEnd) => void;
}

/** How long a worker may take to learn what another one found out, beside Redis's answer. */
export const REFRESH_MS = 250;

/** The pauses that all workers of a prefix share. What they mean is in docs/provider-pauses.md, the rules in pause.lua. */
export function createPauses(options: PausesOptions): Pauses {
  const { redis, prefix, baseMs, maxMs, now = Date.now, onChange, onProbe = () => undefined } = options;
  const store = createStore(redis, prefix);
  const parts = { store, terms: { baseMs, maxMs }, now, onChange, onProbe };
  const providers: Readonly<Record<Platform, ReturnType<typeof createProviderPause>>> = {
    apns: createProviderPause('apns', parts),
    fcm: createProviderPause('fcm', parts),
  };
  const each = Object.values(providers);
  let reading: Promise<void> | undefined;

  async function read(): Promise<void> {
    const apns = providers.apns.mark();
    const fcm = providers.fcm.mark();
    const both = await store.read();
    apns(both.apns);
    fcm(both.fcm);
  }

  function refresh(): void {
    for (const provider of each) provider.share();
    // Where Redis is away, what was known last stands; the connection's owner tells of it.
    reading ??= read()
      .catch(() => undefined)
      .finally(() => (reading = undefined));
  }

  const timer = setInterval(refresh, REFRESH_MS).unref();
  refresh();
  return {
    current: (platform) => providers[platform].current(),
    enter: (platform) => providers[platform].enter(),
    report(evidence, probe) {
      providers[evidence.platform].report(evidence, probe);
    },
    release(probe) {
      providers[probe.platform].release(probe);
    },
    comeBackAt: (platform, enqueuedAt) => providers[platform].comeBackAt(enqueuedAt),
    async close() {
      clearInterval(timer);
      await Promise.all(each.map((provider) => provider.close()));
      await reading;
    },
  };
}
