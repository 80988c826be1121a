import { access } from 'node:fs/promises';
import { connect } from 'node:net';
import { once } from 'node:events';
import { expect, expectTypeOf, it } from 'vitest';
import { InputError } from '../../src/index.ts';
import {
  NO_LATENCY,
  startEmbeddedRedis,
  startSandbox,
  type EmbeddedRedisOptions,
  type JournalEntry,
  type Sandbox,
  type SandboxOptions,
  type SandboxServer,
  type ScriptedAnswer,
} from '../../sandbox/index.ts';
import { Redis } from 'ioredis';
import { startProcess } from '../support/process.ts';

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

it('a provider goes down and comes up on the same port', async () => {
  await using sandbox = await startSandbox({ latency: NO_LATENCY });
  const { url } = sandbox.fcm;
  await sandbox.fcm.down();
  expect([await isOpen(url), await isOpen(sandbox.apns.url)]).toEqual([false, true]);
  await sandbox.fcm.up();
  expect([await isOpen(url), sandbox.fcm.url]).toEqual([true, url]);
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
