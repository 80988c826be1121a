import type { Enqueued, Completed } from '../../chaos/queue.ts';
import { readProgress } from '../../src/delivery/progress.ts';
import type { ToDevices } from '../../src/notification/notification.ts';
import type { DeadLetter } from '../../src/notification/outcome.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/letter.ts';
import type { SeenEntry } from '../../demo/providers-child.ts';

/** The facts of a run, written down by hand. */
export const TOKEN = 'ab'.repeat(16);
export const OTHER_TOKEN = 'registration-token';

/** Enqueued notifications of one recipient, each for one APNs device, but for what `more` says. */
export function enqueuedOf(...more: readonly (Partial<ToDevices> & { id: string })[]): Map<string, Enqueued> {
  return new Map(
    more.map((fields) => {
      const devices = [{ platform: 'apns' as const, token: TOKEN }];
      const input = { recipientId: 'r', devices, alert: { body: 'b' }, ...fields };
      return [fields.id, { id: fields.id, input }];
    }),
  );
}

/** What APNs received for a notification: accepted, but for what `more` says. */
export function entryOf(id: string, at: number, more: Partial<SeenEntry> = {}): SeenEntry {
  const accepted = { platform: 'apns', token: TOKEN, accepted: true, status: 200, apnsId: `uuid-${id}` } as const;
  return { ...accepted, at, data: { ref: `marker.${id}` }, ...more };
}

export function completedOf(id: string, outcome = 'delivered', progress: object = {}): Completed {
  return { id, outcome, progress: readProgress(progress) };
}

export function deadOf(id: string, more: Partial<DeadLetter> = {}): StoredDeadLetter {
  const letter = { notification: { id }, reason: 'unregistered' as const, message: '', attempts: [] };
  return { id, buriedAt: 0, letter: { ...letter, deadAt: 0, generation: 0, ...more } };
}
