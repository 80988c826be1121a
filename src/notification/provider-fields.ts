import type { JsonObject } from '../domain/json.ts';

/**
 * The types of the fields that are not for all devices: `apns`, `liveActivity`, `android`, `fcm` and `webpush` of a notification
 * (types.ts). `npm run schema` copies their docstrings into docs/notification.schema.json.
 */

/** A sound of an iPhone that needs more than a name. */
export interface ApnsSound {
  /** The name of a sound of the app, or `default` for the system's. 1 to 128 printable characters. Example: `bell.caf`. */
  name: string;
  /** `true`: it sounds even if the device is muted; the app needs a permission from Apple for it. Default: `false`. */
  critical?: boolean | undefined;
  /** The volume of a critical alert, from 0 (silent) to 1 (full). Default: the device decides. Example: `0.8`. */
  volume?: number | undefined;
}

/** The fields for Apple's devices. */
export interface ApnsFields {
  /**
   * Notifications with the same thread id are shown as a group. 1 to 256 printable characters. Default: none. Example:
   * `class-7b`.
   */
  threadId?: string | undefined;
  /**
   * The category of the app (`UNNotificationCategory`) whose actions are shown as buttons. Not the `category` of the
   * limits. 1 to 256 printable characters. Default: none. Example: `FORM`.
   */
  actionCategory?: string | undefined;
  /**
   * `passive`: no light and no sound; `active`; `time-sensitive`: breaks through a Focus; `critical`: needs a permission from
   * Apple. With `onThrottle: silence` it becomes `passive`. Default: `active`, by the device.
   */
  interruptionLevel?: 'passive' | 'active' | 'time-sensitive' | 'critical' | undefined;
  /** In a summary, the system shows the notification with the highest score first: from 0 to 1. Default: none. Example: `0.7`. */
  relevanceScore?: number | undefined;
  /**
   * `true`: a service extension of the app may change the notification before it is shown. Default: `true` with
   * `imageUrl`, otherwise `false`.
   */
  mutableContent?: boolean | undefined;
  /** Which window of the app is brought forward. 1 to 256 printable characters. Default: none. Example: `inbox`. */
  targetContentId?: string | undefined;
  /** For iPhones in place of the notification's `sound`: with a volume, or for a critical alert. Default: none. */
  sound?: ApnsSound | undefined;
  /**
   * 10: delivered at once; 5: delivered when it suits the power of the device; 1: saving power comes before everything else,
   * and the device is not woken. With 5 and 1 several may arrive together, closer than the limits say. A silent alert has 5, or
   * 1 if the producer gave 1; a background push has 5. Default: 10, and 5 for a background push or a silent alert.
   */
  priority?: 1 | 5 | 10 | undefined;
  /**
   * The bundle id of the app, if it is another app of the same team than `APNS_TOPIC` names. For APNs devices only. 1 to 255 of
   * `A-Z a-z 0-9 . -`. Default: `APNS_TOPIC`. Example: `com.example.school.watchkitapp`.
   */
  topic?: string | undefined;
  /**
   * For everything that has no field here: it is merged into the payload at the end, as a JSON Merge Patch (RFC 7396): objects
   * name by name, `null` removes, everything else replaces. Default: none. Example: `{ "aps": { "filter-criteria": "7b" } }`.
   */
  payload?: JsonObject | undefined;
}

/** What a push does to a Live Activity of an iPhone. */
export interface LiveActivityFields {
  /**
   * `start` begins a Live Activity, and is sent to a push-to-start token; `update` and `end` are sent to the token of the
   * activity.
   */
  event: 'start' | 'update' | 'end';
  /**
   * The state to show; with `end`, the last one: a JSON object with the names and types of the app's `ContentState`. Example:
   * `{ "score": "2 : 1" }`.
   */
  contentState: JsonObject;
  /**
   * The instant of this state: a device does not show a state that is older than the one it shows. RFC 3339 with `Z` or an
   * offset, or epoch milliseconds; Apple gets whole seconds. Default: when it is sent. Example: `2026-11-21T17:00:00Z`.
   */
  timestamp?: string | number | undefined;
  /**
   * From this instant on the system calls the state stale, and the app may show that. Written like `timestamp`. Default: none.
   * Example: `2026-11-21T17:15:00Z`.
   */
  staleDate?: string | number | undefined;
  /**
   * With `end`: when the activity leaves the lock screen; at once if this instant is past. Written like `timestamp`. Default:
   * after four hours, by the system. Example: `2026-11-21T19:00:00Z`.
   */
  dismissalDate?: string | number | undefined;
  /**
   * If the app has several activities, the one with the highest score is shown first. Any number from 0. Default: none.
   * Example: `75`.
   */
  relevanceScore?: number | undefined;
  /**
   * The name of the app's `ActivityAttributes` structure. 1 to 256 printable characters. Required with `start`, not allowed
   * otherwise. Default: none. Example: `MatchAttributes`.
   */
  attributesType?: string | undefined;
  /**
   * What does not change while the activity lasts: a JSON object. Required with `start`, not allowed otherwise. Default: none.
   * Example: `{ "home": "7b", "away": "7c" }`.
   */
  attributes?: JsonObject | undefined;
}

