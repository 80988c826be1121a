import { apnsDevice } from './apns/payload.ts';
import { fcmDevice } from './fcm/payload.ts';
import { webpushDevice } from './webpush/payload.ts';

/**
 * The kinds of device, one for each provider. A new provider adds a line here and one in registry.ts, which does not compile
 * without it. There are two lists because producers check notifications and should not load every provider's client.
 */
export const DEVICE_KINDS = [apnsDevice, fcmDevice, webpushDevice] as const;
