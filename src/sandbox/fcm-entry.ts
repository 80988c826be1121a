import { ttlSeconds, type FcmRequest } from './fcm-message.ts';
import type { JournalEntry } from './journal.ts';

type Told = Pick<JournalEntry, 'token' | 'collapseId' | 'priority' | 'expiration' | 'title' | 'body' | 'data'>;

/** What the journal tells of a body that is no message. */
export const UNREADABLE: Told = { token: '', data: {} };

/** What the journal tells of a message that arrived at `at`, epoch milliseconds. */
export function readMessage({ message }: FcmRequest, at: number): Told {
  const { android = {}, notification = {} } = message;
  const ttl = ttlSeconds(android.ttl);
  return {
    token: message.token ?? '',
    collapseId: android.collapseKey,
    priority: android.priority?.toLowerCase(),
    expiration: typeof ttl === 'number' ? at / 1_000 + ttl : undefined,
    title: android.notification?.title ?? notification.title,
    body: android.notification?.body ?? notification.body,
    data: { ...message.data, ...android.data },
  };
}
