import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { OutgoingHttpHeaders } from 'node:http2';
import { SignJWT } from 'jose';
import { expect, test } from 'vitest';
import {
  encodeWebpush,
  createVapidCredential,
  readVapidKey,
  type VapidKey,
} from '../../src/providers/webpush/webpush.ts';
import { shownBy } from '../../sandbox/webpush/declarative.ts';
import { type Sandbox } from '../../sandbox/sandbox.ts';
import { makePush } from '../support/push.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectRaw } from './raw-client.ts';

const SUBJECT = 'mailto:push@example.com';

async function open() {
  const sandbox = await openSandbox();
  const key = await keyOf(sandbox);
  const credential = createVapidCredential(sandbox.webpush.url, key, SUBJECT, Date.now);
  const push = makePush({ platform: 'webpush', server: sandbox.webpush.url });
  const prepared = encodeWebpush(push, { isAllowed: () => true, nowMs: Date.now() });
  if (prepared.kind === 'refused') throw new Error(prepared.reply.detail);
  const { path, headers, body } = prepared.encoded;
  const authorization = (await credential.obtain()) as string;
  const client = await connectRaw(sandbox, sandbox.webpush.url, {
    headers: { ...headers, ':path': path, authorization },
    body,
  });
  return { sandbox, key, send: client.ask };
}

async function keyOf(sandbox: Sandbox): Promise<VapidKey> {
  const key = readVapidKey(await readFile(sandbox.env()['WEBPUSH_VAPID_PRIVATE_KEY_FILE'] ?? '', 'utf8'));
  if (key === undefined) throw new Error('expected a key');
  return key;
}

function tokenWith({ privateKey, publicKey }: VapidKey, claims: Record<string, unknown>): Promise<string> {
  const signed = new SignJWT(claims).setProtectedHeader({ alg: 'ES256' }).sign(privateKey);
  return signed.then((token) => `vapid t=${token}, k=${publicKey}`);
}

test.each<[string, OutgoingHttpHeaders, Buffer | undefined, number, string]>([
  ['no authorization', { authorization: undefined }, undefined, 401, 'MissingAuthorization'],
  ['no TTL', { ttl: undefined }, undefined, 400, 'BadTtl'],
  ['a TTL that is no number', { ttl: 'soon' }, undefined, 400, 'BadTtl'],
  ['an urgency that there is not', { urgency: 'urgent' }, undefined, 400, 'BadUrgency'],
  ['a topic of 33 characters', { topic: 'a'.repeat(33) }, undefined, 400, 'BadWebPushTopic'],
  ['a topic that is no base64url', { topic: 'a/b' }, undefined, 400, 'BadWebPushTopic'],
  ['another encoding', { 'content-encoding': 'aesgcm' }, undefined, 400, 'BadEncryption'],
  ['a body that its browser cannot decrypt', { ':path': '/push/somebody-else' }, undefined, 400, 'BadEncryption'],
  ['a body that is not encrypted', {}, Buffer.from('{"title":"Room 12"}'), 400, 'BadEncryption'],
  ['a body over 4,096 bytes', {}, Buffer.alloc(4_097), 413, 'BodyTooLarge'],
  ['a path that is none', { ':path': '/push/' }, undefined, 404, 'UnknownSubscription'],
  ['another method', { ':method': 'PUT' }, undefined, 405, 'BadMethod'],
])('%s is refused', async (_name, headers, body, status, reason) => {
  const { sandbox, send } = await open();
  const answer = await send({ headers, ...(body !== undefined && { body }) });
  expect(answer).toMatchObject({ status, body: JSON.stringify({ reason }) });
  expect(sandbox.journal.all).toMatchObject([{ accepted: false, status, reason }]);
});

