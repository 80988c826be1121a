import { Queue } from 'bullmq';
import { expect, it, onTestFinished } from 'vitest';
import { openApiDocument } from '../../api/openapi.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { DEAD_LETTERS } from '../../src/queue/names.ts';
import { addDead, deadLetter, manyLetters } from '../dead-letters/letters.ts';
import { openApi } from '../support/api.ts';
import { documentOf } from '../support/openapi.ts';
import { connectRedis } from '../support/redis.ts';

const { faultsOf } = documentOf(openApiDocument());

/** The API beside dead letters, and calls whose answers must be as described. */
async function open(count: number) {
  const api = await openApi({}, { olga: { scopes: ['operate'] }, reader: { scopes: ['read', 'send'] } });
  const deadQueue = new Queue(DEAD_LETTERS, { connection: connectRedis(), prefix: api.prefix });
  onTestFinished(() => deadQueue.close());
  await addDead(deadQueue, manyLetters(count));
  const call = async (
    method: 'get' | 'post',
    path: string,
    described: string,
    body?: unknown,
    by: 'olga' | 'reader' = 'olga',
  ) => {
    const answer = await api.call(method.toUpperCase(), path, {
      secret: api.secrets[by],
      ...(body !== undefined && { body }),
    });
    const type = answer.headers.get('content-type') ?? '';
    expect(faultsOf(method, described, answer.status, type, answer.body)).toEqual([]);
    return answer;
  };
  const take = (verb: string, body: unknown, query = '') =>
    call('post', `/v1/dead-letters/${verb}${query}`, `/v1/dead-letters/${verb}`, body);
  const run = (id: unknown) =>
    call('get', `/v1/dead-letters/runs/${String(id)}`, '/v1/dead-letters/runs/{id}', undefined, 'reader');
  const stop = (id: unknown) =>
    call('post', `/v1/dead-letters/runs/${String(id)}/stop`, '/v1/dead-letters/runs/{id}/stop');
  const left = () => deadQueue.getJobCountByTypes('wait');
  return { api, call, take, run, stop, left, deadQueue, audit: createAudit(connectRedis(), api.prefix) };
}

it('previews and replays what a filter chooses, and only what had come by then', async () => {
  const { api, take, run, left, deadQueue, audit } = await open(5);
  const { body: would } = await take('replay', { since: '1h', rate: 'off' }, '?preview=true');
  const since = expect.stringMatching(/^20\d\d-.*Z$/) as string;
  expect(would['chosen']).toEqual({ since, rate: 'off', before: expect.any(Number) as number });
  expect(would).toMatchObject({
    count: 5,
    byReason: { rejected: 5 },
    recipients: 5,
    expired: 0,
    newer: 0,
    isWhole: true,
  });
  expect(would['would']).toMatch(/^replay 5 dead letters \(5 rejected\), to 5 recipients\. Without a rate, and under /);
  expect([await left(), await audit.read({ count: 9 })]).toEqual([5, []]);

  await new Promise((resolve) => setTimeout(resolve, 5));
  await addDead(deadQueue, { later: deadLetter('later') });
  const began = await take('replay', would['chosen']);
  const { id } = began.body;
  expect(began).toMatchObject({ status: 202, body: { verb: 'replay', by: 'olga', chosen: would['chosen'] } });
  expect(began.headers.get('location')).toBe(`/v1/dead-letters/runs/${String(id)}`);
  await expect.poll(async () => (await run(id)).body).toMatchObject({ state: 'done', of: 5, done: 5, gone: 0 });
  expect(await left()).toBe(1);
  const ids = Object.keys(manyLetters(5)).map((each) => `${each}#r1`);
  expect((await api.queue.getPrioritized()).map((job) => job.id).toSorted()).toEqual(ids);
  const entry = { who: 'olga', action: 'dead-letters replay', on: expect.stringMatching(/^since 20/) as string };
  await expect
    .poll(() => audit.read({ count: 9 }))
    .toMatchObject([
      { ...entry, facts: { run: id, state: 'done', done: 5, of: 5, gone: 0 } },
      { ...entry, facts: { run: id, state: 'began', rate: 'off' } },
    ]);
});

it('says of what a newer version wrote that it stays', async () => {
  const { take, deadQueue } = await open(1);
  await addDead(deadQueue, { newer: { format: 2 } });
  for (const verb of ['replay', 'discard']) {
    const { body } = await take(verb, { all: true }, '?preview=true');
    expect(body).toMatchObject({ count: 1, newer: 1 });
    expect(body['would']).toMatch(/ 1 dead letter was written by a newer version of pushpacer, and is not (repl|disc)/);
  }
});

it('discards single ones, and stops a run that goes on', async () => {
  const { call, take, run, stop, left, audit } = await open(40);
  const { body: would } = await take('discard', { pick: ['0:n1', '0:none'] }, '?preview=true');
  expect(would).toMatchObject({ would: 'discard 1 dead letter (1 rejected).', count: 1 });
  expect(would).not.toHaveProperty('recipients');
  const { body: single } = await take('discard', { pick: ['0:n1', '0:none'] });
  await expect.poll(async () => (await run(single['id'])).body).toMatchObject({ state: 'done', done: 1 });

  const { body: slow } = await take('discard', { all: true, rate: '10/s' });
  await expect.poll(async () => (await run(slow['id'])).body['done']).toBeGreaterThan(0);
  expect((await stop(slow['id'])).status).toBe(200);
  await expect
    .poll(async () => (await run(slow['id'])).body)
    .toMatchObject({ state: 'stopped', chosen: { all: true, rate: '10/s' } });
  expect(await left()).toBeGreaterThan(20);
  const stopped = { who: 'olga', facts: { run: slow['id'], state: 'stopped', stoppedBy: 'olga' } };
  await expect.poll(() => audit.read({ count: 1 })).toMatchObject([stopped]);
  const { body } = await call('get', '/v1/dead-letters/runs', '/v1/dead-letters/runs', undefined, 'reader');
  expect(body['runs']).toMatchObject([{ id: slow['id'] }, { id: single['id'] }]);
  expect((await run('none')).status).toBe(404);
});

it.each([
  [{}, 'all'],
  [{ all: true, reasn: 'rejected' }, 'reasn'],
  [{ since: '999999999d' }, 'since'], // a time that no calendar has
])('refuses %j by name, and takes nothing', async (body, path) => {
  const { take, left, audit } = await open(1);
  for (const query of ['', '?preview=true']) {
    expect((await take('replay', body, query)).body).toMatchObject({ status: 422, faults: [{ path }] });
  }
  expect([await left(), await audit.read({ count: 9 })]).toEqual([1, []]);
});

it('is for tokens with operate, and the status for those that read', async () => {
  const { api, call, left } = await open(1);
  const all = { body: { all: true }, secret: api.secrets.reader };
  expect((await api.call('POST', '/v1/dead-letters/replay', all)).status).toBe(403);
  expect((await api.call('GET', '/v1/dead-letters/replay')).headers.get('allow')).toBe('POST');
  expect(await left()).toBe(1);
  const { body } = await call('get', '/v1/status', '/v1/status', undefined, 'reader');
  expect(body).toMatchObject({ workersAlive: 0, deadLetters: { total: 1 } });
  expect((await api.call('GET', '/v1/status', { secret: api.secrets.olga })).status).toBe(403);
});
