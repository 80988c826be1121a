import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { main as cancel } from '../../scripts/cancel.ts';
import { main as deadLetters } from '../../scripts/dead-letters.ts';
import { main as discard } from '../../scripts/discard.ts';
import { main as enqueue } from '../../scripts/enqueue.ts';
import { main as recipient } from '../../scripts/recipient.ts';
import { main as replay } from '../../scripts/replay.ts';
import { createProducer, createRedisLimiter, LimiterUnavailableError, RedisAwayError } from '../../src/index.ts';
import { isLasting, troubleOf, wasNotCarried } from '../../src/redis/diagnosis.ts';
import { signCertificate, type Certificate } from '../../sandbox/loopback/certificates.ts';
import { openRedis } from '../../sandbox/redis/embedded-redis.ts';
import { notification } from '../queue/support.ts';
import { runMain } from '../support/command.ts';
import { portOf } from '../support/listen.ts';
import { ownRedis } from '../support/own-redis.ts';
import { startProcess } from '../support/process.ts';

const PASSWORD = 's3cret-of-redis';
const WRONG = 'wr0ng-one';

let certificate: Certificate;
beforeAll(async () => {
  certificate = await signCertificate(undefined, ['127.0.0.1', 'localhost'], Date.now());
});

const tlsPort = () => portOf(createTlsServer(certificate).on('tlsClientError', () => undefined));

/** A Redis that asks for a password. Its own start looks whether it answers, so the password comes afterwards. */
async function guardedPort(): Promise<number> {
  const port = (await ownRedis()).port;
  const admin = new Redis(port, '127.0.0.1');
  await admin.config('SET', 'requirepass', PASSWORD);
  admin.disconnect();
  return port;
}

const CASES: readonly (readonly [
  what: string,
  url: () => Promise<string>,
  trouble: string,
  message: (port: number) => string,
])[] = [
  [
    'a wrong password',
    async () => `redis://:${WRONG}@127.0.0.1:${await guardedPort()}`,
    'credentials',
    (port) => `Redis refuses the credentials: 127.0.0.1:${port} (WRONGPASS: the user or the password is wrong)`,
  ],
  [
    'a user that there is not',
    async () => `redis://somebody:${WRONG}@127.0.0.1:${(await ownRedis()).port}`,
    'credentials',
    (port) => `Redis refuses the credentials: 127.0.0.1:${port} (WRONGPASS: the user or the password is wrong)`,
  ],
  [
    'no password where one is needed',
    async () => `redis://127.0.0.1:${await guardedPort()}`,
    'credentials',
    (port) => `Redis refuses the credentials: 127.0.0.1:${port} (NOAUTH: it asks for a password, and was given none)`,
  ],
  [
    'a web server',
    async () => `redis://:${WRONG}@127.0.0.1:${await portOf(createHttpServer())}`,
    'not-redis',
    (port) => `127.0.0.1:${port} is not a Redis server (it answered "HTTP/1.1 400 Bad Request")`,
  ],
  [
    'an SSH server',
    async () => {
      const server = createServer((socket) => socket.on('error', () => undefined).write('SSH-2.0-OpenSSH_9.2\r\n'));
      return `redis://127.0.0.1:${await portOf(server)}`;
    },
    'not-redis',
    (port) => `127.0.0.1:${port} is not a Redis server (it answered "SSH-2.0-OpenSSH_9.2")`,
  ],
  [
    'a server that speaks TLS',
    async () => `redis://:${WRONG}@127.0.0.1:${await tlsPort()}`,
    'tls',
    (port) => `127.0.0.1:${port} speaks TLS: the URL begins with rediss://, not redis://`,
  ],
  [
    'TLS to a Redis without it',
    async () => `rediss://:${WRONG}@127.0.0.1:${(await ownRedis()).port}`,
    'tls',
    (port) => `127.0.0.1:${port} does not speak TLS: the URL begins with redis://, not rediss://`,
  ],
  [
    'a certificate that nobody trusts',
    async () => `rediss://:${WRONG}@127.0.0.1:${await tlsPort()}`,
    'tls',
    (port) => `the certificate of 127.0.0.1:${port} is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT)`,
  ],
];

