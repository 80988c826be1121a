import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { commandsUsed, keyPatterns, type RedisRole } from '../../../scripts/doctor/permissions.ts';
import { doEverything } from '../../support/everything.ts';
import { connectRedis } from '../../support/redis.ts';

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
  await doEverything({
    env,
    target: { redisUrl: queue.url, limiterRedisUrl: limiter.url, prefix: PREFIX },
    outcomesRead: () => expect([...queue.seen]).toEqual(expect.arrayContaining(['xrange', 'xrevrange'])),
  });

  const found: Readonly<Record<RedisRole, readonly string[]>> = {
    queue: [
      ...ownCommands('src/{queue,producer,dead-letters,delivery,operations}'),
      ...(await commandsOfBullmq(queue.scripts)),
    ],
    limiter: ownCommands('src/{limiter,quota,breaker}'),
  };
  for (const [role, { admin, seen }] of [
    ['queue', queue],
    ['limiter', limiter],
  ] as const) {
    const refused = (await admin.call('ACL', 'LOG')) as unknown[][];
    // Only `doctor` asks for the configuration, and says less where it may not.
    expect(refused.filter((entry) => !entry.includes('config|get'))).toEqual([]);
    const used = new Set([...found[role], ...seen]);
    const listed = commandsUsed([role]);
    expect({
      role,
      missing: [...used].filter((name) => ![...listed, ...NEEDS_NO_RIGHT].includes(name)).toSorted(),
    }).toEqual({ role, missing: [] });
    expect({ role, unused: listed.filter((name) => !used.has(name)) }).toEqual({ role, unused: [] });
  }
}, 300_000);
