import type { JsonValue } from '../domain/json.ts';
import type { AndroidFields, ApnsFields, FcmFields, LiveActivityFields, WebpushFields } from './provider-fields.ts';

/**
 * The types of a notification, beside the schema that checks it (schema.ts). Those of the fields that are not for all devices are
 * in provider-fields.ts. test/notification/notification.test-d.ts compares types and schema. `npm run schema` copies the docstrings
 * of the fields into docs/notification.schema.json.
 */

/** A device of Apple's: iPhone, iPad, Mac or Watch. */
export interface ApnsDevice {
  /** Apple's Push Notification service. */
  platform: 'apns';
  /** The device token that the app got from Apple. 2 to 512 hexadecimal digits. */
  token: string;
  /**
   * The app whose credentials send to the device, by its name in the workers' `APPS_FILE`. 1 to 64 of
   * `A-Z a-z 0-9 . _ -`. Default: the app of the workers' environment. Example: `teacher`.
   */
  app?: string | undefined;
}

/** A device that Firebase knows: Android, or an iPhone whose app uses Firebase. */
export interface FcmDevice {
  /** Firebase Cloud Messaging. */
  platform: 'fcm';
  /**
   * The registration token that the app got from Firebase. 1 to 4,096 visible ASCII characters. Required without a `fid`, not
   * allowed beside one.
   */
  token?: string | undefined;
  /**
   * The Firebase installation id of the app, which new versions of Firebase's SDKs give in place of the registration token. 22
   * characters of base64url, of which the first is `c`, `d`, `e` or `f`. Required without a `token`, not allowed beside one.
   * Example: `cQx3v8fZTn6tE1mKp0aB9d`.
   */
  fid?: string | undefined;
  /**
   * The token of a Live Activity, or for its start the push-to-start token, which the app got from Apple: 2 to 512 hexadecimal
   * digits. Required with `pushType` `liveactivity`, not allowed otherwise.
   */
  liveActivityToken?: string | undefined;
  /**
   * The app whose credentials send to the device, by its name in the workers' `APPS_FILE`. 1 to 64 of
   * `A-Z a-z 0-9 . _ -`. Default: the app of the workers' environment. Example: `teacher`.
   */
  app?: string | undefined;
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
  /** The keys with which the push is encrypted, so that only this browser can read it. */
  keys: {
    /** The browser's public key: a point on P-256, uncompressed, as 87 characters of base64url. */
    p256dh: string;
    /** A secret of the browser: 16 bytes, as 22 characters of base64url. */
    auth: string;
  };
  /** Browsers have this field in the subscription, usually as `null`. It may stay; nothing reads it. */
  expirationTime?: number | null | undefined;
  /**
   * The app whose credentials send to the device, by its name in the workers' `APPS_FILE`. 1 to 64 of
   * `A-Z a-z 0-9 . _ -`. Default: the app of the workers' environment. Example: `teacher`.
   */
  app?: string | undefined;
}

/** Where a notification goes: the platform, and the token or subscription that the app got from it. */
export type Device = ApnsDevice | FcmDevice | WebpushDevice;

/** The name of the provider that reaches a device: `apns`, `fcm` or `webpush`. */
export type Platform = Device['platform'];

/**
 * A broadcast channel of Apple's (since iOS 18): one push to it changes the Live Activity of everybody who subscribed to it.
 * `pushpacer channel create` makes one.
 */
export interface Channel {
  /** The channel's id, as Apple gave it: 1 to 256 characters of base64. Example: `dHN0LXNyY2gtY2hubA==`. */
  id: string;
  /**
   * Whether APNs keeps the push for phones that are offline: `none` keeps nothing; `most-recent` keeps the newest one until
   * `expiresAt`, for 8 hours at most. Only for a channel that was created with `most-recent`: APNs refuses it for others.
   * Default: `none`.
   */
  storage?: 'none' | 'most-recent' | undefined;
  /**
   * The app whose credentials send to the channel, by its name in the workers' `APPS_FILE`. 1 to 64 of `A-Z a-z 0-9 . _ -`.
   * Default: the app of the workers' environment. Example: `teacher`.
   */
  app?: string | undefined;
}

