import { createECDH, generateKeyPairSync } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/config.ts';
import { formatFault, InputError } from '../../src/domain/faults.ts';
import { createAllowed } from '../../src/providers/webpush/origins.ts';
import {
  createVapidCredential,
  createWebpushProvider,
  readVapidKey,
  type WebpushOptions,
} from '../../src/providers/webpush/webpush.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { temporaryFolder } from '../support/program.ts';
import { openSandbox, openWebpush, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';

/** Push services with one key and one authority, so that one worker can use them all. */
async function openServices(count: number): Promise<[Sandbox, ...Sandbox[]]> {
  const first = await openSandbox();
  const { WEBPUSH_CA_FILE: ca = '' } = first.env();
  const dir = ca.slice(0, ca.lastIndexOf('/'));
  const others = await Promise.all(Array.from({ length: count - 1 }, () => openSandbox({ dir })));
  return [first, ...others];
}

/** One provider for them all. */
function openProvider(services: readonly [Sandbox, ...Sandbox[]], more: Partial<WebpushOptions> = {}) {
  return openWebpush(services[0], { origins: services.map(({ webpush }) => webpush.url), ...more });
}

const pushTo = ({ webpush }: Sandbox) => makePush({ platform: 'webpush', server: webpush.url });

test('each push service has its own connections and its own token, and one that is down stops no other', async () => {
  const [first, second] = (await openServices(2)) as [Sandbox, Sandbox];
  const provider = await openProvider([first, second]);
  await first.webpush.down();
  const [lost, ...sent] = await Promise.all([first, second, second].map((each) => sendPush(provider, pushTo(each))));
  expect(lost).toMatchObject({ code: 'connection-refused', unsent: true, suspect: 'outage' });
  expect(lost?.detail).toContain(new URL(first.webpush.url).host); // an operator has to know which one
  for (const { meaning } of sent) expect(meaning).toBe('accepted');
  expect(second.journal.accepted).toHaveLength(2);
  expect(await provider.reserve({ origin: second.webpush.url })).toMatchObject({ kind: 'permit' });
});

test('a push service to which nothing is sent for a while has no connection any more, and the next push opens one', async () => {
  const service = await openSandbox();
  const provider = await openProvider([service], { idleMs: 200 });
  expect((await sendPush(provider, pushTo(service))).meaning).toBe('accepted');
  expect(service.webpush.openConnections).toBeGreaterThan(0);
  await expect.poll(() => service.webpush.openConnections).toBe(0);
  expect((await sendPush(provider, pushTo(service))).meaning).toBe('accepted');
});

test('a send that takes longer than that keeps its connection', async () => {
  const service = await openSandbox();
  const provider = await openProvider([service], { idleMs: 50 });
  service.webpush.setDefault({ kind: 'accept', delayMs: 400 });
  expect((await sendPush(provider, pushTo(service))).meaning).toBe('accepted');
});

test('beyond the most push services the one that waited longest makes room, and none that is sending', async () => {
  const services = (await openServices(3)) as [Sandbox, Sandbox, Sandbox];
  const [first, second, third] = services;
  const provider = await openProvider(services, { maxOrigins: 2 });
  for (const each of services) expect((await sendPush(provider, pushTo(each))).meaning).toBe('accepted');
  await expect.poll(() => first.webpush.openConnections).toBe(0);
  expect(second.webpush.openConnections).toBeGreaterThan(0);
  for (const each of [second, third]) each.webpush.setDefault({ kind: 'accept', delayMs: 500 });
  const slow = [second, third].map((each) => sendPush(provider, pushTo(each)));
  expect(await sendPush(provider, pushTo(first))).toMatchObject({ code: 'no-stream', unsent: true });
  expect(await provider.reserve({ origin: first.webpush.url })).toMatchObject({
    kind: 'none',
    reply: { code: 'no-stream' },
  });
  for (const { meaning } of await Promise.all(slow)) expect(meaning).toBe('accepted');
  expect((await sendPush(provider, pushTo(first))).meaning).toBe('accepted');
});

test('a host that somebody made up costs its own pushes an attempt, one that is named may be down', async () => {
  const label = 'x'.repeat(64); // longer than a label may be, so no name server is asked
  const [made, named] = [`https://${label}.push.apple.com`, `https://${label}.example.com`];
  const provider = await openProvider([await openSandbox()], { origins: [named] });
  const own = { meaning: 'later', code: 'host-not-found', alerted: 'no' };
  const to = (server: string) => makePush({ platform: 'webpush', server });
  for (const [origin, more] of [
    [made, {}],
    [named, { unsent: true, suspect: 'outage' }],
  ] as const) {
    const { detail, ...reply } = await sendPush(provider, to(origin));
    expect(reply).toEqual({ ...own, ...more });
    expect(detail).toContain(label);
    expect(await provider.reserve({ origin })).toMatchObject({ kind: 'none', reply: { ...own, ...more } });
  }
  // A host that somebody made up is no push service that cannot be reached.
  const unresolved = provider.reach().filter(({ failure }) => failure?.cause === 'ENOTFOUND');
  expect(unresolved.map(({ server }) => server)).toEqual([new URL(named).host]);
});

test('a push service that is not allowed is never connected to', async () => {
  const service = await openSandbox();
  const provider = await openProvider([service], { origins: [] });
  expect(await sendPush(provider, pushTo(service))).toMatchObject({ code: 'origin-not-allowed' });
  expect(service.webpush.counts.connections).toBe(0);
});

test('a redirect is not followed', async () => {
  const [service, other] = (await openServices(2)) as [Sandbox, Sandbox];
  const provider = await openProvider([service]);
  service.webpush.setDefault({ kind: 'refuse', status: 307, body: '' });
  expect(await sendPush(provider, pushTo(service))).toMatchObject({ code: 'http-307', meaning: 'later' });
  expect(other.webpush.counts.connections).toBe(0);
});

test('the token is for its push service, valid for 12 hours, and the same for all sends', async () => {
  const nowMs = Date.parse('2026-11-21T18:00:00Z');
  const service = await openSandbox();
  const { WEBPUSH_VAPID_PRIVATE_KEY_FILE: file = '' } = service.env();
  const key = readVapidKey(await readFile(file, 'utf8'));
  if (key === undefined) throw new Error('expected a key');
  const credential = createVapidCredential('https://push.example.com', key, 'mailto:push@example.com', () => nowMs);
  const header = (await credential.obtain()) as string;
  const [, token = '', publicKey] = /^vapid t=(.+), k=(.+)$/.exec(header) ?? [];
  expect(publicKey).toBe(key.publicKey);
  expect(decodeProtectedHeader(token)).toEqual({ typ: 'JWT', alg: 'ES256' });
  expect(decodeJwt(token)).toEqual({
    aud: 'https://push.example.com',
    exp: nowMs / 1_000 + 12 * 3_600,
    sub: 'mailto:push@example.com',
  });
  expect(await credential.obtain()).toBe(header);
});

test('what the push services say beside the status is in the reply for a person to read', async () => {
  const service = await openSandbox();
  const provider = await openProvider([service]);
  const { host } = new URL(service.webpush.url);
  const mozilla = { code: 401, errno: 109, error: 'Unauthorized', message: 'Request did not validate' };
  for (const [answer, expected] of [
    [
      { status: 401, body: JSON.stringify(mozilla) },
      { code: 'errno-109', detail: `${host}: Request did not validate` },
    ],
    [
      { status: 401, body: JSON.stringify({ ...mozilla, message: 'VAPID public key mismatch' }) },
      { code: 'other-key', meaning: 'bad-token', detail: `${host}: VAPID public key mismatch` },
    ],
    [
      { status: 403, reason: 'BadJwtToken' },
      { code: 'BadJwtToken', meaning: 'later', detail: host },
    ],
    [
      { status: 410, body: '' },
      { code: 'http-410', meaning: 'gone', detail: host },
    ],
  ] as const) {
    const push = pushTo(service);
    service.webpush.script(push.device.endpoint, [{ kind: 'refuse', ...answer }]);
    expect(await sendPush(provider, push)).toMatchObject(expected);
  }
});

test('a key that is none is an InputError that does not show it', () => {
  const make = () => createWebpushProvider({ vapidKey: 'geheim', subject: 'mailto:push@example.com', origins: [] });
  expect(make).toThrow(InputError);
  expect(make).not.toThrow(/geheim/);
});

const allowed = createAllowed(['https://push.example.com', 'https://127.0.0.1:8443']);

test.each([
  ['https://fcm.googleapis.com', 'named'],
  ['https://android.googleapis.com', 'named'],
  ['https://updates.push.services.mozilla.com', 'named'],
  ['https://web.push.apple.com', 'below'],
  ['https://wns2-am3p.notify.windows.com', 'below'],
  ['https://push.example.com', 'named'],
  ['https://127.0.0.1:8443', 'named'],
])('%s is allowed: %s', (origin, how) => expect(allowed(origin)).toBe(how));

test.each([
  'https://169.254.169.254',
  'https://localhost',
  'https://127.0.0.1',
  'https://127.0.0.1:8444',
  'https://redis.internal:6379',
  'https://fcm.googleapis.com:8443',
  'https://fcm.googleapis.com.evil.example',
  'https://fcm.googleapis.com.',
  'https://evilpush.apple.com',
  'https://push.apple.com',
  'https://a.push.apple.com:8443',
  'https://notify.windows.com',
  'https://xnotify.windows.com',
  'https://sub.push.example.com',
])('%s is not', (origin) => expect(allowed(origin)).toBeUndefined());

const pair = createECDH('prime256v1');
pair.generateKeys();
const PRIVATE = Buffer.concat([Buffer.alloc(32), pair.getPrivateKey()])
  .subarray(-32)
  .toString('base64url');
const PUBLIC = pair.getPublicKey('base64url');
const SUBJECT = 'mailto:push@example.com';

function faultsOf(env: Readonly<Record<string, string>>): string[] {
  try {
    loadConfig({ ALLOW_NO_CREDENTIALS: 'true', ...env });
    return [];
  } catch (error) {
    if (error instanceof InputError) return error.faults.map(formatFault);
    throw error;
  }
}

test('a key and a subject turn it on, and the public key is compared with the private one', () => {
  const env = { WEBPUSH_VAPID_PRIVATE_KEY: PRIVATE, WEBPUSH_VAPID_PUBLIC_KEY: PUBLIC, WEBPUSH_SUBJECT: SUBJECT };
  expect(loadConfig(env).providers.webpush).toEqual({ vapidKey: PRIVATE, subject: SUBJECT, origins: [] });
  const origins = { WEBPUSH_ORIGINS: 'https://push.example.com, https://127.0.0.1:8443/' };
  expect(loadConfig({ ...env, ...origins }).providers.webpush).toMatchObject({
    origins: ['https://push.example.com', 'https://127.0.0.1:8443'],
  });
  expect(loadConfig({ ...origins, ALLOW_NO_CREDENTIALS: 'true' }).providers).not.toHaveProperty('webpush');
});

test('the key may be in a file, as base64url or PEM, and means the same public key', async () => {
  const dir = await temporaryFolder();
  const { privateKey } = readVapidKey(PRIVATE) ?? {};
  const pem = privateKey?.export({ type: 'pkcs8', format: 'pem' }) as string;
  for (const text of [
    `${PRIVATE}\n`,
    `${PRIVATE}=`,
    pem,
    privateKey?.export({ type: 'sec1', format: 'pem' }) as string,
  ]) {
    await writeFile(join(dir, 'key'), text);
    const env = { WEBPUSH_VAPID_PRIVATE_KEY_FILE: join(dir, 'key'), WEBPUSH_SUBJECT: SUBJECT };
    expect(faultsOf({ ...env, WEBPUSH_VAPID_PUBLIC_KEY: PUBLIC })).toEqual([]);
    expect(readVapidKey(text)?.publicKey).toBe(PUBLIC);
  }
});

test('half of it is a fault, each with its variable', () => {
  expect(faultsOf({ WEBPUSH_SUBJECT: SUBJECT })).toEqual([
    'WEBPUSH_VAPID_PRIVATE_KEY_FILE: expected the VAPID private key (or WEBPUSH_VAPID_PRIVATE_KEY), since web push is configured, found nothing',
  ]);
  expect(faultsOf({ WEBPUSH_VAPID_PRIVATE_KEY: PRIVATE })).toEqual([
    'WEBPUSH_SUBJECT: expected a mailto: or https: URL, since web push is configured, found nothing',
  ]);
});

const other = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey.export({ type: 'pkcs8', format: 'pem' });

test.each([
  [
    { WEBPUSH_VAPID_PRIVATE_KEY: PUBLIC },
    /^WEBPUSH_VAPID_PRIVATE_KEY: expected a private key on P-256: .*, found something else$/,
  ],
  [{ WEBPUSH_VAPID_PRIVATE_KEY: other as string }, /^WEBPUSH_VAPID_PRIVATE_KEY: expected a private key on P-256/],
  [
    { WEBPUSH_VAPID_PUBLIC_KEY: `BA${'A'.repeat(85)}` },
    /^WEBPUSH_VAPID_PUBLIC_KEY: expected the public key of the private key/,
  ],
  [
    { WEBPUSH_VAPID_PUBLIC_KEY: 'abc' },
    /^WEBPUSH_VAPID_PUBLIC_KEY: expected a public key: 87 characters of base64url, found "abc"/,
  ],
  [
    { WEBPUSH_VAPID_PRIVATE_KEY_FILE: '/nowhere/key' },
    /^WEBPUSH_VAPID_PRIVATE_KEY: expected either .* or .*, found both/,
  ],
  [{ WEBPUSH_SUBJECT: 'push@example.com' }, /^WEBPUSH_SUBJECT: expected mailto:you@example.com or https/],
  [{ WEBPUSH_SUBJECT: 'mailto:push@localhost' }, /^WEBPUSH_SUBJECT: expected .* with a full host name/],
  [
    { WEBPUSH_ORIGINS: 'https://ana:geheim@push.example.com' },
    /^WEBPUSH_ORIGINS: expected https:\/\/ URLs .*, found a string of 35 characters$/,
  ],
  [
    { WEBPUSH_QUOTA: '9/1s,fcm.googleapi.com=1000/1m' },
    /^WEBPUSH_QUOTA: expected hosts of push services that are known or in WEBPUSH_ORIGINS, found "fcm.googleapi.com"$/,
  ],
  [
    { WEBPUSH_QUOTA: 'fcm.googleapis.com=1000' },
    /^WEBPUSH_QUOTA: expected rules as max\/per, or as host=max\/per .* \(WEBPUSH_QUOTA\[0\]: expected max\/per, .* found "1000"\), found/,
  ],
  [{ WEBPUSH_CA_FILE: '/nowhere/ca.pem' }, /^WEBPUSH_CA_FILE: expected a file that can be read/],
])('%j is a fault that shows no secret', (change, fault) => {
  const faults = faultsOf({ WEBPUSH_VAPID_PRIVATE_KEY: PRIVATE, WEBPUSH_SUBJECT: SUBJECT, ...change });
  expect(faults[0]).toMatch(fault);
  expect(faults.join()).not.toMatch(/geheim|AAAAAAAA/);
  expect(faults.join()).not.toContain(PRIVATE);
});
