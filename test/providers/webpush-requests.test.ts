import { createECDH, createHash } from 'node:crypto';
import { encrypt } from 'http_ece';
import { expect, test } from 'vitest';
import type { z } from 'zod';
import { tagsOf } from '../../src/notification/device.ts';
import { webpushFieldsSchema } from '../../src/notification/devices/webpush/fields.ts';
import { WEBPUSH_MAX_MESSAGE_BYTES } from '../../src/notification/devices/webpush/payload.ts';
import type { WebpushDevice } from '../../src/notification/notification.ts';
import { payloadFaults } from '../../src/notification/rules.ts';
import { encodeWebpush } from '../../src/providers/webpush/webpush.ts';
import { browserKeys, decryptPush, sandboxSubscription } from '../../sandbox/webpush/subscription.ts';
import { startProcess } from '../support/process.ts';
import { faultsOf, makeNotification, makePush, type PushFields } from '../support/push.ts';
import { webpushFaults, webpushLoudFaults } from '../wire/webpush-rules.ts';
import { EVERY_FIELD, KEPT_BACK, NOW_MS } from './every-field.ts';

const SERVICE = 'https://updates.push.services.mozilla.com';
const ANA = { platform: 'webpush', ...sandboxSubscription(SERVICE, 'ana') } as const;

const prepare = (fields: PushFields) =>
  encodeWebpush(makePush({ devices: [ANA], ...fields }), { isAllowed: () => true, nowMs: NOW_MS });

/** What a push service gets of a push to Ana, and what her browser makes of it. It breaks no rule of web push. */
function requestOf(fields: PushFields = {}) {
  const prepared = prepare(fields);
  if (prepared.kind === 'refused') throw new Error(prepared.reply.detail);
  const { origin = '', ...encoded } = prepared.encoded;
  const message = decryptPush(encoded.body as Buffer, browserKeys('ana'));
  const request = { ...encoded, origin, message, nowMs: NOW_MS };
  expect([...webpushFaults(request), ...(encoded.push.silent ? webpushLoudFaults(request) : [])]).toEqual([]);
  const shown = JSON.parse(message.toString()) as Record<string, unknown>;
  expect(tagsOf(encoded.push.notification, [0])).toEqual([shown['tag']]);
  return { ...encoded, origin, message: shown };
}

test('every field of an alert is where the service worker and Safari look for it, and only Ana can read it', () => {
  const { origin, path, headers, message, body } = requestOf({ ...EVERY_FIELD, ...KEPT_BACK });
  expect({ origin, path, headers }).toEqual({
    origin: SERVICE,
    path: '/push/ana',
    headers: {
      'content-type': 'application/octet-stream',
      'content-encoding': 'aes128gcm',
      ttl: 3_600,
      urgency: 'high',
      topic: createHash('sha256').update('thread-77').digest('base64url').slice(0, 32),
    },
  });
  expect(message).toEqual({
    id: 'msg-8841',
    title: 'Room 12',
    body: 'Forms are due',
    image: 'https://example.com/a.jpg',
    tag: 'thread-77',
    silent: false,
    badge: 3,
    icon: '/icon.png',
    badgeUrl: '/badge.png',
    actions: [{ action: 'open', title: 'Open' }],
    renotify: true,
    requireInteraction: true,
    data: { text: 'a', form: { id: 7, tags: [true, null] }, count: 1.5 },
    web_push: 8030,
    notification: {
      title: 'Room 12',
      body: 'Forms are due',
      navigate: 'https://school.example.com/forms',
      tag: 'thread-77',
      silent: false,
      icon: 'https://school.example.com/icon.png',
      requireInteraction: true,
      app_badge: 3,
    },
    app_badge: 3,
  });
  expect(JSON.stringify(message)).not.toContain('kept-back');
  expect((body as Buffer).includes('Room 12')).toBe(false);
  expect(requestOf().body).not.toEqual(requestOf().body); // a key pair and a salt of its own for each
});

test('those are all fields that there are', () => {
  const namesOf = ({ shape }: z.ZodObject) => Object.keys(shape).toSorted();
  expect(Object.keys(EVERY_FIELD.webpush).toSorted()).toEqual(namesOf(webpushFieldsSchema));
});

test('a plain alert has its texts and the push id to replace a second copy by, and is kept for four weeks', () => {
  const { push, headers, message } = requestOf();
  expect(headers).toEqual({
    'content-type': 'application/octet-stream',
    'content-encoding': 'aes128gcm',
    ttl: 2_419_200,
    urgency: 'normal',
  });
  const { id } = push.notification;
  expect(message).toEqual({ id, ...push.notification.alert, tag: push.pushId, silent: false });
});