/** The texts that a device shows: as they are, or by the keys of the app's own texts. */
export interface Alert {
  /** Up to 4,096 characters. Default: none. Example: `Room 12`. */
  title?: string | undefined;
  /** The line between title and body, on iPhones only. Up to 4,096 characters. Default: none. Example: `Class 7b`. */
  subtitle?: string | undefined;
  /** Up to 4,096 characters. Default: none. Example: `Field trip forms are due`. */
  body?: string | undefined;
  /**
   * The key of the title in the app's own texts, so that the device shows it in its language. Phones show
   * this text instead of `title`. 1 to 256 printable characters. Default: none. Example: `FORMS_TITLE`.
   */
  titleLocKey?: string | undefined;
  /**
   * The texts for the places that the text of `titleLocKey` leaves open. Up to 100 texts of up to 4,096 characters; only with
   * `titleLocKey`. Default: none. Example: `["Room 12"]`.
   */
  titleLocArgs?: string[] | undefined;
  /**
   * The key of the subtitle in the app's own texts, so that the device shows it in its language. Phones show
   * this text instead of `subtitle`. 1 to 256 printable characters. Default: none. Example: `FORMS_SUBTITLE`.
   */
  subtitleLocKey?: string | undefined;
  /**
   * The texts for the places that the text of `subtitleLocKey` leaves open. Up to 100 texts of up to 4,096 characters; only
   * with `subtitleLocKey`. Default: none. Example: `["Room 12"]`.
   */
  subtitleLocArgs?: string[] | undefined;
  /**
   * The key of the body in the app's own texts, so that the device shows it in its language. Phones show this
   * text instead of `body`. 1 to 256 printable characters. Default: none. Example: `FORMS_BODY`.
   */
  bodyLocKey?: string | undefined;
  /**
   * The texts for the places that the text of `bodyLocKey` leaves open. Up to 100 texts of up to 4,096 characters; only with
   * `bodyLocKey`. Default: none. Example: `["Room 12"]`.
   */
  bodyLocArgs?: string[] | undefined;
}

/** One alert in place of several that wait (`onThrottle: "digest"`). */
export interface DigestFields {
  /**
   * Notifications to one recipient with the same key (and the same `category`) are sent together. 1 to 128 printable
   * characters. Example: `thread-77`.
   */
  key: string;
  /**
   * The title of the digest; `{{count}}` becomes the number of notifications in it. Up to 4,096 characters. Default:
   * none. Example: `Class 7b`.
   */
  title?: string | undefined;
  /**
   * The body of the digest; `{{count}}` becomes the number of notifications in it. Up to 4,096 characters. Default:
   * none. Example: `{{count}} new messages`.
   */
  body?: string | undefined;
  /**
   * At most this many notifications are in one digest, from 2 to 1,000; the next one begins another digest. Default: 100.
   * Example: `50`.
   */
  maxSize?: number | undefined;
}

/**
 * A notification as a producer writes it, and as the job keeps it: one message to one recipient, for one or more devices, or for
 * a channel.
 */
