import { createECDH, createHash } from 'node:crypto';
import { encrypt } from 'http_ece';
import { expect, test } from 'vitest';
import { tokenOf } from '../../src/notification/device.ts';
import type { Encoded } from '../../src/providers/provider.ts';
import { WEBPUSH_MAX_MESSAGE_BYTES, webpushMessage } from '../../src/notification/devices/webpush/payload.ts';
import { payloadFaults } from '../../src/notification/rules.ts';
import { encodeWebpush, topicOf } from '../../src/providers/webpush/webpush.ts';
import { browserKeys, decryptPush, sandboxSubscription } from '../../sandbox/webpush/subscription.ts';
import { startProcess } from '../support/process.ts';
import { faultsOf, makeNotification, makePush, type PushFields } from '../support/push.ts';

const subscription = sandboxSubscription('https://fcm.googleapis.com', 'ana');

const faultsOfDevice = (device: unknown) => faultsOf({ ...makeNotification(), devices: [device] });

test.each([
  ['as a browser gives it', subscription],
  ['with the expirationTime of a browser', { ...subscription, expirationTime: null }],
  ['with an instant there', { ...subscription, expirationTime: 1_795_284_000_000.5 }],
])('a subscription %s fits', (_name, fields) => {
  expect(faultsOfDevice({ platform: 'webpush', ...fields })).toEqual([]);
});

const ENDPOINT = 'devices[0].endpoint: expected';
const HTTPS = `${ENDPOINT} an https:// URL of at most 2048 visible ASCII characters, found`;
const PLAIN = `${ENDPOINT} a URL without a user, a password and a fragment, found`;

test.each([
  ['http', 'http://fcm.googleapis.com/a', `${HTTPS} a string of 27 characters`],
  ['no URL', 'ana', `${HTTPS} a string of 3 characters`],
  ['a space', 'https://fcm.googleapis.com/a b', `${HTTPS} a string of 30 characters`],
  ['too long', `https://fcm.googleapis.com/${'a'.repeat(2_022)}`, `${HTTPS} a string of 2049 characters`],
  ['a user', 'https://ana:geheim@fcm.googleapis.com/a', `${PLAIN} a string of 39 characters`],
  ['a fragment', 'https://fcm.googleapis.com/a#b', `${PLAIN} a string of 30 characters`],
  ['a host that is none', 'https://[/a', `${PLAIN} a string of 11 characters`],
  ['a number', 5, `${ENDPOINT} a string, found 5`],
])('an endpoint with %s is a fault, which does not show it', (_name, endpoint, fault) => {
  expect(faultsOfDevice({ platform: 'webpush', ...subscription, endpoint })).toEqual([fault]);
});

test('each fault of the keys has its path, all at once', () => {
  const keys = { p256dh: subscription.keys.p256dh.slice(1), auth: 'a+/=', extra: 1 };
  expect(faultsOfDevice({ platform: 'webpush', endpoint: subscription.endpoint, keys, token: 'abc' })).toEqual([
    'devices[0].keys.p256dh: expected a public key on P-256: 87 characters of base64url, beginning with B, found a string of 86 characters',
    'devices[0].keys.auth: expected a secret of 16 bytes: 22 characters of base64url, found a string of 4 characters',
    'devices[0].keys.extra: expected no such field, found one',
    'devices[0].token: expected no such field, found one',
  ]);
  expect(faultsOfDevice({ platform: 'webpush' })).toEqual([
    'devices[0].endpoint: expected a string, found nothing',
    'devices[0].keys: expected an object, found nothing',
  ]);
});

test('a subscription is known by its endpoint', () => {
  expect(tokenOf({ platform: 'webpush', ...subscription })).toBe(subscription.endpoint);
});

const NOW = Date.parse('2026-11-21T18:00:00Z');
const SERVICE = 'https://updates.push.services.mozilla.com';

function encode(fields: PushFields = {}): Encoded {
  const push = makePush({ devices: [device('ana')], ...fields });
  const prepared = encodeWebpush(push, { isAllowed: () => true, nowMs: NOW });
  if (prepared.kind === 'refused') throw new Error(prepared.reply.detail);
  return prepared.encoded;
}

const device = (name: string) => ({ platform: 'webpush', ...sandboxSubscription(SERVICE, name) }) as const;

/** What the service worker of `ana` gets. */
function messageOf({ body }: Encoded): unknown {
  return JSON.parse(decryptPush(body as Buffer, browserKeys('ana')).toString());
}

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

