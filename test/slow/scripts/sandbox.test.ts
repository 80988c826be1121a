import { once } from 'node:events';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { connect } from 'node:http2';
import { request } from 'node:https';
import { expect, onTestFinished, test, it } from 'vitest';
import { freePort } from '../../../sandbox/redis/embedded-redis.ts';
import { main } from '../../../scripts/sandbox.ts';
import { runMain } from '../../support/command.ts';
import { startProcess } from '../../support/process.ts';
import { runProgram, temporaryFolder } from '../../support/program.ts';
import { makeNotification } from '../../support/push.ts';
import { waitFor } from '../../support/wait.ts';
import { openWorkerQueues } from '../../support/worker.ts';

const TOKEN = 'dGVzdA:APA91bSecretToken';

test.each(['SIGINT', 'SIGTERM'] as const)('npm run sandbox serves until %s, and ends with 0', async (signal) => {
  const command = startProcess({ args: ['scripts/sandbox.ts'] });
  const url = valueOf(await command.waitForLine(/^FCM_ENDPOINT=/));
  const ca = valueOf(await command.waitForLine(/^FCM_CA_FILE=/));
  expect(await sendFcm(url, await readFile(ca))).toBe(200);
  expect(await command.waitForLine(/ fcm /)).toMatch(/^\d\d:\d\d:\d\d\.\d{3} fcm {2}dGVz… accepted "Room 12"$/);
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
    'WEBPUSH_ORIGINS',
    'WEBPUSH_VAPID_PRIVATE_KEY_FILE',
    'WEBPUSH_SUBJECT',
    'WEBPUSH_CA_FILE',
    'APNS_CHANNELS_ENDPOINT',
    'SANDBOX_URL',
  ]);
  expect(stderr).toContain('fcm: 1 alerts accepted, of 1 requests on 1 connections\n');
  expect(stderr).not.toMatch(/SecretToken|Forms are due/);
  await expect(readFile(ca)).rejects.toThrow('ENOENT');
});

test('--dir keeps the keys, and an environment that a shell can read', async () => {
  const parent = await temporaryFolder();
  const dir = `${parent}/it's here`;
  const command = startProcess({ args: ['scripts/sandbox.ts', '--dir', dir, '--quiet'] });
  await command.waitForLine(/^SANDBOX_URL=/);
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
    'vapid-key.pem',
  ]);
});

test('--json prints the environment and the summary as objects, --quiet no requests', async () => {
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
    webpush: { requests: 0, accepted: 0, connections: 0 },
  });
  expect(stderr).not.toContain('accepted "');
  expect(stdout.trimEnd().split('\n')).toHaveLength(2);
});

