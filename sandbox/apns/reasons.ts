import type { Refuse, ProviderWords } from '../loopback/answers.ts';
import type { Wording } from '../loopback/exchange.ts';

/**
 * APNs' reasons for a refusal, with the HTTP status of each
 * (developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
 */
export const APNS_REASONS = {
  BadCollapseId: 400,
  BadDeviceToken: 400,
  BadExpirationDate: 400,
  BadMessageId: 400,
  BadPriority: 400,
  BadTopic: 400,
  DeviceTokenNotForTopic: 400,
  DuplicateHeaders: 400,
  IdleTimeout: 400,
  InvalidPushType: 400,
  MissingDeviceToken: 400,
  MissingTopic: 400,
  PayloadEmpty: 400,
  TopicDisallowed: 400,
  BadCertificate: 403,
  BadCertificateEnvironment: 403,
  ExpiredProviderToken: 403,
  Forbidden: 403,
  InvalidProviderToken: 403,
  MissingProviderToken: 403,
  BadPath: 404,
  MethodNotAllowed: 405,
  ExpiredToken: 410,
  Unregistered: 410,
  PayloadTooLarge: 413,
  TooManyProviderTokenUpdates: 429,
  TooManyRequests: 429,
  InternalServerError: 500,
  ServiceUnavailable: 503,
  Shutdown: 503,
} as const;
/** A word of APNs for a refusal: `Unregistered`, `BadDeviceToken`, … */
export type ApnsReason = keyof typeof APNS_REASONS;

/** The answer that goes with a reason. */
export function apnsRefusal(reason: ApnsReason): Refuse {
  return { kind: 'refuse', status: APNS_REASONS[reason], reason };
}

/** Answers as APNs words them: `apns-id` on each, and `{reason, timestamp?}` in the body of a refusal. */
export function apnsWording(apnsId: string): Wording {
  return {
    accepted: ({ body = '' }) => ({ headers: { 'apns-id': apnsId }, text: body }),
    refused: (answer) => ({
      headers: {
        'apns-id': apnsId,
        ...(answer.retryAfter === undefined ? {} : { 'retry-after': answer.retryAfter }),
      },
      text: refusalBody(answer),
    }),
  };
}

function refusalBody({ reason, timestamp, emptyBody, body }: Refuse): string {
  return body ?? (emptyBody === true ? '' : JSON.stringify({ reason, timestamp }));
}

const usual: Readonly<Record<number, ApnsReason>> = {
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

export const APNS_WORDS: ProviderWords = {
  name: 'APNs',
  reasons: APNS_REASONS,
  usual,
  refusal: (reason, _field, nowMs) => {
    const refusal = apnsRefusal(reason as ApnsReason);
    return refusal.status === 410 ? { ...refusal, timestamp: nowMs } : refusal;
  },
};
