import { createPublicKey, verify } from 'node:crypto';
import {
  headerText,
  isJson,
  jsonFaults,
  readJson,
  shapeFaults,
  valueAt,
  type Fields,
  type Json,
  type Shape,
  type WireRequest,
} from './table.ts';

/**
 * What a push service takes: RFC 8030 (the request), RFC 8188 and RFC 8291 (the encryption), RFC 8292 (VAPID); and what a
 * browser shows (notifications.spec.whatwg.org, "NotificationOptions").
 */

/** RFC 8030, section 5. A message to FCM has them too, in `webpush.headers`. */
export const WEBPUSH_HEADERS: Fields = {
  ttl: { is: 'text', form: 'decimal', most: 2_147_483_647 },
  urgency: { is: 'text', oneOf: ['very-low', 'low', 'normal', 'high'] },
  topic: { is: 'text', form: 'base64url', maxBytes: 32 },
};

/** RFC 8291, section 4: one coding, and no headers of the drafts before it. */
const REQUEST_HEADERS: Fields = { ...WEBPUSH_HEADERS, 'content-encoding': { is: 'text', oneOf: ['aes128gcm'] } };
const DRAFT_HEADERS = ['encryption', 'crypto-key', 'encryption-key'];

/** RFC 8030, section 7.2: more need not be taken. */
const MAX_BODY_BYTES = 4_096;
const SALT_BYTES = 16;
const KEY_BYTES = 65;
/** Salt, size of a record, length of the key, key. */
const HEAD_BYTES = SALT_BYTES + 4 + 1 + KEY_BYTES;
/** The delimiter of the padding, and the tag. */
const LEAST_RECORD_BYTES = 1 + 16;

/** What a service worker hands to `showNotification`; `id` and the like are the sender's own. */
const SHOWN: Fields = {
  title: { is: 'text' },
  body: { is: 'text' },
  image: { is: 'text', form: 'https' },
  icon: { is: 'text' },
  tag: { is: 'text' },
  lang: { is: 'text' },
  dir: { is: 'text', oneOf: ['auto', 'ltr', 'rtl'] },
  silent: { is: 'flag' },
  renotify: { is: 'flag' },
  requireInteraction: { is: 'flag' },
  timestamp: { is: 'number', from: 0, whole: true },
  actions: {
    is: 'list',
    of: {
      is: 'object',
      fields: { action: { is: 'text' }, title: { is: 'text' }, icon: { is: 'text' } },
      required: ['action', 'title'],
      others: 'any',
    },
  },
};

/**
 * What makes a message a declarative one, and shows without a service worker. w3.org/TR/push-api, "Declarative push message"
 * (Working Draft of 2025-09-10, and w3c/push-api #385 and #402), WebKit's NotificationJSONParser.cpp and "Meet Declarative Web
 * Push" (webkit.org/blog/16535, 2025-03-27), Firefox's dom/push/declarative (all read on 2026-11-26). URLs are absolute, since
 * Safari takes no others; `app_badge` is in `notification` for Safari 18.4 and 18.5 (WebKit #45798 moved it). None of the pages
 * asks for a header. What no browser reads there (image, badge, renotify, actions) is not sent twice.
 */
const DECLARATIVE: Shape = {
  is: 'object',
  fields: {
    title: { is: 'text' },
    navigate: { is: 'text', form: 'https' },
    body: { is: 'text' },
    tag: { is: 'text' },
    lang: { is: 'text' },
    dir: { is: 'text', oneOf: ['auto', 'ltr', 'rtl'] },
    icon: { is: 'text', form: 'https' },
    silent: { is: 'flag' },
    requireInteraction: { is: 'flag' },
    app_badge: { is: 'number', from: 0, whole: true },
    data: { is: 'any' },
  },
  required: ['title', 'navigate'],
};

