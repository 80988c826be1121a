import { readdir, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type EmbeddedRedisOptions, startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';
import { connectRedis } from '../support/redis.ts';

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

  test('takes hz, a port and more options', async () => {
    const { port } = await startEmbeddedRedis().then(async (redis) => {
      await redis.close();
      return redis;
    });
    const started = await start({ hz: 10, port, extraArgs: ['--databases', '3'] });
    expect(started.url).toBe(`redis://127.0.0.1:${port}`);
    const settings = await connectRedis(started.url).config('GET', 'hz', 'databases');
    expect(Object.fromEntries(pairs(settings))).toEqual({ hz: '10', databases: '3' });
  });

  test('has every write again after a restart on the same folder and port', async () => {
    const dir = await temporaryFolder();
    const first = await start({ dir, appendonly: true });
    await connectRedis(first.url).set('kept', 'yes');
    await first.close();
    const second = await start({ dir, appendonly: true, port: first.port });
    expect(await connectRedis(second.url).get('kept')).toBe('yes');
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

  test('closes when it is stopped, when it was killed, and twice', async () => {
    const [stopped, killed] = await Promise.all([start({ dir: await temporaryFolder() }), start()]);
    process.kill(stopped.pid, 'SIGSTOP');
    process.kill(killed.pid, 'SIGKILL');
    await killed.ended;
    await Promise.all([stopped.close(), stopped.close(), killed.close()]);
    expect([isAlive(stopped.pid), isAlive(killed.pid)]).toEqual([false, false]);
  });

  test('tells why it did not start', async () => {
    const folder = await temporaryFolder(); // others make theirs meanwhile
    vi.stubEnv('TMPDIR', folder);
    onTestFinished(() => void vi.unstubAllEnvs());
    await expect(startEmbeddedRedis({ extraArgs: ['--no-such-setting', '1'] })).rejects.toThrow(
      /ended before it answered; its last output:\n[^]*no-such-setting/,
    );
    const listener = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void listener.close());
    await vi.waitFor(() => {
      expect(listener.listening).toBe(true);
    });
    const { port } = listener.address() as { port: number };
    await expect(startEmbeddedRedis({ port })).rejects.toThrow(/Address already in use/);
    expect(await readdir(folder)).toEqual([]);
  });

  test('does not take a server that was quicker on its port for its own', async () => {
    const other = await start();
    await expect(startEmbeddedRedis({ port: other.port })).rejects.toThrow(/Address already in use/);
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
    ['SIGINT', ''],
    ['an exception', "throw new Error('a bug');"],
    ['process.exit', 'process.exit(3);'],
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
