import { once } from 'node:events';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { expect, test } from 'vitest';
import { main } from '../../../scripts/sandbox.ts';
import { runMain } from '../../support/command.ts';
import { startProcess } from '../../support/process.ts';
import { runProgram, temporaryFolder } from '../../support/program.ts';

const TOKEN = 'dGVzdA:APA91bSecretToken';

test('npm run sandbox serves until a signal, and ends with 0', async () => {
  const command = startProcess({ args: ['scripts/sandbox.ts'] });
  const url = valueOf(await command.waitForLine(/^FCM_ENDPOINT=/));
  const ca = valueOf(await command.waitForLine(/^FCM_CA_FILE=/));
  expect(await sendFcm(url, await readFile(ca))).toBe(200);
  expect(await command.waitForLine(/ fcm /)).toMatch(/^\d\d:\d\d:\d\d\.\d{3} fcm {2}dGVz… accepted "Room 12"$/);
  command.kill('SIGINT');
  const { code, stdout, stderr } = await command.waitForExit();
  expect(code).toBe(0);
  for (const name of ['APNS_ENDPOINT', 'FCM_ENDPOINT', 'WEBPUSH_ORIGINS', 'SANDBOX_URL'])
    expect(stdout).toContain(`${name}='`);
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

test('--json prints the environment, each request without the whole token and the text, and the summary, as objects', async () => {
  const command = startProcess({ args: ['scripts/sandbox.ts', '--json', '--name', 'sandbox'] });
  const env = JSON.parse(await command.waitForLine(/^\{/)) as Record<string, string>;
  expect(env['APNS_ENDPOINT']).toMatch(/^https:\/\/sandbox:\d+$/);
  const local = (env['FCM_ENDPOINT'] ?? '').replace('sandbox', '127.0.0.1');
  const before = Date.now();
  expect(await sendFcm(local, await readFile(env['FCM_CA_FILE'] ?? ''))).toBe(200);
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
  const { stdout, stderr } = await command.waitForExit();
  expect(stderr).not.toContain('Room 12');
  expect(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({
    apns: { requests: 0, accepted: 0, connections: 0 },
    fcm: { requests: 1, accepted: 1, connections: 1 },
  });
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

test('--script says what requests are answered, --latency after how long, and the control endpoint changes it', async () => {
  const file = `${await temporaryFolder()}/script.json`;
  await writeFile(file, JSON.stringify({ answers: [{ platform: 'fcm', status: 503, times: 1 }] }));
  const command = startProcess({
    args: ['scripts/sandbox.ts', '--script', file, '--latency', '300ms,300ms', '--keep', '2'],
  });
  const url = valueOf(await command.waitForLine(/^FCM_ENDPOINT=/));
  const ca = await readFile(valueOf(await command.waitForLine(/^FCM_CA_FILE=/)));
  const control = valueOf(await command.waitForLine(/^SANDBOX_URL=/));
  expect(await command.waitForLine(/^ready/)).toContain(control);
  const startedAt = performance.now();
  expect(await sendFcm(url, ca)).toBe(503);
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(299);
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

test.each([
  [['--latency', 'slow'], '--latency: expected two durations such as 40ms,250ms, or 0, found "slow"'],
  [
    ['--latency', '250ms,40ms'],
    '--latency: expected a median above 0 ms and a 99th percentile of at least the median, found 250 ms and 40 ms',
  ],
  [['--apns-port', '65536'], '--apns-port: expected a port from 0 to 65535, found "65536"'],
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
