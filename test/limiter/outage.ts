import { Redis, type RedisOptions } from 'ioredis';
import { expect, onTestFinished } from 'vitest';
import type { Policy } from '../../src/domain/limits.ts';
import { withFallback, type FallbackOptions } from '../../src/limiter/fallback.ts';
import type { Limiter } from '../../src/limiter/limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { startEmbeddedRedis, type EmbeddedRedis, freePort } from '../../sandbox/redis/embedded-redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { waitFor } from '../support/wait.ts';

/** 5 in a minute with 20 s between: nothing of it passes by itself while a test runs. */
export const POLICY: Policy = { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 20_000 };
export const TIMEOUT_MS = 200;

/** Both ways to use ioredis: commands wait for the connection and are sent after all, or fail at once without one. */
export const CLIENTS = {
  waits: { maxRetriesPerRequest: null, retryStrategy: () => 20 },
  'fails at once': { enableOfflineQueue: false, maxRetriesPerRequest: 0, retryStrategy: () => 20 },
} satisfies Record<string, ClientOptions>;
type ClientOptions = Omit<RedisOptions, 'replyMapping'>; // set, it would change the type of replies

/** A limiter with a fallback, on a Redis of its own that can be stopped and comes back at the same place, empty. */
export async function outage(options: Partial<FallbackOptions>, clientOptions: ClientOptions = {}) {
  const port = await freePort();
  let server: EmbeddedRedis = await startEmbeddedRedis({ port });
  const client = new Redis(port, '127.0.0.1', {
    maxRetriesPerRequest: null,
    retryStrategy: () => 20,
    ...clientOptions,
  });
  client.on('error', () => undefined); // refused while it is away
  onTestFinished(async () => {
    client.disconnect();
    await server.close();
  });
  await waitFor(() => expect(client.status).toBe('ready'));

  const { policy = POLICY, onUnavailable = 'closed', pauseMs = 1_000, now, ...rest } = options;
  const told: boolean[] = [];
  const onItsClock = now ? onClock(client, now) : client;
  const real = createRedisLimiter({ redis: onItsClock, policy, timeoutMs: TIMEOUT_MS, ...rest });
  let calls = 0;
  const counted: Limiter = { ...real, admit: (ask) => ((calls += 1), real.admit(ask)) };
  const onOutage = (isAway: boolean): void => void told.push(isAway);
  const limiter = withFallback(counted, { ...rest, ...(now && { now }), policy, onUnavailable, pauseMs, onOutage });
  const redis = {
    stop: () => server.close(),
    start: async () => {
      server = await startEmbeddedRedis({ port });
    },
    pause: (ms: number) => client.client('PAUSE', ms),
  };
  /** Resolves when asks are answered by Redis again; it asks for somebody else, and writes nothing. */
  const back = () =>
    waitFor(async () => {
      await limiter.peek({ recipientId: 'nobody', id: 'probe' });
      expect(told.at(-1)).toBe(false);
    });
  return { limiter, redis, back, told, calls: () => calls };
}
