/**
 * The types of a notification, beside the schema that checks it (notification-schema.ts). test/domain/notification.test-d.ts
 * compares the two. `npm run schema` writes the docstrings of the fields from the schema's descriptions.
 */

/** A device of Apple's: iPhone, iPad, Mac or Watch. */
export interface ApnsDevice {
  /** Apple's Push Notification service. */
  platform: 'apns';
  /** The device token that the app got from Apple. 2 to 512 hexadecimal digits. */
  token: string;
}

/** A device that Firebase knows; it is taken for an Android device. For an iPhone give its APNs token. */
export interface FcmDevice {
  /** Firebase Cloud Messaging. */
  platform: 'fcm';
  /** The registration token that the app got from Firebase. 1 to 4,096 visible ASCII characters. */
  token: string;
}

/** A browser, or a web app on the home screen: a PushSubscription as its `toJSON()` gives it, and the platform. */
export interface WebpushDevice {
  /** Web push: a browser, or a web app on the home screen. */
  platform: 'webpush';
  /**
   * The URL of the subscription at its push service, 9 to 2,048 characters. It is secret: whoever knows it can try to
   * send.
   */
  endpoint: string;
  /** What the push is encrypted with, so that only this browser can read it. */
  keys: {
    /** The browser's public key: a point on P-256, uncompressed, as 87 characters of base64url. */
    p256dh: string;
    /** A secret of the browser: 16 bytes, as 22 characters of base64url. */
    auth: string;
  };
  /** Browsers have this field in the subscription, mostly as `null`. It may stay, and nothing reads it. */
  expirationTime?: number | null | undefined;
}

/** Where a notification goes: the platform, and what the app got from it, a token or a subscription. */
export type Device = ApnsDevice | FcmDevice | WebpushDevice;

/** The name of the provider that reaches a device: `apns`, `fcm` or `webpush`. */
export type Platform = Device['platform'];

/** The text that a device shows. */
export interface Alert {
  /** Up to 4,096 characters. Default: none. Example: `Room 12`. */
  title?: string | undefined;
  /** Up to 4,096 characters. Default: none. Example: `Field trip forms are due`. */
  body?: string | undefined;
}

/** A notification as a producer writes it, and as the job keeps it: one message to one recipient, for one or more devices. */
export interface NotificationInput {
  /**
   * Idempotency key, and the job id: the same id twice is one notification. 1 to 128 of `A-Z a-z 0-9 . _ ~ -`. Example:
   * `msg-8841`.
   */
  id: string;
  /** The person whom the limits protect, whatever the device. 1 to 256 printable characters. Example: `teacher-42`. */
  recipientId: string;
  /** The recipient's devices, 1 to 20. The limits count the notification once, however many devices it goes to. */
  devices: Device[];
  /**
   * What is shown: a title, a body or both; one of them must not be empty. Together with `data` at most 4,096 bytes,
   * the limit of the providers.
   */
  alert: Alert;
  /**
   * Texts for the app, each under a key. The providers reserve the keys `aps`, `from`, `message_type`, `google*` and
   * `gcm*`, where `*` stands for any characters. Default: none. Example: `{ "threadId": "77" }`.
   */
  data?: Record<string, string> | undefined;
  /**
   * The name of a sound of the app, or `default`; since Android 8 the app's notification channel decides there. 1 to
   * 128 printable characters. Default: no sound.
   */
  sound?: string | undefined;
  /**
   * The number on the app's icon, from 0 to 2,147,483,647. 0 removes it from an iPhone; Android then counts by itself,
   * as without a badge. Default: none. Example: `3`.
   */
  badge?: number | undefined;
  /**
   * What kind of notification it is. Limits can be set per category; the device does not get it. 1 to 64 of
   * `A-Z a-z 0-9 . _ -`. Default: none. Example: `messages`.
   */
  category?: string | undefined;
  /**
   * `high` is taken from the queue before `normal`, and wakes a sleeping Android device. The limits are the same for
   * both. Default: `normal`.
   */
  priority?: 'high' | 'normal' | undefined;
  /**
   * On the device it replaces an earlier notification with the same collapse id. 1 to 64 printable characters, at most
   * 64 bytes of UTF-8. Default: none. Example: `thread-77`.
   */
  collapseId?: string | undefined;
  /**
   * Not delivered after this instant; its outcome is then `expired`. RFC 3339 with `Z` or an offset, or epoch
   * milliseconds. Default: it does not expire. Example: `2026-11-21T18:00:00Z`.
   */
  expiresAt?: string | number | undefined;
  /**
   * What happens if the limits block it: `delay` waits for its slot, `drop` ends it undelivered, `silence` delivers it
   * now without sound, vibration or banner. Default: `delay`.
   */
  onThrottle?: 'delay' | 'drop' | 'silence' | undefined;
}

/** A checked notification: defaults filled in, `expiresAt` in epoch milliseconds. */
export interface Notification extends Omit<NotificationInput, 'priority' | 'expiresAt' | 'onThrottle'> {
  /** The priority, `normal` if none was given. */
  priority: 'high' | 'normal';
  /** Not delivered after this instant: epoch milliseconds. Absent: it does not expire. */
  expiresAt?: number | undefined;
  /** What happens if the limits block it, `delay` if nothing was given. */
  onThrottle: 'delay' | 'drop' | 'silence';
}
