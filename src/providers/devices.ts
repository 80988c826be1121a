import { apnsDevice } from './apns/device.ts';
import { fcmDevice } from './fcm/device.ts';

/**
 * The devices that a notification may name, one kind for each provider: the first line of a new provider; the second one is
 * in registry.ts, which does not compile without it. Apart from there, because producers read notifications and should not
 * load the clients of every provider.
 */
export const DEVICE_KINDS = [apnsDevice, fcmDevice] as const;