test('--json prints each request as an object, without the whole token and the text', async () => {
  const command = startProcess({ args: ['scripts/sandbox.ts', '--json'] });
  const env = JSON.parse(await command.waitForLine(/^\{/)) as Record<string, string>;
  expect(env['SANDBOX_URL']).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  const before = Date.now();
  expect(await sendFcm(env['FCM_ENDPOINT'] ?? '', await readFile(env['FCM_CA_FILE'] ?? ''))).toBe(200);
  const line = JSON.parse(await command.waitForLine(/"platform"/)) as Record<string, unknown>;
  expect(line).toEqual({
    at: expect.any(Number) as number,
    platform: 'fcm',
    token: 'dGVz…',
    accepted: true,
    status: 200,
    title: 'Room 12',
  });
  expect(line['at']).toBeGreaterThan(before - 1_000);
  command.kill();
  expect((await command.waitForExit()).stderr).not.toContain('Room 12');
});

test('--dir keeps the ports, and says which one is taken; flags win', async () => {
  const dir = await temporaryFolder();
  const args = ['scripts/sandbox.ts', '--dir', dir, '--quiet'];
  const run = async (more: readonly string[] = []) => {
    const command = startProcess({ args: [...args, ...more] });
    await command.waitForLine(/^ready/);
    return { command, env: command.stdout() };
  };
  const first = await run();
  const second = await startProcess({ args }).waitForExit();
  const port = /APNS_ENDPOINT='https:\/\/127\.0\.0\.1:(\d+)'/.exec(first.env)?.[1] ?? '';
  expect(second).toMatchObject({ code: 1, stdout: '' });
  expect(second.stderr).toBe(
    `error: port ${port} of APNs, kept in ${dir}/sandbox.env, is taken. Stop the other program, maybe another sandbox, ` +
      'or choose with --apns-port (0: any free port)\n',
  );
  first.command.kill();
  await first.command.waitForExit();

  const again = await run();
  expect(again.env).toBe(first.env);
  again.command.kill();
  await again.command.waitForExit();

  const other = await run(['--control-port', '0']);
  const lines = (text: string) => text.split('\n').filter((line) => !line.startsWith('SANDBOX_URL='));
  expect(lines(other.env)).toEqual(lines(first.env));
  expect(other.env).not.toBe(first.env);
  expect(await readFile(`${dir}/sandbox.env`, 'utf8')).toBe(other.env);
  other.command.kill();
  expect(await other.command.waitForExit()).toMatchObject({ code: 0 });
});

test('--script says what requests are answered, and the control endpoint changes it', async () => {
  const file = `${await temporaryFolder()}/script.json`;
  await writeFile(file, JSON.stringify({ answers: [{ platform: 'fcm', status: 503, times: 1 }] }));
  const command = startProcess({ args: ['scripts/sandbox.ts', '--script', file, '--latency', '0', '--keep', '2'] });
  const url = valueOf(await command.waitForLine(/^FCM_ENDPOINT=/));
  const ca = await readFile(valueOf(await command.waitForLine(/^FCM_CA_FILE=/)));
  const control = valueOf(await command.waitForLine(/^SANDBOX_URL=/));
  expect(await command.waitForLine(/^ready/)).toContain(control);
  expect(await sendFcm(url, ca)).toBe(503);
  expect(await command.waitForLine(/refused/)).toMatch(/ fcm {2}dGVz… refused 503 UNAVAILABLE "Room 12"$/);
  expect(await sendFcm(url, ca)).toBe(200);
  const body = JSON.stringify({ answers: [{ token: TOKEN, reason: 'UNREGISTERED' }] });
  expect((await fetch(`${control}/answers`, { method: 'PUT', body })).status).toBe(200);
  expect(await sendFcm(url, ca)).toBe(404);
  expect(await (await fetch(`${control}/journal`)).json()).toMatchObject({
    dropped: 1,
    entries: [
      { token: TOKEN, status: 200, title: 'Room 12', body: 'Forms are due' },
      { token: TOKEN, status: 404, reason: 'UNREGISTERED' },
    ],
  });
  command.kill();
  expect(await command.waitForExit()).toMatchObject({ code: 0 });
});

test('a script that is missing or wrong starts nothing', async () => {
  const file = `${await temporaryFolder()}/script.json`;
  expect(await runMain(main, ['--script', file])).toMatchObject({
    code: 1,
    stdout: '',
    stderr: `error: --script: ENOENT: no such file or directory, open '${file}'\n`,
  });
  await writeFile(file, '{"answers":[{"platform":"fcm","status":410},{"times":0,"answer":"hang"}]}');
  const { code, stdout, stderr } = await runMain(main, ['--script', file]);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain(`error: --script ${file}:\n  answers[0].status: expected a status that FCM answers: 400,`);
  expect(stderr).toContain('  answers[1].times: expected at least 1, found 0\n');
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
  expect(second.stderr).toBe(
    `error: port ${port} of APNs is taken. Stop the other program, maybe another sandbox, or choose with --apns-port (0: any free port)\n`,
  );
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

test('--help shows how long answers take by default', async () => {
  const help = await runMain(main, ['--help']);
  expect(help.stdout.replace(/\s+/g, ' ')).toMatch(/--latency <median,p99> .*\(default: 40ms,250ms\)/);
});

test.each([
  [['--latency', 'slow'], '--latency: expected two durations such as 40ms,250ms, or 0, found "slow"'],
  [['--latency', '1ms,2ms,3ms'], '--latency: expected two durations such as 40ms,250ms, or 0, found "1ms,2ms,3ms"'],
  [
    ['--latency', '250ms,40ms'],
    '--latency: expected a median above 0 ms and a 99th percentile of at least the median, found 250 ms and 40 ms',
  ],
  [['--apns-port', '65536'], '--apns-port: expected a port from 0 to 65535, found "65536"'],
  [['--fcm-port', 'any'], '--fcm-port: expected a port from 0 to 65535, found "any"'],
  [['--control-port', '-1'], '--control-port: expected a port from 0 to 65535, found "-1"'],
  [['--keep', '0'], '--keep: expected an integer from 1 to 1000000, found "0"'],
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
  const message = {
    token: TOKEN,
    notification: { title: 'Room 12', body: 'Forms are due' },
    android: { priority: 'high' },
  };
  const headers = { authorization: 'Bearer owner' };
  const outgoing = request(`${url}/v1/projects/pushpacer-sandbox/messages:send`, { method: 'POST', ca, headers });
  outgoing.end(JSON.stringify({ message }));
  const [response] = (await once(outgoing, 'response')) as [{ statusCode?: number; resume(): void }];
  response.resume();
  return response.statusCode;
}

/** `npm run sandbox` in a process of its own, and what it printed. */
async function startSandboxCommand(dir: string) {
  const command = startProcess({ args: ['scripts/sandbox.ts', '--latency', '0', '--dir', dir] });
  await command.waitForLine(/^ready/);
  const lines = command.stdout().trimEnd().split('\n');
  const pairs = lines.map((line) => /^(\w+)='(.*)'$/.exec(line) ?? []);
  return { command, env: Object.fromEntries(pairs.map(([, name = '', value = '']) => [name, value])) };
}

it('a 410 that PUT /answers asks for becomes a dead letter, unregistered; after a restart the worker goes on', async () => {
  const dir = await temporaryFolder();
  const first = await startSandboxCommand(dir);
  const { queue, deadQueue, startWorker } = openWorkerQueues({ ...first.env, LIMIT_MIN_GAP: '50ms' });
  const control = first.env['SANDBOX_URL'] ?? '';
  await startWorker();

  const gone = makeNotification({ id: 'msg-gone', devices: [{ platform: 'apns', token: 'ab01' }] });
  const body = JSON.stringify({ answers: [{ platform: 'apns', token: 'AB01', status: 410 }] });
  expect((await fetch(`${control}/answers`, { method: 'PUT', body })).status).toBe(200);
  await queue.add('push', gone, { jobId: gone.id, priority: 10 });
  await waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(1));
  const [letter] = await deadQueue.getJobs();
  expect(letter?.data).toMatchObject({ notification: { id: 'msg-gone' }, reason: 'unregistered' });
  const { entries } = (await (await fetch(`${control}/journal?id=msg-gone`)).json()) as { entries: unknown[] };
  expect(entries).toMatchObject([{ token: 'ab01', accepted: false, status: 410, reason: 'Unregistered' }]);
  expect(await first.command.waitForLine(/refused/)).toMatch(
    / apns ab… refused 410 Unregistered "Room 12" push id [0-9a-f]{8}$/,
  );

  first.command.kill();
  expect(await first.command.waitForExit()).toMatchObject({ code: 0 });
  const second = await startSandboxCommand(dir);
  expect(second.env).toEqual(first.env);
  const next = makeNotification({ id: 'msg-next', devices: [{ platform: 'apns', token: 'ab01' }] });
  await queue.add('push', next, { jobId: next.id, priority: 10 });
  expect(await second.command.waitForLine(/ accepted /)).toContain(' apns ab… accepted "Room 12"');
});
