import { parseObject } from '../../domain/json.ts';
import type { AnswerTables, Push, Reply, ReplyTable } from '../provider.ts';
import {
  AUTH,
  BAD_TOKEN,
  CONFIGURATION,
  findRow,
  FORBIDDEN,
  GONE,
  NOT_PROCESSED,
  REJECTED,
  SERVER_ERROR,
  tableReply,
  TOO_MANY,
  transportReply,
} from '../replies.ts';
import type { Answered } from '../sender/result.ts';

/**
 * What each of APNs' reasons and statuses means
 * (developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns, and for a push to a channel
 * developer.apple.com/documentation/usernotifications/handling-error-responses-from-apns).
 */
export const APNS_ANSWERS = {
  accepted: { meaning: 'accepted', code: '200', alerted: 'yes' },
  words: {
    BadDeviceToken: BAD_TOKEN,
    DeviceTokenNotForTopic: BAD_TOKEN,
    ExpiredToken: GONE,
    Unregistered: GONE,
    /** The channel was deleted, or belongs to the other environment (production or sandbox). */
    ChannelNotRegistered: GONE,
    BadChannelId: { meaning: 'bad-token', alerted: 'no' },
    MissingChannelId: REJECTED,
    MissingPushType: REJECTED,
    /** The app has no broadcast capability, so only its pushes to channels are refused. */
    FeatureNotEnabled: REJECTED,
    /** Seen in place of `FeatureNotEnabled`, and on none of Apple's pages. */
    BroadcastFeatureNotEnabled: REJECTED,
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
    /** These answers are about one connection, not about the notification or the service. */
    IdleTimeout: { meaning: 'later', alerted: 'no' },
    UnrelatedKeyIdInToken: { meaning: 'later', alerted: 'no' },
    BadCertificate: CONFIGURATION,
    BadCertificateEnvironment: CONFIGURATION,
    BadEnvironmentKeyIdInToken: CONFIGURATION,
    /** Seen in place of the word above, and on none of Apple's pages. */
    BadEnvironmentKeyInToken: CONFIGURATION,
    MissingTopic: CONFIGURATION,
    TopicDisallowed: CONFIGURATION,
    /** The key is not for the app in the path of a push to a channel. */
    TopicMismatch: CONFIGURATION,
    /** Reported only if APNs refused the renewed token too. Then this machine's clock is most likely wrong. */
    ExpiredProviderToken: AUTH,
    Forbidden: AUTH,
    InvalidProviderToken: AUTH,
    MissingProviderToken: AUTH,
    /** The answer is about this worker's connections. The token stays in use: one more new token would make matters worse. */
    TooManyProviderTokenUpdates: { ...NOT_PROCESSED, retryAfterMs: 60_000 },
    TooManyRequests: TOO_MANY,
    InternalServerError: SERVER_ERROR,
    ServiceUnavailable: NOT_PROCESSED,
    Shutdown: NOT_PROCESSED,
  },
  statuses: {
    400: REJECTED,
    403: FORBIDDEN,
    404: REJECTED,
    405: REJECTED,
    410: GONE,
    413: REJECTED,
    429: TOO_MANY,
    500: SERVER_ERROR,
    502: SERVER_ERROR,
    503: NOT_PROCESSED,
    504: SERVER_ERROR,
  },
  unknown: SERVER_ERROR,
  signIn: {}, // the token is made locally, so there is no sign-in that could be refused
} as const satisfies AnswerTables;

/** If the notification named its own topic, a wrong topic says nothing about the configuration. */
const OWN_TOPIC_WORDS: ReplyTable = {
  DeviceTokenNotForTopic: { meaning: 'bad-token', alerted: 'no' },
  TopicDisallowed: REJECTED,
  TopicMismatch: REJECTED,
};

/** An answer of APNs as a Reply. `nowMs`: epoch milliseconds, for a Retry-After that is a date. */
export function readApnsAnswer(answer: Answered, { notification }: Pick<Push, 'notification'>, nowMs: number): Reply {
  const { status, body } = answer;
  if (status === 200 && body === '') return APNS_ANSWERS.accepted;
  const { reason, timestamp } = parseObject(body);
  const word = typeof reason === 'string' ? reason : undefined;
  if (word === undefined && status < 300) return transportReply('unreadable');
  const row = notification.apns?.topic === undefined ? undefined : findRow(OWN_TOPIC_WORDS, word);
  const reply = tableReply(APNS_ANSWERS, answer, word, { row, notification, nowMs });
  return reply.meaning === 'gone' && typeof timestamp === 'number' ? { ...reply, goneSince: timestamp } : reply;
}