describe.each(CASES)('%s', (_, open, trouble, message) => {
  // Without a look at the port, a producer and a command would only say that there was no answer within their timeout.
  it('is named by a producer before its timeout, every time, and the password is not shown', async () => {
    const redisUrl = await open();
    await using producer = createProducer({ redisUrl });
    for (let tries = 1; tries <= 2; tries++) {
      const error: unknown = await producer.enqueue(notification()).catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(RedisAwayError);
      expect((error as RedisAwayError).message).toContain(message(Number(new URL(redisUrl).port)));
      expect((error as RedisAwayError).trouble).toBe(trouble);
      expect(inspect(error, { depth: 20, showHidden: true })).not.toMatch(/s3cret|wr0ng/);
    }
  });
});

describe('a worker that starts', () => {
  const some = ['a wrong password', 'no password where one is needed', 'a web server', 'TLS to a Redis without it'];
  it.each(CASES.filter(([what]) => some.includes(what)))(
    'with %s ends with 1, and says why',
    async (_, open, __, message) => {
      const REDIS_URL = await open();
      const env = { REDIS_URL, METRICS_PORT: 'off', ALLOW_NO_CREDENTIALS: 'true' };
      const worker = startProcess({ args: ['workers/notifications.ts'], env });
      await worker.waitForLine(/no platform has credentials/);
      const { code, stdout, stderr } = await worker.waitForExit();
      expect({ code, stderr }).toEqual({ code: 1, stderr: '' });
      const lines = stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(lines.at(-1)).toMatchObject({ level: 'fatal' });
      expect((lines.at(-1)?.['err'] as Error).message).toContain(message(Number(new URL(REDIS_URL).port)));
      expect(stdout).not.toMatch(/s3cret|wr0ng|jobs wait/);
    },
  );
});

const COMMANDS = {
  enqueue: [enqueue, '--recipient', 'teacher-42', '--fcm', 'some-token', '--title', 'Room 12'],
  cancel: [cancel, '--id', 'msg-1'],
  'dead-letters': [deadLetters],
  replay: [replay, '--reason', 'stalled', '--yes'],
  discard: [discard, '--reason', 'stalled', '--yes'],
  'recipient show': [recipient, 'show', 'teacher-42'],
} as const;

it.each(Object.keys(COMMANDS) as (keyof typeof COMMANDS)[])('%s ends with 1, and says why', async (name) => {
  const [main, ...args] = COMMANDS[name];
  for (const [, open, , message] of CASES.filter(([what]) => ['a wrong password', 'a web server'].includes(what))) {
    const REDIS_URL = await open();
    const { code, stdout, stderr } = await runMain(main, args, { REDIS_URL, LIMITER_REDIS_URL: undefined });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(`error: ${message(Number(new URL(REDIS_URL).port))}`);
    expect(stderr).not.toMatch(/s3cret|wr0ng|again/);
  }
});

/** A Redis with a user that has all rights but these. */
async function urlWithout(...rights: readonly string[]): Promise<{ readonly url: string; readonly where: string }> {
  const where = `127.0.0.1:${(await ownRedis()).port}`;
  const admin = new Redis(`redis://${where}`);
  await admin.call('ACL', 'SETUSER', 'app', 'on', `>${PASSWORD}`, '~*', '+@all', ...rights);
  admin.disconnect();
  return { url: `redis://app:${PASSWORD}@${where}`, where };
}

it.each([
  ['a command', ['-evalsha', '-eval'], 'the user may not run eval(sha)?'],
  ['a command of a script', ['-zadd'], 'the user may not run (a command of a script|zadd)'],
  ['a key', ['resetkeys', '~other:*'], 'the user may not use a key; its patterns must fit QUEUE_PREFIX'],
])('a user that may not use %s is told so, and no second try is advised', async (_, rights, reason) => {
  const { url, where } = await urlWithout(...rights);
  await using producer = createProducer({ redisUrl: url });
  const error: unknown = await producer.enqueue(notification()).catch((caught: unknown) => caught);
  expect(error).toMatchObject({ name: 'RedisAwayError', trouble: 'permission' });
  const text = `^Redis forbids a command: ${where} \\(NOPERM: ${reason}\\); pushpacer doctor names all `;
  expect((error as Error).message).toMatch(new RegExp(text));
  expect(inspect(error, { depth: 20, showHidden: true })).not.toMatch(/s3cret/);
  const { code, stderr } = await runMain(enqueue, COMMANDS.enqueue.slice(1) as string[], { REDIS_URL: url });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^error: Redis forbids a command: /);
  expect(stderr).not.toMatch(/again|s3cret/);
});

