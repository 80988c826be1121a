import { DEVICE_KINDS } from '../providers/devices.ts';
import { accountOf, serviceOf, type Service } from './account.ts';
import type { Device } from './notification-types.ts';

/** By the platform. `never`: each takes the devices of its own platform alone. */
interface Reader {
  tokenOf(device: never): string;
  hostOf?(device: never): string;
}
const READERS: ReadonlyMap<string, Reader> = new Map(
  DEVICE_KINDS.map((kind) => [kind.schema.shape.platform.value, kind] as const),
);

/** What its provider knows a device by: the token of APNs and FCM, the endpoint of a web push subscription. It is secret. */
export function tokenOf(device: Device): string {
  return READERS.get(device.platform)?.tokenOf(device as never) ?? '';
}

/** What has the circuit breaker for this device: its app on its platform; for web push the app at the push service. */
export function serviceOfDevice(device: Device): Service {
  return serviceOf(accountOf(device), READERS.get(device.platform)?.hostOf?.(device as never));
}

/** The fields of devices that no log line may repeat: `token`, `endpoint`, `keys`. */
export const SECRET_DEVICE_FIELDS: readonly string[] = [
  ...new Set(DEVICE_KINDS.flatMap(({ schema }) => Object.keys(schema.shape))),
].filter((field) => field !== 'platform' && field !== 'app');
