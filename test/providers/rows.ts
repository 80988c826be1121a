import type { Reply } from '../../src/providers/provider.ts';
import { apnsRefusal, type ApnsReason } from '../../sandbox/apns/reasons.ts';
import type { Refuse } from '../../sandbox/loopback/answers.ts';
import { webpushRefusal } from '../../sandbox/webpush/reasons.ts';

/** What is expected of each answer, written down a second time by hand: the tables in src/ are what is tested. */
type Row = Omit<Reply, 'code'>;
type Rows<Key extends string | number = string> = Readonly<Record<Key, Row>>;

const FINAL = { alerted: 'no' } as const;
const GONE: Row = { meaning: 'gone', ...FINAL };
const REJECTED: Row = { meaning: 'rejected', ...FINAL };
const BAD_TOKEN: Row = { meaning: 'bad-token', ...FINAL, suspect: 'configuration' };
const AUTH: Row = { meaning: 'later', alerted: 'no', trouble: 'auth' };
const CONFIGURATION: Row = { meaning: 'later', alerted: 'no', trouble: 'configuration' };
const SERVER_ERROR: Row = { meaning: 'later', alerted: 'maybe', retryAfterMs: 10_000, suspect: 'outage' };
const UNAVAILABLE: Row = { meaning: 'later', alerted: 'no', suspect: 'outage' };
const ONE_DEVICE: Row = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000 };
const QUOTA: Row = { ...ONE_DEVICE, suspect: 'quota' };
const FORBIDDEN: Row = { ...ONE_DEVICE, suspect: 'configuration' };
/** What no provider documents: the request is at fault, or was not processed this time. */
const OF_ANY_SERVER: Rows<number> = {
  402: REJECTED,
  408: UNAVAILABLE,
  411: REJECTED,
  412: REJECTED,
  414: REJECTED,
  415: REJECTED,
  418: REJECTED,
  421: UNAVAILABLE,
  422: REJECTED,
  425: UNAVAILABLE,
  431: REJECTED,
  451: REJECTED,
};

const APNS_WORDS: Rows<ApnsReason> = {
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
  IdleTimeout: { meaning: 'later', alerted: 'no' },
  BadCertificate: CONFIGURATION,
  BadCertificateEnvironment: CONFIGURATION,
  MissingTopic: CONFIGURATION,
  TopicDisallowed: CONFIGURATION,
  ExpiredProviderToken: AUTH,
  Forbidden: AUTH,
  InvalidProviderToken: AUTH,
  MissingProviderToken: AUTH,
  TooManyProviderTokenUpdates: { ...ONE_DEVICE, suspect: 'outage' },
  TooManyRequests: ONE_DEVICE,
  InternalServerError: SERVER_ERROR,
  ServiceUnavailable: UNAVAILABLE,
  Shutdown: UNAVAILABLE,
};

/** The answer that brings about each row, and what it comes out as. */
export interface Answers {
  readonly words: Readonly<Record<string, readonly [Refuse, Row]>>;
  /** For a word that is new, and for an answer without one. */
  readonly statuses: Rows<number>;
}

export const APNS_ANSWERS: Answers = {
  words: Object.fromEntries(
    Object.entries(APNS_WORDS).map(([word, row]) => [word, [apnsRefusal(word as ApnsReason), row]]),
  ),
  statuses: {
    302: SERVER_ERROR,
    400: REJECTED,
    403: FORBIDDEN,
    404: REJECTED,
    405: REJECTED,
    410: GONE,
    413: REJECTED,
    ...OF_ANY_SERVER,
    429: ONE_DEVICE,
    500: SERVER_ERROR,
    502: SERVER_ERROR,
    503: UNAVAILABLE,
    504: SERVER_ERROR,
    520: SERVER_ERROR,
  },
};

const refuse = (status: number, reason?: string, more: Partial<Refuse> = {}): Refuse => ({
  kind: 'refuse',
  status,
  ...(reason === undefined ? {} : { reason }),
  ...more,
});
const naming = (field: string): Partial<Refuse> => ({ violations: [{ field, description: 'invalid' }] });

export const FCM_ANSWERS: Answers = {
  words: {
    UNREGISTERED: [refuse(404, 'UNREGISTERED'), GONE],
    SENDER_ID_MISMATCH: [refuse(403, 'SENDER_ID_MISMATCH'), BAD_TOKEN],
    'INVALID_ARGUMENT (message.token)': [refuse(400, 'INVALID_ARGUMENT', naming('message.token')), BAD_TOKEN],
    INVALID_ARGUMENT: [refuse(400, 'INVALID_ARGUMENT', naming('message.android.ttl')), REJECTED],
    NOT_FOUND: [refuse(404), CONFIGURATION],
    THIRD_PARTY_AUTH_ERROR: [refuse(401, 'THIRD_PARTY_AUTH_ERROR'), REJECTED],
    UNAUTHENTICATED: [refuse(401), AUTH],
    PERMISSION_DENIED: [refuse(403), AUTH],
    QUOTA_EXCEEDED: [refuse(429, 'QUOTA_EXCEEDED', { quota: 'device' }), QUOTA],
    'QUOTA_EXCEEDED (project)': [
      refuse(429, 'QUOTA_EXCEEDED', { quota: 'project' }),
      { ...ONE_DEVICE, trouble: 'quota' },
    ],
    RESOURCE_EXHAUSTED: [refuse(429), QUOTA],
    INTERNAL: [refuse(500, 'INTERNAL'), SERVER_ERROR],
    UNAVAILABLE: [refuse(503, 'UNAVAILABLE'), SERVER_ERROR],
    DEADLINE_EXCEEDED: [refuse(504, 'DEADLINE_EXCEEDED'), SERVER_ERROR],
    UNSPECIFIED_ERROR: [refuse(500, 'UNSPECIFIED_ERROR'), SERVER_ERROR],
  },
  statuses: {
    302: SERVER_ERROR,
    400: REJECTED,
    401: FORBIDDEN,
    403: FORBIDDEN,
    404: FORBIDDEN,
    413: REJECTED,
    ...OF_ANY_SERVER,
    429: QUOTA,
    500: SERVER_ERROR,
    502: SERVER_ERROR,
    503: SERVER_ERROR,
    504: SERVER_ERROR,
    520: SERVER_ERROR,
  },
};

const OTHER_KEY: Row = { meaning: 'bad-token', ...FINAL, suspect: 'configuration' };
const VAPID: Row = { ...ONE_DEVICE, suspect: 'configuration' };

export const WEBPUSH_ANSWERS: Answers = {
  words: {
    VapidPkHashMismatch: [webpushRefusal('VapidPkHashMismatch'), OTHER_KEY],
    'other-key': [webpushRefusal('other-key'), OTHER_KEY],
  },
  statuses: {
    302: SERVER_ERROR,
    400: REJECTED,
    401: VAPID,
    403: VAPID,
    404: GONE,
    405: REJECTED,
    406: ONE_DEVICE,
    410: GONE,
    413: REJECTED,
    ...OF_ANY_SERVER,
    429: ONE_DEVICE,
    500: SERVER_ERROR,
    502: SERVER_ERROR,
    503: SERVER_ERROR,
    504: SERVER_ERROR,
    520: SERVER_ERROR,
  },
};
