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
export function isFcmErrorCode(reason: FcmReason): boolean {
  return reason in FCM_ERROR_CODES;
}