/** The fields for Android devices. */
export interface AndroidFields {
  /**
   * `true`: Android gets only `data`, and the app itself draws the notification from `data`, which is required. No other field
   * of `android` may be beside it. With `priority: "high"` it wakes a sleeping device. If it is silenced, it has normal
   * priority, and the key `pushpacer_silent` in the data. An iPhone shows the alert as without this field. Default: `false`.
   */
  dataOnly?: boolean | undefined;
  /**
   * The notification channel (since Android 8), which the app has created. With `onThrottle: silence` the silent
   * channel takes its place. 1 to 256 printable characters. Default: the channel in the app's manifest. Example:
   * `homework`.
   */
  channelId?: string | undefined;
  /**
   * The name of an icon (drawable) of the app. 1 to 256 printable characters. Default: the icon in the manifest.
   * Example: `ic_form`.
   */
  icon?: string | undefined;
  /** The color of the icon, as `#rrggbb`. Default: the color in the manifest. Example: `#1a73e8`. */
  color?: string | undefined;
  /**
   * A touch starts the activity with this intent filter. 1 to 256 printable characters. Default: the app starts.
   * Example: `OPEN_FORM`.
   */
  clickAction?: string | undefined;
  /**
   * In the notification drawer it replaces a notification with the same tag. 1 to 256 printable characters. Default: the
   * `collapseId`, otherwise the push id. Example: `class-7b`.
   */
  tag?: string | undefined;
  /**
   * On the lock screen: `private` hides what is private, `public` shows everything, `secret` shows nothing. Default:
   * `private`, by the device.
   */
  visibility?: 'private' | 'public' | 'secret' | undefined;
  /**
   * The number on the app's icon, in place of `badge`, from 0 to 2,147,483,647. With 0 Android counts by itself. Default:
   * `badge`. Example: `3`.
   */
  notificationCount?: number | undefined;
}

/** The fields for FCM on any device. */
export interface FcmFields {
  /**
   * For everything that has no field here: it is merged into FCM's message at the end, as a JSON Merge Patch (RFC 7396):
   * objects name by name, `null` removes, everything else replaces. Names as in Google's reference, `channel_id`; no `token`,
   * `topic`, `condition`, `fid` or `name`. Default: none. Example: `{ "android": { "direct_boot_ok": true } }`.
   */
  message?: JsonObject | undefined;
}

/** A button below a notification in a browser. */
export interface WebpushAction {
  /**
   * What the service worker gets as `event.action` if the button is pressed. 1 to 128 printable characters. Example:
   * `reply`.
   */
  action: string;
  /** The text of the button. 1 to 256 printable characters. Example: `Reply`. */
  title: string;
  /**
   * An image on the button. An `https` URL or a path of the website, up to 2,040 characters. Default: none. Example:
   * `/reply.png`.
   */
  icon?: string | undefined;
}

/** The fields for browsers. */
export interface WebpushFields {
  /**
   * The image beside the texts. An `https` URL or a path of the website, up to 2,040 characters. Default: the service
   * worker's own. Example: `/icon-192.png`.
   */
  icon?: string | undefined;
  /**
   * The small image in the status bar of Android; not the number `badge`. An `https` URL or a path of the website, up
   * to 2,040 characters. Default: the sign of the browser. Example: `/badge-72.png`.
   */
  badge?: string | undefined;
  /**
   * Buttons below the texts, up to 10; browsers show the first two at most, and some show none. Default: none. Example:
   * `[{ "action": "reply", "title": "Reply" }]`.
   */
  actions?: WebpushAction[] | undefined;
  /**
   * `true`: the notification makes a sound again if it replaces one with the same `collapseId`. Not for a silent notification.
   * Default: `false`.
   */
  renotify?: boolean | undefined;
  /**
   * `true`: the notification stays on the screen until the person has touched it. Not for a silent notification. Default:
   * `false`.
   */
  requireInteraction?: boolean | undefined;
  /**
   * `true`: the push is a declarative one too, which Safari (18.4 and later) shows without a service worker. It needs
   * `navigate`, and its texts are sent twice, so there is about half the room. Default: `false`.
   */
  declarative?: boolean | undefined;
  /**
   * What a click on the declarative push opens. An `https` URL of up to 2,048 characters; only with `declarative`. Default:
   * none. Example: `https://school.example.com/forms`.
   */
  navigate?: string | undefined;
}
