import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { access, readdir, readFile, stat } from 'node:fs/promises';
import { createServer, type AddressInfo, connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished, expectTypeOf } from 'vitest';
import { startSandbox as startInternal } from '../../sandbox/sandbox.ts';
import {
  startSandbox,
  NO_LATENCY,
  startEmbeddedRedis,
  type EmbeddedRedisOptions,
  type JournalEntry,
  type Sandbox,
  type SandboxOptions,
  type SandboxServer,
  type ScriptedAnswer,
} from '../../sandbox/index.ts';
import { InputError } from '../../src/index.ts';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectApns } from './apns-client.ts';
import { connectFcm } from './fcm-client.ts';
import { waitFor } from '../support/wait.ts';

const SANDBOX = new URL('../../sandbox/sandbox.ts', import.meta.url).href;
const YEAR_MS = 365 * 86_400_000;

describe('the environment', () => {
  it('names every variable that a worker needs, and files that are there', async () => {
    const sandbox = await openSandbox();
    const env = sandbox.env();
    expect(env).toEqual({
      APNS_ENDPOINT: sandbox.apns.url,
      APNS_KEY_FILE: expect.stringMatching(/\.p8$/) as string,
      APNS_KEY_ID: 'SANDBOXKEY',
      APNS_TEAM_ID: 'SANDBOXTM1',
      APNS_TOPIC: 'dev.pushpacer.sandbox',
      APNS_CA_FILE: sandbox.caFile,
      FCM_ENDPOINT: sandbox.fcm.url,
      FCM_CA_FILE: sandbox.caFile,
      FCM_PROJECT_ID: 'pushpacer-sandbox',
      GOOGLE_APPLICATION_CREDENTIALS: expect.stringMatching(/\.json$/) as string,
      WEBPUSH_ORIGINS: sandbox.webpush.url,
      WEBPUSH_VAPID_PRIVATE_KEY_FILE: expect.stringMatching(/\.pem$/) as string,
      WEBPUSH_SUBJECT: 'mailto:sandbox@pushpacer.example',
      WEBPUSH_CA_FILE: sandbox.caFile,
      APNS_CHANNELS_ENDPOINT: sandbox.apns.channelsUrl,
    });
    expect(sandbox.apns.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
    const account = await readFile(env['GOOGLE_APPLICATION_CREDENTIALS'] ?? '', 'utf8');
    expect(JSON.parse(account)).toMatchObject({
      type: 'service_account',
      project_id: 'pushpacer-sandbox',
      private_key: expect.stringContaining('BEGIN PRIVATE KEY') as string,
      token_uri: `${sandbox.fcm.url}/token`, // a client that signs in all the same stays on the loopback
    });
  });

  it('is in files that only their owner reads', async () => {
    const dir = await temporaryFolder();
    await openSandbox({ dir });
    const files = await readdir(dir);
    expect(files.sort()).toEqual(['apns-key.p8', 'ca-key.pem', 'ca.pem', 'service-account.json', 'vapid-key.pem']);
    for (const file of files) expect((await stat(`${dir}/${file}`)).mode & 0o777).toBe(0o600);
  });

  it('names the host that clients are to use, which the certificates are good for', async () => {
    const sandbox = await openSandbox({ host: '0.0.0.0', name: 'sandbox' });
    expect(sandbox.apns.url).toMatch(/^https:\/\/sandbox:/);
    expect(sandbox.fcm.url).toMatch(/^https:\/\/sandbox:/);
    for (const { url } of [sandbox.apns, sandbox.fcm]) {
      const ca = await readFile(sandbox.caFile);
      const socket = connectTls({ port: Number(new URL(url).port), host: '127.0.0.1', servername: 'sandbox', ca });
      onTestFinished(() => void socket.destroy());
      await once(socket, 'secureConnect');
    }
    const everywhere = await openSandbox({ host: '0.0.0.0' });
    expect(everywhere.apns.url).toMatch(/^https:\/\/127\.0\.0\.1:/);
  });
});

describe('keys', () => {
  it('stay where a folder is given: clients of the last sandbox trust the next', async () => {
    const dir = await temporaryFolder();
    const read = async (file: string) => readFile(`${dir}/${file}`, 'utf8');
    await (await startInternal({ dir })).close();
    const [ca, key] = [await read('ca.pem'), await read('apns-key.p8')];
    const next = await openSandbox({ dir });
    expect([await read('ca.pem'), await read('apns-key.p8')]).toEqual([ca, key]);
    expect(await (await connectApns(next)).post()).toMatchObject({ status: 200 });
  });

  it('are made anew where the authority has run out', async () => {
    const dir = await temporaryFolder();
    await (await startInternal({ dir, now: () => Date.now() - YEAR_MS })).close();
    const old = await readFile(`${dir}/ca.pem`, 'utf8');
    const next = await openSandbox({ dir });
    const ca = await readFile(next.caFile, 'utf8');
    expect(ca).not.toBe(old);
    expect(new X509Certificate(ca).validToDate.getTime()).toBeGreaterThan(Date.now());
  });
});

describe('close', () => {
  it('ends requests that hang or are late, and takes its files away', async () => {
    const sandbox = await startInternal();
    const dir = sandbox.caFile.replace(/\/[^/]+$/, '');
    const apns = await connectApns(sandbox);
    const fcm = await connectFcm(sandbox, 2);
    await apns.post();
    const [hang, late] = [{ kind: 'hang' }, { kind: 'accept', delayMs: 600_000 }] as const;
    sandbox.apns.script('ab01', [hang, late]);
    sandbox.fcm.script('ab', [hang, late]);
    const requests = [apns.post(), apns.post(), fcm.send({ token: 'ab' }), fcm.send({ token: 'ab' })];
    const ends = Promise.allSettled(requests);
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(5));
    await sandbox.close();
    expect((await ends).map(({ status }) => status)).toEqual(Array(4).fill('rejected'));
    expect([sandbox.apns.openConnections, sandbox.fcm.openConnections]).toEqual([0, 0]);
    await expect(access(dir)).rejects.toThrow('ENOENT');
  });

  it('leaves nothing that keeps the process running', async () => {
    const program = `
      import { once } from 'node:events';
      import { request } from 'node:https';
      import { startSandbox } from ${JSON.stringify(SANDBOX)};
      const sandbox = await startSandbox();
      sandbox.fcm.setDefault({ kind: 'accept', delayMs: 600_000 });
      const url = sandbox.fcm.url + '/v1/projects/pushpacer-sandbox/messages:send';
      const headers = { authorization: 'Bearer owner' };
      const late = request(url, { method: 'POST', rejectUnauthorized: false, headers });
      const journalled = new Promise((resolve) => sandbox.journal.on(resolve));
      late.on('error', () => undefined).end('{"message":{"token":"ab"}}');
      const entry = await journalled;
      await sandbox.close();
      console.log(entry.accepted);`;
    const child = startProcess({ args: ['--input-type=module', '--eval', program] });
    expect(await child.waitForExit()).toMatchObject({ code: 0, stdout: 'true\n' });
  });

  it('can be called twice', async () => {
    const sandbox = await startInternal();
    await Promise.all([sandbox.close(), sandbox.close()]);
    await expect(sandbox.close()).resolves.toBeUndefined();
  });

  it('leaves nothing open where a port is taken', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void other.close());
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const servers = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap').length;
    await expect(startInternal({ ports: { fcm: port } })).rejects.toThrow('EADDRINUSE');
    expect(servers()).toBe(1);
  });
});

