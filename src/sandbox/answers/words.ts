import type { Platform } from '../../domain/notification.ts';
import { APNS_REASONS, apnsRefusal, type ApnsReason } from '../apns/reasons.ts';
import { invalidArgument } from '../fcm/errors.ts';
import { FCM_REASONS, isFcmErrorCode, type FcmReason } from '../fcm/reasons.ts';
import type { Refuse } from '../loopback/answers.ts';

/** A refusal as a script asks for it. */
export interface AskedRefusal {
  readonly reason?: ApnsReason | FcmReason | undefined;
  readonly status?: number | undefined;
  readonly field?: string | undefined;
}

/** What a load balancer in front of a provider answers: the status alone. */
const WITHOUT_BODY = [502, 504];

const USUAL_APNS: Readonly<Record<number, ApnsReason>> = {
  400: 'BadDeviceToken',
  403: 'InvalidProviderToken',
  404: 'BadPath',
  405: 'MethodNotAllowed',
  410: 'Unregistered',
  413: 'PayloadTooLarge',
  429: 'TooManyRequests',
  500: 'InternalServerError',
  503: 'ServiceUnavailable',
};
const USUAL_FCM: Readonly<Record<number, FcmReason>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'SENDER_ID_MISMATCH',
  404: 'UNREGISTERED',
  429: 'QUOTA_EXCEEDED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
};
const USUAL: Readonly<Record<Platform, Readonly<Record<number, string>>>> = { apns: USUAL_APNS, fcm: USUAL_FCM };

/** Every word with its status. */
export const REASONS: Readonly<Record<Platform, Readonly<Record<string, number>>>> = {
  apns: APNS_REASONS,
  fcm: FCM_REASONS,
};

/** The statuses that a script may ask of a provider without a word. */
export function statusesOf(platform: Platform): number[] {
  return [...Object.keys(USUAL[platform]).map(Number), ...WITHOUT_BODY].sort((a, b) => a - b);
}

/** The provider's answer. `nowMs`: since when APNs calls a token gone. */
export function refusalOf(platform: Platform, asked: AskedRefusal, nowMs: number): Refuse {
  const { status = 500 } = asked;
  const reason = asked.reason ?? USUAL[platform][status];
  if (reason === undefined) return { kind: 'refuse', status, emptyBody: true };
  return WORDED[platform](reason, asked.field, nowMs);
}

/** Makes the refusal with one of the platform's own words. */
type Worded = (reason: string, field: string | undefined, nowMs: number) => Refuse;

const WORDED: Readonly<Record<Platform, Worded>> = {
  apns: (reason, _field, nowMs) => apnsAnswer(reason as ApnsReason, nowMs),
  fcm: (reason, field) => fcmAnswer(reason as FcmReason, field),
};

/** APNs says since when a token is gone. */
function apnsAnswer(reason: ApnsReason, nowMs: number): Refuse {
  const refusal = apnsRefusal(reason);
  return refusal.status === 410 ? { ...refusal, timestamp: nowMs } : refusal;
}

function fcmAnswer(reason: FcmReason, field: string | undefined): Refuse {
  const status = FCM_REASONS[reason];
  if (reason === 'INVALID_ARGUMENT' && field !== undefined) return invalidArgument(MESSAGES[field] ?? INVALID, field);
  if (reason === 'QUOTA_EXCEEDED') return { kind: 'refuse', status, reason, quota: 'device' };
  if (reason === 'RESOURCE_EXHAUSTED') return { kind: 'refuse', status, quota: 'project' };
  return isFcmErrorCode(reason) ? { kind: 'refuse', status, reason } : { kind: 'refuse', status };
}

const INVALID = 'Request contains an invalid argument.';
const MESSAGES: Readonly<Record<string, string>> = {
  'message.token': 'The registration token is not a valid FCM registration token',
};
