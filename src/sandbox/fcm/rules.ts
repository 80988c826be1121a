import type { Refuse } from '../loopback/answers.ts';
import { isRecord } from '../loopback/exchange.ts';
import { invalidArgument } from './errors.ts';
import type { FcmRequest } from './schema.ts';

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
  ['Invalid data payload key', 'message.data', ({ data }) => hasReservedKey(data)],
  ['Invalid data payload key', 'message.android.data', ({ android }) => hasReservedKey(android?.data)],
  [
    'Invalid color',
    'message.android.notification.color',
    ({ android }) => !/^#[0-9a-f]{6}$/i.test(android?.notification?.color ?? '#000000'),
  ],
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

function labels({ fcmOptions, android, apns, webpush }: FcmRequest['message']): string[] {
  return [fcmOptions, android?.fcmOptions, apns?.fcmOptions, webpush?.fcmOptions].flatMap(
    (options) => options?.analyticsLabel ?? [],
  );
}

/** Whether an iPhone shows or sounds something. */
function isShown({ notification, apns }: FcmRequest['message']): boolean {
  const aps = apns?.payload?.['aps'];
  return notification !== undefined || (isRecord(aps) && ['alert', 'sound', 'badge'].some((key) => key in aps));
}

function bytesOf(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}

/** `"3.5s"` → 3.5; undefined if none is set, which means four weeks. */
export function ttlSeconds(ttl: string | undefined): number | 'invalid' | undefined {
  if (ttl === undefined) return undefined;
  const seconds = /^(\d{1,12}(?:\.\d{1,9})?)s$/.exec(ttl)?.[1];
  if (seconds === undefined || Number(seconds) > MAX_TTL_SECONDS) return 'invalid';
  return Number(seconds);
}

function targets({ token, topic, condition }: FcmRequest['message']): string[] {
  return [token, topic, condition].filter((target) => target !== undefined && target !== '') as string[];
}

/** The alert and the data, keys and values: what counts towards FCM's limit. */
function contentBytes({ data = {}, notification = {}, android = {} }: FcmRequest['message']): number {
  const maps = [data, android.data ?? {}, notification, android.notification ?? {}];
  const texts = maps.flatMap((map) => Object.entries(map)).flat(2);
  return texts.reduce<number>((sum, part) => sum + (typeof part === 'string' ? Buffer.byteLength(part) : 0), 0);
}
