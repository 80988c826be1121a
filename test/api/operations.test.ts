import { expect, it } from 'vitest';
import { openApiDocument } from '../../api/openapi.ts';
import { OPERATIONS } from '../../src/operations/catalogue.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { openApi } from '../support/api.ts';
import { documentOf } from '../support/openapi.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
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
  const audit = createAudit(connectRedis(), api.prefix);
  return { ...api, call: (...args: Parameters<typeof api.call>) => api.call(...args), operate, audit };
}

it('previews and does what an operator does with real workers, and what was previewed comes true', async () => {
  const bench = await openReplicaBench();
  await bench.startHere({ LIMIT_RULES: '1/1h', LIMIT_MIN_GAP: '0' });
  const { call, operate, audit } = await open({ QUEUE_PREFIX: bench.prefix });
  const inputs = [0, 1, 2].map(() => makeNotification({ recipientId: ID }));
  await call('POST', '/v1/notifications', { body: inputs });
  const look = async () => (await call('GET', PATH)).body;
  await expect.poll(look, { timeout: 10_000 }).toMatchObject({ waitingCount: 2, notTaken: [] });

  const until = Date.now() + 9 * HOUR;
  const fields = { until: new Date(until).toISOString(), reason: 'exam' };
  const { body: would } = await operate('block', fields, '?preview=true');
  expect(would).toMatchObject({ recipientId: ID, waiting: 2, moves: 2, later: 2 });
  expect(would['would']).toMatch(/^Nothing is sent to it until .* \(in .*\): exam$/);
  expect(await look()).not.toHaveProperty('block');
  expect(await audit.read({ count: 9 })).toEqual([]);

  const { body: did } = await operate('block', fields);
  expect(did).toMatchObject({
    recipientId: ID,
    until,
    reason: 'exam',
    waiting: 2,
    moved: 2,
    lastAt: would['lastAtAfter'],
  });
  expect(did['did']).toMatch(/^teacher ü\/7 is blocked until .*: exam$/);
  expect(await look()).toMatchObject({ block: { until, reason: 'exam' }, waiting: [{ rule: 'block' }, {}] });

  expect((await operate('unblock')).body).toMatchObject({ wasBlocked: true, moved: 2 });
  expect((await operate('limit', { rules: 'none', for: '7d' })).body).toMatchObject({ source: 'stored', moved: 2 });
  await expect.poll(() => bench.sandbox.journal.accepted.length, { timeout: 15_000 }).toBe(3);
  const who = 'olga';
  expect(await audit.read({ count: 9 })).toMatchObject([
    { who, action: 'recipient limit', on: ID, facts: { rules: 'none', minGap: '0', moved: 2 } },
    { who, action: 'recipient unblock', on: ID, facts: { moved: 2 } },
    { who, action: 'recipient block', on: ID, facts: { until, reason: 'exam', moved: 2 } },
  ]);
});

it('takes lists and objects as JSON has them, and logs what was done', async () => {
  const { call, operate, lines } = await open();
  const night = { timezone: 'Europe/Paris', from: '21:00', until: '07:00' };
  const { timezone, ...time } = night;
  const several = { timezone, quietHours: [time, { from: '13:00', until: '14:00', days: ['sat'] }] };
  expect((await operate('quiet', several)).body).toMatchObject({ quiet: { hours: several } });
  expect((await operate('quiet', { ...night, days: ['mon', 'tue'] })).body).toMatchObject({
    quiet: { source: 'stored', hours: { quietHours: [{ days: ['mon', 'tue'], from: '21:00', until: '07:00' }] } },
  });
  expect((await operate('quiet', { none: true })).body).toMatchObject({ quiet: { hours: { quietHours: [] } } });
  expect((await operate('unquiet', {})).body).toMatchObject({ wasQuiet: true });
  expect((await operate('unlimit')).body).toMatchObject({ source: 'limiter' });
  expect((await operate('reset')).body).toMatchObject({ wasKnown: false, sent: 0 });

  const waiting = { recipientId: ID, sendAfter: Date.now() + HOUR, cancellationKey: 'trip' };
  await call('POST', '/v1/notifications', { body: makeNotification(waiting) });
  expect((await operate('cancel', { key: 'trip' }, '?preview=true')).body).toMatchObject({ cancels: 1, tooLate: 0 });
  expect((await operate('cancel', { key: 'trip' })).body).toMatchObject({ canceled: 1, tooLate: 0 });
  const logged = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(logged.filter(({ msg }) => msg === 'an operator acted')).toHaveLength(7);
});

// What is wrong with each field is held by test/operations/catalogue.test.ts.
it.each([
  ['block', { for: 'soon', reason: 'x\u0000', nap: 1 }, ['for', 'reason', 'nap']],
  ['block', { until: '2020-01-01T00:00:00Z', reason: 'a' }, ['until']],
  ['unblock', [], ['']],
  ['cancel', { notification: 'of-another' }, ['notification']],
])('%s refuses %j and names every field', async (name, body, faulty) => {
  const { operate, audit } = await open();
  for (const query of ['', '?preview=true']) {
    const answer = await operate(name, body, query);
    expect(answer).toMatchObject({ status: 422, body: { code: 'invalid' } });
    expect((answer.body['faults'] as { path: string }[]).map(({ path }) => path)).toEqual(faulty);
  }
  expect(await audit.read({ count: 1 })).toEqual([]);
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
