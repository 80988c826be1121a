import { expect, it, onTestFinished } from 'vitest';
import type { Credentials } from '../../src/config/apps-file.ts';
import { quotaNameOf, serviceOfQuota } from '../../src/notification/device.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { createAccounts, type Accounts, type AccountsOptions } from '../../workers/accounts.ts';
import { apnsOptions, fcmOptions, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

const APPS = 300;

interface Bench {
  readonly sandbox: Sandbox;
  readonly accounts: Accounts;
  readonly credentials: Omit<Credentials, 'files'>;
}

/** The sandbox's own app, and many more that use the same key and project. */
async function openBench(options: Partial<AccountsOptions> = {}): Promise<Bench> {
  const sandbox = await openSandbox();
  const redis = connectRedis();
  const accounts = createAccounts({
    redis,
    prefix: testPrefix(),
    timeoutMs: 2_000,
    isWaiting: () => false,
    ...options,
  });
  onTestFinished(() => accounts.close());
  const own = { providers: { apns: await apnsOptions(sandbox), fcm: await fcmOptions(sandbox) }, quotas: {} };
  const apps = new Map(Array.from({ length: APPS }, (_, number) => [`app-${number}`, own] as const));
  return { sandbox, accounts, credentials: { ...own, apps } };
}

const connectionsOf = ({ apns, fcm }: Sandbox) => [apns.counts.connections, fcm.counts.connections];

it('hundreds of apps open no connection before they are used', async () => {
  const { sandbox, accounts, credentials } = await openBench();
  expect(accounts.apply(credentials)).toMatchObject({ faults: [], changes: { length: 2 + 2 * APPS } });
  await accounts.connect();
  await waitFor(() => expect(connectionsOf(sandbox)).toEqual([2, 2])); // those of the environment's app
  const provider = accounts.providers.get('apns~app-7');
  if (provider === undefined) throw new Error('expected a provider for app-7');
  expect(await sendPush(provider, makePush())).toMatchObject({ meaning: 'accepted' });
  expect(sandbox.apns.counts.connections).toBeLessThanOrEqual(4);
  expect(sandbox.fcm.counts.connections).toBe(2);
});

it('the connections of an app that is not used any more are closed, and made again with its next notification', async () => {
  const { sandbox, accounts, credentials } = await openBench({ everyMs: 5 });
  accounts.apply(credentials);
  await accounts.connect();
  const first = accounts.providers.get('apns~app-7');
  if (first === undefined) throw new Error('expected a provider for app-7');
  expect(await sendPush(first, makePush())).toMatchObject({ meaning: 'accepted' });
  await waitFor(async () => {
    const reserved = await first.reserve({});
    if (reserved.kind === 'permit') reserved.permit.release();
    expect(reserved).toMatchObject({ kind: 'none', reply: { code: 'closed' } });
  });
  const again = accounts.providers.get('apns~app-7');
  expect(again === undefined || (await sendPush(again, makePush()))).toMatchObject({ meaning: 'accepted' });
  const own = accounts.providers.get('apns');
  expect(own === undefined || (await sendPush(own, makePush()))).toMatchObject({ meaning: 'accepted' });
  expect(sandbox.journal.accepted).toHaveLength(3);
});

it('an app whose notifications wait for its circuit breaker is not idle', async () => {
  let checks = 0;
  const isWaiting = () => (checks += 1) > 0;
  const { accounts, credentials } = await openBench({ everyMs: 5, isWaiting });
  accounts.apply(credentials);
  const provider = accounts.providers.get('apns~app-7');
  await waitFor(() => expect(checks).toBeGreaterThan(3));
  expect(accounts.providers.get('apns~app-7')).toBe(provider);
});

it('only what changed is replaced, and sends under way end with the old credentials', async () => {
  const { sandbox, accounts, credentials } = await openBench();
  accounts.apply(credentials);
  expect(accounts.apply(structuredClone(credentials))).toEqual({ changes: [], faults: [] });
  const before = accounts.providers.get('apns~app-1');
  const kept = accounts.providers.get('fcm~app-1');
  const reserved = await before?.reserve({});
  if (before === undefined || reserved?.kind !== 'permit') throw new Error('expected a permit');

  const { providers } = credentials;
  const other = { ...providers, ...(providers.apns && { apns: { ...providers.apns, topic: 'dev.other' } }) };
  const quotas = { apns: [{ max: 5, perMs: 1_000 }] };
  const apps = new Map([...credentials.apps, ['app-1', { providers: other, quotas }]] as const);
  apps.delete('app-2');
  expect(accounts.apply({ ...credentials, apps })).toEqual({
    faults: [],
    changes: [
      { account: 'apns~app-1', change: 'replaced', fields: ['topic', 'quota'] },
      { account: 'apns~app-2', change: 'removed' },
      { account: 'fcm~app-2', change: 'removed' },
    ],
  });
  expect(accounts.providers.get('fcm~app-1')).toBe(kept);
  expect(accounts.providers.get('apns~app-2')).toBeUndefined();
  expect(await accounts.quotas.get('apns~app-1')?.take()).toMatchObject({ kind: 'taken' });
  const prepared = before.prepare(makePush());
  if (prepared.kind !== 'ready') throw new Error('expected a request');
  expect(await before.send(prepared.encoded, { permit: reserved.permit })).toMatchObject({ meaning: 'accepted' });
  expect(sandbox.journal.accepted.at(-1)?.topic).toBe(providers.apns?.topic);
});

it('a server of an account may have a quota of its own, which all workers know by its name', async () => {
  const { sandbox, accounts, credentials } = await openBench();
  const server = 'fcm.googleapis.com';
  const quotas = {
    fcm: [
      { max: 5, perMs: 1_000 },
      { max: 2, perMs: 1_000, server },
      { max: 9, perMs: 60_000, server },
    ],
  };
  accounts.apply({ ...credentials, apps: new Map(), providers: { fcm: await fcmOptions(sandbox) }, quotas });
  expect(accounts.quotaRules()).toEqual([
    ['fcm', [{ max: 5, perMs: 1_000 }]],
    [
      'fcm@fcm.googleapis.com',
      [
        { max: 2, perMs: 1_000 },
        { max: 9, perMs: 60_000 },
      ],
    ],
  ]);
  expect(await accounts.quotas.get('fcm@fcm.googleapis.com')?.take()).toMatchObject({ kind: 'taken' });
  expect((await accounts.quotas.get('fcm')?.used())?.map(({ used }) => used)).toEqual([0]);
  expect(accounts.quotas.get('fcm@other.example')).toBeUndefined();
  for (const service of ['webpush', 'webpush~a_b', 'webpush@a.b', 'webpush~a_b@127.0.0.1:8443'] as const) {
    expect(quotaNameOf(service)).toMatch(/^[\w.~-]{1,128}$/);
    expect(serviceOfQuota(quotaNameOf(service))).toBe(service);
  }
});

it('accounts with faults stay as they are, and those that cannot be created are logged', async () => {
  const { accounts, credentials } = await openBench();
  accounts.apply(credentials);
  const before = accounts.providers.get('apns~app-1');
  const none = { ...credentials, apps: new Map() };
  accounts.apply(none, (account) => account === 'apns~app-1');
  expect(accounts.names()).toEqual(['apns', 'fcm', 'apns~app-1']);
  expect(accounts.providers.get('apns~app-1')).toBe(before);

  const google = {
    projectId: 'p',
    endpoint: 'https://fcm.googleapis.com',
    credentials: { project_id: 'p', private_key: 'k' },
  };
  const bad = { ...credentials, apps: new Map([['new', { providers: { fcm: google }, quotas: {} }]]) };
  const { faults } = accounts.apply(bad);
  expect(faults).toMatchObject([{ path: 'apps.new.fcm.credentials', expected: "a service account's JSON" }]);
  expect(JSON.stringify(faults)).not.toContain('"k"');
  expect(accounts.providers.get('fcm~new')).toBeUndefined();
});
