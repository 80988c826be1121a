import { hash } from 'node:crypto';
import type { InvalidPart } from './devices/device-kind.ts';
import { DEVICE_KINDS } from './devices/devices.ts';
import { isObject } from '../domain/json.ts';
import type { Device, Notification, Platform } from './types.ts';

/** How to read a platform's devices. `never`: each reader takes only devices of its own platform. */
interface Reader {
  tokenOf(device: never): string;
  identityOf?(device: never): string;
  invalidOf?(device: never, meaning: 'gone' | 'bad-token'): InvalidPart;
  hostOf?(device: never): string;
  tagsOf(notification: Notification, pushId: string): readonly string[];
}
const READERS: ReadonlyMap<string, Reader> = new Map(
  DEVICE_KINDS.map((kind) => [kind.schema.shape.platform.value, kind] as const),
);

/** What a provider knows a device by: a token, an installation id or the endpoint of a web push subscription. It is secret. */
export function tokenOf(device: Device): string {
  return READERS.get(device.platform)?.tokenOf(device as never) ?? '';
}

/** The service whose breaker decides for this device: its app on its platform; for web push, its app at one push service. */
export function serviceOfDevice(device: Device): Service {
  return serviceOf(accountOf(device), READERS.get(device.platform)?.hostOf?.(device as never));
}

/** To which devices a notification goes, in short form: for the log, the metrics and the stream of outcomes. */
export interface Target {
  /** The platforms of its devices, in alphabetical order: `fcm`, `apns,fcm`. Absent if no device can be read. */
  readonly platform?: string;
  /** The app of APPS_FILE to which the devices belong, or `SEVERAL_APPS`. Absent for the app of the environment. */
  readonly app?: string;
}

/** The value of `app` if the devices belong to more than one app. No app's name has a space. */
export const SEVERAL_APPS = 'several apps';
/** A notification has at most 20 devices; an invalid one may list more. */
const MOST_DEVICES = 20;
const LONGEST_APP = 64;

/** The unchecked `devices` of any job's data. A channel counts as one device on APNs. Undefined: the data has neither. */
export function devicesIn(data: unknown): readonly unknown[] | undefined {
  if (!isObject(data)) return undefined;
  const { channel, devices } = data;
  if (Array.isArray(devices)) return devices as readonly unknown[];
  return isObject(channel) ? [{ platform: 'apns', app: channel['app'] }] : undefined;
}

/** The target of any job's data, even if it is not a valid notification. */
export function targetOf(data: unknown): Target {
  const devices = (devicesIn(data) ?? []).slice(0, MOST_DEVICES).filter(isOfPlatform);
  const [first] = devices;
  if (first === undefined) return {};
  const firstApp = appOf(first);
  const app = devices.every((device) => appOf(device) === firstApp) ? firstApp : SEVERAL_APPS;
  return { platform: platformsOf(devices), ...(app !== undefined && { app }) };
}

/** The accounts of the devices of any job's data, each once, even if it is not a valid notification. */
export function accountsIn(data: unknown): Account[] {
  const devices = (devicesIn(data) ?? []).slice(0, MOST_DEVICES).filter(isOfPlatform);
  return [...new Set(devices.map((device) => accountOf({ platform: device.platform, app: appOf(device) })))];
}

/** `apns,fcm` */
function platformsOf(devices: readonly { readonly platform: string }[]): string {
  const platforms = devices.map(({ platform }) => platform);
  if (platforms.length === 1) return platforms[0] ?? ''; // most notifications have one device
  return [...new Set(platforms)].toSorted().join();
}

function isOfPlatform(device: unknown): device is { readonly platform: Platform; readonly app?: unknown } {
  return isObject(device) && typeof device['platform'] === 'string' && READERS.has(device['platform']);
}

function appOf({ app }: { readonly app?: unknown }): string | undefined {
  return typeof app === 'string' ? app.slice(0, LONGEST_APP) : undefined;
}

/** The part of a device that an answer with this meaning calls invalid: mostly the token. */
export function invalidOf(device: Device, meaning: 'gone' | 'bad-token'): InvalidPart {
  return READERS.get(device.platform)?.invalidOf?.(device as never, meaning) ?? { token: tokenOf(device) };
}

