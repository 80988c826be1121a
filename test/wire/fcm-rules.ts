import { ACTIVITY_KEYS, activityLoudFaults, APNS_HEADERS, loudFaults, payloadFaults } from './apns-rules.ts';
import {
  headerText,
  isJson,
  isOwnNull,
  jsonFaults,
  protoField,
  readJson,
  shapeFaults,
  valueAt,
  type Fields,
  type Json,
  type Shape,
  type WireRequest,
} from './table.ts';
import { WEBPUSH_HEADERS } from './webpush-rules.ts';

/**
 * What Google takes: the discovery document of FCM (fcm.googleapis.com/$discovery/rest?version=v1), with its names, and what
 * firebase.google.com/docs/reference/fcm/rest/v1/projects.messages says of the values.
 *
 * `fid`: "Firebase Installation ID (FID) to send a message to", one target of four (pub.dev/documentation/googleapis 19.0.0,
 * fcm_v1/Message, which is made of the discovery document; firebase-admin 14.5.1, FidMessage). Its form is the one that Google's
 * @firebase/installations checks. Read on 26 November 2026.
 *
 * `android_v2` is a preview (firebase.google.com/docs/cloud-messaging/send/v2-api, read on 26 November 2026): its fields are those
 * of AndroidConfigV2, AndroidRemoteNotification and AndroidNotificationV2 in pub.dev/documentation/googleapis/latest/fcm_v1, which
 * is made of the discovery document, and in the Admin SDK for Java: of `remote_notification` and `background_sync` there is one.
 * "Requests with both AndroidConfig and AndroidConfigV2 will be rejected." A remote notification comes without delay, and has no
 * priority, `proxy` and `bypass_proxy_notification`.
 *
 * `apns.live_activity_token`: firebase.google.com/docs/cloud-messaging/customize-messages/live-activity (of 5 September 2025, read
 * on 26 November 2026), with Apple's token as hexadecimal digits: beside the target of the device, `apns.headers` with the
 * priority and without a push type, and the payload of Apple's page.
 */

const TEXT: Shape = { is: 'text' };
const TEXTS: Shape = { is: 'list', of: TEXT };
const FLAG: Shape = { is: 'flag' };
const SHARE: Shape = { is: 'number', from: 0, to: 1 };
const LABEL: Shape = { is: 'text', form: 'label' };
const DURATION: Shape = { is: 'text', form: 'duration' };
const message = (fields: Fields, required: readonly string[] = []): Shape => ({
  is: 'object',
  proto: true,
  fields,
  required,
});
/** Only texts; the keys of Google's own libraries are reserved. */
const DATA: Shape = { is: 'map', of: TEXT, reserved: /^(from$|message_type$|google|gcm)/ };

/** What `android.notification` and a remote notification have in common. */
const LOOKS: Fields = {
  title: TEXT,
  body: TEXT,
  icon: TEXT,
  color: { is: 'text', form: 'color' },
  sound: TEXT,
  tag: TEXT,
  clickAction: TEXT,
  bodyLocKey: TEXT,
  bodyLocArgs: TEXTS,
  titleLocKey: TEXT,
  titleLocArgs: TEXTS,
  channelId: TEXT,
  ticker: TEXT,
  sticky: FLAG,
  eventTime: { is: 'text', form: 'instant' },
  localOnly: FLAG,
  notificationPriority: {
    is: 'text',
    oneOf: [
      ...['PRIORITY_UNSPECIFIED', 'PRIORITY_MIN', 'PRIORITY_LOW'],
      ...['PRIORITY_DEFAULT', 'PRIORITY_HIGH', 'PRIORITY_MAX'],
    ],
  },
  defaultSound: FLAG,
  defaultVibrateTimings: FLAG,
  defaultLightSettings: FLAG,
  vibrateTimings: { is: 'list', of: DURATION },
  visibility: { is: 'text', oneOf: ['VISIBILITY_UNSPECIFIED', 'PRIVATE', 'PUBLIC', 'SECRET'] },
  notificationCount: { is: 'number', from: 0, to: 2_147_483_647, whole: true },
  lightSettings: message(
    {
      color: message({ red: SHARE, green: SHARE, blue: SHARE, alpha: SHARE }),
      lightOnDuration: DURATION,
      lightOffDuration: DURATION,
    },
    ['color', 'lightOnDuration', 'lightOffDuration'],
  ),
  image: { is: 'text', form: 'https' },
};
const ANDROID_NOTIFICATION: Fields = {
  ...LOOKS,
  bypassProxyNotification: FLAG,
  proxy: { is: 'text', oneOf: ['PROXY_UNSPECIFIED', 'ALLOW', 'DENY', 'IF_PRIORITY_LOWERED'] },
};

