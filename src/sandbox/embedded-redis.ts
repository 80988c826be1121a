import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';

export interface EmbeddedRedis {
  readonly url: string;
  readonly pid: number;
  close(): Promise<void>;
}

export interface EmbeddedRedisOptions {
  readonly say?: (line: string) => void;
}

// First cut, being replaced: see the helper's task.
export async function startEmbeddedRedis(_options: EmbeddedRedisOptions = {}): Promise<EmbeddedRedis> {
  const port = await new Promise<number>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
  const dir = await mkdtemp(join(tmpdir(), 'pushpacer-redis-'));
  const child = spawn(
    'redis-server',
    [
      '--port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--hz',
      '100',
      '--dir',
      dir,
      '--save',
      '',
      '--maxmemory-policy',
      'noeviction',
    ],
    { stdio: 'ignore' },
  );
  const url = `redis://127.0.0.1:${port}`;
  const probe = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 20 });
  probe.on('error', () => undefined);
  await probe.ping();
  probe.disconnect();
  return {
    url,
    pid: child.pid ?? 0,
    close: async () => {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await gone;
      await rm(dir, { recursive: true, force: true });
    },
  };
}