/** Whether two entries of `devices` are one device. */
export function isSameDevice(a: Device, b: Device): boolean {
  return accountOf(a) === accountOf(b) && identityOf(a) === identityOf(b);
}

function identityOf(device: Device): string {
  return READERS.get(device.platform)?.identityOf?.(device as never) ?? tokenOf(device);
}

/** The fields of devices that no log line may repeat: `token`, `fid`, `liveActivityToken`, `endpoint`, `keys`. */
export const SECRET_DEVICE_FIELDS: readonly string[] = [
  ...new Set(DEVICE_KINDS.flatMap(({ schema }) => Object.keys(schema.shape))),
].filter((field) => field !== 'platform' && field !== 'app');

/**
 * An app on a platform: it has its own credentials, quota and circuit breakers. `apns` is the app of the environment,
 * `apns~teacher` another app. An account is a part of Redis keys. Neither a platform nor an app's name contains a `~`.
 */
export type Account = Platform | `${Platform}~${string}`;

/** @param app undefined: the app of the environment */
export function accountOf({ platform, app }: { platform: Platform; app?: string | undefined }): Account {
  return app === undefined ? platform : `${platform}~${app}`;
}

/**
 * A service has its own circuit breaker. It is an account; for web push, where devices name their servers, it is one server of
 * an account: `webpush@fcm.googleapis.com`. Neither an account nor a host contains an `@`.
 */
export type Service = Account | `${Account}@${string}`;

/** @param host undefined on a platform with one server */
export function serviceOf(account: Account, host: string | undefined): Service {
  return host === undefined ? account : `${account}@${host}`;
}

/**
 * `apns` → `{ platform: 'apns' }`; `webpush~teacher@fcm.googleapis.com` →
 * `{ platform: 'webpush', app: 'teacher', server: 'fcm.googleapis.com' }`. For logs, labels and messages.
 */
export function namesOf(service: Service): {
  readonly platform: Platform;
  readonly app?: string;
  readonly server?: string;
} {
  const [account = '', server] = service.split('@');
  const [platform, app] = account.split('~');
  return {
    platform: platform as Platform,
    ...(app !== undefined && { app }),
    ...(server !== undefined && { server }),
  };
}

/** `webpush~teacher@fcm.googleapis.com` → `webpush~teacher`. */
export function accountIn(service: Service): Account {
  return service.split('@')[0] as Account;
}

/**
 * The name of a service's quota in Redis, which contains no `@` and no `:`: `webpush~~fcm.googleapis.com`. An app's name is not
 * empty, so no account has two `~` in a row. A host with a quota has no `_`.
 */
export function quotaNameOf(service: Service): string {
  return service.replace('@', '~~').replace(':', '_');
}

/** `webpush~~127.0.0.1_8443` → `webpush@127.0.0.1:8443` */
export function serviceOfQuota(name: string): Service {
  const [account, server] = name.split('~~');
  return serviceOf(account as Account, server?.replace('_', ':'));
}

/** The namespace of push ids: an arbitrary UUID that must never change. */
const NAMESPACE = Buffer.from('5f1c7a0e9b5d4e0c8d3a6c2f7be41d90', 'hex');

/**
 * The push id: the same UUID for every attempt at one device of a notification, even after a crash: `pushId('msg-8841', 0)`. It
 * is a UUID of version 5 (RFC 9562, section 5.5). No id contains a `#`, so each notification and device hash a different name.
 */
export function pushId(notificationId: string, deviceIndex: number): string {
  const sha1 = hash('sha1', Buffer.concat([NAMESPACE, Buffer.from(`${notificationId}#${deviceIndex}`)]), 'hex');
  const variant = ((Number.parseInt(sha1.charAt(16), 16) & 0x3) | 0x8).toString(16);
  return `${sha1.slice(0, 8)}-${sha1.slice(8, 12)}-5${sha1.slice(13, 16)}-${variant}${sha1.slice(17, 20)}-${sha1.slice(20, 32)}`;
}

/** The tags under which these devices show the notification. An app finds an alert on the screen by its tag. */
export function tagsOf(notification: Notification, deviceIndexes: readonly number[]): string[] {
  const tags = deviceIndexes.flatMap((index) => {
    const platform = notification.devices[index]?.platform ?? '';
    return READERS.get(platform)?.tagsOf(notification, pushId(notification.id, index)) ?? [];
  });
  return [...new Set(tags)];
}
