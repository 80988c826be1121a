import type { Platform } from '../notification/notification.ts';
import { APNS } from './apns/index.ts';
import type { ProviderDescriptor } from './provider.ts';
import { FCM } from './fcm/index.ts';
import { WEBPUSH } from './webpush/index.ts';

/** Every provider, by its platform. All code that goes through all providers uses this list. */
const DESCRIPTORS = {
  apns: APNS,
  fcm: FCM,
  webpush: WEBPUSH,
} satisfies Readonly<Record<Platform, object>>;

/** The options of a platform's provider. */
export type OptionsOf<P extends Platform> = Parameters<(typeof DESCRIPTORS)[P]['create']>[0];

export const PROVIDERS: { readonly [P in Platform]: ProviderDescriptor<P, OptionsOf<P>> } = DESCRIPTORS;
