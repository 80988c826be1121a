import fc from 'fast-check';
import { sandboxSubscription } from '../../sandbox/webpush/subscription.ts';
import {
  anyText,
  backgroundMessage,
  color,
  count,
  custom,
  cut,
  json,
  label,
  message,
  name,
  payload,
  printable,
  seldom,
  share,
  some,
  url,
} from './patches.ts';

/** Notifications over the whole public schema (docs/notification.schema.json): every field is there or not. */

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
const app = fc.option(fc.constantFrom('teacher', 'parent'), { nil: undefined, freq: 4 });
const phone = fc.oneof(
  fc.record({ platform: fc.constant('apns'), token: apnsToken, app }),
  fc.record({ platform: fc.constant('fcm'), token: fcmToken, app }),
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
      onThrottle: fc.constantFrom('delay', 'drop'),
      apns: some({ priority: fc.constant(5), topic: fc.constant('com.example.school'), payload: custom }),
      fcm: some({
        message: backgroundMessage,
      }),
    }),
  )
  .map((parts) => asJson(Object.assign({}, ...parts)));

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

/** Alerts, background pushes, what is near the limit of size, and what once came out wrong. Most fit the schema. */
export const notifications = (server = PUSH_SERVICE) =>
  fc.oneof(
    { weight: 20, arbitrary: alerts(server) },
    { weight: 4, arbitrary: backgrounds },
    { weight: 2, arbitrary: large },
    { weight: 2, arbitrary: onceWrong },
  );
