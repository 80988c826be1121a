import { isObject } from '../../src/domain/json.ts';
import { z } from 'zod';
import { ignoredByDevice, ignoredByLiveActivity } from '../aps.ts';
import type { JournalEntry } from '../journal.ts';
import type { FieldViolation, Refuse } from '../loopback/answers.ts';
import { malformed, invalidArgument, INVALID_FID } from './reasons.ts';

/**
 * The body of `messages:send` with the fields and types of the API's reference
 * (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages), in camel case.
 */

const text = z.string().optional();
const flag = z.boolean().optional();
const texts = z.array(z.string()).optional();
const textMap = z.record(z.string(), z.string()).optional();
const struct = z.record(z.string(), z.unknown()).optional();
/** `3.5s` */
const duration = z.string().regex(/^-?\d+(\.\d{1,9})?s$/);
const share = z.number().min(0).max(1).optional();
const options = z.strictObject({ analyticsLabel: text }).optional();

const notification = z.strictObject({ title: text, body: text, image: text });
/** What `android.notification` and a remote notification have in common. */
const androidLooks = {
  title: text,
  body: text,
  icon: text,
  color: text,
  sound: text,
  tag: text,
  clickAction: text,
  bodyLocKey: text,
  bodyLocArgs: texts,
  titleLocKey: text,
  titleLocArgs: texts,
  channelId: text,
  ticker: text,
  sticky: flag,
  eventTime: z.iso.datetime({ offset: true }).optional(),
  localOnly: flag,
  notificationPriority: z
    .enum(['UNSPECIFIED', 'MIN', 'LOW', 'DEFAULT', 'HIGH', 'MAX'].map((name) => `PRIORITY_${name}`))
    .optional(),
  defaultSound: flag,
  defaultVibrateTimings: flag,
  defaultLightSettings: flag,
  vibrateTimings: z.array(duration).optional(),
  visibility: z.enum(['VISIBILITY_UNSPECIFIED', 'PRIVATE', 'PUBLIC', 'SECRET']).optional(),
  notificationCount: z.int32().optional(),
  lightSettings: z
    .strictObject({
      color: z.strictObject({ red: share, green: share, blue: share, alpha: share }),
      lightOnDuration: duration,
      lightOffDuration: duration,
    })
    .optional(),
  image: text,
};
const androidNotification = z.strictObject({
  ...androidLooks,
  bypassProxyNotification: flag,
  proxy: z.enum(['PROXY_UNSPECIFIED', 'ALLOW', 'DENY', 'IF_PRIORITY_LOWERED']).optional(),
});
const androidDelivery = {
  collapseKey: text,
  ttl: text,
  restrictedPackageName: text,
  data: textMap,
  fcmOptions: options,
  directBootOk: flag,
  bandwidthConstrainedOk: flag,
  restrictedSatelliteOk: flag,
};
const android = z.strictObject({
  ...androidDelivery,
  priority: z.enum(['NORMAL', 'HIGH', 'normal', 'high']).optional(),
  notification: androidNotification.optional(),
});
/** The preview of firebase.google.com/docs/cloud-messaging/send/v2-api. */
const androidV2 = z.strictObject({
  ...androidDelivery,
  remoteNotification: z
    .strictObject({
      notification: z.strictObject({ ...androidLooks, id: z.int32().optional() }).optional(),
      mutableContent: flag,
      useAsV1DataMessage: flag,
    })
    .optional(),
  backgroundSync: z.strictObject({}).optional(),
});
const apns = z.strictObject({
  headers: textMap,
  payload: struct,
  fcmOptions: z.strictObject({ analyticsLabel: text, image: text }).optional(),
  liveActivityToken: text,
});
const webpush = z.strictObject({
  headers: textMap,
  data: textMap,
  notification: struct,
  fcmOptions: z.strictObject({ link: text, analyticsLabel: text }).optional(),
});

const requestSchema = z.strictObject({
  validateOnly: flag,
  message: z.strictObject({
    name: text,
    data: textMap,
    notification: notification.optional(),
    android: android.optional(),
    androidV2: androidV2.optional(),
    webpush: webpush.optional(),
    apns: apns.optional(),
    fcmOptions: options,
    token: text,
    topic: text,
    condition: text,
    fid: text,
  }),
});
export type FcmRequest = z.output<typeof requestSchema>;

/** Maps whose keys the sender chooses. Every other key is a field of the API, in camel case or snake case. */
const OWN_KEYS = new Set(['data', 'headers', 'payload']);

export type ReadFcmRequest =
  { readonly ok: true; readonly request: FcmRequest } | { readonly ok: false; readonly refusal: Refuse };

