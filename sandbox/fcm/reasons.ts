import { APNS_REASONS, type ApnsReason } from '../apns/reasons.ts';
import type { FieldViolation, Invalid, Refuse, ProviderWords } from '../loopback/answers.ts';
import type { Wording } from '../loopback/exchange.ts';

/**
 * FCM's words for a refusal, with the HTTP status of each: the `errorCode` of its FcmError
 * (firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode).
 */
const FCM_ERROR_CODES = {
  INVALID_ARGUMENT: 400,
  THIRD_PARTY_AUTH_ERROR: 401,
  SENDER_ID_MISMATCH: 403,
  UNREGISTERED: 404,
  QUOTA_EXCEEDED: 429,
  INTERNAL: 500,
  UNAVAILABLE: 503,
} as const;

/** The words of Google's front end, which refuses a request before FCM sees it: then there is no FcmError (google.rpc.Code). */
const FRONT_END_CODES = {
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  RESOURCE_EXHAUSTED: 429,
  DEADLINE_EXCEEDED: 504,
} as const;

export const FCM_REASONS = { ...FCM_ERROR_CODES, ...FRONT_END_CODES } as const;
/** A word of FCM for a refusal: `UNREGISTERED`, `QUOTA_EXCEEDED`, … */
export type FcmReason = keyof typeof FCM_REASONS;

/** Whether it is in an FcmError; the other words are only the `status` of Google's error. */
function isFcmErrorCode(reason: FcmReason): boolean {
  return reason in FCM_ERROR_CODES;
}

/** Google's code (google.rpc.Code) and message for each HTTP status. */
const STATUS: Readonly<Record<number, readonly [status: string, message: string]>> = {
  400: ['INVALID_ARGUMENT', 'Request contains an invalid argument.'],
  401: ['UNAUTHENTICATED', 'Request had invalid authentication credentials. Expected OAuth 2 access token.'],
  403: ['PERMISSION_DENIED', 'The caller does not have permission'],
  404: ['NOT_FOUND', 'Requested entity was not found.'],
  429: ['RESOURCE_EXHAUSTED', 'Quota exceeded.'],
  500: ['INTERNAL', 'Internal error encountered.'],
  503: ['UNAVAILABLE', 'The service is currently unavailable.'],
  504: ['DEADLINE_EXCEEDED', 'Deadline expired before operation could complete.'],
};