/** Everything that keeps a browser from showing a declarative message by itself. */
function declarativeFaults(json: Json): string[] {
  const { web_push: mark, notification, app_badge: badge, mutable } = json;
  if (mark === undefined) return notification === undefined ? [] : ['message.notification: without web_push'];
  const { title } = isJson(notification) ? notification : {};
  return [
    ...(mark === 8_030 ? [] : ['message.web_push: expected 8030']),
    ...shapeFaults(notification ?? '', DECLARATIVE, 'message.notification'),
    ...(title === '' ? ['message.notification.title: empty'] : []),
    ...(badge === undefined ? [] : shapeFaults(badge, { is: 'number', from: 0, whole: true }, 'message.app_badge')),
    ...(mutable === undefined ? [] : shapeFaults(mutable, { is: 'flag' }, 'message.mutable')),
  ];
}

/** A request to a push service, and what only its sender and its browser know. */
export interface WebpushRequest extends WireRequest {
  /** `https://push.example.com` */
  readonly origin: string;
  /** The message as the browser decrypts it; undefined if it cannot. */
  readonly message: Buffer | undefined;
  /** Epoch milliseconds. */
  readonly nowMs: number;
}

/** Everything that a request for web push breaks. */
export function webpushFaults({ path, headers, body, origin, message, nowMs }: WebpushRequest): string[] {
  const sent = Object.fromEntries(
    Object.keys(REQUEST_HEADERS)
      .filter((name) => name in headers)
      .map((name) => [name, headerText(headers[name])]),
  );
  return [
    ...(path.startsWith('/') && URL.canParse(origin + path) ? [] : ['path: expected the path of the endpoint']),
    ...(new URL(origin).protocol === 'https:' ? [] : ['origin: expected https']),
    ...shapeFaults(sent, { is: 'object', fields: REQUEST_HEADERS, required: ['ttl', 'content-encoding'] }, 'headers'),
    ...DRAFT_HEADERS.filter((name) => name in headers).map((name) => `headers.${name}: of a draft`),
    ...recordFaults(body),
    ...(message === undefined ? ['body: the browser cannot decrypt it'] : messageFaults(message)),
    ...('authorization' in headers ? vapidFaults(headers['authorization'], origin, nowMs) : []),
  ];
}

/** RFC 8188, section 2.1, and RFC 8291, section 4: one record, with the sender's key before it. */
function recordFaults(body: string | Buffer): string[] {
  const bytes = Buffer.from(body as string);
  if (bytes.length > MAX_BODY_BYTES) return [`body: ${bytes.length} bytes, over ${MAX_BODY_BYTES}`];
  if (bytes.length < HEAD_BYTES + LEAST_RECORD_BYTES) return ['body: too short for a record'];
  const recordSize = bytes.readUInt32BE(SALT_BYTES);
  const record = bytes.length - HEAD_BYTES;
  return [
    ...(bytes[SALT_BYTES + 4] === KEY_BYTES ? [] : ['body: expected a key of 65 bytes']),
    ...(bytes[SALT_BYTES + 5] === 4 ? [] : ['body: expected an uncompressed point']),
    ...(recordSize > LEAST_RECORD_BYTES && record <= recordSize ? [] : ['body: expected one record']),
  ];
}

function messageFaults(message: Buffer): string[] {
  const { json, faults } = readJson(message);
  const { silent, vibrate, renotify, tag, title = '', body = '' } = json;
  const { data, ...shown } = json;
  return [
    ...faults,
    ...jsonFaults(shown, 'message'),
    ...jsonFaults(data, 'message.data').filter((fault) => !fault.endsWith(': null')), // JavaScript knows null
    ...shapeFaults(json, { is: 'object', fields: SHOWN, others: 'any' }, 'message'),
    ...declarativeFaults(json),
    ...(isRetraction(data) ? retractionFaults(json) : title === '' && body === '' ? ['message: nothing to show'] : []),
    // With these `showNotification` throws.
    ...(silent === true && vibrate !== undefined ? ['message.vibrate: not beside silent'] : []),
    ...(renotify === true && (tag ?? '') === '' ? ['message.renotify: expected a tag beside it'] : []),
  ];
}

/** docs/retract.md: the one push for which a browser shows nothing. */
function isRetraction(data: unknown): boolean {
  return Array.isArray(valueAt(data, 'pushpacer.retract'));
}