test('a query of the endpoint is kept', () => {
  const endpoint = 'https://wns2-am3p.notify.windows.com/w/?token=BQYAAA%3d%3d';
  const { origin, path } = requestOf({ devices: [{ ...ANA, endpoint }] });
  expect({ origin, path }).toEqual({ origin: 'https://wns2-am3p.notify.windows.com', path: '/w/?token=BQYAAA%3d%3d' });
});

test.each([
  ['2026-11-21T17:01:30Z', 90],
  [NOW_MS + 1_999, 1],
  [NOW_MS + 1, 1],
  [NOW_MS + 9e9, 2_419_200],
] as const)('expiresAt %s is a TTL of %i seconds', (expiresAt, ttl) => {
  expect(requestOf({ expiresAt }).headers).toMatchObject({ ttl });
});

test('a silent push is silent in both forms, and stays on the screen in none', () => {
  const { headers, message } = requestOf({ ...EVERY_FIELD, silent: true });
  expect(headers).toMatchObject({ urgency: 'low' });
  expect(message).toMatchObject({ title: 'Room 12', silent: true, notification: { title: 'Room 12', silent: true } });
  for (const name of ['badge', 'renotify', 'requireInteraction']) expect(message).not.toHaveProperty(name);
});

test('to Safari a body alone is the title', () => {
  const { declarative, navigate } = EVERY_FIELD.webpush;
  const { message } = requestOf({
    alert: { title: '', body: 'Now' },
    collapseId: 'a',
    webpush: { declarative, navigate },
  });
  expect(message).toMatchObject({ title: '', body: 'Now' });
  expect(message['notification']).toEqual({ title: 'Now', navigate, tag: 'a', silent: false });
});

test('a message that is encrypted to 4,096 bytes goes out, one more is refused before any request', () => {
  const sized = (size: number) => prepare({ id: 'm', alert: { title: 'x'.repeat(size) } });
  const frame = Buffer.byteLength(JSON.stringify(requestOf({ id: 'm', alert: { title: 'x' } }).message)) - 1;
  const largest = sized(WEBPUSH_MAX_MESSAGE_BYTES - frame);
  expect(largest.kind === 'ready' && largest.encoded.body).toHaveLength(4_096);
  expect(sized(WEBPUSH_MAX_MESSAGE_BYTES - frame + 1)).toEqual({
    kind: 'refused',
    reply: {
      ...{ meaning: 'rejected', alerted: 'no', code: 'payload-too-large' },
      detail: 'payload: expected at most 3993 bytes, found 3994',
    },
  });
});

test('what Safari and the service worker get counts together, before anything is enqueued', () => {
  const { declarative, navigate } = EVERY_FIELD.webpush;
  const sized = (size: number) =>
    makePush({ devices: [ANA], alert: { title: 'x'.repeat(size) }, webpush: { declarative, navigate } });
  expect(payloadFaults(sized(1_800).notification)).toEqual([]);
  expect(payloadFaults(sized(2_000).notification)).toMatchObject([
    { expected: 'a payload of at most 3993 bytes for webpush' },
  ]);
});

test.each<[why: string, device: WebpushDevice, isAllowed: boolean, reply: object]>([
  [
    'a push service that is not allowed, and the reply says how to allow it',
    { ...ANA, endpoint: 'https://10.0.0.8:8443/push/ana' },
    false,
    {
      code: 'origin-not-allowed',
      detail: 'https://10.0.0.8:8443 is no known push service; WEBPUSH_ORIGINS can allow it',
    },
  ],
  [
    'a public key that is no point on the curve',
    { ...ANA, keys: { ...ANA.keys, p256dh: `BA${'A'.repeat(85)}` } },
    true,
    { code: 'bad-keys' },
  ],
])('nothing goes to %s', (_why, device, isAllowed, reply) => {
  const prepared = encodeWebpush(makePush({ devices: [device] }), { isAllowed: () => isAllowed, nowMs: NOW_MS });
  expect(prepared).toMatchObject({ kind: 'refused', reply: { meaning: 'bad-token', ...reply } });
});

test('the example of RFC 8291: the library encrypts it and the sandbox decrypts it, byte by byte', () => {
  const plain = Buffer.from('When I grow up, I want to be a watermelon');
  const dh = 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4';
  const authSecret = 'BTBZMqHH6r4Tts7J_aSIgg';
  const body =
    'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_' +
    'yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN';
  const sender = createECDH('prime256v1');
  sender.setPrivateKey('yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw', 'base64url');
  const salt = 'DGv6ra1nlYgDCS1FRnbzlw';
  expect(encrypt(plain, { version: 'aes128gcm', privateKey: sender, dh, authSecret, salt }).toString('base64url')).toBe(
    body,
  );
  const pair = createECDH('prime256v1');
  pair.setPrivateKey('q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94', 'base64url');
  const auth = Buffer.from(authSecret, 'base64url');
  expect(decryptPush(Buffer.from(body, 'base64url'), { pair, auth })).toEqual(plain);
  const changed = Buffer.from(body, 'base64url');
  changed[110] = (changed[110] ?? 0) ^ 1;
  expect(() => decryptPush(changed, { pair, auth })).toThrow();
});

