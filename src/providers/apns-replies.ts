import { errorChain } from '../domain/error-chain.ts';
import { redact } from '../domain/redact.ts';
import type { ApnsFailure } from './apns-types.ts';
import type { Push, Reply } from './provider.ts';
import { findRow, wordOf } from './reply-row.ts';
import type { ReplyRow, ReplyTable } from './reply-row.ts';
import { parseRetryAfter, transportCode, transportReply } from './transport-replies.ts';
import type { Answer } from './wire.ts';

const BAD_TOKEN: ReplyRow = { meaning: 'bad-token', alerted: 'no' };
const GONE: ReplyRow = { meaning: 'gone', alerted: 'no' };
const REJECTED: ReplyRow = { meaning: 'rejected', alerted: 'no' };
const AUTH: ReplyRow = { meaning: 'auth', alerted: 'no', trouble: 'auth' };
/** One device has had too many. APNs names no time; a minute is the least that makes sense for a rate. */
const DEVICE_QUOTA: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000 };
const UNAVAILABLE: ReplyRow = { meaning: 'later', alerted: 'no', trouble: 'outage' };
const SERVER_ERROR: ReplyRow = { meaning: 'later', alerted: 'maybe', retryAfterMs: 10_000, trouble: 'outage' };

/**
 * What APNs' words mean for us
 * (developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
 */
export const APNS_REPLIES: ReplyTable = {
  BadDeviceToken: BAD_TOKEN,
  DeviceTokenNotForTopic: BAD_TOKEN,
  ExpiredToken: GONE,
  Unregistered: GONE,
  BadCollapseId: REJECTED,
  BadExpirationDate: REJECTED,
  BadMessageId: REJECTED,
  BadPath: REJECTED,
  BadPriority: REJECTED,
  BadTopic: REJECTED,
  DuplicateHeaders: REJECTED,
  InvalidPushType: REJECTED,
  MethodNotAllowed: REJECTED,
  MissingDeviceToken: REJECTED,
  MissingTopic: REJECTED,
  PayloadEmpty: REJECTED,
  PayloadTooLarge: REJECTED,
  TopicDisallowed: REJECTED,
  /** About one connection: neither the notification nor the service. */
  IdleTimeout: { meaning: 'later', alerted: 'no' },
  BadCertificate: AUTH,
  BadCertificateEnvironment: AUTH,
  /** Seen only when a renewed token was refused as well: a clock that is wrong, most likely. */
  ExpiredProviderToken: AUTH,
  Forbidden: AUTH,
  InvalidProviderToken: AUTH,
  MissingProviderToken: AUTH,
  /** The token in use stays in use; another one would make it worse. */
  TooManyProviderTokenUpdates: { meaning: 'later', alerted: 'no', retryAfterMs: 60_000, trouble: 'quota' },
  TooManyRequests: DEVICE_QUOTA,
  InternalServerError: SERVER_ERROR,
  ServiceUnavailable: UNAVAILABLE,
  Shutdown: UNAVAILABLE,
};

/** For words that are new, and for answers without one. */
export const APNS_STATUS_REPLIES: ReplyTable = {
  400: REJECTED,
  403: AUTH,
  404: REJECTED,
  405: REJECTED,
  410: GONE,
  413: REJECTED,
  429: DEVICE_QUOTA,
  500: SERVER_ERROR,
  502: SERVER_ERROR,
  503: UNAVAILABLE,
  504: SERVER_ERROR,
};

/** For an answer of which nothing is known: it may have alerted. */
export const APNS_UNKNOWN: ReplyRow = SERVER_ERROR;

export const APNS_ACCEPTED: Reply = { meaning: 'accepted', code: '200', alerted: 'yes' };

/** The client gives some answers in words of its own, and some without their status. */
const REASON_IN_MESSAGE: readonly (readonly [RegExp, string])[] = [
  [/^ExpiredProviderToken$/, 'ExpiredProviderToken'],
  [/^Error 500, stream ended unexpectedly$/, 'InternalServerError'],
];
/** HTTP/2's HEADERS (type 1) could not be written: the connection was going away. Nothing of the request has left. */
const NOT_WRITTEN = /^Request frame error: \(frameType: 1,/;
/** It has an answer, and cannot read it. */
const ANSWERED =
  /^(stream ended unexpectedly with status \d{3} and empty body$|Unexpected error processing APNs response)/;

export interface ApnsFailureContext {
  readonly push: Pick<Push, 'notification' | 'device'>;
  readonly mayHaveArrived: boolean;
  /** The head of the answer, where there was one. */
  readonly answer?: Answer | undefined;
  /** Epoch milliseconds, for a Retry-After that is a date. */
  readonly nowMs: number;
}

/** Any of the shapes in which the client reports a failure → one Reply. */
export function apnsReply(failure: ApnsFailure, context: ApnsFailureContext): Reply {
  const { push, answer } = context;
  const message = failure.error?.message ?? '';
  const reason = failure.response?.reason ?? REASON_IN_MESSAGE.find(([pattern]) => pattern.test(message))?.[1];
  const isAnswered = reason !== undefined || failure.status !== undefined || ANSWERED.test(message);
  if (!isAnswered) return lostReply(failure, context);
  const status = failure.status ?? answer?.status;
  // Taken, it says, but APNs says so without a word.
  if (reason === undefined && (status === undefined || status < 300)) return transportReply('unreadable');
  const row = findRow(APNS_REPLIES, [reason]) ?? findRow(APNS_STATUS_REPLIES, [status]) ?? APNS_UNKNOWN;
  const goneSince = failure.response?.timestamp;
  const retryAfterMs = row.meaning === 'later' ? parseRetryAfter(answer?.retryAfter, context.nowMs) : undefined;
  return {
    ...row,
    code: reason === undefined ? `http-${String(status)}` : wordOf(APNS_REPLIES, reason, push.notification),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(row.meaning === 'gone' && typeof goneSince === 'number' ? { goneSince } : {}),
  };
}

function lostReply(failure: ApnsFailure, { push, mayHaveArrived }: ApnsFailureContext): Reply {
  const message = failure.error?.message ?? '';
  if (message === 'client is destroyed') return transportReply('closed');
  if (NOT_WRITTEN.test(message)) return transportReply('refused-stream');
  if (message === 'apn write timeout') {
    return transportReply(mayHaveArrived ? 'timeout' : 'connect-timeout');
  }
  // Where the request could not even be made, the client passes the error's own fields and nothing else.
  const error = failure.error ?? failure;
  const chain = errorChain(error);
  return transportReply(
    transportCode(error, mayHaveArrived),
    chain === '' ? undefined : redact(chain, push.notification),
  );
}
