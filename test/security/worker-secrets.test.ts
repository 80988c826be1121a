import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { NotificationInput } from '../../src/notification/notification.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { DEAD_LETTERS, QUEUE } from '../../src/queue/names.ts';
import { invalidTokensKey } from '../../src/queue/outcomes.ts';
import { ownRedis } from '../support/own-redis.ts';
import { startProcess, type TestProcess } from '../support/process.ts';
import { openSandbox } from '../support/providers.ts';
import { connectRedis } from '../support/redis.ts';
import { readStored } from '../support/stored.ts';
import { ENCODINGS, leaksIn, MARKS } from './marks.ts';

const PREFIX = '{marked}';
const { title, body, data, apnsToken, fcmToken, jwt, password } = MARKS;
const APNS = { platform: 'apns', token: apnsToken } as const;
const FCM = { platform: 'fcm', token: fcmToken } as const;

/** Everything that a producer may get wrong, with secrets in it. */
const BAD_JOBS: readonly unknown[] = [
  title,
  JSON.stringify({ alert: { title, body }, devices: [APNS] }),
  [title, body, apnsToken],
  { devices: apnsToken, alert: title, data },
  { devices: [apnsToken, fcmToken], alert: { titel: title, [body]: 1 }, data: [data] },
  {
    devices: [{ platform: apnsToken, token: 'apns' }],
    alert: { title: { text: title } },
    data: { key: { text: data } },
  },
  { devices: { [fcmToken]: 'fcm' }, [title]: body, data: { [`google.${data}`]: data } },
  {
    devices: [{ platform: 'apns', token: fcmToken, [apnsToken]: true }],
    alert: { title: '' },
    badge: Number.MAX_VALUE,
  },
];

/** A Redis that asks for the marked password. */
async function openMarkedRedis() {
  const server = await ownRedis();
  const redis = connectRedis(server.url);
  await redis.call('ACL', 'SETUSER', 'worker', 'on', `>${decodeURIComponent(password)}`, '~*', '&*', '+@all');
  return { server, redis, url: `redis://worker:${password}@127.0.0.1:${server.port}` };
}

async function open(more: Readonly<Record<string, string>> = {}) {
  const [sandbox, marked] = [await openSandbox(), await openMarkedRedis()];
  const env = { ...sandbox.env(), REDIS_URL: marked.url, QUEUE_PREFIX: PREFIX, METRICS_PORT: '0', ...FAST, ...more };
  const start = (args: readonly string[] = []): TestProcess =>
    startProcess({ args: [...args, 'workers/notifications.ts'], env: { ...env, MARKED: apnsToken } });
  return { sandbox, ...marked, start, ...openQueuesOn(marked.redis, PREFIX) };
}

const FAST = {
  BACKOFF_BASE: '50ms',
  BACKOFF_MAX: '50ms',
  PROVIDER_PAUSE_BASE: '100ms',
  PROVIDER_PAUSE_MAX: '200ms',
  LIMIT_MIN_GAP: '200ms',
  LOG_LEVEL: 'trace',
};

let made = 0;
function notification(fields: Partial<NotificationInput>): NotificationInput & { id: string } {
  made += 1;
  const id = `marked-${made}`;
  return { id, recipientId: `r-${made}`, alert: { title, body }, data: { note: data }, devices: [APNS], ...fields };
}

const answerOf = async (url: string, page: string): Promise<string> => (await fetch(`${url}/${page}`)).text();

it('a worker shows no token, no key and no text, whatever providers, producers and Redis throw at it', async () => {
  const { sandbox, redis, queue, deadQueue, start, server } = await open();
  const worker = start();
  const { metrics: url } = JSON.parse(await worker.waitForLine(/"msg":"ready"/)) as { metrics: string };
  const add = (job: NotificationInput & { id: string }) => queue.add('push', job, { jobId: job.id, priority: 10 });

  // Both providers repeat what they were sent, in every encoding: as a refusal, as a retry, as a token that is gone.
  const echoes = Object.values(ENCODINGS).flatMap((encode) =>
    [title, body, data, apnsToken, fcmToken, jwt].map((mark) => `not this: ${encode(mark)}!`),
  );
  const [refused, retried] = [
    { kind: 'refuse', status: 400 },
    { kind: 'refuse', status: 503 },
  ] as const;
  sandbox.apns.script(
    apnsToken,
    echoes.map((reason) => ({ ...refused, reason })),
  );
  sandbox.fcm.script(
    fcmToken,
    echoes.map((message) => ({ ...refused, reason: 'INVALID_ARGUMENT', message })),
  );
  for (const [index] of echoes.entries())
    await add(notification({ devices: [index % 2 === 0 ? APNS : FCM, FCM, APNS] }));
  await vi.waitFor(async () => expect(await deadQueue.getWaitingCount()).toBe(echoes.length), { timeout: 40_000 });

  sandbox.fcm.script(fcmToken, [{ ...retried, reason: body, message: title, retryAfter: '1' }]);
  sandbox.apns.script(apnsToken, [{ kind: 'reset' }, { kind: 'refuse', status: 410, reason: `${title} ${jwt}` }]);
  const last = notification({ devices: [APNS] });
  await add(last);
  await add(notification({ devices: [FCM] }));
  for (const job of BAD_JOBS) await queue.add('push', job, { priority: 10 });
  const spoilt = notification({ devices: [APNS], recipientId: 'spoilt' });
  await redis.set(recipientKeys(PREFIX, 'spoilt').sent, 'no sorted set');
  await add(spoilt);
  await worker.waitForLine(/unexpected error; attempt \d+ of \d+/);
  await vi.waitFor(async () => expect(await redis.xlen(invalidTokensKey(PREFIX))).toBe(1), { timeout: 20_000 });
  const dead = echoes.length + BAD_JOBS.length;
  await vi.waitFor(async () => expect(await deadQueue.getWaitingCount()).toBeGreaterThanOrEqual(dead), {
    timeout: 20_000,
  });

  const pages = await Promise.all(['metrics', 'readyz', 'healthz', 'elsewhere'].map((page) => answerOf(url, page)));
  const stored = await storedTexts(redis);
  await server.close();
  await worker.waitForLine(/no connection to Redis/);
  pages.push(...(await Promise.all(['metrics', 'readyz'].map((page) => answerOf(url, page)))));
  worker.kill('SIGKILL');
  const { stdout, stderr } = await worker.waitForExit();

  // There was something to judge: refusals were logged, dead letters written, and the marks found where they belong.
  expect(stdout).toContain('not this: [redacted]!');
  expect(stored).toContain('not this: [redacted]!');
  expect(leaksIn(sandbox.journal.all.map((entry) => JSON.stringify(entry)).join('\n'))).not.toEqual([]);
  expect(leaksIn(stdout)).toEqual([]);
  expect(leaksIn(stderr)).toEqual([]);
  expect(leaksIn(pages.join('\n'))).toEqual([]);
  expect(leaksIn(stored)).toEqual([]);
});

