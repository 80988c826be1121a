import { objectOr, parseObject } from '../../domain/json.ts';
import { redact } from '../../notification/redact.ts';
import type { AnswerTables, Push, Reply, ReplyRow } from '../provider.ts';
import {
  AUTH,
  BAD_TOKEN,
  CONFIGURATION,
  findRow,
  FORBIDDEN,
  GONE,
  REJECTED,
  SERVER_ERROR,
  tableReply,
  TOO_MANY,
  transportReply,
} from '../replies.ts';
import type { Answered } from '../sender/result.ts';

/** This device's quota or the project's is used up: the answer does not say which. */
const QUOTA: ReplyRow = { ...TOO_MANY, suspect: 'quota' };
/** INVALID_ARGUMENT whose details or message name the registration token or the installation id. */
const INVALID_TOKEN = 'INVALID_ARGUMENT (message.token)';
const INVALID_FID = 'INVALID_ARGUMENT (message.fid)';
/** INVALID_ARGUMENT if APNs refused the iPhone's token. */
const GONE_AT_APNS = 'INVALID_ARGUMENT (ApnsError: gone)';
const BAD_AT_APNS = 'INVALID_ARGUMENT (ApnsError: bad token)';
/** QUOTA_EXCEEDED or RESOURCE_EXHAUSTED whose details name the project. */
const QUOTA_OF_PROJECT = 'QUOTA_EXCEEDED (project)';

/**
 * What each of FCM's codes and statuses means. The codes are `errorCode` of its FcmError
 * (firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode), or google.rpc.Code if Google's front end answers instead of FCM.
 */
export const FCM_ANSWERS = {
  accepted: { meaning: 'accepted', code: '200', alerted: 'yes' },
  words: {
    UNREGISTERED: GONE,
    SENDER_ID_MISMATCH: BAD_TOKEN,
    [INVALID_TOKEN]: BAD_TOKEN,
    [INVALID_FID]: BAD_TOKEN,
    [GONE_AT_APNS]: GONE,
    [BAD_AT_APNS]: BAD_TOKEN,
    INVALID_ARGUMENT: REJECTED,
    /** Without an FcmError, this answer is about the URL: the project does not exist. */
    NOT_FOUND: CONFIGURATION,
    /** Google has no valid key for APNs or web push. See `createThirdPartyWatch`. */
    THIRD_PARTY_AUTH_ERROR: REJECTED,
    UNAUTHENTICATED: AUTH,
    PERMISSION_DENIED: AUTH,
    QUOTA_EXCEEDED: QUOTA,
    [QUOTA_OF_PROJECT]: { ...TOO_MANY, trouble: 'quota' },
    RESOURCE_EXHAUSTED: QUOTA,
    INTERNAL: SERVER_ERROR,
    UNAVAILABLE: SERVER_ERROR,
    DEADLINE_EXCEEDED: SERVER_ERROR,
    UNSPECIFIED_ERROR: SERVER_ERROR,
  },
  statuses: {
    400: REJECTED,
    401: FORBIDDEN,
    403: FORBIDDEN,
    404: FORBIDDEN,
    413: REJECTED,
    429: QUOTA,
    500: SERVER_ERROR,
    502: SERVER_ERROR,
    503: SERVER_ERROR,
    504: SERVER_ERROR,
  },
  unknown: SERVER_ERROR,
  /** What a failed sign-in means: Google must give an access token before FCM can be asked. */
  signIn: {
    'sign-in-refused': { meaning: 'later', alerted: 'no', unsent: true, trouble: 'auth' },
    'sign-in-unreachable': { meaning: 'later', alerted: 'no', retryAfterMs: 10_000, unsent: true, suspect: 'outage' },
  },
} as const satisfies AnswerTables;

/** An answer of FCM as a Reply. `nowMs`: epoch milliseconds, for a Retry-After that is a date. */
export function readFcmAnswer(answer: Answered, { notification }: Pick<Push, 'notification'>, nowMs: number): Reply {
  const { status, body } = answer;
  const json = parseObject(body);
  if (status === 200 && typeof json['name'] === 'string') return FCM_ANSWERS.accepted;
  const error = rpcStatus(json);
  const words = [...error.details.map(({ errorCode }) => errorCode), error.status];
  const word = words.find((candidate) => typeof candidate === 'string');
  if (word === undefined && status < 300) return transportReply('unreadable');
  const row = findRow(FCM_ANSWERS.words, rowKey(word, error, notification));
  const reply = tableReply(FCM_ANSWERS, answer, word, { row, notification, nowMs });
  return typeof error.message === 'string' ? { ...reply, detail: redact(error.message, notification) } : reply;
}

