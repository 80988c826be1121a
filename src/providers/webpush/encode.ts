import { createECDH, createHash } from 'node:crypto';
import './no-keylog.ts'; // before http_ece
import { encrypt } from 'http_ece';
import type { WebpushDevice } from '../../domain/notification.ts';
import type { Prepared, Push } from '../provider.ts';
import type { ReplyTable } from '../replies.ts';
import { WEBPUSH_MAX_MESSAGE_BYTES, webpushMessage } from './message.ts';

/** Four weeks, the longest that Google keeps a push; others keep it for less (RFC 8030, section 5.2, lets them). */
const MAX_TTL_SECONDS = 2_419_200;

export interface WebpushEncodeOptions {
  readonly isAllowed: (origin: string) => boolean;
  /** Epoch milliseconds, from which `TTL` is counted. */
  readonly nowMs: number;
}

/** A push as a request to its push service (RFC 8030), encrypted for the browser (RFC 8291). */
export function encodeWebpush(push: Push, { isAllowed, nowMs }: WebpushEncodeOptions): Prepared {
  const device = push.device as WebpushDevice; // by its platform
  const { origin, pathname, search } = new URL(device.endpoint);
  if (!isAllowed(origin)) {
    return refused('origin-not-allowed', `${origin} is no known push service; WEBPUSH_ORIGINS can allow it`);
  }
  const message = Buffer.from(JSON.stringify(webpushMessage(push.notification, push)));
  if (message.length > WEBPUSH_MAX_MESSAGE_BYTES) {
    return refused(
      'payload-too-large',
      `payload: expected at most ${WEBPUSH_MAX_MESSAGE_BYTES} bytes, found ${message.length}`,
    );
  }
  const body = encrypted(message, device.keys);
  if (body === undefined) return refused('bad-keys', 'keys.p256dh: expected a point on P-256, found another one');
  return { kind: 'ready', encoded: { push, origin, path: pathname + search, headers: headersOf(push, nowMs), body } };
}

/** Why a push is refused here, before any request. */
const REFUSALS = {
  'origin-not-allowed': { meaning: 'bad-token', alerted: 'no' },
  'bad-keys': { meaning: 'bad-token', alerted: 'no' },
  'payload-too-large': { meaning: 'rejected', alerted: 'no' },
} as const satisfies ReplyTable;

function refused(code: keyof typeof REFUSALS, detail: string): Prepared {
  return { kind: 'refused', reply: { ...REFUSALS[code], code, detail } };
}

/** With a key pair of its own for each message. Undefined where the browser's key is no point on the curve. */
function encrypted(message: Buffer, { p256dh, auth }: WebpushDevice['keys']): Buffer | undefined {
  const privateKey = createECDH('prime256v1');
  privateKey.generateKeys();
  try {
    return encrypt(message, { version: 'aes128gcm', privateKey, dh: p256dh, authSecret: auth });
  } catch {
    return undefined;
  }
}

/**
 * - `ttl`: the seconds left until `expiresAt`. 0 would mean one try and no storing, and Microsoft refuses it without a header
 *   of its own, so it is 1 at least.
 * - `urgency` (RFC 8030, section 5.3): the notification's priority; `low` for a silent one.
 * - `topic` (section 5.4): only if the producer gave a collapse id. A push that waits for its browser is replaced by a later
 *   one with the same topic.
 */
function headersOf({ notification, silent }: Push, nowMs: number): Record<string, string | number> {
  const { collapseId, expiresAt, priority } = notification;
  const leftSeconds = expiresAt === undefined ? Infinity : Math.floor((expiresAt - nowMs) / 1_000);
  return {
    'content-type': 'application/octet-stream',
    'content-encoding': 'aes128gcm',
    ttl: Math.max(1, Math.min(leftSeconds, MAX_TTL_SECONDS)),
    urgency: silent ? 'low' : priority,
    ...(collapseId !== undefined && { topic: topicOf(collapseId) }),
  };
}

/** At most 32 characters of base64url: the beginning of the collapse id's hash, which no push service can read. */
export function topicOf(collapseId: string): string {
  return createHash('sha256').update(collapseId).digest('base64url').slice(0, 32);
}
