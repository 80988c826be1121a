import type { Platform } from '../domain/notification.ts';
import type { Entry, Pauses, Probe } from '../pause/pauses.ts';
import type { Reply } from '../providers/provider.ts';

/** What one pass may send to which provider, and what came of it for the pauses that all workers share. */
export interface Entries {
  isPaused(platform: Platform): boolean;
  /** Tells the pauses of one answer. */
  report(platform: Platform, notificationId: string, reply: Reply): void;
  /** Gives back the probes that nothing was sent on. */
  release(): void;
}

/** Asks for each provider once, however many devices of it a notification has. */
export async function enterAll(platforms: Iterable<Platform>, pauses: Pauses): Promise<Entries> {
  const asked = [...new Set(platforms)].map(async (platform) => [platform, await pauses.enter(platform)] as const);
  const entries = new Map<Platform, Entry>(await Promise.all(asked));
  const probes = new Map<Platform, Probe>();
  for (const [platform, entry] of entries) if (entry.kind === 'probe') probes.set(platform, entry.probe);

  return {
    isPaused: (platform) => entries.get(platform)?.kind === 'paused',
    report(platform, notificationId, { code, trouble, retryAfterMs, ...reply }) {
      if (trouble === undefined && !isAnswer({ code, ...reply })) return;
      const probe = probes.get(platform);
      probes.delete(platform);
      pauses.report({ platform, notificationId, code, trouble, retryAfterMs }, probe);
    },
    release() {
      for (const probe of probes.values()) pauses.release(probe);
      probes.clear();
    },
  };
}

/** Whether it was the provider that spoke: what never left, or was taken back by us, says nothing about it. */
function isAnswer({ code, unreached }: Pick<Reply, 'code' | 'unreached'>): boolean {
  return unreached !== true && code !== 'aborted';
}
