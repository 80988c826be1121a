import { Redis } from 'ioredis';
import { InputError } from '../../domain/faults.ts';
import { startEmbeddedRedis } from './embedded-redis.ts';

const ANSWER_TIMEOUT_MS = 5_000;

/** A Redis to work on: the caller's own, or an embedded one. */
export interface OpenRedis {
  readonly url: string;
  /** True: it was started here, is empty, and ends with `close`. False: it was given, and `close` leaves it as it is. */
  readonly isEmbedded: boolean;
  close(): Promise<void>;
}

export interface OpenRedisOptions {
  /** `REDIS_URL` of one node. If it is left out or empty, an embedded Redis is started. */
  readonly url?: string | undefined;
  readonly say: (line: string) => void;
}

/** The given Redis, after it has answered, or an embedded one. Rejects with an InputError if neither is possible. */
export async function openRedis({ url, say }: OpenRedisOptions): Promise<OpenRedis> {
  if (url === undefined || url === '') {
    const redis = await startEmbeddedRedis({ say, install: true });
    return { url: redis.url, isEmbedded: true, close: () => redis.close() };
  }
  const refusal = await refusalOf(url);
  if (refusal !== undefined) {
    const fault = { path: 'REDIS_URL', expected: 'the URL of a Redis that answers', found: refusal };
    throw new InputError('no Redis', [fault]);
  }
  return { url, isEmbedded: false, close: () => Promise.resolve() };
}

/** Why a Redis does not answer, without its URL, which may contain a password; `undefined` if it answers. */
async function refusalOf(url: string): Promise<string | undefined> {
  if (!/^rediss?:\/\//.test(url)) return 'something that does not begin with redis:// or rediss://';
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: ANSWER_TIMEOUT_MS,
    commandTimeout: ANSWER_TIMEOUT_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: null,
  });
  let lastError: Error | undefined;
  redis.on('error', (error: Error) => (lastError = error));
  try {
    await redis.connect();
    await redis.ping();
    return undefined;
  } catch (error) {
    return described(lastError ?? (error as Error));
  } finally {
    redis.disconnect();
  }
}

/** The client's words for an answer that is none of Redis's, and Redis's own for a refusal, explain the protocol. */
function described({ message }: Error): string {
  const code = /\b(NOAUTH|WRONGPASS)\b/.exec(message)?.[0];
  if (code !== undefined) return `one that refuses the credentials (${code})`;
  return message.startsWith('Unknown RESP type') ? 'a server that is no Redis' : message;
}