test('an alert goes to its endpoint, and only the browser can read it', () => {
  const encoded = encode({ data: { threadId: '77' }, badge: 3, sound: 'default' });
  const { push, origin, path, headers, body } = encoded;
  expect({ origin, path, headers }).toEqual({
    origin: SERVICE,
    path: '/push/ana',
    headers: {
      'content-type': 'application/octet-stream',
      'content-encoding': 'aes128gcm',
      ttl: 2_419_200,
      urgency: 'normal',
    },
  });
  expect(messageOf(encoded)).toEqual({
    id: push.notification.id,
    title: 'Room 12',
    body: 'Field trip forms are due',
    tag: push.pushId,
    silent: false,
    badge: 3,
    data: { threadId: '77' },
  });
  expect((body as Buffer).includes('Room 12')).toBe(false);
  expect(encode().body).not.toEqual(encode().body); // a key pair and a salt of its own for each
});

test('a query of the endpoint is kept', () => {
  const endpoint = 'https://wns2-am3p.notify.windows.com/w/?token=BQYAAA%3d%3d';
  const { origin, path } = encode({ devices: [{ ...device('ana'), endpoint }] });
  expect({ origin, path }).toEqual({ origin: 'https://wns2-am3p.notify.windows.com', path: '/w/?token=BQYAAA%3d%3d' });
});

test.each([
  ['2026-11-21T18:01:30Z', 90],
  [NOW + 1_999, 1],
  [NOW + 1, 1],
  [NOW + 9e9, 2_419_200],
] as const)('expiresAt %s is a TTL of %i seconds', (expiresAt, ttl) => {
  expect(encode({ expiresAt }).headers).toMatchObject({ ttl });
});

test('the priority is the urgency, and a collapse id is tag and topic', () => {
  const encoded = encode({ priority: 'high', collapseId: 'thread-77 ä' });
  const topic = createHash('sha256').update('thread-77 ä').digest('base64url').slice(0, 32);
  expect(encoded.headers).toMatchObject({ urgency: 'high', topic });
  expect(topicOf('thread-77 ä')).toMatch(/^[A-Za-z0-9_-]{32}$/);
  expect(messageOf(encoded)).toMatchObject({ tag: 'thread-77 ä' });
  expect(encode().headers).not.toHaveProperty('topic');
});

test('the largest message fits into 4,096 bytes, one byte more is refused before any request', () => {
  const empty = JSON.stringify(messageOf(encode({ id: 'm', alert: { title: 'T' }, data: { text: '' } })));
  const fill = 'x'.repeat(WEBPUSH_MAX_MESSAGE_BYTES - Buffer.byteLength(empty));
  const largest = { id: 'm', alert: { title: 'T' }, devices: [device('ana')] };
  expect((encode({ ...largest, data: { text: fill } }).body as Buffer).length).toBe(4_096);
  const push = makePush({ ...largest, data: { text: `${fill}x` } });
  expect(encodeWebpush(push, { isAllowed: () => true, nowMs: NOW })).toEqual({
    kind: 'refused',
    reply: {
      meaning: 'rejected',
      alerted: 'no',
      code: 'payload-too-large',
      detail: 'payload: expected at most 3993 bytes, found 3994',
    },
  });
});

const NAVIGATE = 'https://school.example.com/forms';
const DECLARATIVE = { declarative: true, navigate: NAVIGATE };

test('a declarative push has what a browser shows by itself beside what a service worker gets', () => {
  const webpush = { ...DECLARATIVE, icon: '/icon.png', badge: '/badge.png', requireInteraction: true, renotify: true };
  const { navigate, declarative, ...others } = webpush;
  const fields = { badge: 3, data: { threadId: '77' }, imageUrl: 'https://example.com/a.jpg' };
  const encoded = encode({ ...fields, webpush });
  const { push, headers } = encoded;
  const [own, plain] = [messageOf(encoded), messageOf(encode({ ...fields, webpush: others }))];
  const { id, tag } = own as Record<string, unknown>;
  expect(own).toEqual({
    ...(plain as object),
    id,
    tag,
    web_push: 8030,
    notification: {
      title: 'Room 12',
      body: 'Field trip forms are due',
      navigate,
      tag: push.pushId,
      silent: false,
      icon: 'https://school.example.com/icon.png',
      requireInteraction: true,
      app_badge: 3,
    },
    app_badge: 3,
  });
  expect(declarative).toBe(true);
  expect(plain).not.toHaveProperty('web_push');
  expect(headers['content-type']).toBe('application/octet-stream');
});

