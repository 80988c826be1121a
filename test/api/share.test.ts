import { Queue } from 'bullmq';
import { expect, it, onTestFinished } from 'vitest';
import { QUEUE } from '../../src/queue/names.ts';
import { openApi } from '../support/api.ts';
import { ownRedis } from '../support/own-redis.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';

/** So many notifications that wait, each for somebody else. */
const waiting = (count: number, delay: number) =>
  Array.from({ length: count }, () => ({ name: 'push', data: makeNotification(), opts: { priority: 10, delay } }));

it('reads one recipient without the jobs of others, however many wait', async () => {
  const { url } = await ownRedis();
  const api = await openApi({ REDIS_URL: url });
  const redis = connectRedis(url);
  const queue = new Queue(QUEUE, { connection: connectRedis(url), prefix: api.prefix });
  onTestFinished(() => queue.close());
  await queue.addBulk([...waiting(3_000, 3_600_000), ...waiting(3_000, 0)]);
  const mine = ['parent-9', 'ü/"{}'].flatMap((recipientId) =>
    [3_600_000, 0].map((ahead) =>
      makeNotification({ recipientId, ...(ahead > 0 && { sendAfter: Date.now() + ahead }) }),
    ),
  );
  for (const body of mine) expect((await api.call('POST', '/v1/notifications', { body })).status).toBe(202);
  await redis.config('RESETSTAT');
  const { body } = await api.call('GET', '/v1/recipients/parent-9');
  expect(body).toMatchObject({
    ...{ delayed: [{ id: mine[0]?.id }], notTaken: [{ id: mine[1]?.id }] },
    lookedThrough: { delayed: { lookedAt: 3_002, of: 3_002 }, notTaken: { lookedAt: 3_002, of: 3_002 } },
  });
  const stats = await redis.info('commandstats');
  const wholeJobs = Number(/cmdstat_hgetall:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  expect(wholeJobs).toBeLessThan(20); // its own, and a few of the API itself
  const other = await api.call('GET', `/v1/recipients/${encodeURIComponent('ü/"{}')}`);
  expect(other.body).toMatchObject({ delayed: [{ id: mine[2]?.id }], notTaken: [{ id: mine[3]?.id }] });
});

it('gives each token its own share of dear reads, and of readers of outcomes', async () => {
  const api = await openApi({}, { one: { scopes: ['read'] }, other: { scopes: ['read'] } });
  const { one, other } = api.secrets;
  for (const path of ['/v1/status', '/v1/recipients/x']) {
    const asked = Array.from({ length: 30 }, () => api.call('GET', path, { secret: one }));
    expect((await api.call('GET', path, { secret: other })).status).toBe(200);
    const answers = await Promise.all(asked);
    const refused = answers.filter(({ status }) => status === 429);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(30 - refused.length);
    expect(refused.length).toBeGreaterThan(0);
    expect(refused[0]).toMatchObject({ body: { code: 'too-much-at-once' } });
    expect(refused[0]?.headers.get('retry-after')).toBe('1');
    expect((await api.call('GET', path, { secret: one })).status).toBe(200);
  }
  const leaving = new AbortController();
  const open = (secret: string) =>
    fetch(`${api.url}/v1/outcomes`, { signal: leaving.signal, headers: { authorization: `Bearer ${secret}` } });
  const readers = await Promise.all(Array.from({ length: 21 }, () => open(one)));
  expect(readers.map(({ status }) => status).toSorted()).toEqual([...Array<number>(20).fill(200), 429]);
  expect((await open(other)).status).toBe(200);
  leaving.abort();
  await expect
    .poll(async () => {
      const again = new AbortController();
      const { status } = await fetch(`${api.url}/v1/outcomes`, {
        signal: again.signal,
        headers: { authorization: `Bearer ${one}` },
      });
      again.abort();
      return status;
    })
    .toBe(200);
});

it('lets one token have two of the largest bodies under way, and others as many', async () => {
  const api = await openApi({}, { one: { scopes: ['send'] }, other: { scopes: ['send'] } });
  const body = `[${JSON.stringify({ text: 'x'.repeat(11 * 1024 * 1024) })}]`;
  const post = (secret: string) => api.call('POST', '/v1/notifications', { body, secret });
  const answers = await Promise.all(Array.from({ length: 6 }, () => post(api.secrets.one)));
  const statuses = answers.map(({ status }) => status);
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(0);
  expect(statuses.filter((status) => status === 422).length).toBeGreaterThan(0);
  expect(new Set(statuses)).toEqual(new Set([422, 429]));
  expect((await post(api.secrets.one)).status).toBe(422);
});

it('does not go on for a client that has left', async () => {
  const api = await openApi();
  await api.queue.addBulk(waiting(5_000, 3_600_000));
  const before = api.lines.length;
  const headers = { authorization: `Bearer ${api.secrets.all}` };
  for (let time = 0; time < 20; time++) {
    const leaving = new AbortController();
    const asked = fetch(`${api.url}/v1/status`, { headers, signal: leaving.signal }).catch(() => undefined);
    await fetch(`${api.url}/healthz`);
    leaving.abort();
    await asked;
  }
  // All shares are free again at once, and nothing is logged as a bug.
  await expect.poll(async () => (await api.call('GET', '/v1/status')).status).toBe(200);
  expect(api.lines.slice(before)).toEqual([]);
});
