import type { ProviderWords } from '../answers/provider-words.ts';
import { WEBPUSH_REASONS, webpushRefusal, type WebpushReason } from './reasons.ts';

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
