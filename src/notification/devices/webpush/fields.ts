import { z } from 'zod';
import { printable } from '../../../domain/json.ts';

/**
 * The fields of a notification for browsers: options of `showNotification` (notifications.spec.whatwg.org) that no phone has.
 * The standard gives no lengths; the bounds are this project's. One push has less than 4 KB for all fields together.
 */

/** An image of the website: an https URL, or a path that the service worker resolves against its own address. */
const IMAGE = /^(?:https:\/\/[\x21-\x7e]|\/(?![/\\]))[\x21-\x7e]{0,2039}$/;
const imageSchema = z
  .string()
  .refine((url) => IMAGE.test(url) && URL.canParse(url, 'https://website.example'), {
    error: 'an https URL or a path that begins with one /, of up to 2040 characters',
  })
  .meta({ pattern: IMAGE.source });

/** The URL that a click opens. It must be absolute, since Safari takes no path here. */
const NAVIGATE = /^https:\/\/[\x21-\x7e]{1,2040}$/;
const navigateSchema = z
  .string()
  .refine((url) => NAVIGATE.test(url) && URL.canParse(url), { error: 'an https URL of up to 2048 characters' })
  .meta({ pattern: NAVIGATE.source });

export const webpushActionSchema = z.strictObject({
  action: printable(128),
  title: printable(256),
  icon: imageSchema.optional(),
});

export const webpushFieldsSchema = z.strictObject({
  icon: imageSchema.optional(),
  badge: imageSchema.optional(),
  actions: z.array(webpushActionSchema).max(10).optional(),
  renotify: z.boolean().optional(),
  requireInteraction: z.boolean().optional(),
  declarative: z.boolean().optional(),
  navigate: navigateSchema.optional(),
});
