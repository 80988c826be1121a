import { expect, it } from 'vitest';
import { openApiDocument } from '../../api/openapi.ts';
import { OPERATIONS } from '../../src/operations/catalogue.ts';
import { openApi } from '../support/api.ts';
import { documentOf } from '../support/openapi.ts';
import { makeNotification } from '../support/push.ts';
import { openReplicaBench } from '../support/replica.ts';

const HOUR = 3_600_000;
const ID = 'teacher ü/7';
const PATH = `/v1/recipients/${encodeURIComponent(ID)}`;
const { faultsOf, validatorOf, paths } = documentOf(openApiDocument());

/** The API, and a call of an operation whose answer must be as described. */
async function open(env: Readonly<Record<string, string>> = {}) {
  const api = await openApi(env, { olga: { scopes: ['operate'] }, reader: { scopes: ['read', 'send'] } });
  const operate = async (name: string, body?: unknown, query = '') => {
    const secret = api.secrets.olga;
    const path = `${PATH}/${name}${query}`;
    const answer = await api.call('POST', path, { secret, ...(body !== undefined && { body }) });
    const type = answer.headers.get('content-type') ?? '';
    expect(faultsOf('post', `/v1/recipients/{id}/${name}`, answer.status, type, answer.body)).toEqual([]);
    return answer;
  };
  return { ...api, call: (...args: Parameters<typeof api.call>) => api.call(...args), operate };
}

it('moves what real workers have put back, and what was previewed comes true', async () => {
  const bench = await openReplicaBench();
  await bench.startHere({ LIMIT_RULES: '1/1h', LIMIT_MIN_GAP: '0' });
  const { call, operate, lines } = await open({ QUEUE_PREFIX: bench.prefix });
  await call('POST', '/v1/notifications', { body: [0, 1, 2].map(() => makeNotification({ recipientId: ID })) });
  const look = async () => (await call('GET', PATH)).body;
  await expect.poll(look, { timeout: 10_000 }).toMatchObject({ waitingCount: 2, notTaken: [] });

  const until = Date.now() + 9 * HOUR;
  const fields = { until: new Date(until).toISOString(), reason: 'exam' };
  const { body: would } = await operate('block', fields, '?preview=true');
  expect(would).toMatchObject({ waiting: 2, moves: 2, later: 2 });
  const { body: did } = await operate('block', fields);
  expect(did).toMatchObject({ until, waiting: 2, moved: 2, lastAt: would['lastAtAfter'] });
  expect(await look()).toMatchObject({ block: { until, reason: 'exam' }, waiting: [{ rule: 'block' }, {}] });

  expect((await operate('unblock')).body).toMatchObject({ wasBlocked: true, moved: 2 });
  expect((await operate('limit', { rules: 'none', for: '7d' })).body).toMatchObject({ source: 'stored', moved: 2 });
  await expect.poll(() => bench.sandbox.journal.accepted.length, { timeout: 15_000 }).toBe(3);
  const logged = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(logged.filter(({ msg }) => msg === 'an operator acted')).toHaveLength(3);
});

it('is for tokens with operate, takes JSON alone, and refuses what is no request', async () => {
  const { call, operate, secrets } = await open();
  const path = `${PATH}/unblock`;
  expect((await call('POST', path, { secret: secrets.reader })).status).toBe(403);
  expect((await call('POST', path, { secret: '' })).status).toBe(401);
  expect((await call('GET', path)).headers.get('allow')).toBe('POST');
  expect((await call('POST', `${PATH}/explode`)).status).toBe(404);
  expect((await operate('unblock', '{')).status).toBe(400);
  expect((await operate('unblock', {}, '?preview=maybe')).body).toMatchObject({ faults: [{ path: 'preview' }] });
  const plain = await call('POST', path, { body: 'for=1h', headers: { 'content-type': 'text/plain' } });
  expect([plain.status, plain.headers.get('accept-post')]).toEqual([415, 'application/json']);
  const long = await call('POST', `/v1/recipients/${'x'.repeat(257)}/unblock`);
  expect(long.body).toMatchObject({ status: 422, faults: [{ path: 'id' }] });
});

it('each operation is described with its fields, which validate what people write', () => {
  for (const { name, does } of OPERATIONS) {
    const post = paths[`/v1/recipients/{id}/${name}`]?.['post'];
    expect(post?.summary).toBe(`${does} Scope: operate`);
    const schema = post?.requestBody?.content['application/json']?.schema ?? {};
    expect(validatorOf(schema)({ nap: 1 })).toBe(false);
  }
  const schema = paths['/v1/recipients/{id}/block']?.['post']?.requestBody?.content['application/json']?.schema ?? {};
  expect(validatorOf(schema)({ for: '2h', reason: 'exam' })).toBe(true);
  expect(validatorOf(schema)({ until: 1_795_269_600_000, reason: 'exam' })).toBe(true);
  expect(validatorOf(schema)({ for: '2h' })).toBe(false);
});
