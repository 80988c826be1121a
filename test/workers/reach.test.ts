import { connect, createServer, type AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import type { Account } from '../../src/notification/device.ts';
import { createLog } from '../../src/observe/log.ts';
import { describeProviders } from '../../workers/pages.ts';
import { watchReach, type UnreachedServer } from '../../workers/reach.ts';
import { openReplicaBench } from '../support/replica.ts';
import { waitFor } from '../support/wait.ts';

const host = 'api.push.apple.com:443';
const away = (forMs: number, more: Partial<UnreachedServer> = {}): UnreachedServer => ({
  ...{ account: 'apns', host, failure: { cause: 'ENOTFOUND', detail: `getaddrinfo ENOTFOUND ${host}`, forMs } },
  ...more,
});

/** A watch that looks each millisecond at what is set. */
function watch() {
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const logged = () => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  const state: { reach: ReturnType<Parameters<typeof watchReach>[0]['accounts']['reach']> } = { reach: [] };
  const signIns: Account[] = [];
  const accounts = { reach: () => state.reach, signIn: (account: Account) => void signIns.push(account) };
  const watched = watchReach({ accounts, log, everyMs: 1 });
  onTestFinished(() => watched.stop());
  const after = async (reach: typeof state.reach, count: number): Promise<void> => {
    state.reach = reach;
    await waitFor(() => expect(logged()).toHaveLength(count));
    await new Promise((resolve) => setTimeout(resolve, 20)); // some more looks
    expect(logged()).toHaveLength(count);
  };
  return { logged, after, watched, signIns };
}

it('warns of a provider that cannot be reached at once, and each time that this has lasted twice as long', async () => {
  const { logged, after, signIns } = watch();
  await after([], 0);
  await after([away(700)], 1);
  await after([away(9_900)], 1);
  await after([away(10_100)], 2);
  await after([away(19_000)], 2);
  await after([away(20_100)], 3);
  await after([away(170_000)], 4);
  await after([away(319_000)], 4);
  await after([{ account: 'apns', host }], 5);
  const facts = { platform: 'apns', host };
  expect(logged()).toMatchObject([
    { level: 'warn', ...facts, cause: 'ENOTFOUND', detail: `getaddrinfo ENOTFOUND ${host}`, forMs: 700 },
    ...[10_100, 20_100, 170_000].map((forMs) => ({ level: 'warn', ...facts, cause: 'ENOTFOUND', forMs })),
    { level: 'info', ...facts, lastedMs: 319_000 },
  ]);
  expect(logged().map(({ msg }) => String(msg).slice(0, 36))).toEqual([
    'the provider cannot be reached: its ',
    ...[1, 2, 3].map(() => 'the provider still cannot be reached'),
    'the provider is reached again: its n',
  ]);
  expect(signIns).toEqual([]);
});

it('does not say that a provider is reached again where it is only not tried any more', async () => {
  const { logged, after } = watch();
  await after([away(700, { account: 'webpush', server: 'push.example.com' })], 1);
  await after([], 2);
  expect(logged()[1]).toMatchObject({ level: 'info', platform: 'webpush', server: 'push.example.com' });
  expect(logged()[1]?.['msg']).toContain('is not tried any more');
});

it('a sign-in that cannot be reached is logged as one, and tried again without a notification', async () => {
  const { logged, after, signIns } = watch();
  await after([away(700, { account: 'fcm~teacher', host: 'oauth2.googleapis.com', isSignIn: true })], 1);
  expect(logged()[0]).toMatchObject({ platform: 'fcm', app: 'teacher', host: 'oauth2.googleapis.com', isSignIn: true });
  expect(logged()[0]?.['msg']).toContain("the provider's sign-in cannot be reached");
  expect(signIns.length).toBeGreaterThan(1);
  expect(new Set(signIns)).toEqual(new Set(['fcm~teacher']));
  // Google answers again; whether it refuses the sign-in is not known from that.
  await after([{ account: 'fcm~teacher', host: 'oauth2.googleapis.com', isSignIn: true }], 2);
  expect(logged()[1]).toMatchObject({ level: 'info', msg: "the provider's sign-in can be reached again" });
});

it('/readyz shows each breaker that is open and each server that cannot be reached, and why', () => {
  const server = 'push.example.com';
  const unreached = new Map([
    ['apns', away(5_000)],
    [`webpush@${server}`, away(1_000, { account: 'webpush', server, host: `${server}:443` })],
    ['fcm~teacher', away(1_000, { account: 'fcm~teacher' })],
  ] as const);
  const at = Date.parse('2026-11-21T12:00:05Z');
  expect(
    describeProviders(
      [
        ['apns', undefined],
        ['fcm', { service: 'fcm', trouble: 'auth', code: 'Forbidden', since: at - 5_000, until: at + 65_000 }],
        ['fcm~parent', undefined],
      ],
      unreached,
      at,
    ),
  ).toEqual({
    providers: {
      apns: {
        breaker: 'closed',
        unreachable: { host, cause: 'ENOTFOUND', since: '2026-11-21T12:00:00.000Z', forMs: 5_000 },
      },
      fcm: {
        breaker: 'open',
        ...{ trouble: 'auth', code: 'Forbidden', since: '2026-11-21T12:00:00.000Z', forMs: 65_000 },
      },
      [`webpush@${server}`]: {
        breaker: 'closed',
        unreachable: expect.objectContaining({ host: `${server}:443` }) as object,
      },
    },
    apps: { teacher: { fcm: { breaker: 'closed', unreachable: expect.anything() as object } } },
  });
});

/** A port on the loopback at which nobody listens. */
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

it('a worker whose provider is away from the start says so without a notification, stays ready, and logs the end', async () => {
  const { sandbox, env, startHere, line } = await openReplicaBench();
  const port = await closedPort();
  const others = Object.keys(env).filter((name) => /^(WEBPUSH|FCM|GOOGLE)_/.test(name));
  const off = Object.fromEntries(others.map((name) => [name, '']));
  const { url } = await startHere({ ...off, APNS_ENDPOINT: `https://127.0.0.1:${port}`, METRICS_PORT: '0' });
  expect(JSON.parse(await line(/cannot be reached/))).toMatchObject({
    level: 'warn',
    platform: 'apns',
    host: `127.0.0.1:${port}`,
    cause: 'ECONNREFUSED',
  });
  const ready = await fetch(`${url}/readyz`);
  expect(ready.status).toBe(200);
  const { providers } = (await ready.json()) as { providers: object };
  expect(providers).toEqual({
    apns: {
      breaker: 'closed',
      unreachable: {
        ...{ host: `127.0.0.1:${port}`, cause: 'ECONNREFUSED' },
        ...{ since: expect.any(String) as string, forMs: expect.any(Number) as number },
      },
    },
  }); // and not a word of platforms that are off
  const page = await (await fetch(`${url}/metrics`)).text();
  const seconds = /^pushpacer_provider_unreachable_seconds\{platform="apns"\} (\S+)$/m.exec(page)?.[1];
  expect(Number(seconds)).toBeGreaterThan(0);
  expect(page.match(/^pushpacer_breaker_open_seconds\{.*$/gm)).toEqual([
    'pushpacer_breaker_open_seconds{platform="apns"} 0',
  ]);

  // What listens there now leads to the loopback provider.
  const { hostname, port: to } = new URL(sandbox.apns.url);
  const relay = createServer((socket) => {
    const other = connect(Number(to), hostname);
    for (const side of [socket, other]) side.on('error', () => undefined);
    socket.pipe(other).pipe(socket);
  });
  await new Promise<void>((resolve) => relay.listen(port, '127.0.0.1', resolve));
  onTestFinished(() => void relay.close());
  expect(JSON.parse(await line(/reached again/))).toMatchObject({ level: 'info', platform: 'apns' });
  expect(await (await fetch(`${url}/metrics`)).text()).toContain(
    'pushpacer_provider_unreachable_seconds{platform="apns"} 0',
  );
});
