import { z } from 'zod';
import type { Notification } from '../../types.ts';
import { deviceApp, type DeviceKind } from '../device-kind.ts';

/** The size that every push service must take (RFC 8030, section 7.2), encrypted. */
const MAX_BODY_BYTES = 4_096;
/** What encryption adds: the header of RFC 8188 with a key of 65 bytes, the padding's delimiter, and the tag of AES-GCM. */
const OVERHEAD_BYTES = 16 + 4 + 1 + 65 + 1 + 16;
/** The largest message, as JSON. */
export const WEBPUSH_MAX_MESSAGE_BYTES = MAX_BODY_BYTES - OVERHEAD_BYTES;

export interface WebpushMessageOptions {
  readonly pushId: string;
  readonly silent: boolean;
}

/**
 * What the website's service worker gets (`event.data.json()`), and shows. docs/webpush.md has the service worker.
 *
 * - `tag`: the collapse id, otherwise the push id, so that a second copy (a retry after a timeout) replaces the first one.
 * - `silent`: without sound, vibration and badge. The alert is still shown, since a browser must show something for every push.
 * - A retraction has no texts, and may have a badge. It is `silent` too, so that a service worker that does not know
 *   retractions makes no sound when it shows one.
 * - `sound` is left out: browsers play their own.
 * - `badge` is the number on the app's icon, so the URL of the small image is called `badgeUrl`.
 * - `renotify` and `requireInteraction` would make a silent alert loud, or keep it on the screen, so it has neither.
 */
export function webpushMessage(notification: Notification, { pushId, silent }: WebpushMessageOptions): object {
  const { id, alert, badge, collapseId, data, imageUrl, pushType, webpush = {} } = notification;
  return {
    id,
    title: alert?.title,
    body: alert?.body,
    image: imageUrl,
    tag: collapseId ?? pushId,
    silent: silent || pushType === 'background',
    badge: silent ? undefined : badge,
    icon: webpush.icon,
    badgeUrl: webpush.badge,
    actions: webpush.actions,
    renotify: silent ? undefined : webpush.renotify,
    requireInteraction: silent ? undefined : webpush.requireInteraction,
    data,
    ...(webpush.declarative === true && declarativeParts(notification, { pushId, silent })),
  };
}

/**
 * The fields that make the message a declarative push message too (w3.org/TR/push-api, "Declarative push message"). A browser
 * that knows such messages shows them by itself. All other browsers hand the whole message to the service worker as before.
 * Only fields that Safari or Firefox (`requireInteraction`) reads are added, because each takes room twice.
 *
 * - A title is needed, so a body alone becomes the title, as in the service worker of docs/webpush.md.
 * - Safari drops the whole message if a URL is not absolute.
 * - `app_badge` stands at two places: one is the standard's, the other is read by Safari 18.4 and 18.5.
 * - `mutable` is left out: with it, the service worker would get an event without data.
 */
function declarativeParts(notification: Notification, { pushId, silent }: WebpushMessageOptions): object {
  const { alert: { title, body } = {}, badge, collapseId, webpush = {} } = notification;
  const { icon, navigate, requireInteraction } = webpush;
  const hasTitle = title !== undefined && title !== '';
  const appBadge = silent ? undefined : badge;
  return {
    web_push: 8030,
    notification: {
      title: hasTitle ? title : body,
      body: hasTitle ? body : undefined,
      navigate,
      tag: collapseId ?? pushId,
      silent,
      icon: icon === undefined ? undefined : new URL(icon, navigate).href,
      requireInteraction: silent ? undefined : requireInteraction,
      app_badge: appBadge,
    },
    app_badge: appBadge,
  };
}

const endpoint = z
  .string()
  .regex(/^https:\/\/[\x21-\x7e]{1,2040}$/, {
    error: 'an https:// URL of at most 2048 visible ASCII characters',
    abort: true,
  })
  .refine(isPlainUrl, { error: 'a URL without a user, a password and a fragment' });

const keys = z.strictObject({
  p256dh: z.string().regex(/^B[A-P][A-Za-z0-9_-]{85}$/, {
    error: 'a public key on P-256: 87 characters of base64url, beginning with B',
  }),
  auth: z.string().regex(/^[A-Za-z0-9_-]{22}$/, { error: 'a secret of 16 bytes: 22 characters of base64url' }),
});

const expirationTime = z.number().nullable().optional();

/** A browser's PushSubscription as its `toJSON()` gives it, with the platform beside it. */
export const webpushDevice: DeviceKind<
  'webpush',
  { endpoint: typeof endpoint; keys: typeof keys; expirationTime: typeof expirationTime }
> = {
  schema: z.strictObject({
    platform: z.literal('webpush'),
    endpoint,
    keys,
    expirationTime,
    app: deviceApp,
  }),
  tokenOf: (device) => device.endpoint,
  tagsOf: ({ collapseId }, pushId) => [collapseId ?? pushId],
  hostOf: (device) => new URL(device.endpoint).host,
  reservedDataKeys: [],
  payload: {
    maxBytes: WEBPUSH_MAX_MESSAGE_BYTES,
    bytesOf: (notification, silent) =>
      Buffer.byteLength(JSON.stringify(webpushMessage(notification, { ...MEASURED, silent }))),
  },
  mustShow: true, // browsers take the permission away from a website that shows nothing
};

function isPlainUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && url.username === '' && url.password === '' && !text.includes('#');
}

/** For measuring: a push id as long as a real one. */
const MEASURED = { pushId: '0'.repeat(36) };
