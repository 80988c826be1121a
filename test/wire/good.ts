import { createECDH, createPrivateKey, sign } from 'node:crypto';
import type { WireRequest } from './table.ts';
import type { WebpushRequest } from './webpush-rules.ts';

/** Requests with nothing wrong, written by hand after the providers' references; together they have every field of the tables. */

export const NOW_MS = Date.parse('2026-11-21T17:00:00Z');
const NOW = NOW_MS / 1_000;

const b64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const APNS_JWT = `bearer ${b64({ alg: 'ES256', kid: 'ABC123DEFG' })}.${b64({ iss: 'DEF123GHIJ', iat: NOW })}.c2ln`;

function toApns(payload: object, headers: object): WireRequest {
  return {
    path: `/3/device/${'a1'.repeat(32)}`,
    headers: {
      authorization: APNS_JWT,
      'apns-id': '5f1c7a0e-9b5d-5e0c-8d3a-6c2f7be41d90',
      'apns-expiration': 1_795_284_000,
      'apns-priority': 10,
      'apns-topic': 'com.example.school',
      'apns-collapse-id': 'thread-77',
      ...headers,
    },
    body: JSON.stringify(payload),
  };
}

const live = (aps: object): WireRequest =>
  toApns(
    { aps: { timestamp: NOW, ...aps } },
    { 'apns-push-type': 'liveactivity', 'apns-topic': 'com.example.school.push-type.liveactivity' },
  );

const ALERT = {
  title: 'Room 12',
  subtitle: '7b',
  body: 'Forms',
  'launch-image': 'trip',
  'title-loc-key': 'T',
  'title-loc-args': ['a'],
  'subtitle-loc-key': 'S',
  'subtitle-loc-args': ['b'],
  'loc-key': 'B',
  'loc-args': ['c'],
  'action-loc-key': 'A',
  'summary-arg': 'x',
  'summary-arg-count': 1,
};

export const APNS_GOOD = {
  alert: toApns(
    {
      aps: {
        alert: ALERT,
        badge: 3,
        sound: { name: 'default', critical: 1, volume: 0.8 },
        'thread-id': 'class-7b',
        category: 'FORM',
        'content-available': 1,
        'mutable-content': 1,
        'target-content-id': 'inbox',
        'interruption-level': 'time-sensitive',
        'relevance-score': 0.7,
        'filter-criteria': '7b',
        'url-args': ['a'],
      },
      form: { id: 7, tags: [true, 'a'] },
    },
    { 'apns-push-type': 'alert' },
  ),
  background: toApns(
    { aps: { 'content-available': 1 }, threadId: '77' },
    { 'apns-push-type': 'background', 'apns-priority': 5 },
  ),
  voip: toApns({ call: 'x'.repeat(5_000), aps: {} }, { 'apns-push-type': 'voip', 'apns-topic': 'com.example.voip' }),
  start: live({
    event: 'start',
    'content-state': { left: 3 },
    'attributes-type': 'TripAttributes',
    attributes: { name: 'Trip' },
    alert: { title: { 'loc-key': 'T', 'loc-args': ['a'] }, body: 'It begins', sound: 'default' },
    'stale-date': NOW + 60,
    'relevance-score': 75,
    'input-push-token': 1,
    'input-push-channel': 'dHN0LXNyY2gtY2hubA==',
  }),
  update: live({ event: 'update', 'content-state': { left: 2 } }),
  end: live({
    event: 'end',
    'dismissal-date': NOW + 60,
    'content-state': {},
    alert: { body: { 'loc-key': 'B', 'loc-args': ['a'] } },
  }),
} satisfies Record<string, WireRequest>;