export interface NotificationInput {
  /**
   * Idempotency key, and the job id: the same id twice is one notification. 1 to 128 of `A-Z a-z 0-9 . _ ~ -`, but not
   * `.` or `..`, which no URL can name. Example: `msg-8841`.
   */
  id: string;
  /**
   * The person whom the limits protect, whatever the device. Beside `channel`: the channel's id, since the limits protect the
   * channel then. 1 to 256 printable characters, but not `.` or `..`. Example: `teacher-42`.
   */
  recipientId: string;
  /**
   * The recipient's devices, 1 to 20. The limits count the notification once, however many devices it goes to. Required unless
   * there is a `channel`.
   */
  devices?: Device[] | undefined;
  /**
   * In place of `devices`: the broadcast channel to which one push goes, for all who subscribed to it. Only for the `update` and
   * the `end` of a Live Activity, with at most 5,120 bytes. Default: none. Example: `{ "id": "dHN0LXNyY2gtY2hubA==" }`.
   */
  channel?: Channel | undefined;
  /**
   * `alert` is shown. `background` shows nothing and wakes the app to fetch what is new: it has no `alert`, `sound`,
   * `imageUrl`, `android` and `webpush`, limits of its own (`LIMIT_BACKGROUND_RULES`), and goes to no browser, unless it is a
   * retraction: `data.pushpacer.retract` is a list (docs/retract.md). `liveactivity`
   * starts, changes or ends a Live Activity of an iPhone (`liveActivity`), on APNs or through FCM; without an `alert` it has
   * limits of its own (`LIMIT_LIVE_ACTIVITY_RULES`). Default: `alert`.
   */
  pushType?: 'alert' | 'background' | 'liveactivity' | undefined;
  /**
   * What is shown: a title, a body or both, or the keys of them; one must not be empty. Together with everything else that the
   * device gets, at most 4,096 bytes, the limit of the providers. Required unless `pushType` is `background`, or `liveactivity`
   * with another event than `start`.
   */
  alert?: Alert | undefined;
  /**
   * What happens to a Live Activity. Required if `pushType` is `liveactivity`, otherwise not allowed. Beside it there may be
   * `alert` and `sound`, and of `apns` only `priority`, `topic` and `payload`. Default: none. Example: `{ "event": "update",
   * "contentState": { "score": "2 : 1" } }`.
   */
  liveActivity?: LiveActivityFields | undefined;
  /**
   * Data for the app, beside the alert: any JSON values, each under a key. FCM carries only texts, so there a value that is not
   * a text becomes its JSON: `{ "form": { "id": 7 } }` arrives as the text `{"id":7}`. A key whose value is `null` is left out.
   * The providers reserve the keys `aps`, `fcm_options`, `from`, `message_type`, `google*` and `gcm*`, where `*` stands for any
   * characters. Default: none. Example: `{ "threadId": "77" }`.
   */
  data?: Record<string, JsonValue> | undefined;
  /**
   * The name of a sound of the app, or `default`; since Android 8 the app's notification channel decides there. 1 to
   * 128 printable characters. Default: no sound.
   */
  sound?: string | undefined;
  /**
   * An image to show. An iPhone shows it only if the app has a service extension (docs/notifications.md). An `https`
   * URL of up to 2,048 characters. Default: none. Example: `https://example.com/trip.jpg`.
   */
  imageUrl?: string | undefined;
  /**
   * The number on the app's icon, from 0 to 2,147,483,647. With 0 an iPhone removes it, and Android counts by itself, as
   * without a badge. In a background push only iPhones set it by themselves. Default: none. Example: `3`.
   */
  badge?: number | undefined;
  /**
   * What kind of notification it is. Limits can be set per category; the device does not get it. 1 to 64 of
   * `A-Z a-z 0-9 . _ -`. Default: none. Example: `messages`.
   */
  category?: string | undefined;
  /**
   * `high` is taken from the queue before `normal`. If it is blocked, it goes before those of `normal` that wait for the same
   * recipient. It wakes a sleeping Android device (with `FCM_ANDROID_V2` every alert does). The limits are the
   * same for both. Default: `normal`.
   */
  priority?: 'high' | 'normal' | undefined;
  /**
   * On the device this notification replaces an earlier one with the same collapse id. 1 to 64 printable characters, at most 64
   * bytes of UTF-8. Default: none. Example: `thread-77`.
   */
  collapseId?: string | undefined;
  /**
   * Not sent before this instant: only then it is taken from the queue, and begins to wait for its slot. At most 366 days
   * ahead, and before `expiresAt`. RFC 3339 with `Z` or an offset, or epoch milliseconds. Default: at once. Example:
   * `2026-11-21T07:00:00Z`.
   */
  sendAfter?: string | number | undefined;
  /**
   * Not delivered after this instant; its outcome is then `expired`. At most 366 days ahead. RFC 3339 with `Z` or an
   * offset, or epoch milliseconds. Default: it does not expire. Example: `2026-11-21T18:00:00Z`.
   */
  expiresAt?: string | number | undefined;
  /**
   * A key that several notifications of this recipient have in common, so that all of them that still wait can be canceled
   * together (docs/waiting.md). The device does not get it. 1 to 128 printable characters. Default: none. Example: `trip-77`.
   */
  cancellationKey?: string | undefined;
  /**
   * What happens if the limits block it: `delay` waits for its slot; `latest` waits too, but of the notifications with the same
   * `collapseId` only the newest is sent, in the slot of the oldest; `digest` joins the digest that waits (`digest`); `drop`
   * ends it undelivered, `silence` delivers it now without sound, vibration or banner (not allowed for a background push; a
   * Live Activity is sent without its `alert`). Default: `delay`.
   */
  onThrottle?: 'delay' | 'latest' | 'digest' | 'drop' | 'silence' | undefined;
  /**
   * With `onThrottle: digest`: what is shown in place of several notifications that waited. A title or a body is required. The
   * first notification that is not blocked is sent at once with its own `alert`, and so is one that waited alone. Not for a
   * background push. Default: none. Example: `{ "key": "thread-77", "title": "Class 7b", "body": "{{count}} new messages" }`.
   */
  digest?: DigestFields | undefined;
  /**
   * What happens in the recipient's quiet hours: `delay` waits for their end, `silence` delivers it now without sound,
   * vibration or banner, `drop` ends it undelivered. Only `delay` with `onThrottle` `latest` or `digest`. It does not apply to
   * a background push, nor to a Live Activity without an alert. Default: `delay`.
   */
  onQuiet?: 'delay' | 'silence' | 'drop' | undefined;
  /** For Apple's devices only, on APNs or through FCM. Default: none. Example: `{ "threadId": "class-7b" }`. */
  apns?: ApnsFields | undefined;
  /** For Android devices only. Default: none. Example: `{ "channelId": "homework" }`. */
  android?: AndroidFields | undefined;
  /** For FCM devices only, Android and iPhones. Default: none. */
  fcm?: FcmFields | undefined;
  /** For browsers only. Default: none. Example: `{ "requireInteraction": true }`. */
  webpush?: WebpushFields | undefined;
  /**
   * A label for FCM's reports; Google takes at most 100 different ones a day. 1 to 50 of `A-Z a-z 0-9 - _ . ~ %`.
   * Default: none. Example: `homework`.
   */
  analyticsLabel?: string | undefined;
}