const INDEX = new URL('../../src/index.ts', import.meta.url).href;

async function isOpen(url: string): Promise<boolean> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  const opened = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return opened;
}

it('a sandbox ends with the block that uses it', async () => {
  const left = await (async () => {
    await using sandbox = await startSandbox({ latency: NO_LATENCY });
    expect(await isOpen(sandbox.apns.url)).toBe(true);
    return { url: sandbox.apns.url, file: sandbox.caFile };
  })();
  expect(await isOpen(left.url)).toBe(false);
  await expect(access(left.file)).rejects.toThrow('ENOENT');
});

it('a Redis ends with the block that uses it', async () => {
  const url = await (async () => {
    await using redis = await startEmbeddedRedis();
    const connection = new Redis(redis.url);
    expect(await connection.dbsize()).toBe(0);
    connection.disconnect();
    return redis.url;
  })();
  expect(await isOpen(url)).toBe(false);
});

it('a fault in the first script is an InputError', async () => {
  await expect(startSandbox({ answers: [{ platform: 'fcm', status: 410 }] })).rejects.toBeInstanceOf(InputError);
});

it.each([
  [{ port: 8443 }, 'port: expected no such field (did you mean ports?)'],
  [{ latency: { median: 1 } }, 'latency.median: expected no such field (did you mean medianMs?)'],
  [{ ports: { gcm: 8443 } }, 'ports.gcm: expected no such field'],
  ['8443', 'expected an object with options'],
])('a sandbox is not started with %j', async (options, message) => {
  await expect(startSandbox(options as SandboxOptions)).rejects.toThrow(`unusable options: ${message}`);
});

it('a Redis is not started with an option that does not exist', async () => {
  const options = { appendOnly: true, directory: '/tmp' } as EmbeddedRedisOptions;
  await expect(startEmbeddedRedis(options)).rejects.toThrow(
    /^unusable options:\n {2}appendOnly: .*did you mean appendonly.*\n {2}directory: .*did you mean dir\?/,
  );
});

it('its type shows what users need, and nothing of the inside', () => {
  expectTypeOf<keyof Sandbox>().toEqualTypeOf<
    | 'apns'
    | 'fcm'
    | 'webpush'
    | 'journal'
    | 'caFile'
    | 'env'
    | 'setAnswers'
    | 'answers'
    | 'close'
    | typeof Symbol.asyncDispose
  >();
  expectTypeOf<Sandbox['fcm']>().toEqualTypeOf<SandboxServer>();
  expectTypeOf<Sandbox['journal']['all']>().toEqualTypeOf<readonly JournalEntry[]>();
  expectTypeOf<Parameters<Sandbox['setAnswers']>[0]>().toEqualTypeOf<readonly ScriptedAnswer[]>();
});

it('is a module of its own: who enqueues loads no server', async () => {
  const program = `
    import { registerHooks } from 'node:module';
    const loaded = [];
    registerHooks({ resolve: (name, context, next) => { const at = next(name, context); loaded.push(at.url); return at; } });
    await import(${JSON.stringify(INDEX)});
    console.log(loaded.length > 100, loaded.filter((url) => /sandbox.[a-z./-]+[.]ts$|selfsigned/.test(url)).length);`;
  const child = startProcess({ args: ['--input-type=module', '--eval', program] });
  expect(await child.waitForExit()).toMatchObject({ code: 0, stdout: 'true 0\n', stderr: '' });
});
