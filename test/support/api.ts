import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Queue } from 'bullmq';
import { onTestFinished } from 'vitest';
import { startApi } from '../../api/api.ts';
import { addToken, type Token } from '../../api/tokens.ts';
import { loadApiConfig } from '../../src/config/config.ts';
import { createLog } from '../../src/observe/log.ts';
import { QUEUE, shardPrefixes } from '../../src/queue/names.ts';
import { connectRedis, testPrefix, testRedisUrl } from './redis.ts';

/** The API in this process, at a queue of its own. */
export interface ApiBench {
  readonly url: string;
  readonly prefix: string;
  readonly tokensFile: string;
  /** The queue of the first shard, as a plain BullMQ client sees it. */
  readonly queue: Queue;
  /** A request with a token that may all, unless `secret` is another one, or '' for none. */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** Adds a token and waits until the server knows it; answers its secret. */
  token(fields: Partial<Pick<Token, 'scopes' | 'maxWaiting'>>): Promise<string>;
}

export interface CallOptions {
  /** Sent as JSON; a text as it is. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly secret?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The JSON of the body; its text if it is no JSON. */
  readonly body: Record<string, unknown>;
}

/** @param env more variables of the API */
export async function openApi(env: Readonly<Record<string, string>> = {}): Promise<ApiBench> {
  const prefix = env['QUEUE_PREFIX'] ?? testPrefix();
  const folder = await mkdtemp(join(tmpdir(), 'pushpacer-api-'));
  const tokensFile = join(folder, 'tokens.json');
  const all = await addToken(tokensFile, { name: 'all', scopes: ['send', 'read', 'operate'] });
  const given = { REDIS_URL: testRedisUrl(), QUEUE_PREFIX: prefix, API_PORT: '0', API_TOKENS_FILE: tokensFile, ...env };
  const api = await startApi(loadApiConfig(given), createLog('silent'));
  const [first = prefix] = shardPrefixes(prefix, Number(env['QUEUE_SHARDS'] ?? 1));
  const connection = connectRedis(given.REDIS_URL).on('error', () => undefined); // a test may have none
  const queue = new Queue(QUEUE, { connection, prefix: first }).on('error', () => undefined);
  onTestFinished(async () => {
    await Promise.all([api.close(), queue.close()]);
    await rm(folder, { recursive: true, force: true });
  });
  const call: ApiBench['call'] = async (method, path, { body, headers = {}, secret = all } = {}) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(`${api.url}${path}`, {
      method,
      headers: {
        ...(secret !== '' && { authorization: `Bearer ${secret}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: text }),
    });
    return { status: response.status, headers: response.headers, body: jsonOr(await response.text()) };
  };
  let made = 0;
  return {
    url: api.url,
    prefix,
    tokensFile,
    queue,
    call,
    async token({ scopes = ['send', 'read'], maxWaiting }) {
      const secret = await addToken(tokensFile, { name: `token-${made++}`, scopes, ...(maxWaiting && { maxWaiting }) });
      for (let tries = 0; tries < 100; tries++) {
        const { status } = await call('GET', '/v1/notifications/none', { secret });
        if (status !== 401 && status !== 429) break;
        await new Promise((resolve) => setTimeout(resolve, 300));
      }
      return secret;
    },
  };
}

function jsonOr(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return { text };
  }
}