it('a limiter that may not run a command of its script says that it is not available, and spends no attempt', async () => {
  const { url } = await urlWithout('-zadd', '-set', '-hset', '-rpush', '-sadd', '-append', '-setrange');
  const redis = new Redis(url);
  onTestFinished(() => redis.disconnect());
  const limiter = createRedisLimiter({ redis, policy: { rules: [{ max: 1, perMs: 60_000 }], minGapMs: 0 } });
  await expect(limiter.admit({ recipientId: 'teacher-42', id: 'msg-1' })).rejects.toThrow(LimiterUnavailableError);
});

it('a demo on such a Redis is named in plain words too', async () => {
  const url = `redis://127.0.0.1:${await guardedPort()}`;
  const say = (): void => undefined;
  await expect(openRedis({ url, say })).rejects.toThrow('found one that refuses the credentials (NOAUTH)');
  const other = `redis://127.0.0.1:${await portOf(createHttpServer())}`;
  await expect(openRedis({ url: other, say })).rejects.toThrow('found a server that is no Redis');
});

it('a Cluster and Sentinels that refuse the password are named too', async () => {
  const port = await guardedPort();
  for (const target of [{ cluster: true }, { sentinel: { name: 'mymaster', password: WRONG } }]) {
    await using producer = createProducer({ redisUrl: `redis://:${WRONG}@127.0.0.1:${port}`, ...target });
    const error: unknown = await producer.enqueue(notification()).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ name: 'RedisAwayError', trouble: 'credentials' });
    expect((error as Error).message).toMatch(/^Redis refuses the credentials: .*127\.0\.0\.1:\d+ \(WRONGPASS/);
    expect(inspect(error, { depth: 20, showHidden: true })).not.toMatch(/s3cret|wr0ng/);
  }
});

it.each([
  [new Error('connect ECONNREFUSED 127.0.0.1:6379'), 'away'],
  [Object.assign(new Error('OOM command not allowed'), { name: 'ReplyError' }), 'not-now'],
  [Object.assign(new Error('NOSCRIPT No matching script.'), { name: 'ReplyError' }), 'not-now'],
  [Object.assign(new Error('WRONGPASS invalid'), { name: 'ReplyError' }), 'credentials'],
  [new Error('All sentinels are unreachable. Last error: NOAUTH Authentication required.'), 'credentials'],
  [Object.assign(new Error('Failed to refresh slots cache.'), { lastNodeError: new Error('NOAUTH x') }), 'credentials'],
  [
    Object.assign(new Error("NOPERM User app has no permissions to run the 'get' command"), { name: 'ReplyError' }),
    'permission',
  ],
  [
    Object.assign(new Error("ERR ACL failure in script: User app has no permissions to run the 'zadd' command"), {
      name: 'ReplyError',
    }),
    'permission',
  ],
  [new Error('Unknown RESP type 72 "H". Please report this.'), 'not-redis'],
  [Object.assign(new Error('unable to verify'), { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }), 'tls'],
  [undefined, 'away'],
])('%s is %s', (error, trouble) => {
  expect(troubleOf(error)).toBe(trouble);
  expect(isLasting(troubleOf(error))).toBe(!['away', 'not-now'].includes(trouble));
});

it('what ioredis gives up in the middle of a pipeline has got no answer', async () => {
  const redis = new Redis((await ownRedis()).port, '127.0.0.1', { maxRetriesPerRequest: null });
  onTestFinished(() => redis.disconnect());
  const own = await redis.client('ID');
  // On a cluster the status stays `ready` when the connection to one node closes, and the error alone can tell.
  const [[, first], , [last]] = (await redis
    .pipeline()
    .ping()
    .call('CLIENT', 'KILL', 'ID', own, 'SKIPME', 'no')
    .ping()
    .exec()) as [[null, string], unknown, [Error | null]];
  expect(first).toBe('PONG');
  expect(last?.name).toBe('AbortError');
  expect(wasNotCarried(last)).toBe(true);
});
