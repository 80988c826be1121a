import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { createRefusals } from '../../api/refusals.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { createLog } from '../../src/observe/log.ts';
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

it('refused tokens are counted in one line, by cause, and never shown', async () => {
  const api = await openApi({}, { reader: { scopes: ['read'] } });
  const { lines, secrets } = api;
  const wrong = `pp_${'x'.repeat(43)}`;
  for (let at = 0; at < 30; at++) await api.call('GET', '/v1/notifications/a', { secret: wrong });
  await api.call('GET', '/v1/notifications/a', { secret: '' });
  await api.call('DELETE', '/v1/notifications/a', { secret: secrets.reader });
  const refused = parsed(lines).filter(({ msg }) => String(msg).startsWith('the API refused requests'));
  expect(refused).toHaveLength(1);
  expect(refused[0]).toMatchObject({ level: 'warn', refused: 1, unknownToken: 1, addresses: 1 });
  expect(refused[0]?.['address']).toMatch(/127\.0\.0\.1$/);
  for (const secret of [wrong, ...Object.values(secrets)]) expect(lines.join('')).not.toContain(secret);
});

it('the first refusal is logged at once, what follows with the next line, and a quiet time ends it', async () => {
  const lines: string[] = [];
  const refusals = createRefusals('API', createLog('info', { write: (line) => void lines.push(line) }), 100);
  const found = () =>
    parsed(lines).map(({ refused, noToken, unknownToken, scope, addresses }) => {
      return { refused, noToken, unknownToken, scope, addresses };
    });
  refusals.count('noToken', 'a');
  expect(found()).toEqual([{ refused: 1, noToken: 1, addresses: 1 }]);
  for (let at = 0; at < 5; at++) refusals.count('unknownToken', `b-${at % 2}`);
  refusals.count('scope', 'a');
  expect(found()).toHaveLength(1);
  await waitFor(() => expect(found()).toHaveLength(2));
  expect(found()[1]).toEqual({ refused: 6, unknownToken: 5, scope: 1, addresses: 3 });
  await sleep(250);
  expect(found()).toHaveLength(2);
  refusals.count('scope', 'a');
  expect(found()).toHaveLength(3);
  refusals.count('scope', 'a');
  refusals.close(); // what was not told yet
  expect(found()).toHaveLength(4);
});
