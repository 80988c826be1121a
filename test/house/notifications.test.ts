import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import type { JournalEntry } from '../../sandbox/journal.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { pushId } from '../../src/notification/device.ts';
import { asDigest } from '../../src/notification/schema.ts';
import { parseNotification, PLATFORMS, type Notification } from '../../src/notification/notification.ts';
import { checkInput, type EnqueueInput } from '../../src/producer/producer.ts';
import { publishedSchema } from '../support/json-schema.ts';
import { openApns, openFcm, openSandbox, openWebpush, sendPush } from '../support/providers.ts';

/** When the page's example that expires is sent. */
const NOW_MS = Date.parse('2026-11-21T17:00:00Z');

interface Example {
  readonly document: unknown;
  /** What the page says is sent: `apns`, `fcm silent` → headers and payload, or the message. */
  readonly wire: Record<string, unknown>;
}

const PAGE = await readFile('docs/notifications.md', 'utf8');
const EXAMPLES = examplesOf(PAGE);

function examplesOf(page: string): Example[] {
  const examples: Example[] = [];
  for (const [, kind = '', text = ''] of page.matchAll(/^```json ([a-z ]+)\n([^]*?)^```$/gm)) {
    const json: unknown = JSON.parse(text);
    const last = examples.at(-1);
    if (kind === 'notification') examples.push({ document: json, wire: {} });
    else if (last !== undefined) last.wire[kind] = json;
  }
  return examples;
}

test('the page has examples for every platform', () => {
  expect(EXAMPLES.length).toBeGreaterThan(7);
  for (const platform of PLATFORMS) {
    expect(EXAMPLES.filter(({ wire }) => platform in wire).length).toBeGreaterThan(0);
    expect(EXAMPLES.filter(({ wire }) => `${platform} silent` in wire).length).toBeGreaterThan(0);
  }
});

test.each(EXAMPLES)('%#: what the page shows is valid, and is what the providers get', async ({ document, wire }) => {
  expect((await publishedSchema())(document)).toEqual([]);
  expect(checkInput(document as EnqueueInput)).toMatchObject({ kind: 'added' });
  const sandbox = await openSandbox();
  const notification = withBrowser(document as EnqueueInput, sandbox);
  const { channel } = notification;
  if (channel !== undefined) sandbox.apns.channels().create(channel.storage === 'most-recent' ? 1 : 0, channel.id);
  const [how = ''] = Object.keys(wire).map((kind) => kind.split(' ')[1] ?? '');
  const sent = await send(how === 'digest' ? asDigest(notification, 5) : notification, how, sandbox);
  expect(Object.keys(wire)).toHaveLength(notification.devices.length);
  expect(sent).toEqual(wire);
});

/** The example for a browser too, which it leaves out to be short. Without it where no browser may get the notification. */
function withBrowser(document: EnqueueInput, { webpush }: Sandbox): Notification {
  const browser = { platform: 'webpush', ...webpush.subscription('ana') } as const;
  const parsed = [[...(document.devices ?? []), browser], document.devices]
    .map((devices) => parseNotification({ ...document, devices }))
    .find(({ ok }) => ok);
  return parsed?.ok ? parsed.notification : ({} as Notification);
}

test('every field of the schema is on the page', async () => {
  const schema = JSON.parse(await readFile('docs/notification.schema.json', 'utf8')) as {
    properties: Record<string, { properties?: object }>;
  };
  const fields = Object.entries(schema.properties).flatMap(([field, { properties = {} }]) => [
    `"${field}"`,
    ...Object.keys(properties).map((inner) => `"${inner}"`),
  ]);
  const shown = EXAMPLES.map(({ document }) => JSON.stringify(document)).join();
  // A channel's `app` is that of a device, which is on another page.
  expect(fields.filter((field) => field !== '"app"' && !shown.includes(field))).toEqual([]);
});

test('the faults on the page are those that a producer gets', () => {
  const good = { recipientId: 'r', devices: [{ platform: 'fcm', token: 't' }], alert: { title: 'a' } };
  const result = checkInput({ ...good, apns: { treadId: 'a' }, channelId: 'b' } as unknown as EnqueueInput);
  const faults = result.kind === 'invalid' ? result.faults : [];
  expect(faults).toHaveLength(2);
  for (const { path, expected, found } of faults)
    expect(PAGE).toContain(`\n${path}: expected ${expected}, found ${found}\n`);
});

