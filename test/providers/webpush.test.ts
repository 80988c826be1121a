import { decodeJwt, decodeProtectedHeader } from 'jose';
import dns from 'node:dns';
import { readFile } from 'node:fs/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import type { Provider } from '../../src/providers/provider.ts';
import {
  createWebpushProvider,
  type WebpushOptions,
  createVapidCredential,
  readVapidKey,
} from '../../src/providers/webpush/webpush.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';

/** Push services with one key and one authority, so that one worker can use them all. */
async function openServices(count: number): Promise<readonly Sandbox[]> {
  const first = await openSandbox();
  const { WEBPUSH_CA_FILE: ca = '' } = first.env();
  const dir = ca.slice(0, ca.lastIndexOf('/'));
  const others = await Promise.all(Array.from({ length: count - 1 }, () => openSandbox({ dir })));
  return [first, ...others];
}

async function openProvider(services: readonly Sandbox[], more: Partial<WebpushOptions> = {}): Promise<Provider> {
  const [{ WEBPUSH_VAPID_PRIVATE_KEY_FILE: key = '', WEBPUSH_CA_FILE: ca = '' }] = services.map((each) =>
    each.env(),
  ) as [Record<string, string>];
  const provider = createWebpushProvider({
    vapidKey: await readFile(key, 'utf8'),
    subject: 'mailto:push@example.com',
    origins: services.map(({ webpush }) => webpush.url),
    ca: await readFile(ca, 'utf8'),
    ...more,
  });
  onTestFinished(() => provider.close());
  return provider;
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
  const [service] = (await openServices(1)) as [Sandbox];
  const provider = await openProvider([service], { idleMs: 200 });
  expect((await sendPush(provider, pushTo(service))).meaning).toBe('accepted');
  expect(service.webpush.openConnections).toBeGreaterThan(0);
  await expect.poll(() => service.webpush.openConnections).toBe(0);
  expect((await sendPush(provider, pushTo(service))).meaning).toBe('accepted');
});

test('a send that takes longer than that keeps its connection', async () => {
  const [service] = (await openServices(1)) as [Sandbox];
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
});

test('a push service that is not allowed is never connected to', async () => {
  const [service] = (await openServices(1)) as [Sandbox];
  const provider = await openProvider([service], { origins: [] });
  expect(await sendPush(provider, pushTo(service))).toMatchObject({ code: 'origin-not-allowed' });
  expect(service.webpush.counts.connections).toBe(0);
});

test('a host that somebody made up is no push service that cannot be reached', async () => {
  const [service] = (await openServices(1)) as [Sandbox];
  const unknown = (host: string, _options: unknown, done: (error: Error) => void): void =>
    done(Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND' }));
  const lookup = vi.spyOn(dns, 'lookup').mockImplementation(unknown as never);
  onTestFinished(() => lookup.mockRestore());
  const provider = await openProvider([service], { origins: ['https://named.invalid'] });
  for (const server of ['https://named.invalid', 'https://made-up.notify.windows.com']) {
    expect(await sendPush(provider, makePush({ platform: 'webpush', server }))).toMatchObject({
      code: 'host-not-found',
    });
  }
  expect(lookup.mock.calls.map(([host]) => host)).toContain('made-up.notify.windows.com');
  const told = provider.reach().filter(({ failure }) => failure?.cause === 'ENOTFOUND');
  expect(told.map(({ server }) => server)).toEqual(['named.invalid']);
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
  const [service] = (await openServices(1)) as [Sandbox];
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
  const [service] = (await openServices(1)) as [Sandbox];
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
