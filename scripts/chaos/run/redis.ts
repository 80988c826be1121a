import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbeddedRedis, type EmbeddedRedis } from '../../../src/sandbox/redis/embedded-redis.ts';
import { freePort } from '../../../src/sandbox/redis/free-port.ts';

/** A Redis that can be killed and started again on the same port, with every write that it had acknowledged. */
export interface MortalRedis {
  readonly url: string;
  /** The process of each time that it was started. */
  readonly pids: readonly number[];
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  /** Resolves when it answers again. */
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Redis may take long to load a large file. */
const START_TIMEOUT_MS = 60_000;
/**
 * With `everysec` Redis acknowledges writes up to two seconds before they are in its file, and a kill loses these; but this run
 * checks the workers, not Redis.
 */
const DURABLE = ['--appendfsync', 'always', '--auto-aof-rewrite-min-size', '256mb'];

export async function startMortalRedis(say: (line: string) => void): Promise<MortalRedis> {
  const dir = await mkdtemp(join(tmpdir(), 'pushpacer-chaos-redis-'));
  const port = await freePort();
  const pids: number[] = [];
  const open = async (): Promise<EmbeddedRedis> => {
    const options = {
      dir,
      port,
      appendonly: true,
      extraArgs: DURABLE,
      startTimeoutMs: START_TIMEOUT_MS,
      say,
      install: true,
    };
    const started = await startEmbeddedRedis(options);
    pids.push(started.pid);
    return started;
  };
  const remove = () => rm(dir, { recursive: true, force: true });
  let server = open();
  const { url } = await server.catch(async (error: unknown) => {
    await remove();
    throw error;
  });
  return {
    url,
    pids,
    async kill() {
      const { pid, ended } = await server;
      process.kill(pid, 'SIGKILL');
      await ended;
    },
    async start() {
      server = open();
      await server;
    },
    async close() {
      await server.then((started) => started.close()).finally(remove);
    },
  };
}
