import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { main } from '../../scripts/enqueue.ts';
import { notification, openQueues } from '../queue/support.ts';
import { runMain, type CommandExit } from '../support/command.ts';
import { ownRedis } from '../support/own-redis.ts';
import { killedAfter, startProcess, type Exit } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';
import { connectRedis, queueEnv, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

interface Run {
  readonly args: readonly string[];
  readonly prefix?: string;
  readonly input?: string;
  readonly redisUrl?: string;
}

/** In a process of its own only where it reads standard input. */
function enqueue({ args, prefix = testPrefix(), input, redisUrl }: Run): Promise<CommandExit | Exit> {
  const at = redisUrl === undefined ? {} : { REDIS_URL: redisUrl, REDIS_CLUSTER: undefined };
  const env = { ...queueEnv(prefix), ...at };
  if (input === undefined) return runMain(main, args, env);
  return startProcess({ args: ['scripts/enqueue.ts', ...args], env, input }).waitForExit();
}

const lastJson = ({ stdout }: CommandExit | Exit): unknown => JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');

test('a file goes in, but for its bad lines, which are reported with every fault', async () => {
  const { prefix, queue } = openQueues();
  const file = join(await temporaryFolder(), 'f.ndjson');
  const lines = [
    `\uFEFF${JSON.stringify(notification({ id: 'a' }))}`,
    'no json',
    '',
    JSON.stringify({ ...notification({ id: 'b', devices: [] }), badge: -1 }),
    JSON.stringify(notification({ id: 'a' })),
    JSON.stringify(notification({ id: 'c', data: { text: 'two\u2028lines' } })),
    'null',
  ];
  await writeFile(file, lines.join('\r\n'));
  const exit = await enqueue({ args: ['--file', file, '--json'], prefix });
  expect(lastJson(exit)).toEqual({ read: 6, added: 2, duplicates: 1, invalid: 3, skipped: 0, dryRun: false });
  expect(exit.code).toBe(1);
  expect(exit.stderr.trimEnd().split('\n')).toEqual([
    'line 2: expected JSON, found 8 characters that are not JSON',
    expect.stringMatching(/^line 4: devices: expected .+; badge: expected .+ found -1$/),
    expect.stringMatching(/^line 7: expected an object, found null$/),
  ]);
  expect(await queue.getPrioritizedCount()).toBe(2);
});

test('standard input goes in, a second time as duplicates', async () => {
  const { prefix, queue } = openQueues();
  const input = Array.from({ length: 2_500 }, (_, n) => JSON.stringify(notification({ id: String(n) }))).join('\n');
  const first = await enqueue({ args: ['-'], prefix, input });
  expect(first).toMatchObject({ code: 0, stdout: '2500 added, 0 duplicates, 0 invalid\n', stderr: '' });
  const second = await enqueue({ args: ['--file', '-', '--json'], prefix, input });
  expect(lastJson(second)).toMatchObject({ added: 0, duplicates: 2_500 });
  expect(await queue.getPrioritizedCount()).toBe(2_500);
});

test('a broadcast whose bad lines were corrected in between takes no line for another one', async () => {
  const { prefix, queue } = openQueues();
  const file = join(await temporaryFolder(), 'f.ndjson');
  const line = (recipientId: string): string => JSON.stringify(notification({ id: undefined, recipientId }));
  const flags = ['--file', file, '--broadcast', 'term-start', '--spread', '1h'];
  await writeFile(file, [line('a'), 'no json', '{}', line('b')].join('\n'));
  const first = await enqueue({ args: flags, prefix });
  expect(first.stdout).toBe('2 added, 0 duplicates, 2 invalid\n');
  expect(first.stderr).toMatch(/^line 2: expected JSON.+\nline 3: recipientId: /);
  expect(await queue.getDelayedCount()).toBe(2);
  await writeFile(file, [line('a'), line('corrected'), line('too'), line('b'), line('c')].join('\n'));
  const again = await enqueue({ args: flags, prefix });
  expect(again.stdout).toBe('1 added, 0 duplicates, 0 invalid, 4 read by an earlier run\n');
  const jobs = await queue.getJobs();
  expect(jobs.map(({ data }) => (data as { recipientId: string }).recipientId).toSorted()).toEqual(['a', 'b', 'c']);
});

/** Enqueues 30,000 lines without ids, and is interrupted so many times at its 1,500th call of a script. */
async function interrupted(prefix: string, times: number, ...more: string[]) {
  const file = join(await temporaryFolder(), 'f.ndjson');
  await writeFile(file, `${JSON.stringify(notification({ id: undefined }))}\n`.repeat(30_000));
  const { flags, env } = killedAfter(1_500, 'SIGINT', times);
  const args = ['--file', file, ...more];
  const running = startProcess({
    args: [...flags, 'scripts/enqueue.ts', ...args],
    env: { ...queueEnv(prefix), ...env },
  });
  return { args, exit: await running.waitForExit() };
}

test('an interrupted broadcast ends with whole batches, so that no line without an id is added twice', async () => {
  const { prefix, queue } = openQueues();
  const { args, exit } = await interrupted(prefix, 1, '--broadcast', 'term-start');
  const added = await queue.getPrioritizedCount();
  expect(exit.signal).toBe('SIGINT');
  expect(exit.stderr.replace(/; \d+ more \w+ read and not added$/m, '')).toBe(
    `error: interrupted; ${added} added, 0 duplicates, 0 invalid before\n`,
  );
  expect(added).toBeGreaterThan(0);
  expect(added).toBeLessThan(30_000);
  const again = await enqueue({ args, prefix });
  expect(again.stdout).toBe(`${30_000 - added} added, 0 duplicates, 0 invalid, ${added} read by an earlier run\n`);
});

test('the same Ctrl-C once more, as npm hands it on, lets the batch under way end', async () => {
  const { prefix, queue } = openQueues();
  const { exit } = await interrupted(prefix, 2);
  const added = await queue.getPrioritizedCount();
  expect(exit.signal).toBe('SIGINT');
  expect(exit.stderr.replace(/; \d+ more \w+ read and not added$/m, '')).toBe(
    `error: interrupted; ${added} added, 0 duplicates, 0 invalid before\n`,
  );
  expect(added).toBeGreaterThan(0);
  expect(added).toBeLessThan(30_000);
});

/** The command with a pipe that stays open. `said`: all that it says to the user, when it has ended. */
function startPiped(redisUrl: string) {
  const env = { ...process.env, REDIS_URL: redisUrl, REDIS_CLUSTER: undefined, QUEUE_PREFIX: undefined };
  const child = spawn(process.execPath, ['scripts/enqueue.ts', '-'], { env, stdio: ['pipe', 'ignore', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const write = (id: string) => child.stdin.write(`${JSON.stringify(notification({ id }))}\n`);
  return { child, said: text(child.stderr), write };
}

/** How many bytes a process has read so far, from files, pipes and sockets. */
const bytesRead = (pid: number | undefined) =>
  Number(/^rchar: (\d+)/.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1]);

/** The same, when it has added `a`, and Redis lets it wait for the answer about `b`. */
async function startWaiting(redisUrl: string) {
  const redis = connectRedis(redisUrl);
  const piped = startPiped(redisUrl);
  piped.write('a');
  await waitFor(async () => expect(await redis.exists('{pushpacer}:notifications:a')).toBe(1));
  await redis.client('PAUSE', 60_000, 'WRITE');
  piped.write('b');
  await waitFor(async () => expect(await redis.client('LIST')).toMatch(/ flags=\w*b .* cmd=evalsha /));
  /** Sends Ctrl-C. Node hears of a signal by a pipe of its own: resolves when it has read from there. */
  const interrupt = async (): Promise<void> => {
    const before = bytesRead(piped.child.pid);
    piped.child.kill('SIGINT');
    await waitFor(() => expect(bytesRead(piped.child.pid)).toBeGreaterThan(before));
  };
  return { ...piped, redis, interrupt };
}

test('lines of a pipe that stays open are added soon, and after Ctrl-C it says what was only read', async () => {
  const { url } = await ownRedis();
  const { child, said, redis, interrupt } = await startWaiting(url);
  const before = bytesRead(child.pid);
  const line = `${JSON.stringify(notification({ id: 'c' })).padEnd(8_000)}\n`;
  child.stdin.write(line);
  await waitFor(() => expect(bytesRead(child.pid)).toBeGreaterThanOrEqual(before + line.length));
  await interrupt();
  await redis.client('UNPAUSE');
  expect(await said).toBe(
    'error: interrupted; 2 added, 0 duplicates, 0 invalid before; 1 more was read and not added\n',
  );
  expect(await redis.exists('{pushpacer}:notifications:b', '{pushpacer}:notifications:c')).toBe(1);
});

test('if Redis goes away and Ctrl-C comes, it says how many may have been added', async () => {
  const server = await ownRedis();
  const { said, redis, interrupt } = await startWaiting(server.url);
  await interrupt();
  redis.disconnect();
  await server.close();
  expect(await said).toMatch(
    /^error: interrupted; Redis is away: .+; 1 added, 0 duplicates, 0 invalid before; 1 more was read and may have been added\n$/,
  );
});

test('while a pipe is silent, it ends at once if Redis is away', async () => {
  const { child, said, write } = startPiped('redis://127.0.0.1:1');
  write('a');
  const [code] = (await once(child, 'exit', { signal: AbortSignal.timeout(30_000) })) as [number | null];
  expect(code).toBe(1);
  expect(await said).toMatch(/^error: Redis is away: .+; 0 added, 0 duplicates, 0 invalid before\n$/);
});

const TO_TEACHER = ['--id', 'f', '--recipient', 'teacher-42'];
const ABAB = { platform: 'apns', token: 'abab' };
const TOKEN = { platform: 'fcm', token: 'tok:en' };
const FID = 'cQx3v8fZTn6tE1mKp0aB9d';
const SUBSCRIPTION = {
  endpoint: 'https://updates.push.services.mozilla.com/wpush/v2/abc',
  expirationTime: null,
  keys: { p256dh: `B${'A'.repeat(86)}`, auth: 'A'.repeat(22) },
};
const LIVE_ACTIVITY = { event: 'end', contentState: { score: '2:1' } };

test.each([
  [
    'one notification',
    '--apns abab --apns cdcd --fcm tok:en --title Room --body Forms --data a=b=c --data d= --category messages ' +
      '--priority high --collapse-id k --expires-at 1700000000000 --on-throttle drop --sound default --badge 3',
    {
      devices: [ABAB, { platform: 'apns', token: 'cdcd' }, TOKEN],
      alert: { title: 'Room', body: 'Forms' },
      data: { a: 'b=c', d: '' },
      category: 'messages',
      priority: 'high',
      collapseId: 'k',
      expiresAt: 1_700_000_000_000,
      onThrottle: 'drop',
      sound: 'default',
      badge: 3,
    },
  ],
  [
    'the fields for each platform too',
    '--apns abab --fcm tok:en --title Room --subtitle 7b --image-url https://example.com/a.jpg --data a=1 ' +
      '--data-json {"form":{"id":7}} --thread-id class-7b --action-category FORM --interruption-level time-sensitive --channel-id homework ' +
      '--analytics-label forms --navigate https://school.example.com/forms',
    {
      devices: [ABAB, TOKEN],
      alert: { title: 'Room', subtitle: '7b' },
      imageUrl: 'https://example.com/a.jpg',
      data: { a: '1', form: { id: 7 } },
      apns: { threadId: 'class-7b', actionCategory: 'FORM', interruptionLevel: 'time-sensitive' },
      android: { channelId: 'homework' },
      webpush: { declarative: true, navigate: 'https://school.example.com/forms' },
      analyticsLabel: 'forms',
    },
  ],
  [
    'the app of all devices',
    `--fcm tok:en --webpush ${JSON.stringify(SUBSCRIPTION)} --app teacher --title Room`,
    {
      devices: [
        { ...TOKEN, app: 'teacher' },
        { platform: 'webpush', ...SUBSCRIPTION, app: 'teacher' },
      ],
      alert: { title: 'Room' },
    },
  ],
  [
    'a background push',
    '--apns abab --push-type background --data sync=forms',
    { devices: [ABAB], pushType: 'background', data: { sync: 'forms' } },
  ],
  [
    'a push for a Live Activity',
    `--apns abab --push-type liveactivity --collapse-id match-12 --live-activity ${JSON.stringify(LIVE_ACTIVITY)}`,
    { devices: [ABAB], pushType: 'liveactivity', liveActivity: LIVE_ACTIVITY, collapseId: 'match-12' },
  ],
  [
    'the two kinds of devices on FCM',
    `--fcm tok:en --fid ${FID} --app school --title Room`,
    {
      devices: [
        { ...TOKEN, app: 'school' },
        { platform: 'fcm', fid: FID, app: 'school' },
      ],
      alert: { title: 'Room' },
    },
  ],
  [
    'the token of a Live Activity, for the one device on FCM',
    `--fcm tok:en --apns abab --push-type liveactivity --live-activity ${JSON.stringify(LIVE_ACTIVITY)} --live-activity-token a1b2`,
    {
      devices: [ABAB, { ...TOKEN, liveActivityToken: 'a1b2' }],
      pushType: 'liveactivity',
      liveActivity: LIVE_ACTIVITY,
    },
  ],
  [
    'the subscription of a browser as it is',
    `--title Room --webpush ${JSON.stringify({ ...SUBSCRIPTION, app: 'parent' })}`,
    { devices: [{ platform: 'webpush', ...SUBSCRIPTION, app: 'parent' }], alert: { title: 'Room' } },
  ],
])('flags make %s', async (_, flags, fields) => {
  const { prefix, queue } = openQueues();
  const stderr = 'expiresAt' in fields ? 'warning: 1 will not be sent, because expiresAt has passed\n' : '';
  expect(await enqueue({ args: [...TO_TEACHER, ...flags.split(' ')], prefix })).toMatchObject({ code: 0, stderr });
  expect((await queue.getJob('f'))?.data).toEqual({ id: 'f', recipientId: 'teacher-42', ...fields });
});

test('--channel takes the place of devices and of the recipient', async () => {
  const { prefix, queue } = openQueues();
  const [id, json] = ['dHN0LXNyY2gtY2hubA==', JSON.stringify(LIVE_ACTIVITY)];
  const args = ['--id', 'c', '--channel', id, '--push-type', 'liveactivity', '--live-activity', json];
  expect(await enqueue({ args, prefix })).toMatchObject({ code: 0, stderr: '' });
  const fields = { id: 'c', recipientId: id, pushType: 'liveactivity', liveActivity: LIVE_ACTIVITY };
  expect((await queue.getJob('c'))?.data).toEqual({ ...fields, channel: { id } });
  const kept = ['--id', 'k', '--channel-storage', 'most-recent', '--app', 'teacher'];
  expect(await enqueue({ args: [...args, ...kept], prefix })).toMatchObject({ code: 0, stderr: '' });
  const channel = { id, storage: 'most-recent', app: 'teacher' };
  expect((await queue.getJob('k'))?.data).toEqual({ ...fields, id: 'k', channel });
});

test('JSON over several lines is one fault', async () => {
  const { code, stderr } = await enqueue({ args: ['--file', 'package.json'] });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^error: line 1: expected NDJSON, .*\n$/);
});

test('--send-after and --expires-at take a duration from now, and instants', async () => {
  const { prefix, queue } = openQueues();
  const flags = ['--recipient', 'teacher-42', '--apns', 'abab', '--title', 'Room'];
  const before = Date.now();
  const durations = ['--id', 't1', '--send-after', '30m', '--expires-at', '1h'];
  expect(await enqueue({ args: [...flags, ...durations], prefix })).toMatchObject({ code: 0, stderr: '' });
  const { sendAfter, expiresAt } = (await queue.getJob('t1'))?.data as { sendAfter: number; expiresAt: number };
  expect(sendAfter - before).toBeGreaterThanOrEqual(30 * 60_000);
  expect(expiresAt - sendAfter).toBeGreaterThanOrEqual(30 * 60_000);
  expect(expiresAt - before).toBeLessThan(3_600_000 + 60_000);
  const at = new Date(before + 3_600_000).toISOString();
  expect(await enqueue({ args: [...flags, '--id', 't2', '--expires-at', at], prefix })).toMatchObject({ code: 0 });
  expect((await queue.getJob('t2'))?.data).toMatchObject({ expiresAt: at });
});

test('a dry run needs no Redis, and adds nothing', async () => {
  const input = [JSON.stringify(notification()), '{}'].join('\n');
  const exit = await enqueue({ args: ['-', '--dry-run', '--json'], input, redisUrl: 'redis://127.0.0.1:1' });
  expect(lastJson(exit)).toEqual({ read: 2, added: 0, duplicates: 0, invalid: 1, skipped: 0, dryRun: true });
  expect(exit.code).toBe(1);
  expect(exit.stderr).toContain('line 2: ');
});

test('Redis away is reported at once, without the password', async () => {
  const exit = await enqueue({
    args: ['-'],
    input: JSON.stringify(notification()),
    redisUrl: 'redis://:s3cret@127.0.0.1:1',
  });
  expect(exit.code).toBe(1);
  expect(exit.stderr).toMatch(
    /^error: Redis is away: 127\.0\.0\.1:1 \(.+\); 0 added, 0 duplicates, 0 invalid before\n$/,
  );
});

test.each([
  [[], 'error: nothing to enqueue: expected the flags of a notification, --file, or - for standard input\nExamples: '],
  [
    ['--recipient', 'r', '--expires-at', 'soon'],
    'error: --expires-at: expected RFC 3339, epoch milliseconds, or a duration from',
  ],
  [['--recipient', 'r', '--title', 'a', '--badge', 'x'], '; badge: expected '],
  [
    ['--recipient', 'r', '--apns', 'abab', '--title', 'a', '--app', 'a b'],
    'devices[0].app: expected 1 to 64 of A-Z a-z 0-9 . _ -, found a string of 3 characters',
  ],
  [['--file', 'f.ndjson', '--spread', '8d'], '--spread: expected a duration of at most 7d, such as 30m, found "8d"'],
  [['-', '--recipient', 'r'], 'expected one of --file, - and the flags of a notification, found 2'],
  [['--file', 'a', '--file'], 'argument missing'],
  [[...TO_TEACHER, '--title', 'a', '--fid', 'f1:APA91b'], 'devices[0].fid: expected a Firebase installation id'],
  [[...TO_TEACHER, '--title', 'a', '--webpush', 'no json'], '--webpush: expected a JSON object, found 7 characters'],
  [
    [...TO_TEACHER, '--fcm', 'f1', '--fcm', 'f2', '--live-activity-token', 'a1b2'],
    '--live-activity-token: expected one device on FCM beside it, found 2',
  ],
  [
    [...TO_TEACHER, '--apns', 'abab', '--channel', 'a'],
    'devices: expected none beside channel, which stands in their place',
  ],
  [[...TO_TEACHER, '--apns', 'abab', '--channel-storage', 'none'], 'channel.id: expected'],
  [['list.ndjson'], 'expected - or --file, found "list.ndjson"'],
  [['--recipient', 'r', '--data', 'novalue'], '--data: expected key=value'],
  [['--recipient', 'r', '--data-json', '[1]'], '--data-json: expected a JSON object, found 3 characters'],
])('%j is bad usage', async (args, message) => {
  const { code, stderr } = await enqueue({ args });
  expect(stderr).toContain(message);
  expect(code).toBe(2);
});

test('a file that is not there', async () => {
  expect(await enqueue({ args: ['--file', '/nowhere/f.ndjson'] })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^error: --file: cannot be read: ENOENT/) as string,
  });
});
