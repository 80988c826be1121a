import { redact } from '../../domain/redact.ts';
import type { Push, Reply } from '../provider.ts';
import {
  asRecord,
  findRow,
  jsonObject,
  rowReply,
  statusRow,
  transportReply,
  type ReplyRow,
  type ReplyTable,
} from '../replies.ts';
import type { Answered } from '../sender/result.ts';

/** About this device. Many in a row, for many recipients, mean the wrong project or the wrong app. */
const WRONG_SENDER: ReplyRow = { meaning: 'bad-token', alerted: 'no', suspect: 'configuration' };
const BAD_TOKEN: ReplyRow = { meaning: 'bad-token', alerted: 'no', suspect: 'configuration' };
const REJECTED: ReplyRow = { meaning: 'rejected', alerted: 'no' };
const AUTH: ReplyRow = { meaning: 'later', alerted: 'no', trouble: 'auth' };
/** For a code that is new: one answer about one device is no proof for all. */
const FORBIDDEN: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000, suspect: 'configuration' };
const CONFIGURATION: ReplyRow = { meaning: 'later', alerted: 'no', trouble: 'configuration' };
/** This device's quota. FCM's documentation asks to wait a minute if the answer names no time. */
const DEVICE_QUOTA: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000, suspect: 'quota' };
const PROJECT_QUOTA: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000, trouble: 'quota' };
/** FCM's documentation asks to wait at least ten seconds. `maybe`: messages answered with 503 have been seen to arrive. */
const SERVER_ERROR: ReplyRow = { meaning: 'later', alerted: 'maybe', retryAfterMs: 10_000, suspect: 'outage' };

/** INVALID_ARGUMENT whose details name the token, or whose message does. */
const INVALID_TOKEN = 'INVALID_ARGUMENT (message.token)';
/** QUOTA_EXCEEDED or RESOURCE_EXHAUSTED whose details name the project. */
const QUOTA_OF_PROJECT = 'QUOTA_EXCEEDED (project)';

/**
 * What each of FCM's codes means here: `errorCode` of its FcmError (firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode),
 * or google.rpc.Code if Google's front end answers instead of FCM.
 */
export const FCM_REPLIES: ReplyTable = {
  UNREGISTERED: { meaning: 'gone', alerted: 'no' },
  SENDER_ID_MISMATCH: WRONG_SENDER,
  [INVALID_TOKEN]: BAD_TOKEN,
  INVALID_ARGUMENT: REJECTED,
  /** Without an FcmError this is about the URL: the project does not exist. */
  NOT_FOUND: CONFIGURATION,
  /** Google lacks the APNs key or the web push key of this device's app. Other devices are not affected. For many: below. */
  THIRD_PARTY_AUTH_ERROR: REJECTED,
  UNAUTHENTICATED: AUTH,
  PERMISSION_DENIED: AUTH,
  QUOTA_EXCEEDED: DEVICE_QUOTA,
  [QUOTA_OF_PROJECT]: PROJECT_QUOTA,
  RESOURCE_EXHAUSTED: DEVICE_QUOTA,
  INTERNAL: SERVER_ERROR,
  UNAVAILABLE: SERVER_ERROR,
  DEADLINE_EXCEEDED: SERVER_ERROR,
  UNSPECIFIED_ERROR: SERVER_ERROR,
};

/** For codes that are not in the table, and for answers that are not FCM's. */
export const FCM_STATUS_REPLIES: ReplyTable = {
  400: REJECTED,
  401: FORBIDDEN,
  403: FORBIDDEN,
  404: FORBIDDEN,
  413: REJECTED,
  429: DEVICE_QUOTA,
  500: SERVER_ERROR,
  502: SERVER_ERROR,
  503: SERVER_ERROR,
  504: SERVER_ERROR,
};

/** For an unknown status without a known code: it may have alerted. */
export const FCM_UNKNOWN: ReplyRow = SERVER_ERROR;

export const FCM_ACCEPTED: Reply = { meaning: 'accepted', code: '200', alerted: 'yes' };

