import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import type { Policy } from '../../src/domain/limits.ts';
import type { HttpLimitOptions, Refusal } from '../../src/http/limit.ts';
import type { Limiter } from '../../src/limiter/limiter.ts';
import { createRedisLimiter, type RedisLimiterOptions } from '../../src/limiter/redis/redis-limiter.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { waitFor } from '../support/wait.ts';

/** What is used of a request, whatever the framework. */
interface Asked {
  readonly headers: Record<string, string | string[] | undefined>;
}

/** An application on the loopback that answers what the limit lets through. */
interface Served {
  readonly url: string;
  /** How many requests got to the application. */
  readonly served: () => number;
}
type ServeOptions = HttpLimitOptions<Asked> & {
  /** What to answer a refused request with, as text. */
  readonly refuseWith?: (refusal: Refusal) => string;
};
export type Serve = (options: ServeOptions) => Promise<Served>;

/** 3 in 10 s. */
const WINDOW: Policy = { rules: [{ max: 3, perMs: 10_000 }], minGapMs: 0 };
/** 3 in 10 s with 400 ms between: a request waits for up to 120 ms. */
const GAP: Policy = { ...WINDOW, minGapMs: 400 };

/** Fastify adds the character set. */
const PROBLEM = expect.stringMatching(/^application\/problem\+json(; charset=utf-8)?$/) as unknown;

const key = ({ headers }: Asked): string | undefined => headers['x-user']?.toString();