const ON_ANDROID: Fields = {
  collapseKey: TEXT,
  ttl: { ...DURATION, most: 2_419_200 },
  restrictedPackageName: TEXT,
  data: DATA,
  fcmOptions: message({ analyticsLabel: LABEL }),
  directBootOk: FLAG,
  bandwidthConstrainedOk: FLAG,
  restrictedSatelliteOk: FLAG,
};
const ANDROID: Fields = {
  ...ON_ANDROID,
  priority: { is: 'text', oneOf: ['NORMAL', 'HIGH', 'normal', 'high'] },
  notification: message(ANDROID_NOTIFICATION),
};

const ANDROID_V2: Fields = {
  ...ON_ANDROID,
  remoteNotification: message({
    notification: message({
      ...LOOKS,
      id: { is: 'number', from: -2_147_483_648, to: 2_147_483_647, whole: true },
    }),
    mutableContent: FLAG,
    useAsV1DataMessage: FLAG,
  }),
  backgroundSync: message({}),
};

const MESSAGE = {
  is: 'object',
  proto: true,
  fields: {
    token: { is: 'text', form: 'visible' },
    topic: TEXT,
    condition: TEXT,
    fid: { is: 'text', form: 'fid' },
    data: DATA,
    notification: message({ title: TEXT, body: TEXT, image: { is: 'text', form: 'https' } }),
    android: message(ANDROID),
    androidV2: message(ANDROID_V2),
    webpush: message({
      headers: { is: 'object', fields: WEBPUSH_HEADERS, anyCase: true },
      data: DATA,
      notification: { is: 'object', fields: {}, others: 'any' },
      fcmOptions: message({ link: { is: 'text', form: 'https' }, analyticsLabel: LABEL }),
    }),
    apns: message({
      headers: { is: 'object', fields: APNS_HEADERS, anyCase: true },
      payload: { is: 'object', fields: {}, others: 'any' },
      fcmOptions: message({ analyticsLabel: LABEL, image: { is: 'text', form: 'https' } }),
      liveActivityToken: { is: 'text', form: 'hex' },
    }),
    fcmOptions: message({ analyticsLabel: LABEL }),
  },
} as const satisfies Shape;

const REQUEST: Shape = message({ message: MESSAGE, validateOnly: FLAG }, ['message']);

/** A message goes to one of these. */
const TARGETS = ['token', 'topic', 'condition', 'fid'];
/** For messages of every kind (firebase.google.com/docs/cloud-messaging/customize-messages/set-message-type). */
const MAX_BYTES = 4_096;
/** One of these gives an Android device something to show. */
const SHOWN = ['title', 'body'];
const SHOWN_ON_ANDROID = ['title', 'body', 'titleLocKey', 'bodyLocKey'];

