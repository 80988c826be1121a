import { formatPath, zodFaults, type Fault } from './faults.ts';
import { notificationSchema } from './notification-schema.ts';
import type { Notification } from './notification-types.ts';
import { isOversized, MAX_CHARACTERS, MAX_VALUES } from './size.ts';

export { notificationSchema, PLATFORMS } from './notification-schema.ts';
export type {
  ApnsDevice,
  Alert,
  Device,
  FcmDevice,
  Notification,
  NotificationInput,
  Platform,
  WebpushDevice,
} from './notification-types.ts';

/** The answer of `parseNotification`: the checked notification, or everything that is wrong with it. */
export type ParsedNotification =
  | {
      /** The value fits. */
      readonly ok: true;
      /** The same notification with its defaults. */
      readonly notification: Notification;
    }
  | {
      /** The value does not fit. */
      readonly ok: false;
      /** One or more; after 20 the rest is only counted, in a last fault. */
      readonly faults: readonly Fault[];
    };

/** A list of faults is cut after this many; the rest is only counted. */
const MAX_FAULTS = 20;

/** Checks any value against the schema. Reports every fault at once; no fault shows a token or a text of the alert. */
export function parseNotification(raw: unknown): ParsedNotification {
  const oversize = oversizeFaults(raw);
  if (oversize.length > 0) return { ok: false, faults: oversize };
  const result = notificationSchema.safeParse(raw);
  const unnamed = hasProto(raw) ? [PROTO_FAULT] : [];
  if (result.success && unnamed.length === 0) return { ok: true, notification: result.data };
  const faults = [...unnamed, ...(result.success ? [] : zodFaults(result.error, raw, isPrivate))];
  const more = faults.length - MAX_FAULTS;
  if (more <= 0) return { ok: false, faults };
  return {
    ok: false,
    faults: [...faults.slice(0, MAX_FAULTS), { path: '', expected: 'no more faults', found: `${more}` }],
  };
}

/** The field that is too large, or the notification as a whole. */
function oversizeFaults(raw: unknown): Fault[] {
  if (!isOversized(raw)) return [];
  const large = ['devices', 'alert', 'data'].filter((field) => isOversized(fieldOf(raw, field)));
  const expected = `at most ${MAX_VALUES} values and ${MAX_CHARACTERS} characters in all`;
  return (large.length === 0 ? [''] : large).map((path) => ({ path, expected, found: 'more' }));
}

const PROTO_FAULT: Fault = {
  path: formatPath(['data', '__proto__']),
  expected: 'a key other than __proto__, which clients lose',
  found: 'one',
};

/** zod drops such a key and reports nothing. */
function hasProto(raw: unknown): boolean {
  const data = fieldOf(raw, 'data');
  return typeof data === 'object' && data !== null && Object.hasOwn(data, '__proto__');
}

function fieldOf(raw: unknown, field: string): unknown {
  return typeof raw === 'object' && raw !== null ? (raw as Record<string, unknown>)[field] : undefined;
}

/**
 * Values that no fault, log line or error may repeat: tokens and the texts of the alert. A malformed job may have them in
 * the wrong place, so also: data that is plain text, a token in place of a device, a token in place of its platform.
 */
function isPrivate(path: readonly PropertyKey[], value: unknown): boolean {
  if (path[0] === 'devices' && path.at(-1) === 'platform') return !(typeof value === 'string' && value.length <= 16);
  return path.length === 0 || path[0] === 'devices' || path[0] === 'alert' || path[0] === 'data';
}