test('a VAPID token is for this server, in time, with a subject, and by the key of the subscriptions', async () => {
  const { sandbox, key, send } = await open();
  const seconds = Math.floor(Date.now() / 1_000);
  const good = { aud: sandbox.webpush.url, exp: seconds + 3_600, sub: SUBJECT };
  const statusWith = async (claims: Record<string, unknown>, own = key) =>
    (await send({ headers: { authorization: await tokenWith(own, claims) } })).body;
  expect(await statusWith(good)).toBe('');
  const bad = '{"reason":"BadJwtToken"}';
  expect(await statusWith({ ...good, aud: 'https://fcm.googleapis.com' })).toBe(bad);
  expect(await statusWith({ ...good, exp: seconds - 1 })).toBe(bad);
  expect(await statusWith({ ...good, exp: seconds + 86_460 })).toBe(bad);
  expect(await statusWith({ aud: good.aud, exp: good.exp })).toBe(bad);
  expect(await statusWith({ aud: good.aud, sub: SUBJECT })).toBe(bad);
  expect(await statusWith({ ...good, sub: 'push@example.com' })).toBe(bad);
  const pem = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' });
  const other = readVapidKey(pem as string);
  if (other === undefined) throw new Error('expected a key');
  expect(await statusWith(good, other)).toBe('{"reason":"VapidPkHashMismatch"}');
  expect(await statusWith(good, { privateKey: createPrivateKey(pem as string), publicKey: key.publicKey })).toBe(bad);
});

const GOOD = { title: 'Room 12', navigate: 'https://school.example.com/forms' };
test.each<[fault: string, message: Record<string, unknown>]>([
  ['notification: expected an object', {}],
  ['notification.navigate: expected an absolute URL', { notification: { title: 'Room 12' } }],
  ['notification.navigate: expected an absolute URL', { notification: { ...GOOD, navigate: '/forms' } }],
  ['notification.title: expected a text that is not empty', { notification: { ...GOOD, title: '' } }],
  ['notification.body: expected a text', { notification: { ...GOOD, body: 7 } }],
  ['notification.dir: expected auto, ltr or rtl', { notification: { ...GOOD, dir: 'up' } }],
  ['notification.icon: expected an absolute URL', { notification: { ...GOOD, icon: '/icon.png' } }],
  ['notification.silent: expected true or false', { notification: { ...GOOD, silent: 1 } }],
  ['notification.app_badge: expected a whole number from 0 on', { notification: { ...GOOD, app_badge: -1 } }],
  ['app_badge: expected a whole number from 0 on', { notification: GOOD, app_badge: {} }],
  ['mutable: expected true or false', { notification: GOOD, mutable: 'true' }],
])('a declarative message that Safari does not show: %s', (fault, message) => {
  expect(shownBy({ web_push: 8_030, ...message })).toEqual({ shownBy: 'service-worker', ignored: [fault] });
});

test('a declarative message as the standard has it is shown, and one without the mark is none', () => {
  expect(shownBy({ web_push: 8_030, notification: { ...GOOD, silent: true, dir: 'rtl' }, app_badge: 3 })).toEqual({
    shownBy: 'browser',
  });
  for (const mark of [undefined, '8030', 8_031])
    expect(shownBy({ web_push: mark, notification: GOOD })).toEqual({ shownBy: 'service-worker' });
  expect(shownBy(undefined)).toEqual({ shownBy: 'service-worker' });
});

test('a website has a limit of all its pushes, and a refusal says when there is room again', async () => {
  const { sandbox, send } = await open();
  sandbox.webpush.limitSite({ max: 2, perMs: 60_000 });
  const answers = [await send(), await send(), await send()];
  expect(answers.map(({ status }) => status)).toEqual([201, 201, 429]);
  const [first, , last] = answers;
  expect(first?.headers['retry-after']).toBeUndefined();
  expect(Number(last?.headers['retry-after'])).toBeGreaterThan(50);
  expect(Number(last?.headers['retry-after'])).toBeLessThanOrEqual(60);
  sandbox.webpush.limitSite(undefined);
  expect((await send()).status).toBe(201);
});