/** A notification that goes to devices, and not to a channel. */
export interface ToDevices extends NotificationInput {
  /** The recipient's devices, 1 to 20. */
  devices: Device[];
}

/** `LiveActivityFields` with all instants in epoch milliseconds. */
export interface LiveActivity extends Omit<LiveActivityFields, 'timestamp' | 'staleDate' | 'dismissalDate'> {
  /** The instant of this state. Absent: when it is sent. */
  timestamp?: number | undefined;
  /** From when on the state is stale. Absent: never. */
  staleDate?: number | undefined;
  /** When the activity leaves the lock screen. Absent: the system decides. */
  dismissalDate?: number | undefined;
}

/**
 * A checked notification: defaults filled in, `sendAfter`, `expiresAt` and other instants in epoch milliseconds. What an app
 * enqueues is an `EnqueueInput`, which needs none of the defaults.
 */
export interface Notification extends Omit<
  NotificationInput,
  'devices' | 'pushType' | 'liveActivity' | 'priority' | 'sendAfter' | 'expiresAt' | 'onThrottle' | 'onQuiet'
> {
  /** The devices to which it is sent. For a `channel`: one entry on APNs, whose token is the channel's id. */
  devices: Device[];
  /** Whether it is shown, `alert` if nothing was given. */
  pushType: 'alert' | 'background' | 'liveactivity';
  /** What happens to a Live Activity; there if and only if `pushType` is `liveactivity`. */
  liveActivity?: LiveActivity | undefined;
  /** The priority, `normal` if none was given. */
  priority: 'high' | 'normal';
  /** Not sent before this instant: epoch milliseconds. Absent: at once. */
  sendAfter?: number | undefined;
  /** Not delivered after this instant: epoch milliseconds. Absent: it does not expire. */
  expiresAt?: number | undefined;
  /** What happens if the limits block it, `delay` if nothing was given. */
  onThrottle: 'delay' | 'latest' | 'digest' | 'drop' | 'silence';
  /** What happens in the recipient's quiet hours, `delay` if nothing was given. */
  onQuiet: 'delay' | 'silence' | 'drop';
}
