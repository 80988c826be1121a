import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Redis } from 'ioredis';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { commandsUsed, keyPatterns, type RedisRole } from '../../../scripts/doctor/permissions.ts';
import { loadCommand } from '../../../scripts/support/commands.ts';
import { createProducer } from '../../../src/queue/producer.ts';
import { openApi } from '../../support/api.ts';
import { runMain } from '../../support/command.ts';
import { openConsole } from '../../support/console.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeNotification } from '../../support/push.ts';
import { connectRedis } from '../../support/redis.ts';
import { openReplicaBench } from '../../support/replica.ts';

const PREFIX = '{pushpacer}';
const [USER, PASSWORD] = ['pushpacer', 's3cret'];

/** What a Redis was asked, and what it refused. */
interface Watched {
  /** For REDIS_URL, as a user that may no more than pushpacer needs. */
  readonly url: string;
  readonly admin: Redis;
  /** The commands that were sent, also by scripts. */
  readonly seen: Set<string>;
  /** The SHAs of the scripts that were called. */
  readonly scripts: Set<string>;
}

async function openWatched(role: RedisRole): Promise<Watched> {
  const server = await startEmbeddedRedis();
  onTestFinished(() => server.close());
  const admin = connectRedis(server.url);
  const rules = [...keyPatterns(PREFIX), 'resetchannels', '-@all', ...commandsUsed([role]).map((name) => `+${name}`)];
  await admin.call('ACL', 'SETUSER', USER, 'on', `>${PASSWORD}`, 'resetkeys', ...rules);
  const monitor = await admin.monitor();
  onTestFinished(() => monitor.disconnect());
  const [seen, scripts] = [new Set<string>(), new Set<string>()];
  monitor.on('monitor', (_at: string, [word = '', ...args]: string[]) => {
    const name = word.toLowerCase();
    seen.add(name === 'client' || name === 'cluster' ? `${name}|${args[0] ?? ''}`.toLowerCase() : name);
    if (name === 'eval') scripts.add(shaOf(args[0] ?? ''));
    if (name === 'evalsha') scripts.add(args[0] ?? '');
  });
  return { url: server.url.replace('//', `//${USER}:${PASSWORD}@`), admin, seen, scripts };
}

/** Every redis-cli may send these; ioredis goes on where it may not tell Redis its version. */
const NEEDS_NO_RIGHT = ['auth', 'hello', 'monitor', 'acl', 'client|setinfo'];

const shaOf = (text: string): string => createHash('sha1').update(text).digest('hex');

