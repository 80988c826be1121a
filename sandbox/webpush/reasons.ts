import type { Refuse, ProviderWords } from '../loopback/answers.ts';
import type { Wording } from '../loopback/exchange.ts';

/**
 * The server's words for a refusal, with the HTTP status of each. RFC 8030 has statuses alone, and each push service adds words
 * of its own: these are in Apple's format, `other-key` is Google's sentence. Apple documents some of them
 * (developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers).
 */
const WEBPUSH_REASONS = {
  BadEncryption: 400,
  BadTtl: 400,
  BadUrgency: 400,
  BadWebPushTopic: 400,
  VapidPkHashMismatch: 400,
  MissingAuthorization: 401,
  BadJwtToken: 403,
  'other-key': 403,
  UnknownSubscription: 404,
  BadMethod: 405,
  ExpiredSubscription: 410,
  BodyTooLarge: 413,
  TooManyPushes: 429,
  PushServiceError: 500,
  PushServiceUnavailable: 503,
} as const;
/** A word of the sandbox's push service for a refusal. */
export type WebpushReason = keyof typeof WEBPUSH_REASONS;

/** The answer that goes with a reason. */
export function webpushRefusal(reason: WebpushReason): Refuse {
  return { kind: 'refuse', status: WEBPUSH_REASONS[reason], reason };
}

/** Google's words for a subscription that was made with another key. */
const OTHER_KEY =
  'the VAPID credentials in the authorization header do not correspond to the credentials used to create the subscriptions.\n';

/** Answers as push services word them: 201 with the message's URL and no body; a refusal as Apple's JSON, `{reason}`. */
export function webpushWording(location: string): Wording {
  return {
    accepted: ({ body = '' }) => ({ status: 201, headers: { location }, text: body }),
    refused: (answer) => ({
      headers: {
        'content-type': answer.reason === 'other-key' ? 'text/plain; charset=utf-8' : 'application/json',
        ...(answer.retryAfter === undefined ? {} : { 'retry-after': answer.retryAfter }),
      },
      text: refusalBody(answer),
    }),
  };
}

function refusalBody({ reason, emptyBody, body }: Refuse): string {
  if (body !== undefined) return body;
  if (emptyBody === true) return '';
  return reason === 'other-key' ? OTHER_KEY : JSON.stringify({ reason });
}

const usual: Readonly<Record<number, WebpushReason>> = {
  400: 'BadWebPushTopic',
  401: 'MissingAuthorization',
  403: 'BadJwtToken',
  404: 'UnknownSubscription',
  405: 'BadMethod',
  410: 'ExpiredSubscription',
  413: 'BodyTooLarge',
  429: 'TooManyPushes',
  500: 'PushServiceError',
  503: 'PushServiceUnavailable',
};

export const WEBPUSH_WORDS: ProviderWords = {
  name: 'web push',
  reasons: WEBPUSH_REASONS,
  usual,
  refusal: (reason) => webpushRefusal(reason as WebpushReason),
};