const faultsOfDevice = (fields: object) => faultsOf({ ...makeNotification(), devices: [{ ...ANA, ...fields }] });

test('a subscription fits as a browser gives it', () => {
  for (const expirationTime of [undefined, null, 1_795_284_000_000.5]) {
    expect(faultsOfDevice({ expirationTime })).toEqual([]);
  }
});

const HTTPS = 'an https:// URL of at most 2048 visible ASCII characters, found';
const PLAIN = 'a URL without a user, a password and a fragment, found';

test.each([
  ['http', 'http://fcm.googleapis.com/a', `${HTTPS} a string of 27 characters`],
  ['a space', 'https://fcm.googleapis.com/a b', `${HTTPS} a string of 30 characters`],
  ['too long', `https://fcm.googleapis.com/${'a'.repeat(2_022)}`, `${HTTPS} a string of 2049 characters`],
  ['a user', 'https://ana:geheim@fcm.googleapis.com/a', `${PLAIN} a string of 39 characters`],
  ['a fragment', 'https://fcm.googleapis.com/a#b', `${PLAIN} a string of 30 characters`],
  ['a host that is none', 'https://[/a', `${PLAIN} a string of 11 characters`],
])('an endpoint with %s is a fault, which does not show it', (_name, endpoint, fault) => {
  expect(faultsOfDevice({ endpoint })).toEqual([`devices[0].endpoint: expected ${fault}`]);
});

test('each fault of the keys has its path, all at once', () => {
  const keys = { p256dh: ANA.keys.p256dh.slice(1), auth: 'a+/=', extra: 1 };
  expect(faultsOfDevice({ keys, token: 'abc' })).toEqual([
    'devices[0].keys.p256dh: expected a public key on P-256: 87 characters of base64url, beginning with B, found a string of 86 characters',
    'devices[0].keys.auth: expected a secret of 16 bytes: 22 characters of base64url, found a string of 4 characters',
    'devices[0].keys.extra: expected no such field, found one',
    'devices[0].token: expected no such field, found one',
  ]);
});

const navigate = 'https://school.example.com/forms';
test.each([
  [{ declarative: false }, []],
  [{ declarative: true }, ['webpush.navigate: expected an https URL beside webpush.declarative, found nothing']],
  [{ navigate }, ['webpush.declarative: expected true beside webpush.navigate, found nothing']],
  [
    { declarative: true, navigate: '/forms' },
    ['webpush.navigate: expected an https URL of up to 2048 characters, found a string of 6 characters'],
  ],
])('the faults of webpush %j', (webpush, faults) => {
  expect(faultsOf({ ...makeNotification(), webpush })).toEqual(faults);
});

test('a declarative push is a fault where nothing is shown', () => {
  const background = { ...makeNotification(), alert: undefined, pushType: 'background', webpush: EVERY_FIELD.webpush };
  expect(faultsOf(background)).toContain('webpush: expected none in a background push, which shows nothing, found one');
});

const OURS = `
  import { encodeWebpush } from './src/providers/webpush/webpush.ts';
  import { sandboxSubscription } from './sandbox/webpush/subscription.ts';
  const device = { platform: 'webpush', ...sandboxSubscription('https://127.0.0.1', 'ana') };
  const notification = { id: 'm', priority: 'normal', alert: { title: 'Room 12' } };
  const push = { notification, device, pushId: 'p', silent: false };
  console.log(encodeWebpush(push, { isAllowed: () => true, nowMs: 0 }).kind);
`;
const WITHOUT_US = `
  import { createECDH } from 'node:crypto';
  import { encrypt } from 'http_ece';
  import { sandboxSubscription } from './sandbox/webpush/subscription.ts';
  const privateKey = createECDH('prime256v1');
  privateKey.generateKeys();
  const { keys } = sandboxSubscription('https://127.0.0.1', 'ana');
  encrypt(Buffer.from('Room 12'), { version: 'aes128gcm', privateKey, dh: keys.p256dh, authSecret: keys.auth });
  console.log('ready');
`;

test('no key is printed, whatever the environment asks of http_ece', async () => {
  const run = (script: string) =>
    startProcess({ args: ['--input-type=module', '-e', script], env: { ECE_KEYLOG: '1' } }).waitForExit();
  expect(await run(OURS)).toMatchObject({ code: 0, stdout: 'ready\n', stderr: '' });
  // Otherwise the test would prove nothing: alone, http_ece does print them.
  expect((await run(WITHOUT_US)).stderr).toMatch(/secret|key/i);
});
