import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import type { z } from 'zod';
import { tagsOf, tokenOf } from '../../src/notification/device.ts';
import { apnsFieldsSchema, apnsSoundSchema } from '../../src/notification/devices/apns/fields.ts';
import { alertSchema, liveActivitySchema } from '../../src/notification/schema.ts';
import { createApnsProvider } from '../../src/providers/apns/apns.ts';
import { apnsFaults, apnsLoudFaults } from '../wire/apns-rules.ts';
import { makePush, type PushFields } from '../support/push.ts';
import { EVERY_APS, EVERY_FIELD, KEPT_BACK, NOW_MS } from './every-field.ts';

const NOW_S = NOW_MS / 1_000;

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const provider = createApnsProvider({
  ...{ key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), keyId: 'ABC123DEFG', teamId: 'DEF123GHIJ' },
  ...{ topic: 'com.example.school', endpoint: 'https://api.push.apple.com', now: () => NOW_MS + 999 },
});

/** What APNs gets of a push. It breaks no rule of Apple, a silent one makes no noise, and apps know it by its collapse id. */
function requestOf(fields: PushFields) {
  const push = makePush(fields);
  const prepared = provider.prepare(push);
  if (prepared.kind === 'refused') throw new Error(prepared.reply.detail);
  const { encoded } = prepared;
  expect([...apnsFaults(encoded), ...(push.silent ? apnsLoudFaults(encoded) : [])]).toEqual([]);
  const { channel } = push.notification;
  if (channel === undefined) expect(tagsOf(push.notification, [0])).toEqual([encoded.headers['apns-collapse-id']]);
  return { ...encoded, push, payload: JSON.parse(encoded.body.toString()) as unknown };
}

const apsOf = (fields: PushFields) => (requestOf(fields).payload as { aps: Record<string, unknown> }).aps;

test('every field of an alert is where Apple wants it, and nothing goes out that only the queue needs', () => {
  const { path, push, headers, payload, body } = requestOf({ ...EVERY_FIELD, ...KEPT_BACK });
  expect(path).toBe(`/3/device/${tokenOf(push.device)}`);
  expect(headers).toEqual({
    'apns-id': push.pushId,
    'apns-push-type': 'alert',
    'apns-topic': 'com.example.school.watchkitapp',
    'apns-priority': 10,
    'apns-collapse-id': 'thread-77',
    'apns-expiration': 1_795_284_000,
  });
  expect(payload).toEqual({
    text: 'a',
    form: { id: 7, tags: [true, null] },
    count: 1.5,
    own: { b: 2 },
    fcm_options: { image: 'https://example.com/a.jpg' },
    aps: EVERY_APS,
  });
  expect(body).not.toContain('kept-back');
});

test('those are all fields that there are', () => {
  const namesOf = ({ shape }: z.ZodObject) => Object.keys(shape).toSorted();
  expect(Object.keys(EVERY_FIELD.alert).toSorted()).toEqual(namesOf(alertSchema));
  expect(Object.keys(EVERY_FIELD.apns).toSorted()).toEqual(namesOf(apnsFieldsSchema));
  expect(Object.keys(EVERY_FIELD.apns.sound).toSorted()).toEqual(namesOf(apnsSoundSchema));
  expect(Object.keys(START).toSorted()).toEqual(namesOf(liveActivitySchema));
});

test('a plain alert has its texts, the push id to replace a second copy by, and no field that it was not given', () => {
  const { push, headers, payload } = requestOf({});
  expect(headers).toEqual({
    'apns-id': push.pushId,
    'apns-push-type': 'alert',
    'apns-topic': 'com.example.school',
    'apns-priority': 10,
    'apns-collapse-id': push.pushId,
  });
  expect(payload).toEqual({ aps: { alert: { title: 'Room 12', body: 'Field trip forms are due' } } });
});

test.each<[PushFields, priority: number]>([
  [{ priority: 'high' }, 10],
  [{ priority: 'normal' }, 10],
  [{ priority: 'high', silent: true }, 5],
  [{ apns: { priority: 1 } }, 1],
  [{ apns: { priority: 1 }, silent: true }, 1],
  [{ apns: { priority: 5 }, silent: true }, 5],
  [{ apns: { priority: 10 }, silent: true }, 5],
])('an alert with %j has apns-priority %d', (fields, priority) => {
  expect(requestOf(fields).headers).toMatchObject({ 'apns-priority': priority });
});

test.each<[PushFields, aps: object]>([
  [{ sound: 'bell.caf', apns: { sound: { name: 'alarm.caf' } } }, { sound: 'alarm.caf' }],
  [{ apns: { sound: { name: 'a', critical: true } } }, { sound: { name: 'a', critical: 1 } }],
  [{ apns: { sound: { name: 'a', volume: 0 } } }, { sound: { name: 'a', critical: 0, volume: 0 } }],
  [{ imageUrl: 'https://example.com/a.jpg' }, { 'mutable-content': 1 }],
  [{ badge: 0 }, { badge: 0 }],
])('%j becomes %j', (fields, aps) => {
  expect(apsOf(fields)).toMatchObject(aps);
});

