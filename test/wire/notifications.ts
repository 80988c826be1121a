import fc from 'fast-check';
import { sandboxSubscription } from '../../sandbox/webpush/subscription.ts';
import { anyText, cut, printable } from './texts.ts';
import { color, count, duration, json, label, name, number, orNull, seldom, share, some, url } from './values.ts';

/**
 * Notifications over the whole public schema (docs/notification.schema.json): every field is there or not, numbers lie at their
 * edges. A patch writes what the provider's reference allows, since a producer who asks for something else gets it.
 */

/** Keys of an app, and what Apple has no field for here. */
const custom = fc.dictionary(fc.constantFrom('acme1', 'acme2', 'deep'), orNull(json), { maxKeys: 2 });
const apsPatch = some({
  'filter-criteria': printable(20),
  'thread-id': orNull(printable(20)),
  category: orNull(printable(20)),
  sound: orNull(
    fc.oneof(
      fc.constant('bell.caf'),
      fc.record({ name: fc.constant('default'), critical: fc.constant(1), volume: share }),
    ),
  ),
  badge: orNull(count),
  'relevance-score': orNull(share),
  'content-available': fc.constant(1),
  'mutable-content': orNull(fc.constantFrom(0, 1)),
  alert: some({ 'launch-image': printable(20), 'subtitle-loc-key': printable(20), 'action-loc-key': printable(20) }),
});
const payload = fc
  .tuple(custom, fc.option(apsPatch, { nil: undefined }))
  .map(([own, aps]) => (aps ? { ...own, aps } : own));

const androidPatch = some({
  title: orNull(anyText),
  body: orNull(anyText),
  ticker: anyText,
  sticky: fc.boolean(),
  local_only: fc.boolean(),
  event_time: fc.constantFrom('2026-11-21T18:00:00Z', '2026-11-21T18:00:00.123456789Z'),
  notification_priority: fc.constantFrom('PRIORITY_MIN', 'PRIORITY_MAX'),
  default_sound: fc.boolean(),
  default_vibrate_timings: fc.boolean(),
  default_light_settings: fc.boolean(),
  vibrate_timings: fc.array(duration, { maxLength: 4 }),
  light_settings: fc.record({
    color: some({ red: share, green: share, blue: share, alpha: share }),
    light_on_duration: duration,
    light_off_duration: duration,
  }),
  image: url,
  proxy: fc.constantFrom('ALLOW', 'DENY', 'IF_PRIORITY_LOWERED'),
  tag: orNull(printable(20)),
  channel_id: orNull(printable(20)),
});
const texts = fc.dictionary(fc.constantFrom('threadId', 'form', 'extra'), orNull(anyText), { maxKeys: 2 });
const anyMessage = {
  data: orNull(texts),
  webpush: some({
    headers: fc.record({ TTL: fc.constant('15'), Urgency: fc.constant('low') }),
    notification: fc.record({ title: anyText, requireInteraction: fc.boolean() }),
    fcm_options: fc.record({ link: url }),
  }),
  fcm_options: some({ analytics_label: label }),
};
const androidConfig = {
  direct_boot_ok: fc.boolean(),
  bandwidth_constrained_ok: fc.boolean(),
  restricted_satellite_ok: fc.boolean(),
  restricted_package_name: fc.constant('com.example.school'),
  collapse_key: orNull(printable(20)),
  ttl: orNull(duration),
  data: orNull(texts),
  fcm_options: some({ analytics_label: label }),
};
const message = some({
  ...anyMessage,
  android: orNull(
    some({ ...androidConfig, priority: fc.constantFrom('HIGH', 'normal'), notification: orNull(androidPatch) }),
  ),
  apns: orNull(
    some({
      headers: some({
        'apns-priority': fc.constantFrom('5', '10'),
        'apns-expiration': orNull(fc.constantFrom('0', '1795284000')),
        'apns-id': fc.uuid(),
        'apns-collapse-id': orNull(fc.constant('trip-77')),
        'apns-topic': fc.constant('com.example.school'),
      }),
      payload,
      fcm_options: some({ analytics_label: label, image: url }),
    }),
  ),
});
const backgroundMessage = some({
  ...anyMessage,
  android: some({ ...androidConfig, priority: fc.constant('normal') }),
  apns: some({ payload: custom, fcm_options: some({ analytics_label: label }) }),
});

/** When the notifications are sent. */
export const NOW_MS = Date.parse('2026-11-21T17:00:00Z');
/** Where the subscriptions of browsers lie, unless a test has a server of its own. */
const PUSH_SERVICE = 'https://updates.push.services.mozilla.com';

const DAY_MS = 86_400_000;