const called = (text: string): string[] =>
  [...text.matchAll(/\b(?:rcall|p?call)\(\s*["']([A-Z]+)["']/g)].map(([, name = '']) => name.toLowerCase());

/** The commands that the scripts of these folders call, in every branch. */
function ownCommands(folders: string): string[] {
  return globSync(`${folders}/**/*.{lua,ts}`).flatMap((file) => called(readFileSync(file, 'utf8')));
}

/** Those of BullMQ's scripts with these SHAs. */
async function commandsOfBullmq(shas: ReadonlySet<string>): Promise<string[]> {
  const file = join(process.cwd(), 'node_modules/bullmq/dist/esm/scripts/index.js');
  const all = (await import(pathToFileURL(file).href)) as Record<string, { readonly content?: string }>;
  const isUsed = (name: string, content: string): boolean => RARE_SCRIPTS.includes(name) || shas.has(shaOf(content));
  const used = Object.entries(all).flatMap(([name, { content = '' }]) => (isUsed(name, content) ? { content } : []));
  expect(used.length).toBeGreaterThan(5 + RARE_SCRIPTS.length);
  return used.flatMap(({ content = '' }) => called(content));
}

/** Scripts of BullMQ that the test may be too fast for: a job that lasts long, one that is added with a delay, one that fails. */
const RARE_SCRIPTS = ['extendLocks', 'addDelayedJob', 'retryJob', 'moveJobFromActiveToWait'];

test('with no more rights than listed everything works; the list has nothing that is not used', async () => {
  const [queue, limiter] = [await openWatched('queue'), await openWatched('limiter')];
  const env = { REDIS_URL: queue.url, LIMITER_REDIS_URL: limiter.url, QUEUE_PREFIX: PREFIX };
  const folder = await temporaryFolder();
  const limits = join(folder, 'limits.json');
  const quietHours = [{ from: '03:00', until: '03:01' }];
  await writeFile(
    limits,
    JSON.stringify({ categories: { news: { rules: '9/1h' } }, timezone: 'Asia/Tokyo', quietHours }),
  );
  const bench = await openReplicaBench();
  const everything = {
    ...{ LIMIT_MIN_GAP: '200ms', LIMITS_FILE: limits, OUTCOMES_MAX: '1000', HISTORY_MAX: '1000', APNS_QUOTA: '900/1m' },
    ...{ LOCK_DURATION: '1s', BACKOFF_BASE: '100ms', ATTEMPTS: '2', DEAD_LETTER_MAX_COUNT: '3', METRICS_PORT: '0' },
  };
  const replica = await bench.startHere({ ...env, ...everything });
  const producer = createProducer({ redisUrl: queue.url, limiterRedisUrl: limiter.url, prefix: PREFIX });
  onTestFinished(() => producer.close());
  const run = async (name: string, ...args: string[]): Promise<string> => {
    const main = await loadCommand(name);
    if (main === undefined) throw new TypeError(`no command ${name}`);
    const exit = await runMain(main, args, { ...env, QUEUE_SHARDS: undefined });
    expect({ name, args, ...exit }).toMatchObject({ name, args, code: 0, stderr: '' });
    return exit.stdout;
  };
  const total = async (): Promise<unknown> =>
    (JSON.parse(await run('dead-letters', '--json')) as { total: number }).total;

  // Paced, merged, waiting, canceled, and in a broadcast.
  for (let at = 0; at < 4; at++) await producer.enqueue(makeNotification({ id: `n${at}`, category: 'news' }));
  const hourAhead = Date.now() + 3_600_000;
  await producer.enqueue(makeNotification({ id: 'late', sendAfter: hourAhead, cancellationKey: 'lesson' }));
  const latest = { recipientId: 'latest', collapseId: 'score', onThrottle: 'latest' as const };
  for (let at = 0; at < 3; at++) await producer.enqueue(makeNotification({ id: `l${at}`, ...latest }));
  const file = join(folder, 'f.ndjson');
  await writeFile(file, JSON.stringify(makeNotification({ id: 'b1' })));
  await run('enqueue', '--file', file, '--broadcast', 'term-start');
  await run('cancel', '--recipient', 'teacher-42', '--key', 'lesson');
  // What an operator does.
  await run('recipient', 'block', 'blocked', '--for', '1h', '--reason', 'asked');
  await producer.enqueue(makeNotification({ id: 'held', recipientId: 'blocked', category: 'news' }));
  await vi.waitFor(async () => expect(await producer.status('held')).toMatchObject({ rule: 'block' }), 10_000);
  await run('why', 'held');
  await run('recipient', 'show', 'blocked');
  await run('recipient', 'limit', 'blocked', '--rules', '5/1m');
  const times = ['--from', '21:00', '--until', '07:00', '--timezone', 'Asia/Tokyo'];
  await run('recipient', 'quiet', 'blocked', ...times);
  await run('recipient', 'unquiet', 'blocked');
  await run('recipient', 'unblock', 'blocked');
  await run('recipient', 'reset', 'blocked');
  await run('cancel', '--id', 'held');
  // Dead letters, more than are kept; a job that lasts longer than half of its lock.
  bench.sandbox.setAnswers([{ platform: 'apns', reason: 'BadDeviceToken' }]);
  for (let at = 0; at < 6; at++) await producer.enqueue(makeNotification({ id: `d${at}`, recipientId: `r${at}` }));
  await vi.waitFor(async () => expect(await total()).toBeGreaterThan(2), 10_000);
  await run('status');
  await run('status', 'd0');
  await run('why', 'd0');
  bench.sandbox.setAnswers([]);
  await run('replay', '--all', '--yes');
  await run('discard', '--all', '--yes');
  // The servers.
  const api = await openApi(env);
  const body = makeNotification({ id: 'api-1', recipientId: 'api' });
  const posted = await api.call('POST', '/v1/notifications', { body, headers: { 'idempotency-key': 'k1' } });
  expect(posted.status).toBeLessThan(300);
  for (const path of ['/v1/notifications/api-1', '/v1/recipients/api', '/readyz', '/healthz']) {
    expect((await api.call('GET', path)).status).toBe(200);
  }
  const hangUp = new AbortController(); // the stream of outcomes has no end
  const authorization = `Bearer ${api.secrets.all}`;
  await fetch(`${api.url}/v1/outcomes`, { headers: { authorization }, signal: hangUp.signal });
  await vi.waitFor(() => expect([...queue.seen]).toEqual(expect.arrayContaining(['xrange', 'xrevrange'])), 10_000);
  hangUp.abort();
  const web = await openConsole(env);
  for (const path of ['/', '/recipients/api', '/dead-letters', '/search?q=api-1', '/audit']) {
    expect({ path, status: (await web.get(path)).status }).toEqual({ path, status: 200 });
  }
  expect((await fetch(`${replica.url}/readyz`)).status).toBe(200);
  await fetch(`${replica.url}/metrics`);
  await run('doctor');
  await replica.stop();

  const found: Readonly<Record<RedisRole, readonly string[]>> = {
    queue: [...ownCommands('src/{queue,dead-letters,delivery,operations}'), ...(await commandsOfBullmq(queue.scripts))],
    limiter: ownCommands('src/{limiter,quota,breaker}'),
  };
  for (const [role, { admin, seen }] of [
    ['queue', queue],
    ['limiter', limiter],
  ] as const) {
    expect(await admin.call('ACL', 'LOG')).toEqual([]);
    const used = new Set([...found[role], ...seen]);
    const listed = commandsUsed([role]);
    expect({
      role,
      missing: [...used].filter((name) => ![...listed, ...NEEDS_NO_RIGHT].includes(name)).toSorted(),
    }).toEqual({ role, missing: [] });
    expect({ role, unused: listed.filter((name) => !used.has(name)) }).toEqual({ role, unused: [] });
  }
}, 90_000);
