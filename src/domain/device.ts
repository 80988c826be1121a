import { DEVICE_KINDS } from '../providers/devices.ts';
import { accountOf, serviceOf, type Service } from './account.ts';
import { isObject } from './json.ts';
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

/** For which devices a notification is, in few words: for the log, the metrics and the stream of outcomes. */
export interface Target {
  /** The platforms of its devices, in the order of the alphabet: `fcm`, `apns,fcm`. Absent if no device can be read. */
  readonly platform?: string;
  /** The app of APPS_FILE that they belong to, or `SEVERAL_APPS`. Absent for the app of the environment. */
  readonly app?: string;
}

/** The value of `app` if the devices belong to more than one app. No app's name has a space. */
export const SEVERAL_APPS = 'several apps';
/** A notification has at most 20 devices; what is invalid may list more. */
const MOST_DEVICES = 20;
const LONGEST_APP = 64;

/** The target of a notification, or of what a job has in place of one: anything that was enqueued. */
export function targetOf(data: unknown): Target {
  const listed = isObject(data) ? data['devices'] : undefined;
  const devices = (Array.isArray(listed) ? listed.slice(0, MOST_DEVICES) : []).filter(isOfPlatform);
  const [first] = devices;
  if (first === undefined) return {};
  const platforms = new Set(devices.map(({ platform }) => platform));
  const apps = new Set(devices.map(appOf));
  const app = apps.size > 1 ? SEVERAL_APPS : appOf(first);
  return { platform: [...platforms].toSorted().join(), ...(app !== undefined && { app }) };
}

function isOfPlatform(device: unknown): device is { readonly platform: string; readonly app?: unknown } {
  return isObject(device) && typeof device['platform'] === 'string' && READERS.has(device['platform']);
}

function appOf({ app }: { readonly app?: unknown }): string | undefined {
  return typeof app === 'string' ? app.slice(0, LONGEST_APP) : undefined;
}

/** The fields of devices that no log line may repeat: `token`, `endpoint`, `keys`. */
export const SECRET_DEVICE_FIELDS: readonly string[] = [
  ...new Set(DEVICE_KINDS.flatMap(({ schema }) => Object.keys(schema.shape))),
].filter((field) => field !== 'platform' && field !== 'app');
