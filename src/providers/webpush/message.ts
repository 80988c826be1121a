import type { Push } from '../provider.ts';

/**
 * What the service worker of the website gets (`event.data.json()`), and shows. docs/webpush.md has the service worker.
 *
 * - `tag`: the collapse id, otherwise the push id, so that a second copy (a retry after a timeout) replaces the first one.
 * - `silent`: without sound and vibration, and no badge. A browser must show something for every push, so it is shown.
 * - `sound` is left out: browsers play their own.
 */
export function webpushMessage({ notification, pushId, silent }: Push): object {
  const { id, alert, badge, collapseId, data, imageUrl } = notification;
  return {
    id,
    title: alert?.title,
    body: alert?.body,
    image: imageUrl,
    tag: collapseId ?? pushId,
    silent,
    badge: silent ? undefined : badge,
    data,
  };
}
