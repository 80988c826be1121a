import type { ProviderDescriptor } from '../descriptor.ts';
import { FCM_ACCEPTED, FCM_REPLIES, FCM_STATUS_REPLIES, FCM_UNKNOWN } from './answers.ts';
import { fcmSettings } from './config.ts';
import { fcmDevice } from './device.ts';
import { createFcmProvider, type FcmOptions } from './fcm.ts';
import { SIGN_IN_REPLIES } from './sign-in.ts';

export const FCM: ProviderDescriptor<'fcm', FcmOptions> = {
  platform: 'fcm',
  name: 'FCM',
  device: fcmDevice,
  settings: fcmSettings,
  create: createFcmProvider,
  answers: {
    accepted: FCM_ACCEPTED,
    words: FCM_REPLIES,
    statuses: FCM_STATUS_REPLIES,
    unknown: FCM_UNKNOWN,
    signIn: SIGN_IN_REPLIES,
  },
};
