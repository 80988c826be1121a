import { errorChain } from '../domain/error-chain.ts';
import { redact } from '../domain/redact.ts';
import type { Push, Reply } from './provider.ts';
import { findRow, wordOf } from './reply-row.ts';
import type { ReplyRow, ReplyTable } from './reply-row.ts';
import { causes, parseRetryAfter, transportCode, transportReply } from './transport-replies.ts';

const BAD_TOKEN: ReplyRow = { meaning: 'bad-token', alerted: 'no' };
const REJECTED: ReplyRow = { meaning: 'rejected', alerted: 'no' };
const AUTH: ReplyRow = { meaning: 'auth', alerted: 'no', trouble: 'auth' };
/** The quota is the project's; a minute is what FCM's documentation asks for where it names no time. */
const QUOTA: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000, trouble: 'quota' };
/** Ten seconds is the least that FCM's documentation asks for; messages have arrived that were answered with 503. */
const SERVER_ERROR: ReplyRow = { meaning: 'later', alerted: 'maybe', retryAfterMs: 10_000, trouble: 'outage' };

/** INVALID_ARGUMENT whose details name the token, or whose message does. */
const INVALID_TOKEN = 'INVALID_ARGUMENT (message.token)';

/**
 * What FCM's words mean for us: `errorCode` of its FcmError (firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode),
 * and google.rpc.Code where Google's front end answers in its place.
 */
export const FCM_REPLIES: ReplyTable = {
  UNREGISTERED: { meaning: 'gone', alerted: 'no' },
  SENDER_ID_MISMATCH: BAD_TOKEN,
  [INVALID_TOKEN]: BAD_TOKEN,
  INVALID_ARGUMENT: REJECTED,
  /** Without an FcmError, this is about the address: a project that does not exist. No reason to drop a token. */
  NOT_FOUND: REJECTED,
  THIRD_PARTY_AUTH_ERROR: AUTH,
  UNAUTHENTICATED: AUTH,
  PERMISSION_DENIED: AUTH,
  QUOTA_EXCEEDED: QUOTA,
  RESOURCE_EXHAUSTED: QUOTA,
  INTERNAL: SERVER_ERROR,
  UNAVAILABLE: SERVER_ERROR,
  DEADLINE_EXCEEDED: SERVER_ERROR,
  UNSPECIFIED_ERROR: SERVER_ERROR,
};

/** For words that are new, and for answers that are not FCM's. */
export const FCM_STATUS_REPLIES: ReplyTable = {
  400: REJECTED,
  401: AUTH,
  403: AUTH,
  404: REJECTED,
  413: REJECTED,
  429: QUOTA,
  500: SERVER_ERROR,
  502: SERVER_ERROR,
  503: SERVER_ERROR,
  504: SERVER_ERROR,
};

/** For an answer of which nothing is known: it may have alerted. */
export const FCM_UNKNOWN: ReplyRow = SERVER_ERROR;

/** Before FCM is asked, Google is, for an access token. */
export const SIGN_IN_REPLIES = {
  'sign-in-refused': AUTH,
  'sign-in-unreachable': { meaning: 'later', alerted: 'no', retryAfterMs: 10_000, unreached: true, trouble: 'outage' },
} as const satisfies ReplyTable;

export const FCM_ACCEPTED: Reply = { meaning: 'accepted', code: '200', alerted: 'yes' };

type Addressed = Pick<Push, 'notification' | 'device'>;

export interface FcmFailureContext {
  readonly push: Addressed;
  readonly mayHaveArrived: boolean;
  /** Epoch milliseconds, for a Retry-After that is a date. */
  readonly nowMs: number;
}

/** The parts of firebase-admin's errors, and of Google's answers, that are looked at. */
interface FcmError {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly httpResponse?: {
    readonly status: number;
    readonly headers: Readonly<Record<string, unknown>>;
    readonly data?: unknown;
  };
}
interface RpcStatus {
  readonly status: unknown;
  readonly message: unknown;
  readonly details: readonly Readonly<Record<string, unknown>>[];
}

/** Anything that firebase-admin throws → one Reply. */
export function fcmReply(error: unknown, { push, mayHaveArrived, nowMs }: FcmFailureContext): Reply {
  const failure = (error ?? {}) as FcmError;
  if (failure.httpResponse !== undefined) return answeredReply(failure.httpResponse, push, nowMs);
  if (failure.code === 'app/invalid-credential') return signInReply(error, push);
  if (failure.code === 'app/app-deleted') return transportReply('closed');
  // Refused by firebase-admin itself: a message that it holds to be malformed.
  if (typeof failure.code === 'string' && failure.code.startsWith('messaging/')) {
    return { ...REJECTED, code: failure.code, ...detailOf(failure.message, push) };
  }
  const { detail } = detailOf(errorChain(error), push);
  return transportReply(transportCode(error, mayHaveArrived), detail);
}

function answeredReply(
  { status, headers, data }: NonNullable<FcmError['httpResponse']>,
  push: Addressed,
  nowMs: number,
): Reply {
  const rpc = rpcStatus(data);
  const words = [...rpc.details.map((detail) => detail['errorCode']), rpc.status];
  const word = words.find((candidate) => typeof candidate === 'string');
  if (word === undefined && status < 300) return transportReply('unreadable');
  const key = word === 'INVALID_ARGUMENT' && namesToken(rpc) ? INVALID_TOKEN : word;
  const row = findRow(FCM_REPLIES, [key]) ?? findRow(FCM_STATUS_REPLIES, [status]) ?? FCM_UNKNOWN;
  const retryAfterMs = row.meaning === 'later' ? parseRetryAfter(headers['retry-after'], nowMs) : undefined;
  return {
    ...row,
    code: word === undefined ? `http-${status}` : wordOf(FCM_REPLIES, word, push.notification),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...detailOf(rpc.message, push),
  };
}

/** Google's error, or an empty one where the body is somebody else's. */
function rpcStatus(data: unknown): RpcStatus {
  const error = asRecord(asRecord(data)['error']);
  const details: unknown[] = Array.isArray(error['details']) ? error['details'] : [];
  return { status: error['status'], message: error['message'], details: details.map(asRecord) };
}

function namesToken({ details, message }: RpcStatus): boolean {
  const violations = details.flatMap(({ ['fieldViolations']: found }): unknown[] =>
    Array.isArray(found) ? found : [],
  );
  if (violations.length > 0) return violations.some((violation) => asRecord(violation)['field'] === 'message.token');
  return typeof message === 'string' && /registration token/i.test(message);
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/** Google answered and said no, or it could not be asked. */
function signInReply(error: unknown, push: Addressed): Reply {
  const chain = causes(error) as readonly {
    readonly response?: { readonly status?: unknown };
    readonly code?: unknown;
  }[];
  const status = chain.map(({ response }) => response?.status).find((value) => typeof value === 'number');
  const isUnreachable =
    status === undefined ? chain.some(({ code }) => isNetworkCode(code)) : status >= 500 || status === 429;
  const code = isUnreachable ? 'sign-in-unreachable' : 'sign-in-refused';
  return { ...SIGN_IN_REPLIES[code], code, ...detailOf(errorChain(error), push) };
}

function isNetworkCode(code: unknown): boolean {
  return typeof code === 'string' && /^(E[A-Z_]+|ERR_(TLS|SSL|SOCKET)_.*|UND_ERR_.*)$/.test(code);
}

function detailOf(message: unknown, push: Addressed): { readonly detail?: string } {
  return typeof message === 'string' ? { detail: redact(message, push.notification) } : {};
}
