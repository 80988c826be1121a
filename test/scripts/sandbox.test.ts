import { readFile, readdir } from 'node:fs/promises';
import { once } from 'node:events';
import { connect } from 'node:http2';
import { request } from 'node:https';
import { expect, onTestFinished, test } from 'vitest';
import { main } from '../../scripts/sandbox.ts';
import { runMain } from '../support/command.ts';
import { startProcess } from '../support/process.ts';
import { runProgram, temporaryFolder } from '../support/program.ts';
import { freePort } from '../../src/sandbox/redis/free-port.ts';

const TOKEN = 'dGVzdA:APA91bSecretToken';

test.each(['SIGINT', 'SIGTERM'] as const)('npm run sandbox serves until %s, and ends with 0', async (signal) => {
  const command = startProcess({ args: ['scripts/sandbox.ts'] });
  const url = valueOf(await command.waitForLine(/^FCM_ENDPOINT=/));
  const ca = valueOf(await command.waitForLine(/^FCM_CA_FILE=/));
  expect(await sendFcm(url, await readFile(ca))).toBe(200);
  expect(await command.waitForLine(/^fcm /)).toBe('fcm dGVz… priority high');
  command.kill(signal);
  const { code, stdout, stderr } = await command.waitForExit();
  expect(code).toBe(0);
  expect(
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.split('=')[0]),
  ).toEqual([
    'APNS_ENDPOINT',
    'APNS_KEY_FILE',
    'APNS_KEY_ID',
    'APNS_TEAM_ID',
    'APNS_TOPIC',
    'APNS_CA_FILE',
    'FCM_ENDPOINT',
    'FCM_CA_FILE',
    'FCM_PROJECT_ID',
    'GOOGLE_APPLICATION_CREDENTIALS',
  ]);
  expect(stderr).toContain('fcm: 1 alerts accepted, of 1 requests on 1 connections\n');
  expect(stderr).not.toMatch(/SecretToken|Forms are due/);
  await expect(readFile(ca)).rejects.toThrow('ENOENT');
});

test('--dir keeps the keys, and an environment that a shell can read', async () => {
  const parent = await temporaryFolder();
  const dir = `${parent}/it's here`;
  const command = startProcess({ args: ['scripts/sandbox.ts', '--dir', dir, '--quiet'] });
  await command.waitForLine(/^GOOGLE_APPLICATION_CREDENTIALS=/);
  const shell = ['-c', 'set -eu; . "./it\'s here/sandbox.env"; cat "$APNS_KEY_FILE"; echo "$APNS_ENDPOINT"'];
  const output = await runProgram('sh', shell, parent);
  expect(output).toMatch(/BEGIN PRIVATE KEY[^]*https:\/\/127\.0\.0\.1:\d+\n$/);
  command.kill();
  expect(await command.waitForExit()).toMatchObject({ code: 0 });
  expect((await readdir(dir)).sort()).toEqual([
    'apns-key.p8',
    'ca-key.pem',
    'ca.pem',
    'sandbox.env',
    'service-account.json',
  ]);
});

test('--json tells the environment and the summary as objects, --quiet no alerts', async () => {
  const command = startProcess({ args: ['scripts/sandbox.ts', '--json', '--quiet', '--name', 'sandbox'] });
  const env = JSON.parse(await command.waitForLine(/^\{/)) as Record<string, string>;
  expect(env['APNS_ENDPOINT']).toMatch(/^https:\/\/sandbox:\d+$/);
  const local = (env['FCM_ENDPOINT'] ?? '').replace('sandbox', '127.0.0.1');
  expect(await sendFcm(local, await readFile(env['FCM_CA_FILE'] ?? ''))).toBe(200);
  command.kill();
  const { code, stdout, stderr } = await command.waitForExit();
  expect(code).toBe(0);
  expect(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')).toEqual({
    apns: { requests: 0, accepted: 0, connections: 0 },
    fcm: { requests: 1, accepted: 1, connections: 1 },
  });
  expect(stderr).not.toContain('priority');
});

