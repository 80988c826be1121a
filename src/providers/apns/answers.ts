import type { Push, Reply } from '../provider.ts';
import {
  findRow,
  jsonObject,
  rowReply,
  statusRow,
  transportReply,
  type ReplyRow,
  type ReplyTable,
} from '../replies.ts';
import type { Answered } from '../sender/result.ts';

/** About this device. Many in a row, for many recipients, mean the wrong topic, or development tokens in production. */
const BAD_TOKEN: ReplyRow = { meaning: 'bad-token', alerted: 'no', suspect: 'configuration' };
const GONE: ReplyRow = { meaning: 'gone', alerted: 'no' };
const REJECTED: ReplyRow = { meaning: 'rejected', alerted: 'no' };
const AUTH: ReplyRow = { meaning: 'later', alerted: 'no', trouble: 'auth' };
/** For a reason that is new: one answer about one device is no proof for all. */
const FORBIDDEN: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000, suspect: 'configuration' };
const CONFIGURATION: ReplyRow = { meaning: 'later', alerted: 'no', trouble: 'configuration' };
/** This device got too many. APNs names no time to wait; a minute is our choice. */
const DEVICE_QUOTA: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000 };
const UNAVAILABLE: ReplyRow = { meaning: 'later', alerted: 'no', suspect: 'outage' };
const SERVER_ERROR: ReplyRow = { meaning: 'later', alerted: 'maybe', retryAfterMs: 10_000, suspect: 'outage' };

/**
 * What each of APNs' reasons means here
 * (developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
 */
export const APNS_REPLIES = {
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
  PayloadEmpty: REJECTED,
  PayloadTooLarge: REJECTED,
  /** About one connection, not about the notification or the service. */
  IdleTimeout: { meaning: 'later', alerted: 'no' },
  BadCertificate: CONFIGURATION,
  BadCertificateEnvironment: CONFIGURATION,
  MissingTopic: CONFIGURATION,
  TopicDisallowed: CONFIGURATION,
  /** Reported only if the renewed token was refused too: most likely this machine's clock is wrong. */
  ExpiredProviderToken: AUTH,
  Forbidden: AUTH,
  InvalidProviderToken: AUTH,
  MissingProviderToken: AUTH,
  /** About this worker's connections. The token stays in use: one more new token would make it worse. */
  TooManyProviderTokenUpdates: { meaning: 'later', alerted: 'no', retryAfterMs: 60_000, suspect: 'outage' },
  TooManyRequests: DEVICE_QUOTA,
  InternalServerError: SERVER_ERROR,
  ServiceUnavailable: UNAVAILABLE,
  Shutdown: UNAVAILABLE,
} as const satisfies ReplyTable;

/** Where the notification named its own topic, a wrong one says nothing about the configuration. */
const OWN_TOPIC_REPLIES: ReplyTable = {
  DeviceTokenNotForTopic: { meaning: 'bad-token', alerted: 'no' },
  TopicDisallowed: REJECTED,
};

/** For reasons that are not in the table, and for answers without a reason. */
export const APNS_STATUS_REPLIES: ReplyTable = {
  400: REJECTED,
  403: FORBIDDEN,
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

/** For an unknown status without a known reason: it may have alerted. */
export const APNS_UNKNOWN: ReplyRow = SERVER_ERROR;

export const APNS_ACCEPTED: Reply = { meaning: 'accepted', code: '200', alerted: 'yes' };

/** An answer of APNs → one Reply. `nowMs`: epoch milliseconds, for a Retry-After that is a date. */
export function readApnsAnswer(answer: Answered, { notification }: Pick<Push, 'notification'>, nowMs: number): Reply {
  const { status, body } = answer;
  if (status === 200 && body === '') return APNS_ACCEPTED;
  const { reason, timestamp } = jsonObject(body);
  const word = typeof reason === 'string' ? reason : undefined;
  // A success, but not in APNs' format: a proxy may have answered.
  if (word === undefined && status < 300) return transportReply('unreadable');
  const ownTopic = notification.apns?.topic === undefined ? undefined : findRow(OWN_TOPIC_REPLIES, [word]);
  const row = ownTopic ?? findRow(APNS_REPLIES, [word]) ?? statusRow(APNS_STATUS_REPLIES, status, APNS_UNKNOWN);
  return {
    ...rowReply(row, answer, word, { table: APNS_REPLIES, notification, nowMs }),
    ...(row.meaning === 'gone' && typeof timestamp === 'number' ? { goneSince: timestamp } : {}),
  };
}
