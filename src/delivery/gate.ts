import type { Platform } from '../domain/notification.ts';

/** Pauses a provider in this process: while it refuses our credentials or asks everybody to slow down. */
export interface Gate {
  /** Milliseconds until the provider may be asked again; 0 when it is open. */
  readonly waitMs: (platform: Platform) => number;
  /** Closes the gate for this long, or leaves it closed where it is closed for longer. */
  readonly pause: (platform: Platform, forMs: number) => void;
}

/** `now` in milliseconds on any steady scale. */
export function createGate(now: () => number = () => performance.now()): Gate {
  const closedUntil = new Map<Platform, number>();
  return {
    waitMs: (platform) => Math.max(0, Math.ceil((closedUntil.get(platform) ?? 0) - now())),
    pause: (platform, forMs) => {
      closedUntil.set(platform, Math.max(closedUntil.get(platform) ?? 0, now() + forMs));
    },
  };
}
