import type { Notification } from '../../domain/notification-types.ts';

/** What a push service must take (RFC 8030, section 7.2), encrypted. */
const MAX_BODY_BYTES = 4_096;
/** The header of RFC 8188 with a key of 65 bytes, the padding's delimiter, and the tag of AES-GCM. */
const OVERHEAD_BYTES = 16 + 4 + 1 + 65 + 1 + 16;
/** The largest message, as JSON. */
export const WEBPUSH_MAX_MESSAGE_BYTES = MAX_BODY_BYTES - OVERHEAD_BYTES;

export interface WebpushMessageOptions {
  readonly pushId: string;
  readonly silent: boolean;
}

/**
 * What the service worker of the website gets (`event.data.json()`), and shows. docs/webpush.md has the service worker.
 *
 * - `tag`: the collapse id, otherwise the push id, so that a second copy (a retry after a timeout) replaces the first one.
 * - `silent`: without sound and vibration, and no badge. A browser must show something for every push, so it is shown.
 * - `sound` is left out: browsers play their own.
 * - `badge` is the number at the app's icon, so the URL of the small image is `badgeUrl`.
 * - `renotify` and `requireInteraction` are left out of a silent one: they make it loud, or keep it in the way.
 */
export function webpushMessage(notification: Notification, { pushId, silent }: WebpushMessageOptions): object {
  const { id, alert, badge, collapseId, data, imageUrl, webpush = {} } = notification;
  return {
    id,
    title: alert?.title,
    body: alert?.body,
    image: imageUrl,
    tag: collapseId ?? pushId,
    silent,
    badge: silent ? undefined : badge,
    icon: webpush.icon,
    badgeUrl: webpush.badge,
    actions: webpush.actions,
    renotify: silent ? undefined : webpush.renotify,
    requireInteraction: silent ? undefined : webpush.requireInteraction,
    data,
  };
}