/** The body of a refusal: a `google.rpc.Status`, with an `FcmError` if FCM itself refuses. */
function fcmErrorBody(answer: Refuse, projectId: string): string {
  const { status, reason, message, violations, apns } = answer;
  const quota = quotaWords(answer, projectId);
  const [word, sentence] = STATUS[status] ?? ['UNKNOWN', 'Unknown error.'];
  const details = [
    ...(reason === undefined
      ? []
      : [{ '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode: reason }]),
    ...(violations === undefined
      ? []
      : [{ '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations: violations }]),
    ...(apns === undefined ? [] : [{ '@type': 'type.googleapis.com/google.firebase.fcm.v1.ApnsError', ...apns }]),
    ...quota.details,
  ];
  const error = { code: status, message: message ?? quota.message ?? sentence, status: word };
  return JSON.stringify({ error: details.length === 0 ? error : { ...error, details } }, null, 2);
}

/** The word of a refusal: FCM's own, else that of Google's front end; undefined where the answer has no body of Google's. */
export function fcmReason({ status, reason, emptyBody, body }: Refuse): string | undefined {
  if (emptyBody === true || body !== undefined) return undefined;
  return reason ?? STATUS[status]?.[0];
}

/** For a request that is no message: Google's front end refuses it before FCM sees it, so there is no `FcmError`. */
export function malformed(violations: readonly FieldViolation[]): Refuse {
  const [first] = violations;
  if (!first) return { kind: 'refuse', status: 400, message: 'Invalid JSON payload received.' };
  return { kind: 'refuse', status: 400, message: first.description, violations };
}

/** FCM's refusal of a message with an invalid field. */
export function invalidArgument(message: string, field: string): Refuse {
  const violations = [{ field, description: message }];
  return { kind: 'refuse', status: 400, reason: 'INVALID_ARGUMENT', message, violations };
}

/** Answers as FCM words them: JSON, the message's name where it was accepted. */
export function fcmWording(messageName: string, projectId: string): Wording {
  return {
    accepted: ({ body = JSON.stringify({ name: messageName }, null, 2) }) => content(body, {}),
    refused: (answer) => {
      const text = answer.body ?? (answer.emptyBody === true ? '' : fcmErrorBody(answer, projectId));
      return content(text, answer.retryAfter === undefined ? {} : { 'retry-after': answer.retryAfter });
    },
  };
}

function content(text: string, more: Readonly<Record<string, string>>) {
  return {
    headers: {
      'content-type': 'application/json; charset=UTF-8',
      'content-length': String(Buffer.byteLength(text)),
      ...more,
    },
    text,
  };
}

/** The part of a refusal's body that is about the exceeded quota. */
interface QuotaWords {
  /** The message for a person. Absent: FCM's general one. */
  readonly message?: string;
  /** Entries of the error's `details`. */
  readonly details: readonly object[];
}

/**
 * FCM's words for the quota that a refusal names.
 *
 * The names of the quotas are those of firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode ("Device message rate
 * exceeded", "Message rate exceeded"), which promises a `google.rpc.QuotaFailure` with `QUOTA_EXCEEDED`. The subject
 * `project:<id>` is the one of google/rpc/error_details.proto. No real answer for a device was found published: its
 * subject is an assumption.
 *
 * A project's quota is also kept by Google's front end, before FCM sees the message: no `FcmError` then and no
 * `QuotaFailure`, but an `ErrorInfo`. Its sentence and its fields are those of a real answer that a user
 * published at github.com/firebase/firebase-admin-go (number 719). A refusal without a `reason` is that one.
 */
function quotaWords({ quota, reason }: Pick<Refuse, 'quota' | 'reason'>, projectId: string): QuotaWords {
  if (quota === undefined) return { details: [] };
  if (quota === 'device') return { details: [quotaFailure('device', 'Device message rate exceeded')] };
  if (reason !== undefined) return { details: [quotaFailure(`project:${projectId}`, 'Message rate exceeded')] };
  return {
    message:
      "Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute' of service " +
      `'fcm.googleapis.com' for consumer 'project_number:${PROJECT_NUMBER}'.`,
    details: [ERROR_INFO, HELP],
  };
}

function quotaFailure(subject: string, description: string): object {
  return { '@type': 'type.googleapis.com/google.rpc.QuotaFailure', violations: [{ subject, description }] };
}

const PROJECT_NUMBER = '100000000001';
const ERROR_INFO = {
  '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
  reason: 'RATE_LIMIT_EXCEEDED',
  domain: 'googleapis.com',
  metadata: {
    quota_limit_value: '600000',
    consumer: `projects/${PROJECT_NUMBER}`,
    quota_metric: 'fcm.googleapis.com/send_requests',
    quota_unit: '1/min/{project}',
    service: 'fcm.googleapis.com',
    quota_location: 'global',
    quota_limit: 'SendsPerMinutePerProject',
  },
};
const HELP = {
  '@type': 'type.googleapis.com/google.rpc.Help',
  links: [
    {
      description: 'Request a higher quota limit.',
      url: 'https://cloud.google.com/docs/quotas/help/request_increase',
    },
  ],
};

const usual: Readonly<Record<number, FcmReason>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'SENDER_ID_MISMATCH',
  404: 'UNREGISTERED',
  429: 'QUOTA_EXCEEDED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
};

export const FCM_WORDS: ProviderWords = {
  name: 'FCM',
  reasons: FCM_REASONS,
  usual,
  refusal: (reason, invalid) => fcmRefusal(reason as FcmReason, invalid),
};

function fcmRefusal(reason: FcmReason, { field, apns }: Invalid): Refuse {
  const status = FCM_REASONS[reason];
  if (apns !== undefined) return ofApns(apns as ApnsReason);
  if (reason === 'INVALID_ARGUMENT' && field !== undefined) return invalidArgument(MESSAGES[field] ?? INVALID, field);
  if (reason === 'QUOTA_EXCEEDED') return { kind: 'refuse', status, reason, quota: 'device' };
  if (reason === 'RESOURCE_EXHAUSTED') return { kind: 'refuse', status, quota: 'project' };
  return isFcmErrorCode(reason) ? { kind: 'refuse', status, reason } : { kind: 'refuse', status };
}

/** FCM was seen to answer this sentence for a token that is gone at APNs. */
const GONE_AT_APNS = 'APNs device token is disabled.';

/** FCM's refusal where APNs refused the token. For other reasons no sentence was found published: it is an assumption. */
function ofApns(reason: ApnsReason): Refuse {
  const statusCode = APNS_REASONS[reason];
  const message = statusCode === 410 ? GONE_AT_APNS : INVALID;
  return { kind: 'refuse', status: 400, reason: 'INVALID_ARGUMENT', message, apns: { statusCode, reason } };
}

const INVALID = 'Request contains an invalid argument.';
/** No real answer to a wrong installation id was found published: the sentence is an assumption, after that for a token. */
export const INVALID_FID = 'The installation ID is not a valid Firebase installation ID';
const MESSAGES: Readonly<Record<string, string>> = {
  'message.token': 'The registration token is not a valid FCM registration token',
  'message.fid': INVALID_FID,
};