/** Sends an example to all its devices, and answers what arrived, in the page's form. */
async function send(notification: Notification, how: string, sandbox: Sandbox): Promise<Record<string, unknown>> {
  const startedAt = Date.now();
  const providers = {
    apns: await openApns(sandbox),
    fcm: await openFcm(sandbox, { now: () => NOW_MS }),
    webpush: await openWebpush(sandbox, { now: () => startedAt }),
  };
  for (const [index, device] of notification.devices.entries()) {
    const push = { notification, device, pushId: pushId(notification.id, index), silent: how === 'silent' };
    // A VAPID token must be new by the real clock, so a browser gets the example as if it was enqueued now.
    if (device.platform === 'webpush' && notification.expiresAt !== undefined)
      push.notification = { ...notification, expiresAt: notification.expiresAt + startedAt - NOW_MS };
    expect(await sendPush(providers[device.platform], push)).toMatchObject({ meaning: 'accepted' });
  }
  const suffix = how === '' ? '' : ` ${how}`;
  return Object.fromEntries(sandbox.journal.all.map((entry) => [`${entry.platform}${suffix}`, wireOf(entry)]));
}

function wireOf(entry: JournalEntry): unknown {
  const { platform, at, channel, pushType, priority, collapseId, expiration, topic, payload } = entry;
  if (platform === 'fcm') return payload;
  if (platform === 'webpush') {
    const ttl = String(Math.round((expiration ?? 0) - at / 1_000));
    return { headers: { ttl, urgency: priority, topic: collapseId }, message: payload };
  }
  const headers = {
    'apns-push-type': pushType,
    'apns-priority': priority,
    ...(channel === undefined
      ? { 'apns-collapse-id': collapseId, 'apns-topic': topic }
      : { 'apns-channel-id': channel }),
    ...(expiration !== undefined && { 'apns-expiration': String(expiration) }),
  };
  return { headers, payload };
}

const GOOD = {
  id: 'msg-8841',
  recipientId: 'teacher-42',
  devices: [
    { platform: 'apns', token: 'a1b2c3' },
    { platform: 'fcm', token: 'f:registration-token' },
  ],
  alert: { title: 'Room 12', body: 'Field trip forms are due' },
  data: { threadId: '77' },
  sound: 'default',
  badge: 3,
  category: 'messages',
  priority: 'high',
  collapseId: 'thread-77',
  expiresAt: '2026-11-21T18:00:00Z',
  onThrottle: 'delay',
  onQuiet: 'delay',
};

const BACKGROUND = {
  ...{ pushType: 'background', alert: undefined, sound: undefined, badge: undefined },
  data: { sync: { since: 7 } },
  apns: { priority: 5, payload: { sync: 'forms' } },
};

const ON_FCM = { platform: 'fcm', fid: 'cQx3v8fZTn6tE1mKp0aB9d' };
const LIVE = {
  ...{ pushType: 'liveactivity', devices: [GOOD.devices[0]], data: undefined, badge: undefined },
  liveActivity: { event: 'update', contentState: { score: '2 : 1' } },
};
const LIVE_START = {
  event: 'start',
  contentState: {},
  attributesType: 'MatchAttributes',
  attributes: {},
  timestamp: 1_795_284_000_000,
  staleDate: '2026-11-21T18:00:00Z',
  dismissalDate: '2026-11-21T18:00:00Z',
  relevanceScore: 75,
};

const CHANNEL = {
  ...{ ...LIVE, alert: undefined, sound: undefined, devices: undefined },
  ...{ recipientId: 'dHN0LXNyY2gtY2hubA==', channel: { id: 'dHN0LXNyY2gtY2hubA==' } },
};

const VALID: readonly [what: string, change: object][] = [
  ['as documented', {}],
  ['epoch milliseconds', { expiresAt: 1_795_284_000_000 }],
  ['any script', { recipientId: 'Übung 学校 🏫' }],
  ['a device of an app', { devices: [{ platform: 'fcm', token: 'a', app: 'teacher-2.b_c' }] }],
  ['an installation id', { devices: [{ platform: 'fcm', fid: 'cQx3v8fZTn6tE1mKp0aB9d' }] }],
  ['any JSON in data', { data: { form: { id: 7, tags: ['a', null] }, urgent: true } }],
  ['keys of texts', { alert: { titleLocKey: 'FORMS_TITLE', titleLocArgs: ['Room 12'], bodyLocKey: 'FORMS_BODY' } }],
  ['a key of a subtitle', { alert: { title: 'a', subtitleLocKey: 'FORMS_SUBTITLE', subtitleLocArgs: ['7b'] } }],
  ['the least priority of APNs', { apns: { priority: 1 } }],
  ['a subtitle and an image', { alert: { title: 'a', subtitle: 'b' }, imageUrl: 'https://example.com/a.jpg?b=1' }],
  ['an escape hatch', { apns: { payload: { aps: { 'filter-criteria': 'x' } } }, fcm: { message: { android: {} } } }],
  ['a background push', BACKGROUND],
  ['an update of a Live Activity', { ...LIVE, alert: undefined, sound: undefined, apns: { priority: 10 } }],
  ['one that alerts', LIVE],
  ['one through FCM', { ...LIVE, devices: [{ ...ON_FCM, liveActivityToken: 'a1b2' }, GOOD.devices[0]] }],
  ['a start with every field', { ...LIVE, liveActivity: LIVE_START }],
  ['an update over a channel', CHANNEL],
  [
    'the end of one, with every field',
    {
      ...CHANNEL,
      channel: { ...CHANNEL.channel, storage: 'most-recent', app: 'teacher' },
      liveActivity: { event: 'end', contentState: {} },
    },
  ],
  ['a background push with data alone', { ...BACKGROUND, data: undefined, apns: undefined }],
];

