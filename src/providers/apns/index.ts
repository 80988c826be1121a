import type { ProviderDescriptor } from '../descriptor.ts';
import { APNS_ACCEPTED, APNS_REPLIES, APNS_STATUS_REPLIES, APNS_UNKNOWN } from './answers.ts';
import { createApnsProvider, type ApnsOptions } from './apns.ts';
import { apnsSettings } from './config.ts';
import { apnsDevice } from './device.ts';

export const APNS: ProviderDescriptor<'apns', ApnsOptions> = {
  platform: 'apns',
  name: 'APNs',
  device: apnsDevice,
  settings: apnsSettings,
  create: createApnsProvider,
  answers: {
    accepted: APNS_ACCEPTED,
    words: APNS_REPLIES,
    statuses: APNS_STATUS_REPLIES,
    unknown: APNS_UNKNOWN,
    signIn: {}, // the token is made locally, so there is no sign-in that could be refused
  },
};