test('serves at the ports that it is given, and says so where one is taken', async () => {
  const port = await freePort();
  const args = ['scripts/sandbox.ts', '--apns-port', String(port)];
  const first = startProcess({ args });
  expect(valueOf(await first.waitForLine(/^APNS_ENDPOINT=/))).toBe(`https://127.0.0.1:${port}`);
  const ca = await readFile(valueOf(await first.waitForLine(/^APNS_CA_FILE=/)));
  const session = connect(`https://127.0.0.1:${port}`, { ca });
  session.on('error', () => undefined); // that the server ends is no error of the test
  onTestFinished(() => session.destroy());
  await once(session, 'remoteSettings');

  const second = await startProcess({ args }).waitForExit();
  expect(second).toMatchObject({ code: 1, stdout: '' });
  expect(second.stderr).toBe(`error: listen EADDRINUSE: address already in use 127.0.0.1:${port}\n`);
  first.kill();
  expect(await first.waitForExit()).toMatchObject({ code: 0 }); // with a client still connected
});

test('--latency decides how long answers take', async () => {
  const command = startProcess({ args: ['scripts/sandbox.ts', '--latency', '300ms,300ms'] });
  const url = valueOf(await command.waitForLine(/^FCM_ENDPOINT=/));
  const ca = await readFile(valueOf(await command.waitForLine(/^FCM_CA_FILE=/)));
  const startedAt = performance.now();
  expect(await sendFcm(url, ca)).toBe(200);
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(299);
  command.kill();
  expect(await command.waitForExit()).toMatchObject({ code: 0 });
});

test('--latency 0 is taken, and --help tells the default', async () => {
  const command = startProcess({ args: ['scripts/sandbox.ts', '--latency', '0'] });
  await command.waitForLine(/^FCM_ENDPOINT=/);
  command.kill();
  expect(await command.waitForExit()).toMatchObject({ code: 0 });
  const help = await runMain(main, ['--help']);
  expect(help.stdout.replace(/\s+/g, ' ')).toMatch(/--latency <median,p99> .*\(default: 40ms,250ms\)/);
});

test.each([
  [['--latency', 'slow'], '--latency: expected two durations such as 40ms,250ms, or 0, found "slow"'],
  [['--latency', '40ms'], '--latency: expected two durations such as 40ms,250ms, or 0, found "40ms"'],
  [['--latency', '1ms,2ms,3ms'], '--latency: expected two durations such as 40ms,250ms, or 0, found "1ms,2ms,3ms"'],
  [
    ['--latency', '250ms,40ms'],
    '--latency: expected a median above 0 ms and a 99th percentile of at least the median, found 250 ms and 40 ms',
  ],
  [['--apns-port', '65536'], '--apns-port: expected a port from 0 to 65535, found "65536"'],
  [['--fcm-port', 'any'], '--fcm-port: expected a port from 0 to 65535, found "any"'],
  [['--nope'], "unknown option '--nope'"],
])('%j is bad usage', async (flags, message) => {
  const { code, stderr } = await runMain(main, flags);
  expect(stderr).toContain(message);
  expect(code).toBe(2);
});

/** `KEY='value'` → `value` */
function valueOf(line: string): string {
  return line.replace(/^\w+='(.*)'$/, '$1');
}

/** Sends one alert, and gives the status of the answer. */
async function sendFcm(url: string, ca: Buffer): Promise<number | undefined> {
  const message = { token: TOKEN, notification: { body: 'Forms are due' }, android: { priority: 'high' } };
  const headers = { authorization: 'Bearer owner' };
  const outgoing = request(`${url}/v1/projects/pushpacer-sandbox/messages:send`, { method: 'POST', ca, headers });
  outgoing.end(JSON.stringify({ message }));
  const [response] = (await once(outgoing, 'response')) as [{ statusCode?: number; resume(): void }];
  response.resume();
  return response.statusCode;
}