const INVALID: readonly [what: string, change: object][] = [
  ['an id with a colon', { id: 'a:b' }],
  ['a line break', { recipientId: 'a\nb' }],
  ['21 devices', { devices: Array.from({ length: 21 }, () => GOOD.devices[0]) }],
  ['an APNs token that is no hex', { devices: [{ platform: 'apns', token: 'xyz' }] }],
  ['a token with a space', { devices: [{ platform: 'fcm', token: 'a b' }] }],
  ['a device on FCM without a target', { devices: [{ platform: 'fcm' }] }],
  ['one with two', { devices: [{ platform: 'fcm', token: 'a', fid: 'cQx3v8fZTn6tE1mKp0aB9d' }] }],
  ['a registration token as installation id', { devices: [{ platform: 'fcm', fid: 'f1:APA91b' }] }],
  ['an installation id on APNs', { devices: [{ platform: 'apns', fid: 'cQx3v8fZTn6tE1mKp0aB9d' }] }],
  ['an app with a space', { devices: [{ platform: 'apns', token: 'a1', app: 'a b' }] }],
  ['an app without a name', { devices: [{ platform: 'apns', token: 'a1', app: '' }] }],
  ['a device with more', { devices: [{ platform: 'fcm', token: 'a', name: 'phone' }] }],
  ['an alert of empty texts', { alert: { title: '', body: '' } }],
  ['a reserved key', { data: { 'google.id': '1' } }],
  ['a key that begins with google', { data: { googleId: '1' } }],
  ['a key that begins with gcm', { data: { gcm: '1' } }],
  ['the key aps', { data: { aps: '1' } }],
  ['a negative badge', { badge: -1 }],
  ['an empty sound', { sound: '' }],
  ['a category with a space', { category: 'a b' }],
  ['a collapse id that is too long', { collapseId: 'c'.repeat(65) }],
  ['a date without a time', { expiresAt: '2026-11-21' }],
  ['the 31st of November', { expiresAt: '2026-11-31T18:00:00Z' }],
  ['an onThrottle of its own', { onThrottle: 'wait' }],
  ['an onQuiet of its own', { onQuiet: 'wait' }],
  ['a latest that is dropped in quiet hours', { onThrottle: 'latest', collapseId: 'a', onQuiet: 'drop' }],
  ['a subtitle alone', { alert: { subtitle: 'b' } }],
  ['arguments without a key', { alert: { title: 'a', titleLocArgs: ['b'] } }],
  ['arguments that are no texts', { alert: { bodyLocKey: 'a', bodyLocArgs: [1] } }],
  ['another push type', { pushType: 'voip' }],
  ['a volume below 0', { apns: { sound: { name: 'a', volume: -0.1 } } }],
  ['arguments of a subtitle without its key', { alert: { title: 'a', subtitleLocArgs: ['b'] } }],
  ['a topic with a space', { apns: { topic: 'a b' } }],
  ['a group of no name', { apns: { threadId: '' } }],
  ['a number in place of yes', { apns: { mutableContent: 1 } }],
  ['an icon over http', { webpush: { icon: 'http://example.com/a.png' } }],
  ['an icon of a host without a scheme', { webpush: { icon: '//example.com/a.png' } }],
  ['a number in place of an image', { webpush: { badge: 3 } }],
  ['a button without a text', { webpush: { actions: [{ action: 'a' }] } }],
  ['11 buttons', { webpush: { actions: Array.from({ length: 11 }, () => ({ action: 'a', title: 'b' })) } }],
  ['a visibility in capitals', { android: { visibility: 'PUBLIC' } }],
  ['a label of 51 characters', { analyticsLabel: 'a'.repeat(51) }],
  ['a hatch that is no object', { apns: { payload: 'aps' } }],
  ['a Live Activity without its field', { ...LIVE, liveActivity: undefined }],
  ['its field alone', { liveActivity: LIVE.liveActivity }],
  ['its field in a background push', { ...BACKGROUND, liveActivity: LIVE.liveActivity }],
  ['a Live Activity without a state', { ...LIVE, liveActivity: { event: 'update' } }],
  ['an event of its own', { ...LIVE, liveActivity: { ...LIVE.liveActivity, event: 'begin' } }],
  ['a start without attributes', { ...LIVE, liveActivity: { ...LIVE.liveActivity, event: 'start' } }],
  ['a start without an alert', { ...LIVE, alert: undefined, sound: undefined, liveActivity: LIVE_START }],
  ['an end with attributes', { ...LIVE, liveActivity: { ...LIVE_START, event: 'end' } }],
  ['a Live Activity with data', { ...LIVE, data: { a: 1 } }],
  ['a Live Activity on FCM without its token', { ...LIVE, devices: GOOD.devices }],
  ['a Live Activity with a token that is no hex', { ...LIVE, devices: [{ ...ON_FCM, liveActivityToken: 'x' }] }],
  ['an alert with the token of a Live Activity', { devices: [{ ...ON_FCM, liveActivityToken: 'a1' }] }],
  [
    'a Live Activity on APNs with a token more',
    { ...LIVE, devices: [{ ...GOOD.devices[0], liveActivityToken: 'a1' }] },
  ],
  ['a Live Activity with a sound and no alert', { ...LIVE, alert: undefined }],
  ['a Live Activity of priority 1', { ...LIVE, apns: { priority: 1 } }],
  ['a Live Activity in a digest', { ...LIVE, onThrottle: 'digest', digest: { key: 'a', title: 'b' } }],
  ['a silent start', { ...LIVE, liveActivity: LIVE_START, onThrottle: 'silence' }],
  ['a silent update without an alert', { ...LIVE, alert: undefined, sound: undefined, onQuiet: 'silence' }],
  ['a Live Activity that alerts by the hatch', { ...LIVE, apns: { payload: { aps: { alert: 'a' } } } }],
  ['neither devices nor a channel', { devices: undefined }],
  ['both', { ...CHANNEL, devices: [GOOD.devices[0]] }],
  ['an alert over a channel', { ...CHANNEL, pushType: 'alert', alert: GOOD.alert, liveActivity: undefined }],
  ['a background push over a channel', { ...BACKGROUND, devices: undefined, channel: CHANNEL.channel }],
  ['a start over a channel', { ...CHANNEL, alert: GOOD.alert, liveActivity: LIVE_START }],
  ['a channel that is no base64', { ...CHANNEL, recipientId: 'a b', channel: { id: 'a b' } }],
  ['a channel that keeps everything', { ...CHANNEL, channel: { ...CHANNEL.channel, storage: 'all' } }],
  ['a channel as a text', { ...CHANNEL, channel: CHANNEL.channel.id }],
  ['a channel with more', { ...CHANNEL, channel: { ...CHANNEL.channel, platform: 'apns' } }],
  ['a digest over a channel', { ...CHANNEL, onThrottle: 'digest', digest: { key: 'a', title: 'b' } }],
  ['a background push with an alert', { ...BACKGROUND, alert: { title: 'a' } }],
  ['a background push with a sound', { ...BACKGROUND, sound: 'default' }],
  ['a background push with a sound for iPhones', { ...BACKGROUND, apns: { sound: { name: 'a' } } }],
  ['a background push with an icon', { ...BACKGROUND, webpush: { icon: '/a.png' } }],
  ['a background push with a channel', { ...BACKGROUND, android: { channelId: 'a' } }],
  ['a background push of priority 10', { ...BACKGROUND, apns: { priority: 10 } }],
  ['a background push of priority 1', { ...BACKGROUND, apns: { priority: 1 } }],
  ['a silent background push', { ...BACKGROUND, onThrottle: 'silence' }],
  ['a background push that alerts by the hatch', { ...BACKGROUND, apns: { payload: { aps: { alert: 'a' } } } }],
  ['the same for iPhones', { ...BACKGROUND, fcm: { message: { apns: { payload: { aps: { sound: 'a' } } } } } }],
  ['the same for Android', { ...BACKGROUND, fcm: { message: { android: { notification: { title: 'a' } } } } }],
];

/** As JSON carries it: a field that is undefined is not there. */
const documentOf = (change: object): unknown => JSON.parse(JSON.stringify({ ...GOOD, ...change }));

test.each(VALID)('both let pass: %s', async (_, change) => {
  const document = documentOf(change);
  expect(parseNotification(document)).toMatchObject({ ok: true });
  expect((await publishedSchema())(document)).toEqual([]);
});

test.each(INVALID)('both refuse: %s', async (_, change) => {
  const document = documentOf(change);
  expect(parseNotification(document)).toMatchObject({ ok: false });
  expect((await publishedSchema())(document)).not.toEqual([]);
});