const collapse = fc.oneof(fc.stringMatching(/^[!-~]{1,64}$/), printable(16));
const apnsToken = fc.oneof(fc.stringMatching(/^[0-9a-f]{64}$/), fc.stringMatching(/^([0-9a-fA-F]{2}){1,256}$/));
const fcmToken = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_-]{22}:APA91b[A-Za-z0-9_-]{134}$/),
  fc.stringMatching(/^[!-~]{1,200}$/),
);
const fid = fc.stringMatching(/^[cdef][A-Za-z0-9_-]{21}$/);
const app = fc.option(fc.constantFrom('teacher', 'parent'), { nil: undefined, freq: 4 });
const phone = fc.oneof(
  fc.record({ platform: fc.constant('apns'), token: apnsToken, app }),
  fc.record({ platform: fc.constant('fcm'), token: fcmToken, app }),
  fc.record({ platform: fc.constant('fcm'), fid, app }),
);
const browser = (server: string) =>
  fc
    .record({
      browserName: fc.stringMatching(/^[a-z0-9]{8,16}$/),
      app,
      expirationTime: fc.option(fc.constantFrom(null, 0, NOW_MS), { nil: undefined }),
    })
    .map(({ browserName, ...fields }) => ({
      platform: 'webpush',
      ...sandboxSubscription(server, browserName),
      ...fields,
    }));

const locArgs = fc.array(
  anyText.map((text) => cut(text, 40)),
  { maxLength: 4 },
);
const textOrKey = some({ title: anyText, subtitle: anyText, body: anyText });
const keys = fc.oneof(
  { weight: 3, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: fc.record({ titleLocKey: printable(256) }) },
  { weight: 1, arbitrary: fc.record({ bodyLocKey: printable(64), bodyLocArgs: locArgs }) },
  {
    weight: 1,
    arbitrary: fc.record({ titleLocKey: printable(64), titleLocArgs: locArgs, bodyLocKey: printable(64) }),
  },
);
const alert = fc.tuple(anyText, textOrKey, keys).map(([body, texts, byKeys]) => {
  const all = { ...texts, ...byKeys };
  return `${texts.title ?? ''}${texts.body ?? ''}` === '' ? { ...all, body: body === '' ? 'b' : body } : all;
});

const instant = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: NOW_MS, max: NOW_MS + 360 * DAY_MS }) },
  { weight: 2, arbitrary: fc.integer({ min: NOW_MS, max: NOW_MS + DAY_MS }).map((at) => new Date(at).toISOString()) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(NOW_MS - DAY_MS, NOW_MS - 1, NOW_MS, NOW_MS + 1, '2026-11-21T18:00:00.5+14:00'),
  },
);

const apns = some({
  threadId: printable(256),
  actionCategory: printable(256),
  interruptionLevel: fc.constantFrom('passive', 'active', 'time-sensitive', 'critical'),
  relevanceScore: share,
  mutableContent: fc.boolean(),
  targetContentId: printable(256),
  sound: fc.record({ name: printable(128), critical: fc.boolean(), volume: share }, { requiredKeys: ['name'] }),
  priority: fc.constantFrom(5, 10),
  topic: fc.constantFrom('com.example.school', 'com.example.school.watchkitapp'),
  payload: payload,
});
const android = some({
  channelId: printable(256),
  icon: printable(256),
  color,
  clickAction: printable(256),
  tag: printable(256),
  visibility: fc.constantFrom('private', 'public', 'secret'),
  notificationCount: count,
});

/** What every notification may have. */
const common = fc
  .tuple(
    fc.record({ id: fc.stringMatching(/^[A-Za-z0-9._~-]{1,128}$/), recipientId: printable(256) }),
    some({
      data: fc.dictionary(name, json, { maxKeys: 5 }),
      category: fc.constantFrom('messages', 'exam-results'),
      priority: fc.constantFrom('high', 'normal'),
      collapseId: collapse.map((text) => cut(text, 16)),
      expiresAt: instant,
      cancellationKey: printable(128),
      analyticsLabel: label,
    }),
    seldom(fc.integer({ min: NOW_MS - DAY_MS, max: NOW_MS + DAY_MS })),
  )
  .map(([base, fields, sendAfter]) => {
    const { expiresAt = Infinity } = fields;
    const endMs = typeof expiresAt === 'string' ? Date.parse(expiresAt) : expiresAt;
    return { ...base, ...fields, ...(sendAfter !== undefined && sendAfter < endMs && { sendAfter }) };
  });

