import { z } from 'zod';
import { jsonObject } from './json-schema.ts';
import { printable } from './text-schema.ts';

/**
 * What a push does to a Live Activity. The names on the wire:
 * developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
 */
export const LIVE_ACTIVITY_EVENTS = ['start', 'update', 'end'] as const;

/** @param instant the schema of an instant, as in the notification's other fields */
export const liveActivityFields = <Instant extends z.ZodType>(instant: Instant) =>
  z.strictObject({
    event: z
      .enum(LIVE_ACTIVITY_EVENTS)
      .describe(
        '`start` begins a Live Activity, and goes to a push-to-start token; `update` and `end` go to the token of the activity.',
      ),
    contentState: jsonObject(() => []).describe(
      'The state that is shown, the last one with `end`: a JSON object with the names and types of the app\'s `ContentState`. Example: `{ "score": "2 : 1" }`.',
    ),
    timestamp: instant
      .optional()
      .describe(
        'When this was the state; a device shows no state that is older than the one it has. RFC 3339 with `Z` or an offset, or epoch milliseconds; Apple gets whole seconds. Default: when it is sent. Example: `2026-11-21T17:00:00Z`.',
      ),
    staleDate: instant
      .optional()
      .describe(
        'From then on the system calls the state stale, and the app may show it so. Written like `timestamp`. Default: none. Example: `2026-11-21T17:15:00Z`.',
      ),
    dismissalDate: instant
      .optional()
      .describe(
        'With `end`: when it leaves the lock screen; at once if that has passed. Written like `timestamp`. Default: after four hours, by the system. Example: `2026-11-21T19:00:00Z`.',
      ),
    relevanceScore: z
      .number()
      .min(0)
      .optional()
      .describe(
        'Of several activities of the app, which one is shown first: the highest. Any number from 0. Default: none. Example: `75`.',
      ),
    attributesType: printable(256)
      .optional()
      .describe(
        "The name of the app's `ActivityAttributes` structure. 1 to 256 printable characters; with `start` it must be there, otherwise it may not. Default: none. Example: `MatchAttributes`.",
      ),
    attributes: jsonObject(() => [])
      .optional()
      .describe(
        'What does not change while the activity lasts: a JSON object; with `start` it must be there, otherwise it may not. Default: none. Example: `{ "home": "7b", "away": "7c" }`.',
      ),
  });