/** So many different recipients within this time are no odd devices: the key that Google has for all of them is wrong. */
const MANY = 20;
const MANY_WITHIN_MS = 3_600_000;
/** Kept, and tried again now and then, until somebody gives Google a new key. */
const WRONG_SET_UP: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 600_000, setUp: true };

/**
 * An APNs key that has expired at Google fails every iPhone, and no Android device: so no breaker may open, but the iPhones'
 * alerts must not be given up. Looks at each reply; takes those of THIRD_PARTY_AUTH_ERROR for the set-up's fault once many different
 * recipients got it.
 */
export function createThirdPartyWatch(): (reply: Reply, recipientId: string, nowMs: number) => Reply {
  /** Recipient → its last one. The first ones are the oldest. */
  const latest = new Map<string, number>();
  return (reply, recipientId, nowMs) => {
    if (reply.code !== 'THIRD_PARTY_AUTH_ERROR') return reply;
    latest.delete(recipientId);
    latest.set(recipientId, nowMs);
    for (const [oldest, at] of latest) if (at <= nowMs - MANY_WITHIN_MS || latest.size > MANY) latest.delete(oldest);
    return latest.size < MANY ? reply : { ...reply, ...WRONG_SET_UP };
  };
}

/** Google's error (google.rpc.Status); all fields undefined or empty if the body is not Google's. */
interface RpcStatus {
  readonly status: unknown;
  readonly message: unknown;
  readonly details: readonly Readonly<Record<string, unknown>>[];
}

/** An answer of FCM → one Reply. `nowMs`: epoch milliseconds, for a Retry-After that is a date. */
export function readFcmAnswer(answer: Answered, { notification }: Pick<Push, 'notification'>, nowMs: number): Reply {
  const { status, body } = answer;
  const json = jsonObject(body);
  if (status === 200 && typeof json['name'] === 'string') return FCM_ACCEPTED;
  const rpc = rpcStatus(json);
  const words = [...rpc.details.map(({ errorCode }) => errorCode), rpc.status];
  const word = words.find((candidate) => typeof candidate === 'string');
  if (word === undefined && status < 300) return transportReply('unreadable');
  const row = findRow(FCM_REPLIES, [rowKey(word, rpc)]) ?? statusRow(FCM_STATUS_REPLIES, status, FCM_UNKNOWN);
  return {
    ...rowReply(row, answer, word, { table: FCM_REPLIES, notification, nowMs }),
    ...(typeof rpc.message === 'string' ? { detail: redact(rpc.message, notification) } : {}),
  };
}

function rowKey(word: string | undefined, rpc: RpcStatus): string | undefined {
  if (word === 'INVALID_ARGUMENT' && namesToken(rpc)) return INVALID_TOKEN;
  const isQuota = word === 'QUOTA_EXCEEDED' || word === 'RESOURCE_EXHAUSTED';
  return isQuota && namesProject(rpc) ? QUOTA_OF_PROJECT : word;
}

function rpcStatus(json: Readonly<Record<string, unknown>>): RpcStatus {
  const error = asRecord(json['error']);
  const details: unknown[] = Array.isArray(error['details']) ? error['details'] : [];
  return { status: error['status'], message: error['message'], details: details.map(asRecord) };
}

function namesToken({ details, message }: RpcStatus): boolean {
  const violations = details.flatMap(({ fieldViolations }) => listOf(fieldViolations));
  if (violations.length > 0) return violations.some(({ field }) => field === 'message.token');
  return typeof message === 'string' && /registration token/i.test(message);
}

/**
 * Whether it is the quota of the whole project. By its documentation FCM sends a google.rpc.QuotaFailure with the subject
 * `project:123` or `projects/123`; it was seen to send a google.rpc.ErrorInfo with a limit per project
 * (github.com/firebase/firebase-admin-go/issues/719).
 */
function namesProject({ details }: RpcStatus): boolean {
  const isSubject = details
    .flatMap(({ violations }) => listOf(violations))
    .some(({ subject }) => typeof subject === 'string' && /^projects?[:/]/i.test(subject));
  return isSubject || details.some(({ metadata }) => /\{project\}/.test(String(asRecord(metadata)['quota_unit'])));
}

function listOf(value: unknown): Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.map(asRecord) : [];
}