/** How it waits; `digest` and `latest` need more fields. */
const waiting = fc.oneof(
  {
    weight: 4,
    arbitrary: some({
      onThrottle: fc.constantFrom('delay', 'drop', 'silence'),
      onQuiet: fc.constantFrom('delay', 'silence', 'drop'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ onThrottle: fc.constant('latest'), collapseId: fc.constant('thread-77') }) },
  {
    weight: 2,
    arbitrary: fc.record({
      onThrottle: fc.constant('digest'),
      digest: fc
        .tuple(
          fc.constantFrom('{{count}} new', '教師 {{count}}'),
          some({
            title: fc.constantFrom('Class 7b', '👩‍🏫 {{count}} שלום'),
            maxSize: fc.integer({ min: 2, max: 1_000 }),
          }),
        )
        .map(([body, fields]) => ({ key: 'thread-77', body, ...fields })),
    }),
  },
);

const image = fc.oneof(url, fc.constantFrom('/icon.png', '/a/../b.png?c=d'));
/** For browsers; the half of them declarative. */
const webpush = fc
  .tuple(
    some({ icon: image, badge: image, renotify: fc.boolean(), requireInteraction: fc.boolean() }),
    fc.option(fc.record({ declarative: fc.constant(true), navigate: url }), { freq: 2 }),
  )
  .map(([fields, declarative]) => ({ ...fields, ...declarative }));

/** JSON as a producer would send it: without fields that are undefined. */
const asJson = (value: unknown): Record<string, unknown> =>
  JSON.parse(JSON.stringify(value)) as Record<string, unknown>;

/** Alerts, to phones and browsers. @param server the push service of the browsers */
const alerts = (server: string) =>
  fc
    .tuple(
      common,
      fc.record({
        devices: fc.array(fc.oneof({ weight: 2, arbitrary: phone }, { weight: 1, arbitrary: browser(server) }), {
          minLength: 1,
          maxLength: 3,
        }),
        alert,
      }),
      some({
        sound: printable(128),
        imageUrl: url,
        badge: count,
        apns,
        android,
        fcm: some({ message }),
        webpush,
      }),
      waiting,
    )
    .map((parts) => asJson(Object.assign({}, ...parts)));

/** Background pushes, which wake an app and show nothing. */
const backgrounds = fc
  .tuple(
    common,
    fc.record({ devices: fc.array(phone, { minLength: 1, maxLength: 3 }), pushType: fc.constant('background') }),
    some({
      badge: count,
      onThrottle: fc.constantFrom('delay', 'drop'),
      apns: some({ priority: fc.constant(5), topic: fc.constant('com.example.school'), payload: custom }),
      fcm: some({
        message: backgroundMessage,
      }),
    }),
  )
  .map((parts) => asJson(Object.assign({}, ...parts)));

const tag = fc.oneof(fc.uuid(), printable(20));
/** Background pushes that take alerts back, also from browsers. As `producer.retract` makes them, in all that it may write. */
const retractions = (server: string) =>
  fc
    .tuple(
      fc.record({
        id: fc.uuid().map((uuid) => `retract-${uuid}`),
        recipientId: printable(256),
        devices: fc.array(fc.oneof(phone, browser(server)), { minLength: 1, maxLength: 3 }),
      }),
      fc.array(fc.stringMatching(/^[A-Za-z0-9._~-]{1,128}$/), { minLength: 1, maxLength: 5 }),
      fc.array(tag, { minLength: 1, maxLength: 5 }),
      some({ badge: count }),
    )
    .map(([base, retract, tags, badge]) =>
      asJson({
        ...{ ...base, ...badge, pushType: 'background', priority: 'high', onThrottle: 'latest' },
        ...{ collapseId: 'pushpacer-retract', data: { pushpacer: { retract, tags, ...badge } } },
      }),
    );

const activityPhone = fc.oneof(
  fc.record({ platform: fc.constant('apns'), token: apnsToken, app }),
  fc.record({ platform: fc.constant('fcm'), token: fcmToken, liveActivityToken: apnsToken, app }),
  fc.record({ platform: fc.constant('fcm'), fid, liveActivityToken: apnsToken, app }),
);
const state = fc.dictionary(fc.constantFrom('home', 'away', 'minute'), fc.oneof(number, fc.boolean()), { maxKeys: 3 });
const activityFields = some({ timestamp: instant, staleDate: instant, relevanceScore: count });

/** What happens to a Live Activity; a start has attributes and an alert. */
const activityEvent = fc.oneof(
  fc
    .tuple(fc.constantFrom('update', 'end'), state, activityFields, seldom(alert))
    .map(([event, contentState, more, text]) => ({
      liveActivity: { event, contentState, ...more },
      ...(text !== undefined && {
        alert: { title: text.title, body: text.body ?? 'b' },
        sound: 'goal.caf',
        onThrottle: 'silence',
      }),
    })),
  fc.tuple(state, activityFields, alert).map(([contentState, more, { title, body = 'b' }]) => ({
    liveActivity: {
      event: 'start',
      contentState,
      attributesType: 'MatchAttributes',
      attributes: { home: '7b' },
      ...more,
    },
    alert: { title, body: body === '' ? 'b' : body },
  })),
);

/** Pushes to Live Activities, on APNs and through FCM. */
const activities = fc
  .tuple(
    fc.record({
      id: fc.stringMatching(/^[A-Za-z0-9._~-]{1,128}$/),
      recipientId: printable(256),
      devices: fc.array(activityPhone, { minLength: 1, maxLength: 3 }),
      pushType: fc.constant('liveactivity'),
    }),
    some({
      priority: fc.constantFrom('high', 'normal'),
      collapseId: collapse.map((text) => cut(text, 16)),
      expiresAt: instant,
      apns: some({ priority: fc.constantFrom(5, 10), topic: fc.constant('com.example.school') }),
    }),
    activityEvent,
  )
  .map((parts) => asJson(Object.assign({}, ...parts)));

const channelId = fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => Buffer.from(bytes).toString('base64'));
const anyState = fc.dictionary(name, json, { maxKeys: 4 });
const largeState = fc.integer({ min: 4_000, max: 5_200 }).map((size) => ({ text: 'x'.repeat(size) }));

