import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Rivals } from '../install.ts';
import { createCase, expectAnswer, type Case } from './case.ts';
import { TURNS } from './ours.ts';

/** What is used of @upstash/ratelimit, and what it uses of a client. */
interface UpstashModule {
  Ratelimit: {
    new (options: { redis: UpstashClient; limiter: unknown }): { limit(id: string): Promise<{ success: boolean }> };
    slidingWindow(tokens: number, window: string): unknown;
  };
}

interface UpstashClient {
  evalsha(sha: string, keys: string[], args: (string | number)[]): Promise<unknown>;
  eval(script: string, keys: string[], args: (string | number)[]): Promise<unknown>;
}

/** The first line names a flag that only Upstash's server knows; any other Redis refuses such a script. */
const FIRST_LINE = /^#!lua[^\n]*/;

/** The library is made for an HTTP client; here its script is sent over the same connection as all others. */
export function upstashCase({ load }: Rivals, redis: Redis): Case {
  const { Ratelimit } = load('@upstash/ratelimit') as UpstashModule;
  const limiter = new Ratelimit({ redis: clientOver(redis), limiter: Ratelimit.slidingWindow(10, '60 s') });
  const name = '@upstash/ratelimit, one rule (two counters)';
  return createCase({
    name,
    commands: ['evalsha'],
    ...TURNS,
    async ask(recipientId) {
      const { success } = await limiter.limit(recipientId);
      expectAnswer(name, 'admitted', success ? 'admitted' : 'blocked');
    },
  });
}

function clientOver(redis: Redis): UpstashClient {
  const known = new Map<string, string>();
  return {
    evalsha(sha, keys, args) {
      const plainSha = known.get(sha);
      if (plainSha === undefined) return Promise.reject(new Error('NOSCRIPT'));
      return redis.evalsha(plainSha, keys.length, ...keys, ...args);
    },
    async eval(script, keys, args) {
      const plain = script.replace(FIRST_LINE, '');
      const reply = await redis.eval(plain, keys.length, ...keys, ...args);
      known.set(sha1(script), sha1(plain));
      return reply;
    },
  };
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}
