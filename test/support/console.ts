import { join } from 'node:path';
import { Queue } from 'bullmq';
import { onTestFinished } from 'vitest';
import { addToken, type Scope } from '../../api/tokens.ts';
import { startConsole } from '../../console/start.ts';
import { loadConsoleConfig } from '../../src/config/config.ts';
import { createLog } from '../../src/observe/log.ts';
import { DEAD_LETTERS, QUEUE, shardPrefixes } from '../../src/queue/names.ts';
import type { Connection } from '../../src/redis/connection.ts';
import { temporaryFolder } from './program.ts';
import { connectRedis, redisEnv, testPrefix } from './redis.ts';

/** The console in this process, at a queue of its own. */
export interface ConsoleBench {
  readonly url: string;
  readonly prefix: string;
  /** Of the first shard, as a plain BullMQ client sees them. */
  readonly queue: Queue;
  readonly deadQueue: Queue;
  readonly connection: Connection;
  readonly tokensFile: string;
  /** The lines of its log, as JSON. */
  readonly lines: readonly string[];
  /** The secrets of the tokens, by name. */
  readonly secrets: Readonly<Record<string, string>>;
  /** A page, as a browser asks for it. */
  readonly get: (path: string, headers?: Readonly<Record<string, string>>) => Promise<PageAnswer>;
  /** A form that was sent from a page of the console itself; redirects are not followed. */
  readonly post: (path: string, fields?: FormFields, headers?: Readonly<Record<string, string>>) => Promise<PageAnswer>;
}

/** A field with several values is sent several times. */
export type FormFields = Readonly<Record<string, string | readonly string[]>>;

export interface PageAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Where it leads; empty if nowhere. */
  readonly location: string;
}

/**
 * @param env more variables of the console
 * @param tokens with these scopes, made before it starts
 */
export async function openConsole(
  env: Readonly<Record<string, string>> = {},
  tokens: Readonly<Record<string, readonly Scope[]>> = {},
): Promise<ConsoleBench> {
  const prefix = env['QUEUE_PREFIX'] ?? testPrefix();
  const tokensFile = join(await temporaryFolder(), 'tokens.json');
  const secrets: Record<string, string> = {};
  for (const [name, scopes] of Object.entries(tokens)) {
    secrets[name] = await addToken(tokensFile, { name, scopes: [...scopes] });
  }
  const own = { CONSOLE_PORT: '0', API_TOKENS_FILE: tokensFile };
  const given = { ...redisEnv(), QUEUE_PREFIX: prefix, ...own, ...env };
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const served = await startConsole(loadConsoleConfig(given), log);
  const connection = connectRedis(given.REDIS_URL).on('error', () => undefined); // a test may have none
  const [first = prefix] = shardPrefixes(prefix, Number(env['QUEUE_SHARDS'] ?? 1));
  const open = (name: string) => new Queue(name, { connection, prefix: first }).on('error', () => undefined);
  const [queue, deadQueue] = [open(QUEUE), open(DEAD_LETTERS)];
  onTestFinished(async () => {
    await Promise.all([served.close(), queue.close(), deadQueue.close()]);
  });
  const ask = async (path: string, init: RequestInit): Promise<PageAnswer> => {
    const response = await fetch(`${served.url}${path}`, { ...init, redirect: 'manual' });
    const { status, headers } = response;
    return { status, headers, text: await response.text(), location: headers.get('location') ?? '' };
  };
  return {
    ...{ url: served.url, prefix, queue, deadQueue, connection, tokensFile, lines, secrets },
    get: (path, headers = {}) => ask(path, { headers }),
    post(path, fields = {}, headers = {}) {
      const body = new URLSearchParams();
      for (const [name, value] of Object.entries(fields)) for (const each of [value].flat()) body.append(name, each);
      return ask(path, { method: 'POST', body, headers: { 'sec-fetch-site': 'same-origin', ...headers } });
    },
  };
}