/** Updates and ends of a Live Activity over a channel. */
const overChannels = fc
  .tuple(
    fc.record({ id: fc.stringMatching(/^[A-Za-z0-9._~-]{1,128}$/), pushType: fc.constant('liveactivity') }),
    fc
      .tuple(channelId, some({ storage: fc.constantFrom('none', 'most-recent'), app: fc.constant('teacher') }))
      .map(([id, fields]) => ({ recipientId: id, channel: { id, ...fields } })),
    fc
      .tuple(
        fc.oneof(
          fc.record({ event: fc.constant('update'), contentState: fc.oneof(anyState, largeState) }),
          fc.record({ event: fc.constant('end'), contentState: anyState, dismissalDate: instant }),
        ),
        some({ timestamp: instant, staleDate: instant, relevanceScore: fc.constantFrom(0, 0.5, 75) }),
      )
      .map(([event, fields]) => ({ liveActivity: { ...event, ...fields } })),
    some({
      priority: fc.constantFrom('high', 'normal'),
      expiresAt: instant,
      collapseId: collapse,
      apns: some({
        priority: fc.constantFrom(5, 10),
        topic: fc.constantFrom('com.example.school', 'com.example.school.push-type.liveactivity'),
        payload: custom,
      }),
    }),
    seldom(fc.record({ title: printable(40), body: printable(40) })),
  )
  .map(([fields, target, activity, others, shown]) =>
    asJson({ ...fields, ...target, ...activity, ...others, ...(shown !== undefined && { alert: shown, sound: 'a' }) }),
  );

/** So large that they just fit, or just do not. */
const large = fc
  .tuple(
    common,
    fc.record({ devices: fc.array(phone, { minLength: 1, maxLength: 2 }), onThrottle: fc.constant('silence') }),
    fc.integer({ min: 3_400, max: 4_050 }).map((size) => ({ alert: { body: 'x'.repeat(size) } })),
  )
  .map((parts) => asJson(Object.assign({}, ...parts)));

const SHOWN = { alert: { body: 'Forms' } };
/** What once came out wrong, or was taken and must not be. */
const ONCE_WRONG: readonly Readonly<Record<string, unknown>>[] = [
  { alert: { body: 'Forms \ud83d' } },
  { ...SHOWN, data: { form: null } },
  { ...SHOWN, fcm: { message: { fid: 'cHJvamVjdC1pZA' } } },
  { alert: { body: 'x'.repeat(4_060) }, onThrottle: 'silence' },
  {
    pushType: 'background',
    fcm: { message: { apns: { headers: { 'apns-priority': '10' }, payload: { aps: { sound: 'default' } } } } },
  },
];

/** The same with other fields beside it. */
const onceWrong = fc
  .tuple(
    common,
    fc.record({ devices: fc.array(phone, { minLength: 1, maxLength: 2 }) }),
    fc.constantFrom(...ONCE_WRONG),
  )
  .map(([fields, devices, wrong]) => ({ ...asJson({ ...fields, ...devices }), ...wrong }));

/** All of these, what is near the limit of size, and what once came out wrong. Most fit the schema. */
export const notifications = (server = PUSH_SERVICE) =>
  fc.oneof(
    { weight: 20, arbitrary: alerts(server) },
    { weight: 4, arbitrary: backgrounds },
    { weight: 2, arbitrary: retractions(server) },
    { weight: 4, arbitrary: activities },
    { weight: 2, arbitrary: overChannels },
    { weight: 2, arbitrary: large },
    { weight: 2, arbitrary: onceWrong },
  );