test('an app extension is not woken where the producer says so, whatever the image', () => {
  const apns = { mutableContent: false };
  expect(apsOf({ imageUrl: 'https://example.com/a.jpg', apns })).not.toHaveProperty('mutable-content');
});

test.each([
  [1_800_000_000_999, 1_800_000_000],
  ['1970-01-01T00:00:00Z', 1], // 0 would mean "once, now, and do not keep"
])('expiresAt %s is apns-expiration %d', (expiresAt, expected) => {
  expect(requestOf({ expiresAt }).headers).toMatchObject({ 'apns-expiration': expected });
});

test('a collapse id that a header cannot carry goes as a hash, which differs from that of another one', () => {
  const [first, again, other] = ['Grüße 🎒', 'Grüße 🎒', 'Grüße'].map(
    (collapseId) => requestOf({ collapseId }).headers['apns-collapse-id'],
  );
  expect(first).toMatch(/^[\x21-\x7e]{1,64}$/);
  expect(again).toBe(first);
  expect(other).not.toBe(first);
});

test('apns.payload is merged name by name: null removes, objects are merged, all else replaces', () => {
  const { payload } = requestOf({
    sound: 'default',
    data: { kept: '1', gone: '2', list: ['a', 'b'] },
    apns: { payload: { gone: null, list: ['c'], aps: { sound: null, alert: { subtitle: '7b' } } } },
  });
  const texts = { title: 'Room 12', body: 'Field trip forms are due' };
  expect(payload).toEqual({ kept: '1', list: ['c'], aps: { alert: { ...texts, subtitle: '7b' } } });
});

test('silence beats every field, and what is merged at the end', () => {
  const loud = { aps: { sound: 'b', badge: 9, 'interruption-level': 'critical' }, more: true };
  const { aps, ...rest } = requestOf({ ...EVERY_FIELD, apns: { ...EVERY_FIELD.apns, payload: loud }, silent: true })
    .payload as Record<string, object>;
  expect(aps).toMatchObject({
    alert: { title: 'Room 12' },
    'thread-id': 'thread-of-7b',
    'interruption-level': 'passive',
  });
  expect(rest).toMatchObject({ more: true, text: 'a' });
});

test('a background push wakes the app, and with a badge it is an alert without texts', () => {
  const background = {
    pushType: 'background',
    alert: undefined,
    priority: 'high',
    data: { sync: { since: 7 } },
  } as const;
  const { headers, payload } = requestOf(background);
  expect(headers).toMatchObject({ 'apns-push-type': 'background', 'apns-priority': 5 });
  expect(payload).toEqual({ sync: { since: 7 }, aps: { 'content-available': 1 } });
  const counting = requestOf({ ...background, badge: 0 });
  expect(counting.headers).toMatchObject({ 'apns-push-type': 'alert', 'apns-priority': 5 });
  expect(counting.payload).toEqual({ sync: { since: 7 }, aps: { 'content-available': 1, badge: 0 } });
});

test('4,096 bytes go out, one more is refused before any request', () => {
  const frame = JSON.stringify({ aps: { alert: { title: '' } } }).length;
  const sized = (bytes: number) => provider.prepare(makePush({ alert: { title: 'x'.repeat(bytes - frame) } }));
  expect(sized(4_096).kind).toBe('ready');
  expect(sized(4_097)).toEqual({
    kind: 'refused',
    reply: {
      ...{ meaning: 'rejected', alerted: 'no', code: 'PayloadTooLarge' },
      detail: 'payload: expected at most 4096 bytes, found 4097',
    },
  });
});

const START = {
  event: 'start',
  contentState: { score: '0 : 0' },
  timestamp: '2026-11-21T17:00:00.900Z',
  staleDate: 1_795_281_300_999,
  dismissalDate: '2026-11-21T20:00:00+01:00',
  relevanceScore: 75,
  attributesType: 'MatchAttributes',
  attributes: { home: '7b', away: '7c' },
} as const;
const GOAL = { title: 'Goal', body: '2 : 1' };
const ACTIVITY = {
  pushType: 'liveactivity',
  alert: undefined,
  liveActivity: { event: 'update', contentState: { score: '2 : 1' } },
} as const;

test('an update of a Live Activity has its own push type and topic, its state, and the time of the send', () => {
  const { headers, payload } = requestOf({ ...ACTIVITY, collapseId: 'match-12' });
  expect(headers).toMatchObject({
    'apns-push-type': 'liveactivity',
    'apns-topic': 'com.example.school.push-type.liveactivity',
    'apns-priority': 5,
    'apns-collapse-id': 'match-12',
  });
  expect(payload).toEqual({ aps: { timestamp: NOW_S, event: 'update', 'content-state': { score: '2 : 1' } } });
});

