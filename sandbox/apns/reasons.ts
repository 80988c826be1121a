import type { Refuse, ProviderWords } from '../loopback/answers.ts';
import type { Wording } from '../loopback/exchange.ts';

/**
 * APNs' reasons for a refusal of a push, with the HTTP status of each
 * (developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns, and for a push to a channel
 * …/handling-error-responses-from-apns). Two are not on these pages, but APNs was seen to answer them: `BroadcastFeatureNotEnabled`
 * in place of `FeatureNotEnabled`, and `BadEnvironmentKeyInToken` in place of `BadEnvironmentKeyIdInToken`.
 */
export const APNS_REASONS = {
  BadChannelId: 400,
  BadCollapseId: 400,
  BadDeviceToken: 400,
  BadExpirationDate: 400,
  BadMessageId: 400,
  BadPriority: 400,
  BadTopic: 400,
  BroadcastFeatureNotEnabled: 400,
  ChannelNotRegistered: 400,
  DeviceTokenNotForTopic: 400,
  DuplicateHeaders: 400,
  FeatureNotEnabled: 400,
  IdleTimeout: 400,
  InvalidPushType: 400,
  MissingChannelId: 400,
  MissingDeviceToken: 400,
  MissingPushType: 400,
  MissingTopic: 400,
  PayloadEmpty: 400,
  TopicDisallowed: 400,
  BadCertificate: 403,
  BadCertificateEnvironment: 403,
  BadEnvironmentKeyIdInToken: 403,
  BadEnvironmentKeyInToken: 403,
  ExpiredProviderToken: 403,
  Forbidden: 403,
  InvalidProviderToken: 403,
  MissingProviderToken: 403,
  TopicMismatch: 403,
  UnrelatedKeyIdInToken: 403,
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

/** The reasons that are about the token alone. FCM passes them on for the token that an iPhone has at APNs. */
export const TOKEN_REASONS = ['Unregistered', 'ExpiredToken', 'BadDeviceToken', 'DeviceTokenNotForTopic'] as const;

/** The reasons for a refusal in the management of channels (…/handling-error-responses-from-apns). */
export const CHANNEL_REASONS = {
  ...APNS_REASONS,
  BadRequestParams: 400,
  BadRequestPayload: 400,
  CannotCreateChannelConfig: 400,
} as const;
export type ChannelReason = keyof typeof CHANNEL_REASONS;

/** The answer that goes with a reason. */
export function apnsRefusal(reason: ApnsReason): Refuse {
  return { kind: 'refuse', status: APNS_REASONS[reason], reason };
}

/**
 * Answers as APNs words them: the id of the request on each, and `{reason, timestamp?}` in the body of a refusal.
 *
 * @param name the header of the id
 */
export function apnsWording(id: string, name: 'apns-id' | 'apns-request-id'): Wording {
  return {
    accepted: ({ body = '' }) => ({ headers: { [name]: id }, text: body }),
    refused: (answer) => ({
      headers: {
        [name]: id,
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
  refusal: (reason, _invalid, nowMs) => {
    const refusal = apnsRefusal(reason as ApnsReason);
    return refusal.status === 410 ? { ...refusal, timestamp: nowMs } : refusal;
  },
};