/** The body of `messages:send`, or the refusal of a body with other fields than the API has. */
export function readFcmRequest(json: Readonly<Record<string, unknown>> | undefined): ReadFcmRequest {
  if (!json) return { ok: false, refusal: malformed([]) };
  const input = inCamelCase(json);
  const result = requestSchema.safeParse(input);
  if (result.success) return { ok: true, request: result.data };
  return { ok: false, refusal: malformed(result.error.issues.flatMap((issue) => violationsOf(issue, input))) };
}

/** `collapse_key` → `collapseKey`, at every depth where keys are the API's own. */
function inCamelCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inCamelCase);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, inner]) => {
    const name = key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
    return [name, OWN_KEYS.has(name) ? inner : inCamelCase(inner)];
  });
  return Object.fromEntries(entries);
}

/** In the words of Google's front end. A value is not repeated, because it may be a text of the alert. */
function violationsOf(issue: z.core.$ZodIssue, input: unknown): FieldViolation[] {
  const field = fieldName(issue.path, input);
  if (issue.code === 'unrecognized_keys') {
    const where = field === '' ? '' : ` at '${field}'`;
    return issue.keys.map((key) => ({
      field,
      description: `Invalid JSON payload received. Unknown name "${key}"${where}: Cannot find field.`,
    }));
  }
  return [{ field, description: `Invalid value at '${field}'` }];
}

/** `message.data[1].value`: protocol buffers count the entries of a map. */
function fieldName(path: readonly PropertyKey[], input: unknown): string {
  const key = path.at(-1);
  if (path.at(-2) !== 'data' || key === undefined) return path.join('.');
  const map = path.slice(0, -1).reduce<unknown>((value, name) => (value as Record<PropertyKey, unknown>)[name], input);
  return `${path.slice(0, -1).join('.')}[${Object.keys(map as object).indexOf(String(key))}].value`;
}

type JournalFields = Pick<
  JournalEntry,
  | 'token'
  | 'liveActivityToken'
  | 'tag'
  | 'collapseId'
  | 'priority'
  | 'expiration'
  | 'title'
  | 'body'
  | 'data'
  | 'ignored'
>;

/** The journal's fields for a body that is no message. */
export const UNREADABLE: JournalFields = { token: '', data: {} };

/** The journal's fields for a message that arrived at `at`, epoch milliseconds. */
export function readMessage({ message }: FcmRequest, at: number): JournalFields {
  const { notification = {}, android = {}, androidV2: v2 } = message;
  const { ttl: lifetime, collapseKey, data } = v2 ?? android;
  const shown = v2 === undefined ? android.notification : v2.remoteNotification?.notification;
  const ttl = ttlSeconds(lifetime);
  const { payload, liveActivityToken } = message.apns ?? {};
  const ignoredBy = liveActivityToken === undefined ? ignoredByDevice : ignoredByLiveActivity;
  const ignored = payload === undefined ? [] : ignoredBy(payload);
  return {
    token: message.token ?? message.fid ?? '',
    ...(liveActivityToken !== undefined && { liveActivityToken }),
    tag: shown?.tag,
    collapseId: collapseKey,
    priority: android.priority?.toLowerCase(),
    expiration: typeof ttl === 'number' ? at / 1_000 + ttl : undefined,
    title: shown?.title ?? notification.title,
    body: shown?.body ?? notification.body,
    data: { ...message.data, ...data },
    ...(ignored.length > 0 && { ignored }),
  };
}

/** As Firebase's own libraries check an installation id: 22 characters of base64url, of which the first four bits are 0111. */
const FID = /^[cdef][\w-]{21}$/;
const MAX_TTL_SECONDS = 2_419_200;
const MAX_CONTENT_BYTES = 4_096;
const RESERVED_KEY = /^(from$|message_type$|google|gcm)/;

type Rule = readonly [message: string, field: string, isBroken: (message: FcmRequest['message']) => boolean];

