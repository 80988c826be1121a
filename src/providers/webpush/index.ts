import type { ProviderDescriptor } from '../descriptor.ts';
import { WEBPUSH_ACCEPTED, WEBPUSH_REPLIES, WEBPUSH_STATUS_REPLIES, WEBPUSH_UNKNOWN } from './answers.ts';
import { webpushSettings } from './config.ts';
import { webpushDevice } from './device.ts';
import { createWebpushProvider, type WebpushOptions } from './webpush.ts';

export const WEBPUSH: ProviderDescriptor<'webpush', WebpushOptions> = {
  platform: 'webpush',
  name: 'web push',
  device: webpushDevice,
  settings: webpushSettings,
  create: createWebpushProvider,
  answers: {
    accepted: WEBPUSH_ACCEPTED,
    words: WEBPUSH_REPLIES,
    statuses: WEBPUSH_STATUS_REPLIES,
    unknown: WEBPUSH_UNKNOWN,
    signIn: {}, // the token is made locally, so there is no sign-in that could be refused
  },
};
