import { z } from 'zod';
import { printable } from './text-schema.ts';

const text = (most = 4096) => z.string().max(most).optional();
const locKey = (what: string) =>
  printable(256)
    .optional()
    .describe(
      `The key of the ${what} in the app's own texts, so that the device shows it in its language. It goes before \`${what}\`. 1 to 256 printable characters. Default: none. Example: \`FORMS_${what.toUpperCase()}\`.`,
    );
const locArgs = (key: string) =>
  z
    .array(z.string().max(4096))
    .max(100)
    .optional()
    .describe(
      `What stands in the places that the text of \`${key}\` leaves open. Up to 100 texts of up to 4,096 characters; only with \`${key}\`. Default: none. Example: \`["Room 12"]\`.`,
    );

/** What a device shows. The names on the wire: docs/notifications.md. */
export const alertSchema = z.strictObject({
  title: text().describe('Up to 4,096 characters. Default: none. Example: `Room 12`.'),
  subtitle: text().describe(
    'The line between title and body, on iPhones only. Up to 4,096 characters. Default: none. Example: `Class 7b`.',
  ),
  body: text().describe('Up to 4,096 characters. Default: none. Example: `Field trip forms are due`.'),
  titleLocKey: locKey('title'),
  titleLocArgs: locArgs('titleLocKey'),
  subtitleLocKey: locKey('subtitle'),
  subtitleLocArgs: locArgs('subtitleLocKey'),
  bodyLocKey: locKey('body'),
  bodyLocArgs: locArgs('bodyLocKey'),
});

/** Whether the device has something to show. */
export function isShown({ title = '', body = '', titleLocKey, bodyLocKey }: z.output<typeof alertSchema>): boolean {
  return title + body !== '' || titleLocKey !== undefined || bodyLocKey !== undefined;
}