/** What FCM refuses in a message with valid fields; the first broken rule decides the answer. */
const RULES: readonly Rule[] = [
  ['Recipient of the message is not set.', 'message.token', (message) => targets(message).length === 0],
  ['Only one recipient of the message can be set.', 'message', (message) => targets(message).length > 1],
  [
    'The registration token is not a valid FCM registration token',
    'message.token',
    ({ token = 'x' }) => !/^[\x21-\x7e]{1,4096}$/.test(token),
  ],
  [INVALID_FID, 'message.fid', ({ fid }) => fid !== undefined && fid !== '' && !FID.test(fid)],
  ['Invalid data payload key', 'message.data', ({ data }) => hasReservedKey(data)],
  ['Invalid data payload key', 'message.android.data', ({ android }) => hasReservedKey(android?.data)],
  ['Invalid color', 'message.android.notification.color', ({ android }) => !isColor(android?.notification?.color)],
  // "Requests with both AndroidConfig and AndroidConfigV2 will be rejected" (the API's reference). The sentences are assumptions.
  [
    'Only one of android and android_v2 can be set.',
    'message.android_v2',
    ({ android, androidV2: v2 }) => !!android && !!v2,
  ],
  [
    'Exactly one of remote_notification and background_sync must be set.',
    'message.android_v2',
    ({ androidV2: v2 }) => !!v2 && (v2.remoteNotification === undefined) === (v2.backgroundSync === undefined),
  ],
  ['Invalid data payload key', 'message.android_v2.data', ({ androidV2: v2 }) => hasReservedKey(v2?.data)],
  [
    'Invalid color',
    'message.android_v2.remote_notification.notification.color',
    ({ androidV2: v2 }) => !isColor(v2?.remoteNotification?.notification?.color),
  ],
  ['Invalid TTL', 'message.android_v2.ttl', ({ androidV2: v2 }) => ttlSeconds(v2?.ttl) === 'invalid'],
  [
    'Invalid analytics label',
    'message.fcm_options.analytics_label',
    (message) => labels(message).some((label) => !LABEL.test(label)),
  ],
  // The reference, at `data`: "only normal priority is allowed" for iPhones, where there is nothing but data.
  [
    'Invalid apns-priority',
    'message.apns.headers',
    (message) => message.apns?.headers?.['apns-priority'] === '10' && !isShown(message),
  ],
  ['Invalid TTL', 'message.android.ttl', ({ android }) => ttlSeconds(android?.ttl) === 'invalid'],
  ['Message is too big', 'message', (message) => contentBytes(message) > MAX_CONTENT_BYTES],
  ['Message is too big', 'message.apns.payload', ({ apns }) => bytesOf(apns?.payload) > MAX_CONTENT_BYTES],
];

/** FCM's refusal of a message; undefined if it is valid. */
export function messageFault({ message }: FcmRequest): Refuse | undefined {
  const broken = RULES.find(([, , isBroken]) => isBroken(message));
  return broken && invalidArgument(broken[0], broken[1]);
}

const LABEL = /^[A-Za-z0-9_.~%-]{1,50}$/;

function hasReservedKey(data: Readonly<Record<string, string>> = {}): boolean {
  return Object.keys(data).some((key) => RESERVED_KEY.test(key));
}

function isColor(color = '#000000'): boolean {
  return /^#[0-9a-f]{6}$/i.test(color);
}

function labels({ fcmOptions, android, androidV2: v2, apns, webpush }: FcmRequest['message']): string[] {
  return [fcmOptions, android?.fcmOptions, v2?.fcmOptions, apns?.fcmOptions, webpush?.fcmOptions].flatMap(
    (options) => options?.analyticsLabel ?? [],
  );
}

/** Whether an iPhone shows or sounds something, or changes what a Live Activity shows. */
function isShown({ notification, apns }: FcmRequest['message']): boolean {
  const aps = apns?.payload?.['aps'];
  if (apns?.liveActivityToken !== undefined) return true;
  return notification !== undefined || (isObject(aps) && ['alert', 'sound', 'badge'].some((key) => key in aps));
}

function bytesOf(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}

/** `"3.5s"` → 3.5; undefined if none is set, which means four weeks. */
function ttlSeconds(ttl: string | undefined): number | 'invalid' | undefined {
  if (ttl === undefined) return undefined;
  const seconds = /^(\d{1,12}(?:\.\d{1,9})?)s$/.exec(ttl)?.[1];
  if (seconds === undefined || Number(seconds) > MAX_TTL_SECONDS) return 'invalid';
  return Number(seconds);
}

function targets({ token, topic, condition, fid }: FcmRequest['message']): string[] {
  return [token, topic, condition, fid].filter((target) => target !== undefined && target !== '') as string[];
}

/** The alert and the data, keys and values: what counts towards FCM's limit. A text that another one replaces does not count. */
function contentBytes({ data = {}, notification = {}, android = {}, androidV2: v2 }: FcmRequest['message']): number {
  const remote = v2?.remoteNotification?.notification;
  const shown = remote === undefined ? [notification, android.notification ?? {}] : [{ ...notification, ...remote }];
  const maps: object[] = [data, android.data ?? {}, v2?.data ?? {}, ...shown];
  const texts = maps.flatMap((map) => Object.entries(map)).flat(2);
  return texts.reduce<number>((sum, part) => sum + (typeof part === 'string' ? Buffer.byteLength(part) : 0), 0);
}
