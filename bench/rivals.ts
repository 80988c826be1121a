import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { Redis } from 'ioredis';
import { CommandError } from '../src/terminal/command.ts';
import { npmCi } from '../tools/install.ts';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));

/** The other libraries, in the versions of bench/package.json. */
export interface Rivals {
  readonly load: NodeJS.Require;
  readonly versions: Readonly<Record<string, string>>;
}

/** Loads the libraries in bench/, and installs them first if their versions are not those of bench/package.json. */
export async function installRivals(say: (line: string) => void): Promise<Rivals> {
  const { dependencies: versions } = (await readJson('package.json')) as { dependencies: Record<string, string> };
  const names = Object.keys(versions);
  const installed = names.map(async (name) => {
    const manifest = await readJson(`node_modules/${name}/package.json`).catch(() => undefined);
    return (manifest as { version?: string } | undefined)?.version === versions[name];
  });
  if (!(await Promise.all(installed)).every(Boolean)) {
    say(`installing ${names.join(', ')} in bench/ (npm ci)`);
    await npmCi('bench').catch((error: unknown) => {
      throw new CommandError(`--quick does without the rivals: ${(error as Error).message}`);
    });
  }
  const load = createRequire(new URL('package.json', import.meta.url));
  for (const name of names) tryToLoad(load, name);
  return { load, versions };
}

/** Loads it once before measuring: microtime contains binaries for the usual platforms, so a native part may be missing for this platform. */
function tryToLoad(load: NodeJS.Require, name: string): void {
  try {
    load(name);
  } catch (error) {
    const [reason] = String(error).split('\n');
    throw new CommandError(`${name} does not load; --quick does without it: ${reason ?? ''}`);
  }
}

async function readJson(path: string): Promise<unknown> {
  return JSON.parse(await readFile(`${FOLDER}${path}`, 'utf8'));
}

/** What is used of rolling-rate-limiter. */
interface RollingLimiter {
  limitWithInfo(id: string): Promise<RollingInfo>;
  /** The same answer, but the action does not count. */
  wouldLimitWithInfo(id: string): Promise<RollingInfo>;
}

interface RollingInfo {
  readonly blocked: boolean;
  readonly millisecondsUntilAllowed: number;
}

interface RollingOptions {
  readonly interval: number;
  readonly maxInInterval: number;
  readonly minDifference?: number;
}

interface RollingModule {
  RedisRateLimiter: new (options: RollingOptions & { client: Redis; namespace: string }) => RollingLimiter;
  InMemoryRateLimiter: new (options: RollingOptions) => RollingLimiter & { clear(id: string): Promise<void> };
}

export function createRolling({ load }: Rivals, redis: Redis, options: RollingOptions): RollingLimiter {
  const { RedisRateLimiter } = load('rolling-rate-limiter') as RollingModule;
  return new RedisRateLimiter({ client: redis, namespace: 'rate-limiter', ...options });
}

/** Its own limiter in memory, and its clock: microseconds, to be replaced. */
export function rollingInMemory({ load }: Rivals, options: RollingOptions) {
  const { InMemoryRateLimiter } = load('rolling-rate-limiter') as RollingModule;
  const clock = createRequire(load.resolve('rolling-rate-limiter'))('microtime') as { now: () => number };
  return { limiter: new InMemoryRateLimiter(options), clock };
}

/** What is used of rate-limiter-flexible: a refusal is a rejection with the wait in it. */
interface FlexibleLimiter {
  consume(key: string): Promise<unknown>;
}

/** A fixed window: one rule. */
export interface FlexibleOptions {
  readonly points: number;
  /** Whole seconds. */
  readonly duration: number;
  readonly keyPrefix: string;
}

interface FlexibleModule {
  RateLimiterRedis: new (options: FlexibleOptions & { storeClient: Redis }) => FlexibleLimiter;
  RateLimiterMemory: new (options: FlexibleOptions) => FlexibleLimiter;
  RateLimiterUnion: new (...limiters: FlexibleLimiter[]) => FlexibleLimiter;
}

/** A limiter of one rule, or the union of several, which asks each; on Redis, or its own in memory. */
export function createFlexible(
  { load }: Rivals,
  redis: Redis | 'memory',
  ...rules: readonly FlexibleOptions[]
): FlexibleLimiter {
  const { RateLimiterRedis, RateLimiterMemory, RateLimiterUnion } = load('rate-limiter-flexible') as FlexibleModule;
  const limiters = rules.map((rule) =>
    redis === 'memory' ? new RateLimiterMemory(rule) : new RateLimiterRedis({ storeClient: redis, ...rule }),
  );
  const [only, ...more] = limiters;
  return only !== undefined && more.length === 0 ? only : new RateLimiterUnion(...limiters);
}

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

/** The library is made for an HTTP client; here its script is sent over the same connection as all others. */
export function createUpstash({ load }: Rivals, redis: Redis, tokens: number, window: string) {
  const { Ratelimit } = load('@upstash/ratelimit') as UpstashModule;
  return new Ratelimit({ redis: clientOver(redis), limiter: Ratelimit.slidingWindow(tokens, window) });
}

/** The first line names a flag that only Upstash's server knows; any other Redis refuses such a script. */
const FIRST_LINE = /^#!lua[^\n]*/;

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
