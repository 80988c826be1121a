import type { Config } from '../src/config/config.ts';
import type { Platform } from '../src/domain/notification.ts';
import { createApnsProvider } from '../src/providers/apns.ts';
import { createFcmProvider } from '../src/providers/fcm.ts';
import type { Provider } from '../src/providers/provider.ts';

/** HTTP/1.1 takes one for each send under way; more sends than this wait for one that is free. */
const MAX_FCM_CONNECTIONS = 50;

/** The platforms that have credentials; the others are off. */
export function createProviders({ apns, fcm, concurrency }: Config): Map<Platform, Provider> {
  const providers = new Map<Platform, Provider>();
  if (apns) providers.set('apns', createApnsProvider(apns));
  if (fcm) {
    const { serviceAccount: credentials, ...rest } = fcm;
    const connections = Math.min(concurrency, MAX_FCM_CONNECTIONS);
    providers.set('fcm', createFcmProvider({ ...rest, credentials, connections }));
  }
  return providers;
}