export const FCM_MESSAGE = {
  token: 'f1:APA91b',
  data: { threadId: '77', fromage: 'brie' },
  notification: { title: 'Room 12', body: 'Forms', image: 'https://example.com/a.jpg' },
  android: {
    collapse_key: 'thread-77',
    priority: 'high',
    ttl: '3.5s',
    restricted_package_name: 'com.example.school',
    data: { a: 'b' },
    notification: {
      title: 'a',
      body: 'b',
      icon: 'ic_form',
      color: '#1a73e8',
      sound: 'bell',
      tag: '77',
      click_action: 'OPEN',
      body_loc_key: 'B',
      body_loc_args: ['a'],
      title_loc_key: 'T',
      title_loc_args: ['b'],
      channel_id: 'homework',
      ticker: 'Forms',
      sticky: true,
      event_time: '2026-11-21T18:00:00.5Z',
      local_only: false,
      notification_priority: 'PRIORITY_LOW',
      default_sound: true,
      default_vibrate_timings: true,
      default_light_settings: false,
      vibrate_timings: ['0s', '0.5s'],
      visibility: 'SECRET',
      notification_count: 3,
      light_settings: {
        color: { red: 0, green: 0.5, blue: 1, alpha: 1 },
        light_on_duration: '1s',
        light_off_duration: '2s',
      },
      image: 'https://example.com/b.jpg',
      bypass_proxy_notification: false,
      proxy: 'ALLOW',
    },
    fcm_options: { analytics_label: 'forms' },
    direct_boot_ok: true,
    bandwidth_constrained_ok: true,
    restricted_satellite_ok: false,
  },
  webpush: {
    headers: { TTL: '15', Urgency: 'high', Topic: 'trip' },
    data: { a: 'b' },
    notification: { title: 'a', requireInteraction: true },
    fcm_options: { link: 'https://example.com/', analytics_label: 'forms' },
  },
  apns: {
    headers: {
      'apns-push-type': 'alert',
      'apns-priority': '10',
      'apns-id': '5f1c7a0e-9b5d-5e0c-8d3a-6c2f7be41d90',
      'apns-expiration': '0',
      'apns-topic': 'com.example.school',
      'apns-collapse-id': 'thread-77',
    },
    payload: { aps: { badge: 3, 'mutable-content': 1 }, form: { id: 7 } },
    fcm_options: { analytics_label: 'forms', image: 'https://example.com/a.jpg' },
  },
  fcm_options: { analytics_label: 'forms' },
};

export function toFcm(message: object, more: object = {}): WireRequest {
  return {
    path: '/v1/projects/school-1/messages:send',
    headers: { 'content-type': 'application/json', authorization: 'Bearer ya29.token' },
    body: JSON.stringify({ message, ...more }),
  };
}

const ORIGIN = 'https://push.example.com';
const pair = createECDH('prime256v1');
const point = pair.generateKeys();
const [x, y] = [point.subarray(1, 33).toString('base64url'), point.subarray(33).toString('base64url')];
const privateKey = createPrivateKey({
  format: 'jwk',
  key: { kty: 'EC', crv: 'P-256', d: pair.getPrivateKey('base64url').padStart(43, 'A'), x, y },
});

export const CLAIMS = { aud: ORIGIN, exp: NOW + 43_200, sub: 'mailto:push@example.com' };

/** An `authorization` of VAPID with any claims, signed. */
export function vapid(claims: object, alg = 'ES256'): string {
  const text = `${b64({ typ: 'JWT', alg })}.${b64(claims)}`;
  const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' });
  return `vapid t=${text}.${signature.toString('base64url')}, k=${point.toString('base64url')}`;
}

/** Salt, size of a record, length of the key, key, and a record of so many bytes. */
export function record(bytes: number, recordSize = 4_096, key = point): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32BE(recordSize);
  return Buffer.concat([Buffer.alloc(16, 7), size, Buffer.from([key.length]), key, Buffer.alloc(bytes, 7)]);
}

export const SHOWN_MESSAGE = {
  id: 'msg-8841',
  title: 'Room 12',
  body: 'Forms',
  image: 'https://example.com/a.jpg',
  icon: '/icon.png',
  tag: '77',
  lang: 'de',
  dir: 'auto',
  silent: false,
  renotify: true,
  requireInteraction: false,
  timestamp: NOW_MS,
  actions: [{ action: 'open', title: 'Open', icon: '/open.png' }],
  badge: 3,
  data: { form: null },
};

export const WEBPUSH_GOOD: WebpushRequest = {
  origin: ORIGIN,
  path: '/push/ana?a=b',
  headers: {
    authorization: vapid(CLAIMS),
    'content-encoding': 'aes128gcm',
    'content-type': 'application/octet-stream',
    ttl: 90,
    urgency: 'normal',
    topic: 'i-yHV_Zi8PPKuQ08fPv2nOZuThILD4-5',
  },
  body: record(4_096 - 86),
  message: Buffer.from(JSON.stringify(SHOWN_MESSAGE)),
  nowMs: NOW_MS,
};
