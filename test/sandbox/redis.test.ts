import { readdir, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test, onTestFinished, vi } from 'vitest';
import { type EmbeddedRedisOptions, startEmbeddedRedis, openRedis } from '../../sandbox/redis/embedded-redis.ts';
import { redisServer, type Machine } from '../../sandbox/redis/redis-server.ts';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

const silent = () => undefined;

/** A folder for a PATH with these programs, each a shell script. */
async function programs(scripts: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  for (const [name, script] of Object.entries(scripts)) {
    await writeFile(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  return folder;
}

const machine = (path: string, rest: Partial<Machine> = {}): Machine => ({
  path,
  platform: 'linux',
  isRoot: false,
  ...rest,
});

describe('the server that is used', () => {
  test.each([
    ['apt-get', 'linux', 'sudo apt-get install redis-server'],
    ['dnf', 'linux', 'sudo dnf install valkey'],
    ['nothing', 'darwin', 'brew install redis'],
    ['nothing', 'win32', 'in WSL: sudo apt-get install redis-server'],
  ] as const)('is asked for where there is none: with %s on %s', async (program, platform, command) => {
    const path = await programs({ [program]: '' });
    await expect(redisServer(silent, machine(path, { platform }), true)).rejects.toThrow(
      `no Redis: REDIS_URL: expected a redis-server or valkey-server on the PATH (${command}), or the URL of a Redis, such as ` +
        'redis://127.0.0.1:6379 of one in a container (docker run --rm -p 127.0.0.1:6379:6379 redis:7-alpine), found neither',
    );
  });
});

describe('installing, for root on a machine with apt-get', () => {
  test('does not happen unless it was asked for', async () => {
    const folder = await programs({ 'apt-get': 'echo "$*" >> "$(dirname "$0")/calls"' });
    const there = machine(folder, { isRoot: true });
    await expect(redisServer(silent, there, false)).rejects.toThrow('(sudo apt-get install redis-server)');
    await expect(stat(join(folder, 'calls'))).rejects.toThrow('ENOENT');
  });
});

async function start(options: EmbeddedRedisOptions = {}) {
  const redis = await startEmbeddedRedis(options);
  onTestFinished(() => redis.close());
  return redis;
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('an embedded Redis', () => {
  test('answers on the loopback alone, turns 100 times a second and forgets nothing to make room', async () => {
    const redis = connectRedis((await start()).url);
    const settings = await redis.config('GET', 'bind', 'hz', 'maxmemory-policy', 'save', 'appendonly');
    expect(Object.fromEntries(pairs(settings))).toEqual({
      bind: '127.0.0.1',
      hz: '100',
      'maxmemory-policy': 'noeviction',
      save: '',
      appendonly: 'no',
    });
  });

  test('takes its folder with it, and leaves one that was given', async () => {
    const given = await temporaryFolder();
    for (const options of [{}, { dir: given }]) {
      const redis = await start(options);
      const [, dir = ''] = await connectRedis(redis.url).config('GET', 'dir');
      await redis.close();
      expect(isAlive(redis.pid)).toBe(false);
      await expect(
        stat(dir).then(
          () => 'there',
          () => 'gone',
        ),
      ).resolves.toBe(dir === given ? 'there' : 'gone');
    }
  });

  test('says why it did not start', async () => {
    const folder = await temporaryFolder(); // others make theirs meanwhile
    vi.stubEnv('TMPDIR', folder);
    onTestFinished(() => void vi.unstubAllEnvs());
    await expect(startEmbeddedRedis({ extraArgs: ['--no-such-setting', '1'] })).rejects.toThrow(
      /ended before it answered; its last output:\n[^]*no-such-setting/,
    );
    const listener = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void listener.close());
    await waitFor(() => {
      expect(listener.listening).toBe(true);
    });
    const { port } = listener.address() as { port: number };
    await expect(startEmbeddedRedis({ port })).rejects.toThrow(
      `port: expected a port that no other program uses on 127.0.0.1, found ${port}`,
    );
    expect(await readdir(folder)).toEqual([]);
  });
});

describe('whatever ends the process that started it', () => {
  const script = `
    import { startEmbeddedRedis } from '${new URL('../../sandbox/redis/embedded-redis.ts', import.meta.url).href}';
    import { Redis } from 'ioredis';
    const { url, pid } = await startEmbeddedRedis();
    const redis = new Redis(url);
    const [, dir] = await redis.config('GET', 'dir');
    redis.disconnect();
    console.log(JSON.stringify({ pid, dir }));
  `;

  test.each([
    ['SIGKILL', 'await new Promise(() => undefined);'],
    ['SIGTERM', ''],
    ['an exception', "throw new Error('a bug');"],
  ])('%s leaves neither a server nor its folder', async (cause, end) => {
    const parent = startProcess({ args: ['--input-type=module', '--eval', `${script}\n${end}`] });
    const line = await parent.waitForLine(/^\{"pid"/);
    const { pid, dir } = JSON.parse(line) as { pid: number; dir: string };
    if (cause.startsWith('SIG')) {
      expect(isAlive(pid)).toBe(true);
      parent.kill(cause as NodeJS.Signals);
    }
    await parent.waitForExit();
    await vi.waitFor(async () => {
      expect(isAlive(pid)).toBe(false);
      await expect(stat(dir)).rejects.toThrow('ENOENT');
    }, 5_000);
  });
});

function pairs(flat: string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, index) => [flat[2 * index] ?? '', flat[2 * index + 1] ?? '']);
}

const say = () => undefined;

test('a Redis that was given is left as it is', async () => {
  const key = `${testPrefix()}:theirs`;
  const redis = connectRedis();
  await redis.set(key, 'kept', 'EX', 60);
  const opened = await openRedis({ url: testRedisUrl(), say });
  expect(opened).toMatchObject({ url: testRedisUrl(), isEmbedded: false });
  await opened.close();
  expect(await redis.get(key)).toBe('kept');
});

test('a Redis that refuses is reported, without its password', async () => {
  const locked = await startEmbeddedRedis();
  onTestFinished(() => locked.close());
  await connectRedis(locked.url).config('SET', 'requirepass', 'right');
  const url = `redis://:wr0ng@127.0.0.1:${locked.port}`;
  const failed = openRedis({ url, say });
  await expect(failed).rejects.toThrow(
    /^no Redis: REDIS_URL: expected the URL of a Redis that answers \(without REDIS_URL one is started here\), found one that refuses the credentials \(WRONGPASS\)$/,
  );
  await expect(failed).rejects.not.toThrow('wr0ng');
});
