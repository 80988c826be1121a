import type { Platform } from '../domain/notification.ts';
import { APNS_SERVER } from './apns/index.ts';
import { FCM_SERVER } from './fcm/index.ts';
import { WEBPUSH_SERVER } from './webpush/index.ts';

/** One for every provider: a platform without a server does not compile. */
export const SERVER_KINDS = {
  apns: APNS_SERVER,
  fcm: FCM_SERVER,
  webpush: WEBPUSH_SERVER,
} satisfies Readonly<Record<Platform, unknown>>;

/** The server of each platform. */
export type Servers = { readonly [P in Platform]: ReturnType<(typeof SERVER_KINDS)[P]['create']> };