/** Everything that a request to FCM breaks. */
export function fcmFaults({ path, headers, body }: WireRequest): string[] {
  const { json, faults } = readJson(body);
  const sent = isJson(json['message']) ? json['message'] : {};
  const targets = TARGETS.filter((name) => sent[name] !== undefined);
  const type = headers['content-type'];
  const isTyped = typeof type === 'string' && /^application\/json(; *charset=utf-8)?$/i.test(type);
  const authorization = headers['authorization'];
  const isSigned = authorization === undefined || /^Bearer [\x21-\x7e]+$/.test(headerText(authorization));
  return [
    ...faults,
    ...(/^\/v1\/projects\/[^/?#\s]+\/messages:send$/.test(path) ? [] : ['path: expected /v1/projects/*/messages:send']),
    ...(isTyped ? [] : ['headers.content-type: expected application/json']),
    ...(isSigned ? [] : ['headers.authorization: expected Bearer and a token']),
    ...jsonFaults(json, 'body').filter((fault) => !isOwnNull(fault)),
    ...shapeFaults(json, REQUEST, 'body'),
    ...(targets.length === 1 ? [] : [`message: expected one target, found ${targets.join(' and ') || 'none'}`]),
    ...v2Faults(sent),
    ...sizeFaults(sent),
    ...shownFaults(sent),
    ...iphoneFaults(sent),
  ];
}

/** The bytes that each kind of device gets: the texts for Android, the payload of APNs for iPhones. */
export function fcmBytes(sent: Json): { readonly android: number; readonly apns: number } {
  const android = sent['android'];
  const v2 = protoField(sent, 'androidV2');
  const remote = protoField(protoField(v2, 'remoteNotification'), 'notification');
  // A text of a remote notification stands in place of the one for all devices.
  const shown = isJson(remote)
    ? [{ ...(isJson(sent['notification']) && sent['notification']), ...remote }]
    : [sent['notification'], protoField(android, 'notification')];
  const parts = [sent['data'], protoField(android, 'data'), protoField(v2, 'data'), ...shown];
  const payload = protoField(sent['apns'], 'payload');
  return {
    android: parts.reduce<number>((sum, part) => sum + textBytes(part), 0),
    apns: payload === undefined ? 0 : Buffer.byteLength(JSON.stringify(payload)),
  };
}

/** Names and texts, at every depth. */
function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (Array.isArray(value)) return value.reduce<number>((sum, each) => sum + textBytes(each), 0);
  if (!isJson(value)) return 0;
  return Object.entries(value).reduce((sum, [name, each]) => sum + Buffer.byteLength(name) + textBytes(each), 0);
}

function sizeFaults(sent: Json): string[] {
  return Object.entries(fcmBytes(sent))
    .filter(([, bytes]) => bytes > MAX_BYTES)
    .map(([device, bytes]) => `message: ${bytes} bytes for ${device}, over ${MAX_BYTES}`);
}

/** One kind of message, and one of the two configurations. */
function v2Faults(sent: Json): string[] {
  const v2 = protoField(sent, 'androidV2');
  if (v2 === undefined) return [];
  const kinds = ['remoteNotification', 'backgroundSync'].filter((name) => protoField(v2, name) !== undefined);
  return [
    ...(sent['android'] === undefined ? [] : ['message.android: not beside android_v2']),
    ...(kinds.length === 1 ? [] : [`message.android_v2: expected one kind, found ${kinds.join(' and ') || 'none'}`]),
  ];
}

const hasOneOf = (object: unknown, names: readonly string[]): boolean =>
  names.some((name) => protoField(object, name) !== undefined);

/** Android shows every `notification`, so it needs a text. */
function shownFaults(sent: Json): string[] {
  const remote = protoField(protoField(sent, 'androidV2'), 'remoteNotification');
  const ofAndroid = protoField(remote ?? sent['android'], 'notification');
  const isEmpty = ofAndroid !== undefined && !hasOneOf(sent['notification'], SHOWN);
  return isEmpty && !hasOneOf(ofAndroid, SHOWN_ON_ANDROID) ? ['message.android.notification: nothing to show'] : [];
}

/** What FCM hands on to APNs: the headers, and the payload to which it adds the alert. */
function iphoneFaults(sent: Json): string[] {
  const apns = isJson(sent['apns']) ? sent['apns'] : {};
  const headers = isJson(apns['headers']) ? apns['headers'] : {};
  const payload = isJson(apns['payload']) ? apns['payload'] : {};
  const aps = isJson(payload['aps']) ? payload['aps'] : {};
  const hasToken = protoField(apns, 'liveActivityToken') !== undefined;
  const isAdded = !hasToken && hasOneOf(sent['notification'], SHOWN) && aps['alert'] === undefined;
  const isLive = ACTIVITY_KEYS.some((key) => key in aps);
  // FCM adds the push type to the token of an activity.
  const effective = hasToken ? { 'apns-push-type': 'liveactivity', ...headers } : headers;
  const isShown = isAdded || aps['alert'] !== undefined || isLive;
  const isUrgent = !isShown && (headers['apns-priority'] ?? '5') !== '5';
  return [
    ...(apns['payload'] === undefined && effective['apns-push-type'] === undefined
      ? []
      : payloadFaults(payload, effective, 'apns.payload', isAdded ? ['alert'] : [])),
    ...(isUrgent ? ['headers.apns-priority: expected 5 for a message without an alert'] : []),
    ...(isLive && !hasToken ? ['message.apns.liveActivityToken: expected one beside the keys of a Live Activity'] : []),
    ...(hasToken && !isLive ? ['message.apns.liveActivityToken: expected the keys of a Live Activity beside it'] : []),
  ];
}

/** What makes a sound, vibrates, lights up or counts. Not Google's rule but our promise of a silent push. */
const LOUD_FIELDS = [
  ...['sound', 'defaultSound', 'vibrateTimings', 'defaultVibrateTimings'],
  ...['lightSettings', 'defaultLightSettings', 'notificationCount'],
];

export function fcmLoudFaults({ body }: WireRequest): string[] {
  const sent = readJson(body).json['message'];
  const android = protoField(sent, 'android');
  const shown = protoField(android, 'notification');
  const apns = protoField(sent, 'apns');
  const [payload, headers] = [protoField(apns, 'payload'), protoField(apns, 'headers')];
  // Without an alert a Live Activity is silent, and no other device gets the message.
  if (protoField(apns, 'liveActivityToken') !== undefined)
    return activityLoudFaults(isJson(payload) ? payload : {}, isJson(headers) ? headers : {}, 'message.apns.payload');
  const priority = protoField(shown, 'notificationPriority');
  const isShown = hasOneOf(protoField(sent, 'notification'), SHOWN) || valueAt(payload, 'aps.alert') !== undefined;
  return [
    ...LOUD_FIELDS.filter((name) => protoField(shown, name) !== undefined).map(
      (name) => `message.android.notification.${name}: in a silent push`,
    ),
    ...(protoField(android, 'priority') === 'normal' || (android === undefined && !isShown)
      ? []
      : ['message.android.priority: expected normal']),
    ...(shown === undefined || priority === 'PRIORITY_LOW' || priority === 'PRIORITY_MIN'
      ? []
      : ['message.android.notification.notificationPriority: expected PRIORITY_LOW or PRIORITY_MIN']),
    ...loudFaults(isJson(payload) ? payload : {}, isJson(headers) ? headers : {}, 'message.apns.payload', isShown),
  ];
}
