import { z } from 'zod';
import type { DeviceKind } from '../providers/device-kind.ts';
import { DEVICE_KINDS } from '../providers/devices.ts';
import { formatPath, zodFaults, type Fault } from './faults.ts';
import { isOversized, MAX_CHARACTERS, MAX_VALUES } from './size.ts';

/** Text without control characters, line breaks or lone surrogates (halves of characters). */
const PRINTABLE = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]*$/u;
/** Keys of `data` that the providers reserve. A `*` at the end stands for every key that begins like this. */
export const RESERVED_DATA_KEYS: readonly string[] = DEVICE_KINDS.flatMap((kind) => kind.reservedDataKeys);

const printable = (most: number) =>
  z
    .string()
    .refine((text) => text !== '' && isAtMost(most, text) && PRINTABLE.test(text), {
      error: `1 to ${most} printable characters`,
    })
    .meta({ minLength: 1, maxLength: most });

/** Counts code points. There are never more of them than UTF-16 units (`length`), so a short text needs no count. */
const isAtMost = (most: number, text: string): boolean => text.length <= most || Array.from(text).length <= most;

/** The platforms that a device may be on, one for each provider. */
export const PLATFORMS = Object.freeze(DEVICE_KINDS.map(({ schema }) => schema.shape.platform.value));
const deviceSchema = z.discriminatedUnion('platform', schemasOf(DEVICE_KINDS), {
  error: PLATFORMS.map((platform) => `"${platform}"`).join(' or '),
});

const alertSchema = z
  .strictObject({ title: z.string().max(4096).optional(), body: z.string().max(4096).optional() })
  .refine(({ title = '', body = '' }) => title + body !== '', { error: 'a title or a body that is not empty' });

const EXPIRES_AT_FORMAT = 'an RFC 3339 date-time or epoch milliseconds';
const expiresAtSchema = z
  .union([z.iso.datetime({ offset: true, error: EXPIRES_AT_FORMAT }), z.int().nonnegative()], {
    error: EXPIRES_AT_FORMAT,
  })
  .transform((at) => (typeof at === 'number' ? at : Date.parse(at)));

/** The job's data: one message to one recipient, for one or more devices. */
export const notificationSchema = z.strictObject({
  id: z
    .string()
    .regex(/^[A-Za-z0-9._~-]{1,128}$/, { error: '1 to 128 of A-Z a-z 0-9 . _ ~ -' })
    .describe('Idempotency key, and the job id: the same id twice is one notification.'),
  recipientId: printable(256).describe('Whom the limits protect, whatever the device.'),
  devices: z.array(deviceSchema).min(1).max(20),
  alert: alertSchema,
  data: z
    .record(
      z.string().refine((key) => !isReserved(key), {
        error: `a key other than ${listed(RESERVED_DATA_KEYS)}, which the providers reserve`,
      }),
      z.string(),
    )
    .optional(),
  sound: printable(128).optional(),
  badge: z.int().min(0).max(2_147_483_647).optional(),
  category: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/, { error: '1 to 64 of A-Z a-z 0-9 . _ -' })
    .optional(),
  priority: z.enum(['high', 'normal']).default('normal'),
  collapseId: printable(64)
    .refine((text) => Buffer.byteLength(text) <= 64, { error: 'at most 64 bytes' })
    .optional(),
  expiresAt: expiresAtSchema.optional(),
  onThrottle: z.enum(['delay', 'drop', 'silence']).default('delay'),
});

/** A notification as a producer writes it: defaults may be left out, `expiresAt` is text or a number. */
export type NotificationInput = z.input<typeof notificationSchema>;
/** A checked notification: defaults filled in, `expiresAt` in epoch milliseconds. */
export type Notification = z.output<typeof notificationSchema>;
export type Device = Notification['devices'][number];
export type Platform = Device['platform'];

/** The schemas of some kinds of devices, each with its own type. */
function schemasOf<const Kinds extends readonly DeviceKind[]>(kinds: Kinds) {
  return kinds.map(({ schema }) => schema) as { [Index in keyof Kinds]: Kinds[Index]['schema'] };
}

function isReserved(key: string): boolean {
  return RESERVED_DATA_KEYS.some((name) => (name.endsWith('*') ? key.startsWith(name.slice(0, -1)) : key === name));
}

/** `a, b and c` */
function listed(names: readonly string[]): string {
  return names.join(', ').replace(/, ([^,]*)$/, ' and $1');
}

export type ParsedNotification =
  | { readonly ok: true; readonly notification: Notification }
  | { readonly ok: false; readonly faults: readonly Fault[] };

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
