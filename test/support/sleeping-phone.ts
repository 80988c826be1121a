import { shownOf, type JournalEntry } from '../../sandbox/journal.ts';
import { isObject } from '../../src/domain/json.ts';

/**
 * When an Android phone that sleeps until `wakesAt` (epoch milliseconds) rings for what FCM accepted. A message of normal priority
 * is held until the phone wakes; one of high priority, and a remote notification of `android_v2`, are delivered at once
 * (firebase.google.com/docs/cloud-messaging/customize-messages/setting-message-priority and /docs/cloud-messaging/send/v2-api).
 */
export function ringsOf<Entry extends JournalEntry>(
  accepted: readonly Entry[],
  wakesAt: number,
): { readonly at: number; readonly entry: Entry }[] {
  return accepted
    .filter((entry) => shownOf(entry) === 'alert')
    .map((entry) => ({ entry, at: isUrgent(entry) ? entry.at : Math.max(entry.at, wakesAt) }));
}

function isUrgent({ payload, priority }: JournalEntry): boolean {
  const v2 = isObject(payload) ? payload['android_v2'] : undefined;
  return isObject(v2) ? 'remote_notification' in v2 : priority === 'high';
}
