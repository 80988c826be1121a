import { redact } from '../../domain/redact.ts';
import type { Push, Reply } from '../provider.ts';
import { findRow, jsonObject, rowReply, statusRow, type ReplyRow, type ReplyTable } from '../replies.ts';
import type { Answered } from '../sender/result.ts';

const GONE: ReplyRow = { meaning: 'gone', alerted: 'no' };
const REJECTED: ReplyRow = { meaning: 'rejected', alerted: 'no' };
/** The browser subscribed with another public key. Many in a row, for many recipients, mean that this worker has the wrong key. */
const OTHER_KEY: ReplyRow = { meaning: 'bad-token', alerted: 'no', suspect: 'configuration' };
/**
 * The push service does not take our VAPID token. One answer is no proof for all: a subscription that somebody made up can
 * bring it about. So the breaker of this push service opens only if 20 different recipients in a row meet it.
 */
const AUTH: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000, suspect: 'configuration' };
/** RFC 8030, section 8.4, has 429 with Retry-After; without it a minute is our choice. */
const TOO_MANY: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000 };
const SERVER_ERROR: ReplyRow = { meaning: 'later', alerted: 'maybe', retryAfterMs: 10_000, suspect: 'outage' };

/**
 * Codes that mean something else than their status: Apple's `reason`
 * (developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers), and
 * `other-key` for what Google and Mozilla say in a sentence.
 */
export const WEBPUSH_REPLIES = {
  VapidPkHashMismatch: OTHER_KEY,
  'other-key': OTHER_KEY,
} as const satisfies ReplyTable;

/** By status, since each push service words its answers in its own way (RFC 8030, section 8; 406 is Microsoft's 429). */
export const WEBPUSH_STATUS_REPLIES: ReplyTable = {
  400: REJECTED,
  401: AUTH,
  403: AUTH,
  404: GONE,
  405: REJECTED,
  406: TOO_MANY,
  410: GONE,
  413: REJECTED,
  429: TOO_MANY,
  500: SERVER_ERROR,
  502: SERVER_ERROR,
  503: SERVER_ERROR,
  504: SERVER_ERROR,
};

/** For a status that is not in the table: it may have alerted. A redirect is never followed. */
export const WEBPUSH_UNKNOWN: ReplyRow = SERVER_ERROR;

export const WEBPUSH_ACCEPTED: Reply = { meaning: 'accepted', code: '201', alerted: 'yes' };

/** An answer of a push service → one Reply. `nowMs`: epoch milliseconds, for a Retry-After that is a date. */
export function readWebpushAnswer(
  answer: Answered,
  { notification }: Pick<Push, 'notification'>,
  nowMs: number,
): Reply {
  const { status, body } = answer;
  // RFC 8030 has 201, and 202 with a receipt; Microsoft documents 200. None of them says anything about a body.
  if (status >= 200 && status < 300) return WEBPUSH_ACCEPTED;
  const word = wordOf(body);
  const row = findRow(WEBPUSH_REPLIES, [word]) ?? statusRow(WEBPUSH_STATUS_REPLIES, status, WEBPUSH_UNKNOWN);
  const sentence = sentenceOf(answer);
  return {
    ...rowReply(row, answer, word, { table: WEBPUSH_REPLIES, notification, nowMs }),
    ...(sentence !== undefined && { detail: redact(sentence, notification) }),
  };
}

/** "the VAPID credentials … do not correspond to the credentials used to create the subscriptions"; "VAPID public key mismatch" */
const OTHER_KEY_SENTENCE = /credentials used to create the subscription|VAPID public key mismatch/i;

/** Apple's `reason`; Mozilla's `errno`, as `errno-109`; `other-key`. */
function wordOf(body: string): string | undefined {
  if (OTHER_KEY_SENTENCE.test(body)) return 'other-key';
  const { reason, errno } = jsonObject(body);
  if (typeof reason === 'string') return reason;
  return typeof errno === 'number' && Number.isInteger(errno) ? `errno-${errno}` : undefined;
}

/** What Mozilla and Microsoft say for a person, and Google in place of any code. */
function sentenceOf({ headers, body }: Answered): string | undefined {
  const { message } = jsonObject(body);
  if (typeof message === 'string') return message;
  const described = headers['x-wns-error-description'];
  if (typeof described === 'string') return described;
  const isText = headers['content-type']?.startsWith('text/plain') === true && body.trim() !== '';
  return isText ? body.trim() : undefined;
}
