import { z } from 'zod';
import type { Notification } from '../types.ts';

/** How a notification names a device of one provider. Producers load this file and no provider, so it may import only zod. */
export interface DeviceKind<P extends string = string, Fields extends z.ZodRawShape = z.ZodRawShape> {
  /**
   * Checks one entry of a notification's `devices`; its faults never repeat a secret. Every field but the platform and the app
   * is secret.
   */
  readonly schema: z.ZodObject<{ platform: z.ZodLiteral<P>; app: z.ZodOptional<z.ZodString> } & Fields, z.core.$strict>;
  /** The device's token, or what the device has in place of a token. */
  tokenOf(device: z.output<z.ZodObject<{ platform: z.ZodLiteral<P> } & Fields>>): string;
  /** Equal for two entries if and only if they name the same device. Absent: `tokenOf` is used. */
  identityOf?(device: z.output<z.ZodObject<{ platform: z.ZodLiteral<P> } & Fields>>): string;
  /** The part of the device that an answer with this meaning calls invalid. Absent: `tokenOf` is used. */
  invalidOf?(
    device: z.output<z.ZodObject<{ platform: z.ZodLiteral<P> } & Fields>>,
    meaning: 'gone' | 'bad-token',
  ): InvalidPart;
  /**
   * The host and port of the device's server, if the device names it: `fcm.googleapis.com`. Absent: all devices have one
   * server.
   */
  hostOf?(device: z.output<z.ZodObject<{ platform: z.ZodLiteral<P> } & Fields>>): string;
  /** The tags under which a device shows an alert. Several if the kind of device is not known. */
  tagsOf(notification: Notification, pushId: string): readonly string[];
  /** Keys of `data` that the provider reserves. A `*` at the end stands for every key that begins like this. */
  readonly reservedDataKeys: readonly string[];
  /** True if the device must show something for every push, so that it cannot get background pushes. */
  readonly mustShow?: boolean;
  /** True if the device may have Live Activities. */
  readonly takesLiveActivities?: boolean;
  /** The field of a device that a push to a Live Activity needs, and that no other push may have. */
  readonly liveActivityField?: string;
  /** The payload limit. A larger payload is refused when it is enqueued. Absent: only the worker checks the size. */
  readonly payload?: {
    readonly maxBytes: number;
    /** The limit for this notification. Absent: `maxBytes` for all. */
    maxBytesOf?(notification: Notification): number;
    /** The number of bytes that count. */
    bytesOf(notification: Notification, silent: boolean): number;
  };
}

/** The part of a device that a provider does not accept. */
export interface InvalidPart {
  /** The token, or what the device has in its place. */
  readonly token: string;
  /** What `token` is. Absent: the device's own token or endpoint. */
  readonly kind?: 'fid' | 'liveActivityToken';
}

/** Whether a key of `data` is one of `reservedDataKeys`. */
export function isReservedKey(key: string, reserved: readonly string[]): boolean {
  return reserved.some((name) => (name.endsWith('*') ? key.startsWith(name.slice(0, -1)) : key === name));
}

/** The name of an app of APPS_FILE. */
export const appNameSchema = z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, { error: '1 to 64 of A-Z a-z 0-9 . _ -' });

/** The field `app` of every kind of device. */
export const deviceApp = appNameSchema.optional();

/** The kind of a platform whose devices have a token. */
export type TokenKind<P extends string> = DeviceKind<P, { token: z.ZodString }>;
