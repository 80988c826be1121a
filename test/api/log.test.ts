import { expect, it, onTestFinished } from 'vitest';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { openApi } from '../support/api.ts';
import { waitFor } from '../support/wait.ts';

type Line = Readonly<Record<string, unknown>>;

const parsed = (lines: readonly string[]): Line[] => lines.map((line) => JSON.parse(line) as Line);

it('an outage of Redis is logged when it begins, and once when it is over', async () => {
  const redis = await startEmbeddedRedis();
  const api = await openApi({ REDIS_URL: redis.url });
  await waitFor(async () => expect((await api.call('GET', '/readyz')).status).toBe(200));
  const about = (): Line[] => parsed(api.lines).filter(({ msg }) => /Redis/.test(String(msg)));
  expect(about()).toEqual([]);
  await redis.close();
  await waitFor(() => expect(about().length).toBeGreaterThan(0));
  expect(about()[0]).toMatchObject({
    level: 'warn',
    msg: 'the API has no connection to Redis: what needs it is refused (503), and it is tried again until Redis answers',
    redis: new URL(redis.url).host,
  });
  expect((await api.call('GET', '/readyz')).status).toBe(503);
  const again = await startEmbeddedRedis({ port: redis.port });
  onTestFinished(() => again.close());
  const back = (): Line[] => about().filter(({ msg }) => msg === 'the API is connected to Redis again');
  await waitFor(() => expect(back()).toHaveLength(1));
  expect(back()[0]).toMatchObject({ level: 'info', awayMs: expect.any(Number) as number });
});
