import { createServer } from 'node:net';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { main as dev } from '../../scripts/dev.ts';
import { expectDocumented } from '../house/documented.ts';
import { runMain } from '../support/command.ts';
import { processesWith } from '../support/leaks.ts';
import { startProcess } from '../support/process.ts';
import { runProgram, temporaryFolder } from '../support/program.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

/** What `--json` prints. */
interface Printed {
  readonly console: string;
  readonly api: string;
  readonly redis: string;
  readonly metrics: string;
  readonly sandbox: string;
  readonly token: string;
  readonly burst: string;
  readonly limit: string;
  readonly timeline: string;
}

const ANY_PORT = ['redis', 'api', 'console', 'control', 'metrics'].flatMap((name) => [`--${name}-port`, '0']);

/** Starts it in an empty folder, with an empty folder for temporary files. */
async function startDev(args: readonly string[] = ANY_PORT, env: Readonly<Record<string, string>> = {}) {
  const [cwd, temporary] = [await temporaryFolder(), await temporaryFolder()];
  const mark = crypto.randomUUID();
  const child = startProcess({
    args: [`${process.cwd()}/scripts/dev.ts`, '--json', ...args],
    env: { TMPDIR: temporary, PUSHPACER_TEST_DEV: mark, ...env },
    cwd,
  });
  const printed = JSON.parse(await child.waitForLine(/^\{"console"/)) as Printed;
  const left = async () => ({
    processes: await processesWith(`PUSHPACER_TEST_DEV=${mark}`),
    files: [...(await readdir(cwd)), ...(await readdir(temporary))],
  });
  return { child, printed, left, cwd };
}

const lines = (text: string): unknown[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);

test('its two requests send a burst, and move what waits; then nothing of it is left', async () => {
  // As in the shell of someone who runs a real worker too: none of it may be used here.
  const real = {
    REDIS_URL: 'redis://:s3cret@127.0.0.1:1',
    APNS_KEY: 'x',
    FCM_ENDPOINT: 'https://127.0.0.1:1',
    APPS_FILE: 'x',
  };
  const { child, printed, left, cwd } = await startDev(ANY_PORT, { ...real, LIMIT_MIN_GAP: '4s' });
  await expectDocumented('dev', printed);
  const { api, console, metrics, sandbox, token, burst, limit, timeline } = printed;

  const sent = lines(await runProgram('bash', ['-c', burst], cwd));
  expect(sent).toHaveLength(20);
  for (const answer of sent) expect(answer).toMatchObject({ result: 'added' });
  const recipient = `${api}/v1/recipients/teacher-7`;
  const look = async () => {
    const answer = await fetch(recipient, { headers: { authorization: `Bearer ${token}` } });
    return (await answer.json()) as { waiting: { at: number }[] };
  };
  const before = await waitFor(async () => {
    const { waiting } = await look();
    expect(waiting.length).toBeGreaterThan(15);
    return waiting;
  });
  const [limited] = lines(await runProgram('bash', ['-c', limit], cwd));
  expect(limited).toMatchObject({ moved: expect.any(Number) as number });
  const after = (await look()).waiting;
  expect(after.at(-1)?.at ?? Infinity).toBeLessThan((before.at(-1)?.at ?? 0) - 20_000);

  const page = await (await fetch(timeline)).text();
  expect(page).toContain('<figure class="timeline">');
  expect(page).toContain('limits of its own');
  for (const url of [`${console}/`, `${metrics}/readyz`, `${sandbox}/journal`])
    expect((await fetch(url)).status).toBe(200);
  const { entries } = (await (await fetch(`${sandbox}/journal`)).json()) as { entries: object[] };
  expect(entries[0]).toMatchObject({ platform: 'fcm', accepted: true, title: 'Room 12' });

  child.kill('SIGINT');
  const { code, stderr } = await child.waitForExit();
  expect(stderr).toMatch(/fcm .* accepted "Room 12"/);
  expect(stderr).not.toContain('s3cret');
  expect(code).toBe(0);
  expect(await left()).toEqual({ processes: [], files: [] });
});

test('when it is killed, its Redis ends', async () => {
  const { child, left } = await startDev();
  expect((await left()).processes).not.toEqual([]);
  child.kill('SIGKILL');
  await child.waitForExit();
  await waitFor(async () => expect((await left()).processes).toEqual([]));
});

test('works on a Redis that runs already, and leaves it', async () => {
  const prefix = testPrefix();
  const args = ['--redis-url', testRedisUrl(), ...ANY_PORT.slice(2), '--quiet'];
  const { child, printed, cwd } = await startDev(args, { QUEUE_PREFIX: prefix });
  expect(printed.redis).toBe(testRedisUrl());
  const [first] = lines(await runProgram('bash', ['-c', printed.burst.replace('[1-20]', '')], cwd)) as { id: string }[];
  child.kill('SIGTERM');
  const { code, stderr } = await child.waitForExit();
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'stopping\n' });
  expect(await connectRedis().exists(`${prefix}:notifications:${first?.id ?? ''}`)).toBe(1);
});

test('a fixed port that is taken is left to its program, and the page has another', async () => {
  const other = createServer();
  other.listen(8620, '127.0.0.1');
  await once(other, 'listening').catch(() => undefined); // on an error somebody else has it
  onTestFinished(() => void other.close());
  const { child, printed } = await startDev(ANY_PORT.filter((_, at) => at !== 2 && at !== 3));
  expect(new URL(printed.api).port).not.toBe('8620');
  child.kill();
  expect((await child.waitForExit()).code).toBe(0);
});

test.each([
  [1, ['--api-port'], '--api-port: expected a port that no other program uses on 127.0.0.1, found'],
  [
    1,
    ['--redis-url', 'redis://:s3cret@10.1.2.3:6379'],
    '--redis-url: expected a Redis on this machine, or --allow-remote',
  ],
  [
    1,
    ['--redis-url', 'redis://127.0.0.1:1'],
    '--redis-url: expected the URL of a Redis that answers (without --redis-url one',
  ],
  [2, ['--redis-url', 'redis://127.0.0.1', '--redis-port', '0'], '--redis-port: expected none with --redis-url'],
  [2, ['--console-port', 'x'], '--console-port: expected a port from 0 to 65535, found "x"'],
])('exit code %i for %j', async (exit, args, fault) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  const { code, stdout, stderr } = await runMain(dev, args.length === 1 ? [...args, String(port)] : args);
  expect(stderr).toContain(fault);
  expect(stderr).not.toContain('s3cret');
  expect({ code, stdout }).toEqual({ code: exit, stdout: '' });
});