/** Google's error (google.rpc.Status); all fields undefined or empty if the body is not Google's. */
interface RpcStatus {
  readonly status: unknown;
  readonly message: unknown;
  readonly details: readonly Readonly<Record<string, unknown>>[];
}

function rpcStatus(json: Readonly<Record<string, unknown>>): RpcStatus {
  const { status, message, details } = objectOr(json['error']);
  return { status, message, details: listOf(details) };
}

/** The key of the row, if the error's details decide which row it is. Undefined: the code itself is the key. */
function rowKey(word: string | undefined, error: RpcStatus, notification: Push['notification']): string | undefined {
  if (word === 'INVALID_ARGUMENT') return refusedByApns(error, notification) ?? invalidTarget(error);
  const isQuota = word === 'QUOTA_EXCEEDED' || word === 'RESOURCE_EXHAUSTED';
  return isQuota && namesProject(error) ? QUOTA_OF_PROJECT : undefined;
}

/**
 * The answer of APNs about an iPhone's token, which FCM passes on. A bad token of a Live Activity counts as gone, since
 * `bad-token` would be reported for the device's registration token.
 */
function refusedByApns({ details, message }: RpcStatus, { pushType }: Push['notification']): string | undefined {
  const ofApns = details.find((detail) => String(detail['@type']).endsWith('ApnsError'));
  const { statusCode, reason } = ofApns ?? {};
  const isGone = statusCode === 410 || reason === 'Unregistered' || reason === 'ExpiredToken';
  if (isGone || /APNs device token is disabled/i.test(String(message))) return GONE_AT_APNS;
  if (reason !== 'BadDeviceToken' && reason !== 'DeviceTokenNotForTopic') return undefined;
  return pushType === 'liveactivity' ? GONE_AT_APNS : BAD_AT_APNS;
}

/** Which target is invalid, by the names of the fields. An answer without field names is read by its sentence. */
function invalidTarget({ details, message }: RpcStatus): string | undefined {
  const fields = details.flatMap(({ fieldViolations }) => listOf(fieldViolations)).map(({ field }) => field);
  const names = (field: string, sentence: RegExp): boolean =>
    fields.length > 0 ? fields.includes(field) : typeof message === 'string' && sentence.test(message);
  if (names('message.token', /registration token/i)) return INVALID_TOKEN;
  return names('message.fid', /installation id/i) ? INVALID_FID : undefined;
}

/**
 * Whether the quota of the whole project is used up. FCM documents a google.rpc.QuotaFailure with the subject `project:123` or
 * `projects/123`, but was seen to send a google.rpc.ErrorInfo with a limit per project
 * (github.com/firebase/firebase-admin-go/issues/719).
 */
function namesProject({ details }: RpcStatus): boolean {
  const isSubject = details
    .flatMap(({ violations }) => listOf(violations))
    .some(({ subject }) => typeof subject === 'string' && /^projects?[:/]/i.test(subject));
  return isSubject || details.some(({ metadata }) => /\{project\}/.test(String(objectOr(metadata)['quota_unit'])));
}

function listOf(value: unknown): Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.map(objectOr) : [];
}

/**
 * If this many recipients get THIRD_PARTY_AUTH_ERROR within this time, the fault is not in single devices: the key that Google
 * has for the whole app is wrong.
 */
const MANY = 20;
const MANY_WITHIN_MS = 3_600_000;
/** The notification stays in the queue, and is tried now and then, until an operator gives Google a new key. */
const WRONG_SET_UP: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 600_000, setUp: true };

/**
 * Looks at each reply. If Google's key for APNs has expired, every iPhone gets THIRD_PARTY_AUTH_ERROR, and no Android device
 * does: no breaker may open, but the iPhones' alerts must not be given up. So once many recipients got this error, its meaning
 * changes from `rejected` to a fault in the app's settings at the provider.
 */
export function createThirdPartyWatch(): (reply: Reply, recipientId: string, nowMs: number) => Reply {
  /** For each recipient: when the recipient got the error last. The oldest time comes first. */
  const latest = new Map<string, number>();
  return (reply, recipientId, nowMs) => {
    if (reply.code !== 'THIRD_PARTY_AUTH_ERROR') return reply;
    latest.delete(recipientId);
    latest.set(recipientId, nowMs);
    for (const [oldest, at] of latest) if (at <= nowMs - MANY_WITHIN_MS || latest.size > MANY) latest.delete(oldest);
    return latest.size < MANY ? reply : { ...reply, ...WRONG_SET_UP };
  };
}
