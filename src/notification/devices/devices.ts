import { apnsDevice } from './apns/payload.ts';
import { fcmDevice } from './fcm/payload.ts';
import { webpushDevice } from './webpush/payload.ts';

/**
 * The kinds of device, one for each provider. A new provider adds a line here and a line in registry.ts, which does not compile
 * without it. The two lists are separate, so that producers can check notifications without loading the providers' clients.
 */
export const DEVICE_KINDS = [apnsDevice, fcmDevice, webpushDevice] as const;