/** What every middleware promises, as in docs/http.md. */
export function httpContract(name: string, serve: Serve): void {
  describe(`${name}: a limited application`, () => {
    it('says with every answer what the rule that decides has left', async () => {
      const { ask } = await limited({ policy: WINDOW });
      const fields = { policy: '"3/10s";q=3;w=10', retryAfter: null };
      for (const left of [2, 1, 0]) {
        const limit = `"3/10s";r=${left};t=10`;
        expect(await ask()).toMatchObject({ status: 200, text: 'served', limit, ...fields });
      }
    });

    it('refuses with 429, says for how long, and does not run the application', async () => {
      const { ask, advance, served } = await limited({ policy: WINDOW });
      for (const ms of [0, 1_000, 1_000]) {
        advance(ms);
        await ask();
      }
      advance(500);
      const { text, ...answer } = await ask();
      const fields = { policy: '"3/10s";q=3;w=10', limit: '"3/10s";r=0;t=8', retryAfter: '8' };
      expect(answer).toMatchObject({ status: 429, type: PROBLEM, ...fields });
      expect(JSON.parse(text)).toEqual({
        type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
        title: 'Quota Exceeded',
        status: 429,
        'violated-policies': ['3/10s'],
      });
      expect(served()).toBe(3);
    });

    it('counts each key on its own, and does not limit what has none', async () => {
      const { ask } = await limited({ policy: GAP });
      expect((await ask('a')).status).toBe(200);
      expect((await ask('a')).status).toBe(429);
      expect((await ask('b')).status).toBe(200);
      const unlimited = { status: 200, limit: null, policy: null, retryAfter: null };
      for (let asks = 0; asks < 3; asks += 1) expect(await ask(null)).toMatchObject(unlimited);
    });

    it('takes a key that is promised, and hands its failure to the framework', async () => {
      const { ask } = await limited({ policy: GAP }, { key: (request) => Promise.resolve(key(request)) });
      expect((await ask()).status).toBe(200);
      expect((await ask()).status).toBe(429);
      const failing = await limited({ policy: GAP }, { key: () => Promise.reject(new Error('no session store')) });
      expect((await failing.ask()).status).toBe(500);
      expect(failing.served()).toBe(0);
    });

    it('keeps a category beside the whole, and names its rule in a field that no name can leave', async () => {
      const category = 'a"b\\c\r\nX-Evil: é, "d';
      const categories = { [category]: { rules: [{ max: 1, perMs: 20_000 }], minGapMs: 0 } };
      const { ask } = await limited({ policy: WINDOW, categories }, { category: () => category });
      const escaped = '"a\\"b\\\\c%0D%0AX-Evil: %C3%A9, \\"d:1/20s"';
      const [limit, policy] = [`${escaped};r=0;t=20`, `${escaped};q=1;w=20`];
      const allowed = { limit: `"3/10s";r=2;t=10, ${limit}`, policy: `"3/10s";q=3;w=10, ${policy}` };
      expect(await ask()).toMatchObject({ status: 200, ...allowed });
      const refused = { limit: `${limit}, "3/10s";r=2;t=10`, policy: `${policy}, "3/10s";q=3;w=10` };
      expect(await ask()).toMatchObject({ status: 429, ...refused, retryAfter: '20', evil: null });
    });

    it('takes a policy of its own, and says what is left of the window while the gap makes the next request wait', async () => {
      const policyOfOptions = { rules: [{ max: 5, perMs: 1_500 }], minGapMs: 200 };
      const { ask } = await limited({ policy: WINDOW }, { policy: policyOfOptions });
      const [gap, window] = ['"gap";q=1;w=1', '"5/1500ms";q=5;w=2'];
      const allowed = { limit: '"5/1500ms";r=4;t=2, "gap";r=0;t=1', policy: `${window}, ${gap}` };
      expect(await ask()).toMatchObject({ status: 200, ...allowed });
      const refused = { limit: '"gap";r=0;t=1, "5/1500ms";r=4;t=2', policy: `${gap}, ${window}` };
      expect(await ask()).toMatchObject({ status: 429, retryAfter: '1', ...refused });
    });

    it('answers a refused request in the words of the application', async () => {
      const refuseWith = ({ status, retryAfterSeconds }: Refusal) => `${status}: again in ${retryAfterSeconds} s`;
      const { ask } = await limited({ policy: WINDOW }, { policy: { ...WINDOW, minGapMs: 7_000 }, refuseWith });
      await ask();
      expect(await ask()).toMatchObject({ status: 429, text: '429: again in 7 s', retryAfter: '7' });
    });

    it('lets a request that comes a little early wait until its slot', async () => {
      const { ask, advance } = await limited({ policy: GAP });
      await ask();
      advance(300);
      const askedAt = performance.now();
      expect((await ask()).status).toBe(200);
      expect(performance.now() - askedAt).toBeGreaterThan(99);
    });

    it('gives the slot of a waiting request back when its client leaves, and does not run the application', async () => {
      const hourly = { rules: [{ max: 3, perMs: 3_600_000 }], minGapMs: 0 }; // does not pass while the test waits
      const { limiter, url, served } = await limited({ policy: hourly }, {}, (real) => ({
        ...real,
        admit: async (ask) => ({ ...(await real.admit(ask)), sendAt: performance.now() + 60_000 }),
      }));
      const client = new AbortController();
      const asked = fetch(url, { headers: { 'x-user': 'u' }, signal: client.signal });
      const left = expect(asked).rejects.toMatchObject({ name: 'AbortError' });
      const slots = () => limiter.inspect('u').then(({ sent }) => sent.length);
      await waitFor(async () => expect(await slots()).toBe(1));
      client.abort();
      await left;
      await waitFor(async () => expect(await slots()).toBe(0));
      expect(served()).toBe(0);
    });

    it('answers 503 while the limiter is away, and says when to come back', async () => {
      const { ask, served } = await withoutRedis();
      const { text, ...answer } = await ask();
      expect(answer).toMatchObject({ status: 503, retryAfter: '5', limit: null, type: PROBLEM });
      expect(JSON.parse(text)).toEqual({ title: 'Service Unavailable', status: 503 });
      expect(served()).toBe(0);
    });

    it('lets all through while Redis is away, where an option says so', async () => {
      const { ask, served } = await withoutRedis({ onUnavailable: 'open' });
      const answer = { status: 200, limit: null, policy: null, retryAfter: null };
      for (let asks = 0; asks < 4; asks += 1) expect(await ask()).toMatchObject(answer);
      expect(served()).toBe(4);
    });

    it('limits in its own memory while Redis is away, where an option says so', async () => {
      const { ask, served } = await withoutRedis({ onUnavailable: 'memory' });
      expect(await ask()).toMatchObject({ status: 200, limit: '"3/10s";r=2;t=10' });
      for (let asks = 1; asks < 3; asks += 1) await ask();
      expect(await ask()).toMatchObject({ status: 429, retryAfter: '10', type: PROBLEM });
      expect(served()).toBe(3);
    });

    it.each([
      [{ onUnavailable: 'open' }, "onUnavailable: expected no such field (did you mean the limiter's onUnavailable?)"],
      [{ keyGenerator: key }, 'keyGenerator: expected no such field (did you mean key?)'],
      [{ key: 'user' }, 'key: expected a function, found a string of 4 characters'],
      [{ category: 'messages' }, 'category: expected a function, found a string of 8 characters'],
      [{ limiter: undefined }, 'limiter: expected a limiter, such as createMemoryLimiter makes, found nothing'],
      [{ policy: { rules: [{ max: 0, perMs: 1_000 }], minGapMs: 0 } }, 'policy.rules[0].max: expected an integer'],
    ])('refuses an option that does not exist or cannot be used: %j', async (wrong, message) => {
      const limiter = createRedisLimiter({ redis: connectRedis(), policy: WINDOW });
      const options = { limiter, key, ...wrong } as unknown as ServeOptions;
      const what = 'policy' in wrong ? 'unusable policy' : 'unusable options';
      await expect(async () => serve(options)).rejects.toThrow(`${what}: ${message}`);
    });

    it('hands on what is no outage', async () => {
      const { ask, served } = await limited({ policy: WINDOW }, { key: () => '' });
      expect((await ask()).status).toBe(500);
      expect(served()).toBe(0);
    });
  });

  /** An application with a limiter on the shared Redis, whose clock stands still until the test moves it. */
  async function limited(
    settings: { policy: Policy; categories?: Record<string, Policy> },
    options: Partial<ServeOptions> = {},
    between: (real: Limiter) => Limiter = (real) => real,
  ) {
    let now = Date.now();
    const common = { redis: onClock(connectRedis(), () => now), prefix: testPrefix() };
    const limiter = createRedisLimiter({ ...common, ...settings });
    const application = await serve({ limiter: between(limiter), key, ...options });
    return {
      ...application,
      limiter,
      ask: asker(application.url),
      now: () => now,
      advance: (ms: number) => {
        now += ms;
      },
    };
  }

  /** The same where nothing answers. */
  async function withoutRedis(settings: Pick<RedisLimiterOptions, 'onUnavailable'> = {}, more: object = {}) {
    const redis = new Redis({ lazyConnect: true });
    redis.disconnect();
    const limiter = createRedisLimiter({ redis, policy: WINDOW, timeoutMs: 100, ...settings });
    const application = await serve({ limiter, key, ...more });
    return { ...application, ask: asker(application.url) };
  }
}

/** What a client sees. */
function asker(url: string) {
  return async (user: string | null = 'u') => {
    const response = await fetch(url, { headers: user === null ? {} : { 'x-user': user } });
    const { headers } = response;
    return {
      status: response.status,
      text: await response.text(),
      limit: headers.get('ratelimit'),
      policy: headers.get('ratelimit-policy'),
      retryAfter: headers.get('retry-after'),
      type: headers.get('content-type'),
      evil: headers.get('x-evil'),
    };
  };
}
