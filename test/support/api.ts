import { join } from 'node:path';
import { Queue } from 'bullmq';
import { onTestFinished } from 'vitest';
import { startApi } from '../../api/start.ts';
import { addToken, SCOPES, type Token } from '../../api/tokens.ts';
import { loadApiConfig } from '../../src/config/config.ts';
import { createLog } from '../../src/observe/log.ts';
import { QUEUE, shardPrefixes } from '../../src/queue/names.ts';
import { temporaryFolder } from './program.ts';
import { connectRedis, redisEnv, testPrefix } from './redis.ts';

/** The API in this process, at a queue of its own. */
export interface ApiBench<Name extends string = never> {
  readonly url: string;
  readonly prefix: string;
  readonly tokensFile: string;
  /** The queue of the first shard, as a plain BullMQ client sees it. */
  readonly queue: Queue;
  /** The lines of its log, as JSON. */
  readonly lines: readonly string[];
  /** A request with a token that may all, unless `secret` is another one, or '' for none. */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** The secret of each token, by its name; `all` is the token that may all. */
  readonly secrets: Readonly<Record<Name | 'all', string>>;
}

type TokenFields = Pick<Token, 'scopes' | 'maxWaiting'>;

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

/**
 * @param env more variables of the API
 * @param tokens more tokens, by name: written before the start, because the server sees a later change only after seconds
 */
export async function openApi<Name extends string = never>(
  env: Readonly<Record<string, string>> = {},
  tokens: Readonly<Record<Name, TokenFields>> = {} as Readonly<Record<Name, TokenFields>>,
): Promise<ApiBench<Name>> {
  const prefix = env['QUEUE_PREFIX'] ?? testPrefix();
  const tokensFile = join(await temporaryFolder(), 'tokens.json');
  const secrets: Record<string, string> = {};
  for (const [name, fields] of Object.entries<TokenFields>({ all: { scopes: SCOPES }, ...tokens }))
    secrets[name] = await addToken(tokensFile, { name, ...fields });
  const given = { ...redisEnv(), QUEUE_PREFIX: prefix, API_PORT: '0', API_TOKENS_FILE: tokensFile, ...env };
  const lines: string[] = [];
  const api = await startApi(loadApiConfig(given), createLog('info', { write: (line) => void lines.push(line) }));
  const [first = prefix] = shardPrefixes(prefix, Number(env['QUEUE_SHARDS'] ?? 1));
  const connection = connectRedis(given.REDIS_URL).on('error', () => undefined); // a test may have none
  const queue = new Queue(QUEUE, { connection, prefix: first }).on('error', () => undefined);
  onTestFinished(async () => {
    await Promise.all([api.close(), queue.close()]);
  });
  const call: ApiBench['call'] = async (method, path, { body, headers = {}, secret = secrets['all'] ?? '' } = {}) => {
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
  return { url: api.url, prefix, tokensFile, queue, lines, call, secrets: secrets as ApiBench<Name>['secrets'] };
}

function jsonOr(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return { text };
  }
}
