import type { Config } from '../src/config/config.ts';
import type { Platform } from '../src/domain/notification.ts';
import { createApnsProvider } from '../src/providers/apns.ts';
import { createFcmProvider } from '../src/providers/fcm.ts';
import type { Provider } from '../src/providers/provider.ts';

/** The platforms that have credentials; the others are off. */
export function createProviders({ apns, fcm }: Config): Map<Platform, Provider> {
  const providers = new Map<Platform, Provider>();
  if (apns) providers.set('apns', createApnsProvider(apns));
  if (fcm) providers.set('fcm', createFcmProvider(fcm));
  return providers;
}
