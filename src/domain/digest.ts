import { z } from 'zod';
import type { Alert, DigestFields, Notification } from './notification-types.ts';
import { printable } from './text-schema.ts';

/** How many notifications may be in one digest, and how many are if the producer does not say. */
export const MAX_DIGEST = 1_000;
export const DEFAULT_DIGEST = 100;

/** The only placeholder. */
const COUNT = '{{count}}';
const ANY_PLACEHOLDER = /\{\{(?!count\}\})/;

const text = z
  .string()
  .max(4096)
  .refine((value) => !ANY_PLACEHOLDER.test(value), { error: `no other placeholder than ${COUNT}` })
  .meta({ pattern: '^(?![\\s\\S]*\\{\\{(?!count\\}\\}))' })
  .optional();

/** What goes in place of several notifications that wait. */
export const digestSchema = z.strictObject({
  key: printable(128).describe(
    'Notifications to one recipient with the same key (and the same `category`) go together. 1 to 128 printable characters. Example: `thread-77`.',
  ),
  title: text.describe(
    'The title of the digest; `{{count}}` becomes the number of notifications in it. Up to 4,096 characters. Default: none. Example: `Class 7b`.',
  ),
  body: text.describe(
    'The body of the digest; `{{count}}` becomes the number of notifications in it. Up to 4,096 characters. Default: none. Example: `{{count}} new messages`.',
  ),
  maxSize: z
    .int()
    .min(2)
    .max(MAX_DIGEST)
    .optional()
    .describe(
      `At most so many notifications are in one digest, from 2 to 1,000; the next one begins another digest. Default: ${DEFAULT_DIGEST}. Example: \`50\`.`,
    ),
});

/** What the devices show for a digest of so many. Everything but the texts is as in the notification. */
export function asDigest(notification: Notification, count: number): Notification {
  const { digest } = notification;
  if (digest === undefined) return notification;
  return { ...notification, alert: textsOf(digest, count) };
}

function textsOf({ title, body }: DigestFields, count: number): Alert {
  const filled = (words: string): string => words.replaceAll(COUNT, String(count));
  return {
    ...(title !== undefined && { title: filled(title) }),
    ...(body !== undefined && { body: filled(body) }),
  };
}
