import { z } from 'zod';
import { printable } from '../../domain/json.ts';

/**
 * The fields of a notification for browsers: options of `showNotification` (notifications.spec.whatwg.org) that no phone has. The
 * standard gives no lengths; the bounds are ours. A push has less than 4 KB for all of them.
 */

/** An image of the website: an https URL, or a path that the service worker resolves against its own address. */
const IMAGE = /^(?:https:\/\/[\x21-\x7e]|\/(?![/\\]))[\x21-\x7e]{0,2039}$/;
const imageSchema = z
  .string()
  .refine((url) => IMAGE.test(url) && URL.canParse(url, 'https://website.example'), {
    error: 'an https URL or a path that begins with one /, of up to 2040 characters',
  })
  .meta({ pattern: IMAGE.source });

export const webpushActionSchema = z.strictObject({
  action: printable(128).describe(
    'What the service worker gets as `event.action` if the button is pressed. 1 to 128 printable characters. Example: `reply`.',
  ),
  title: printable(256).describe('The text of the button. 1 to 256 printable characters. Example: `Reply`.'),
  icon: imageSchema
    .optional()
    .describe(
      'An image on the button. An `https` URL or a path of the website, up to 2,040 characters. Default: none. Example: `/reply.png`.',
    ),
});

export const webpushFieldsSchema = z.strictObject({
  icon: imageSchema
    .optional()
    .describe(
      "The image beside the texts. An `https` URL or a path of the website, up to 2,040 characters. Default: the service worker's own. Example: `/icon-192.png`.",
    ),
  badge: imageSchema
    .optional()
    .describe(
      'The small image in the status bar of Android; not the number `badge`. An `https` URL or a path of the website, up to 2,040 characters. Default: the sign of the browser. Example: `/badge-72.png`.',
    ),
  actions: z
    .array(webpushActionSchema)
    .max(10)
    .optional()
    .describe(
      'Buttons below the texts, up to 10; browsers show the first two at most, and some show none. Default: none. Example: `[{ "action": "reply", "title": "Reply" }]`.',
    ),
  renotify: z
    .boolean()
    .optional()
    .describe(
      '`true`: it makes a sound again if it replaces a notification with the same `collapseId`. Not of a silent one. Default: `false`.',
    ),
  requireInteraction: z
    .boolean()
    .optional()
    .describe('`true`: it stays on the screen until the person has touched it. Not of a silent one. Default: `false`.'),
});
