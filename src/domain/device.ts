import { DEVICE_KINDS } from '../providers/devices.ts';
import type { Device } from './notification-types.ts';

/** By the platform. `never`: each takes the devices of its own platform alone. */
const TOKEN_OF: ReadonlyMap<string, (device: never) => string> = new Map(
  DEVICE_KINDS.map((kind) => [kind.schema.shape.platform.value, (device: never) => kind.tokenOf(device)] as const),
);

/** What its provider knows a device by: the token of APNs and FCM, the endpoint of a web push subscription. It is secret. */
export function tokenOf(device: Device): string {
  return TOKEN_OF.get(device.platform)?.(device as never) ?? '';
}

/** The fields of devices that no log line may repeat: `token`, `endpoint`, `keys`. */
export const SECRET_DEVICE_FIELDS: readonly string[] = [
  ...new Set(DEVICE_KINDS.flatMap(({ schema }) => Object.keys(schema.shape))),
].filter((field) => field !== 'platform' && field !== 'app');
