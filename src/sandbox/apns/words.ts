import type { ProviderWords } from '../answers/provider-words.ts';
import { APNS_REASONS, apnsRefusal, type ApnsReason } from './reasons.ts';

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