/** A service worker that does not know retractions shows it all the same, so it is silent, and takes the place of the last one. */
function retractionFaults({ title, body, silent, tag, badge }: Json): string[] {
  return [
    ...(title === undefined && body === undefined ? [] : ['message: a text in a retraction']),
    ...(silent === true ? [] : ['message.silent: expected true in a retraction']),
    ...(typeof tag === 'string' && tag !== '' ? [] : ['message.tag: expected one in a retraction']),
    ...(badge === undefined ? [] : shapeFaults(badge, { is: 'number', from: 0, whole: true }, 'message.badge')),
  ];
}

const CLAIMS: Shape = {
  is: 'object',
  fields: { aud: { is: 'text' }, exp: { is: 'number', from: 0 }, sub: { is: 'text' } },
  required: ['aud', 'exp', 'sub'],
  others: 'any',
};
const SUBJECT = /^(mailto:[^@\s]+@[^@\s]+|https:\/\/\S+)$/;
const MAX_VALID_MS = 86_400_000;

/** RFC 8292, sections 2 and 3. */
function vapidFaults(authorization: unknown, origin: string, nowMs: number): string[] {
  const found = /^vapid t=([\w-]+)\.([\w-]+)\.([\w-]+), ?k=([\w-]+)$/.exec(headerText(authorization));
  if (found === null) return ['headers.authorization: expected vapid, t and k'];
  const [, head = '', claims = '', signature = '', key = ''] = found;
  const { json } = readJson(Buffer.from(claims, 'base64url'));
  const { aud, exp, sub } = json;
  const endMs = typeof exp === 'number' ? exp * 1_000 : NaN;
  return [
    ...(readJson(Buffer.from(head, 'base64url')).json['alg'] === 'ES256' ? [] : ['vapid.alg: expected ES256']),
    ...shapeFaults(json, CLAIMS, 'vapid'),
    ...(aud === origin ? [] : [`vapid.aud: expected ${origin}`]),
    ...(endMs > nowMs && endMs <= nowMs + MAX_VALID_MS ? [] : ['vapid.exp: expected at most 24 hours ahead']),
    ...(typeof sub === 'string' && SUBJECT.test(sub) ? [] : ['vapid.sub: expected a mailto or https URL']),
    ...(isSignedBy(key, `${head}.${claims}`, signature) ? [] : ['vapid: the signature does not fit the key']),
  ];
}

function isSignedBy(key: string, text: string, signature: string): boolean {
  const point = Buffer.from(key, 'base64url');
  if (point.length !== KEY_BYTES || point[0] !== 4) return false;
  const [x, y] = [point.subarray(1, 33).toString('base64url'), point.subarray(33).toString('base64url')];
  try {
    const publicKey = createPublicKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', x, y } });
    const settings = { key: publicKey, dsaEncoding: 'ieee-p1363' as const };
    return verify('sha256', Buffer.from(text), settings, Buffer.from(signature, 'base64url'));
  } catch {
    return false;
  }
}

/** Not a push service's rule but our promise of a silent push. */
export function webpushLoudFaults({ headers, message }: Pick<WebpushRequest, 'headers' | 'message'>): string[] {
  const json: unknown = message === undefined ? {} : readJson(message).json;
  return [
    ...(['low', 'very-low'].includes(headerText(headers['urgency'])) ? [] : ['headers.urgency: expected low']),
    ...(isJson(json) && json['silent'] === true ? [] : ['message.silent: expected true']),
    ...(isJson(json) ? ['badge', 'app_badge'] : []).flatMap((name) =>
      (json as Json)[name] === undefined ? [] : [`message.${name}: in a silent push`],
    ),
    ...declarativeLoudFaults(isJson(json) ? json['notification'] : undefined),
  ];
}

function declarativeLoudFaults(shown: unknown): string[] {
  if (!isJson(shown)) return [];
  return [
    ...(shown['silent'] === true ? [] : ['message.notification.silent: expected true']),
    ...['app_badge', 'requireInteraction'].flatMap((name) =>
      shown[name] === undefined ? [] : [`message.notification.${name}: in a silent push`],
    ),
  ];
}
