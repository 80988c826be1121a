import type { JournalEntry } from '../../src/sandbox/journal.ts';
import type { Enqueued } from './enqueue.ts';
import { refOf } from './workload.ts';

/**
 * Requests without a reason: for no notification that was enqueued, or for a device that is not one of its own. Providers
 * count such requests against a sender. Each as `fcm at 2026-03-01T07:30:00.123Z, notification n17`.
 */
export function unknownRequests(
  enqueued: ReadonlyMap<string, Enqueued>,
  entries: readonly JournalEntry[],
): readonly string[] {
  return entries
    .filter(({ platform, token, data }) => {
      const devices = enqueued.get(refOf(data))?.input?.devices ?? [];
      return !devices.some((device) => device.platform === platform && device.token === token);
    })
    .map(({ platform, at, data }) => {
      const whose = refOf(data) === '' ? 'no notification' : `notification ${refOf(data)}`;
      return `${platform} at ${new Date(at).toISOString()}, ${whose}`;
    });
}