test('a silent declarative push is silent in both forms, and a body alone is the title', () => {
  const push = makePush({
    devices: [device('ana')],
    badge: 3,
    alert: { title: '', body: 'Now' },
    collapseId: 'thread-77',
    webpush: { ...DECLARATIVE, requireInteraction: true },
  });
  const prepared = encodeWebpush({ ...push, silent: true }, { isAllowed: () => true, nowMs: NOW });
  if (prepared.kind === 'refused') throw new Error(prepared.reply.detail);
  const { web_push: mark, notification, ...rest } = messageOf(prepared.encoded) as Record<string, unknown>;
  expect(mark).toBe(8030);
  expect(notification).toEqual({ title: 'Now', navigate: NAVIGATE, tag: 'thread-77', silent: true });
  expect(rest).toMatchObject({ title: '', body: 'Now', silent: true });
  expect(rest).not.toHaveProperty('app_badge');
});

test('both forms together fit into 4,096 bytes, and more is a fault before anything is enqueued', () => {
  const fields = { ...makeNotification(), devices: [device('ana')], webpush: DECLARATIVE };
  const sized = (size: number) => ({ ...fields, id: 'm', alert: { title: 'x'.repeat(size) } });
  const { notification: empty, ...one } = makePush(sized(1));
  const room = WEBPUSH_MAX_MESSAGE_BYTES - Buffer.byteLength(JSON.stringify(webpushMessage(empty, one)));
  const fit = 1 + Math.floor(room / 2);
  expect(payloadFaults(makePush(sized(fit)).notification)).toEqual([]);
  expect(encodeWebpush(makePush(sized(fit)), { isAllowed: () => true, nowMs: NOW }).kind).toBe('ready');
  const [fault] = payloadFaults(makePush(sized(fit + 1)).notification);
  expect(fault?.expected).toBe('a payload of at most 3993 bytes for webpush');
  expect(encodeWebpush(makePush(sized(fit + 1)), { isAllowed: () => true, nowMs: NOW }).kind).toBe('refused');
});

test.each([
  [
    'no navigate',
    { declarative: true },
    'webpush.navigate: expected an https URL beside webpush.declarative, found nothing',
  ],
  [
    'navigate alone',
    { navigate: NAVIGATE },
    'webpush.declarative: expected true beside webpush.navigate, found nothing',
  ],
  [
    'navigate without it',
    { declarative: false, navigate: NAVIGATE },
    'webpush.declarative: expected true beside webpush.navigate, found false',
  ],
  [
    'a path',
    { declarative: true, navigate: '/forms' },
    'webpush.navigate: expected an https URL of up to 2048 characters, found a string of 6 characters',
  ],
  [
    'http',
    { declarative: true, navigate: 'http://school.example.com' },
    'webpush.navigate: expected an https URL of up to 2048 characters, found a string of 25 characters',
  ],
])('a declarative push with %s is a fault with its path', (_name, webpush, fault) => {
  expect(faultsOf({ ...makeNotification(), webpush })).toEqual([fault]);
});

test('a declarative push is a fault where nothing is shown, and none with declarative false alone', () => {
  expect(faultsOf({ ...makeNotification(), webpush: { declarative: false } })).toEqual([]);
  const background = { ...makeNotification(), alert: undefined, pushType: 'background', webpush: DECLARATIVE };
  expect(faultsOf(background)).toContain('webpush: expected none in a background push, which shows nothing, found one');
});

test('a push service that is not allowed gets nothing, and the reply says how to allow it', () => {
  const push = makePush({ platform: 'webpush', server: 'https://10.0.0.8:8443' });
  expect(encodeWebpush(push, { isAllowed: () => false, nowMs: NOW })).toMatchObject({
    kind: 'refused',
    reply: {
      meaning: 'bad-token',
      code: 'origin-not-allowed',
      detail: 'https://10.0.0.8:8443 is no known push service; WEBPUSH_ORIGINS can allow it',
    },
  });
});

test('a public key that is no point on the curve is a bad subscription, and no error', () => {
  const keys = { ...device('ana').keys, p256dh: `BA${'A'.repeat(85)}` };
  const push = makePush({ devices: [{ ...device('ana'), keys }] });
  expect(encodeWebpush(push, { isAllowed: () => true, nowMs: NOW })).toMatchObject({
    kind: 'refused',
    reply: { meaning: 'bad-token', code: 'bad-keys' },
  });
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