test('every field of a Live Activity is where Apple wants it, and instants are whole seconds', () => {
  const { dismissalDate, ...start } = START;
  expect(apsOf({ ...ACTIVITY, liveActivity: start, alert: { title: 'Match' } })).toEqual({
    timestamp: 1_795_280_400,
    event: 'start',
    'content-state': { score: '0 : 0' },
    'stale-date': 1_795_281_300,
    'relevance-score': 75,
    'attributes-type': 'MatchAttributes',
    attributes: { home: '7b', away: '7c' },
    alert: { title: 'Match' },
  });
  const end = { event: 'end', contentState: {}, dismissalDate } as const;
  expect(apsOf({ ...ACTIVITY, liveActivity: end })).toMatchObject({ event: 'end', 'dismissal-date': 1_795_287_600 });
});

test('in the alert of a Live Activity a key lies in the place of the text, and the sound beside it', () => {
  const alert = { title: 'Goal', titleLocKey: 'GOAL', titleLocArgs: ['7b'], bodyLocKey: 'SCORE', body: '2 : 1' };
  expect(apsOf({ ...ACTIVITY, alert, sound: 'goal.caf' })).toMatchObject({
    alert: { title: { 'loc-key': 'GOAL', 'loc-args': ['7b'] }, body: { 'loc-key': 'SCORE' }, sound: 'goal.caf' },
  });
});

const CHANNEL_ID = 'dHN0LXNyY2gtY2hubA==';
const OVER_CHANNEL = { ...ACTIVITY, recipientId: CHANNEL_ID, channel: { id: CHANNEL_ID }, devices: undefined } as const;

test.each<[PushFields, priority: number]>([
  [{}, 5],
  [{ priority: 'high' }, 10],
  [{ alert: GOAL }, 10],
  [{ apns: { priority: 10 } }, 10],
  [{ alert: GOAL, priority: 'high', apns: { priority: 5 } }, 5],
  [{ alert: GOAL, priority: 'high', silent: true }, 5],
])('a Live Activity with %j has apns-priority %d, over a channel too', (fields, priority) => {
  for (const activity of [ACTIVITY, OVER_CHANNEL]) {
    expect(requestOf({ ...activity, ...fields }).headers).toMatchObject({ 'apns-priority': priority });
  }
});

test('a silent Live Activity is the state without the alert, whatever was merged', () => {
  const apns = { payload: { aps: { 'relevance-score': 3 } } };
  const aps = apsOf({ ...ACTIVITY, alert: GOAL, sound: 'goal.caf', silent: true, apns });
  expect(aps).toEqual({
    ...{ timestamp: NOW_S, event: 'update', 'content-state': { score: '2 : 1' }, 'relevance-score': 3 },
  });
});

test('the topic of Live Activities is written once, and the path of a channel has the bundle id alone', () => {
  const written = { apns: { topic: 'com.example.clip.push-type.liveactivity' } };
  const bare = { apns: { topic: 'com.example.clip' } };
  for (const fields of [written, bare]) {
    expect(requestOf({ ...ACTIVITY, ...fields }).headers['apns-topic']).toBe('com.example.clip.push-type.liveactivity');
    expect(requestOf({ ...OVER_CHANNEL, ...fields }).path).toBe('/4/broadcasts/apps/com.example.clip');
  }
});

test('a push to a channel has the headers that Apple documents, and no others', () => {
  const { push, path, headers } = requestOf({ ...OVER_CHANNEL, collapseId: 'match-12' });
  expect(path).toBe('/4/broadcasts/apps/com.example.school');
  expect(headers).toEqual({
    'content-type': 'application/json',
    'apns-request-id': push.pushId,
    'apns-channel-id': CHANNEL_ID,
    'apns-push-type': 'liveactivity',
    'apns-priority': 5,
    'apns-expiration': 0,
  });
});

test.each<[what: string, 'none' | 'most-recent', expiresInS: number | undefined, expected: number]>([
  ['keeps nothing', 'none', undefined, 0],
  ['keeps nothing, although the notification expires', 'none', 60, 0],
  ['keeps the newest', 'most-recent', undefined, NOW_S + 8 * 3_600],
  ['keeps the newest, until the notification expires', 'most-recent', 60, NOW_S + 60],
  ['keeps the newest, for 8 hours at most', 'most-recent', 86_400, NOW_S + 8 * 3_600],
])('apns-expiration of a channel that %s', (_what, storage, expiresInS, expected) => {
  const expiresAt = expiresInS === undefined ? undefined : NOW_MS + expiresInS * 1_000;
  const { headers } = requestOf({ ...OVER_CHANNEL, channel: { id: CHANNEL_ID, storage }, expiresAt });
  expect(headers).toMatchObject({ 'apns-expiration': expected });
});