it('an error that nobody expected ends a worker with one log line, and without what hangs on the error', async () => {
  const { start } = await open();
  const worker = start(['--import', new URL('fail-unforeseen.ts', import.meta.url).href]);
  await worker.waitForLine(/"msg":"ready"/);
  worker.kill('SIGUSR2');
  const { code, stdout, stderr } = await worker.waitForExit();
  const line = stdout.split('\n').find((text) => text.includes('unexpected error outside of any job')) ?? '{}';
  expect(JSON.parse(line)).toMatchObject({ level: 'fatal', err: { type: 'ReplyError' } });
  expect({ code, stderr, leaks: leaksIn(stdout) }).toEqual({ code: 1, stderr: '', leaks: [] });
});

it('a password that Redis refuses is not shown', async () => {
  const { redis, start } = await open();
  await redis.call('ACL', 'SETUSER', 'worker', 'resetpass', '>another');
  const worker = start();
  await worker.waitForLine(/no connection to Redis.*|WRONGPASS/);
  worker.kill('SIGTERM');
  const { stdout, stderr } = await worker.waitForExit();
  expect(stdout).toContain('WRONGPASS');
  expect(leaksIn(`${stdout}${stderr}`)).toEqual([]);
});

it.each([
  [
    'keys and passwords in the wrong places',
    {
      APNS_KEY: `-----BEGIN PRIVATE KEY-----\n${fcmToken}\n-----END PRIVATE KEY-----`,
      APNS_KEY_ID: fcmToken.repeat(2),
      APNS_TEAM_ID: fcmToken.repeat(2),
      APNS_ENDPOINT: `https://user:${password}@127.0.0.1/path`,
      FCM_ENDPOINT: `https://user:${password}@127.0.0.1`,
      GOOGLE_APPLICATION_CREDENTIALS: JSON.stringify({ private_key: fcmToken }),
      REDIS_URL: `redis://worker:${password}@[nowhere`,
      LIMITER_REDIS_URL: `redis//worker:${password}@nowhere`,
      APNS_CA_FILE: `https://user:${password}@nowhere/ca.pem`,
    },
  ],
  [
    'a service account that is none',
    {
      FCM_PROJECT_ID: 'p',
      GOOGLE_APPLICATION_CREDENTIALS: Buffer.from(`{"private_key":"${fcmToken}"}`).toString('base64'),
    },
  ],
])('the environment is refused without repeating %s', async (_, env) => {
  const { code, stdout, stderr } = await startProcess({ args: ['workers/notifications.ts'], env }).waitForExit();
  expect(code).toBe(1);
  expect(stderr).toContain('error: bad environment');
  expect(leaksIn(`${stdout}${stderr}`)).toEqual([]);
});

/** Both queues as a plain BullMQ client sees them, closed when the test ends. */
function openQueuesOn(connection: Redis, prefix: string): { queue: Queue; deadQueue: Queue } {
  const queue = new Queue(QUEUE, { connection, prefix });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix });
  for (const opened of [queue, deadQueue]) {
    opened.on('error', () => undefined); // the test ends the Redis
    onTestFinished(() => opened.close());
  }
  return { queue, deadQueue };
}

/**
 * Every text in Redis, names of keys included, but for where secrets belong: the data of jobs, the notification of
 * a dead letter, and the stream of invalid tokens.
 */
async function storedTexts(redis: Redis): Promise<string> {
  // A worker goes on meanwhile, and a key may be another one between two questions.
  const stored = await readStored(redis, '').catch(() => readStored(redis, ''));
  const kept = Object.entries(stored).filter(([key]) => key !== invalidTokensKey(PREFIX));
  const texts = kept.map(([key, { type, content }]) => {
    if (type !== 'hash') return [key, content];
    const { data, ...fields } = content as Record<string, string>;
    return [key, fields, withoutNotification(data)];
  });
  return JSON.stringify(texts);
}

/** What a dead letter says of its notification. Other jobs' data is the notification itself. */
function withoutNotification(data = '{}'): string {
  const value: unknown = JSON.parse(data);
  const isDeadLetter = typeof value === 'object' && value !== null && 'deadAt' in value && 'notification' in value;
  return isDeadLetter ? JSON.stringify({ ...value, notification: undefined }) : '';
}
