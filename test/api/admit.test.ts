import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createAdmitMetrics } from '../../api/admits.ts';
import { openApiDocument } from '../../api/openapi.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { openApi } from '../support/api.ts';
import { documentOf } from '../support/openapi.ts';
import { temporaryFolder } from '../support/program.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openReplicaBench } from '../support/replica.ts';
import { readStored } from '../support/stored.ts';
import { waitFor } from '../support/wait.ts';

const ID = 'teacher ü/7';
const PATH = `/v1/recipients/${encodeURIComponent(ID)}`;
const { faultsOf, validatorOf, paths } = documentOf(openApiDocument());

/** The API, and calls of admit and refund whose answers must be as described. */
async function open(env: Readonly<Record<string, string>> = {}) {
  const api = await openApi(
    { LIMIT_RULES: '2/1h', LIMIT_MIN_GAP: '0', ...env },
    { mailer: { scopes: ['limit'] }, others: { scopes: ['send', 'read', 'operate'] } },
  );
  const post = async (name: string, body: unknown, query = '', path = PATH) => {
    const answer = await api.call('POST', `${path}/${name}${query}`, { body, secret: api.secrets.mailer });
    const type = answer.headers.get('content-type') ?? '';
    expect(faultsOf('post', `/v1/recipients/{id}/${name}`, answer.status, type, answer.body)).toEqual([]);
    return answer;
  };
  return {
    ...api,
    call: (...args: Parameters<typeof api.call>) => api.call(...args),
    admit: (body: unknown, query = '', path = PATH) => post('admit', body, query, path),
    refund: (body: unknown, query = '') => post('refund', body, query),
    look: async () => (await api.call('GET', PATH)).body as { sent: { at: number }[]; waiting: { at: number }[] },
    operate: (name: string, body: unknown = {}) => api.call('POST', `${PATH}/${name}`, { body }),
    pass: (ms: number) => letPass(api.prefix, ms),
  };
}

/** Makes the slots of ID, and their expiry, older: to the limiter as if so much time had passed, however slow the machine is. */
async function letPass(prefix: string, ms: number): Promise<void> {
  const redis = connectRedis();
  const { sent, reserved } = recipientKeys(prefix, ID);
  for (const key of [sent, reserved]) {
    const slots = await redis.zrange(key, '0', '-1', 'WITHSCORES');
    const older = slots.flatMap((entry, index) => (index % 2 === 0 ? [Number(slots[index + 1]) - ms, entry] : []));
    if (older.length === 0) continue;
    await redis.zadd(key, ...older);
    await redis.pexpireat(key, (await redis.pexpiretime(key)) - ms);
  }
}

/** What the limiter has stored. */
async function slotsIn(prefix: string): Promise<object> {
  const stored = Object.entries(await readStored(connectRedis(), prefix));
  const isOurs = (key: string): boolean => key.startsWith(`${prefix.replaceAll(/[{}]/g, '')}:{`);
  return Object.fromEntries(stored.filter(([key]) => isOurs(key)));
}

async function limitsFile(content: object): Promise<Record<string, string>> {
  const file = join(await temporaryFolder(), 'limits.json');
  await writeFile(file, JSON.stringify(content));
  return { LIMITS_FILE: file };
}

it('takes slots of a person until there is none, says why and until when, and takes none for a refusal', async () => {
  const { admit, look } = await open();
  const before = Date.now();
  const first = await admit({ id: 'a' });
  expect(first).toMatchObject({
    status: 200,
    body: { id: 'a', result: 'admitted', repeated: false, rule: '2/1h', remaining: 1 },
  });
  expect(first.headers.get('ratelimit')).toBe('"2/1h";r=1;t=3600');
  expect(first.headers.get('ratelimit-policy')).toBe('"2/1h";q=2;w=3600');
  expect(Number(first.body['at'])).toBeGreaterThanOrEqual(before - 50);
  expect((await admit({ id: 'b' })).status).toBe(200);
  const refused = await admit({ id: 'c' });
  expect(refused).toMatchObject({
    status: 429,
    body: { code: 'limited', id: 'c', result: 'refused', because: 'max-wait', rule: '2/1h', before: 0 },
  });
  const waitMs = Number(refused.body['waitMs']);
  expect(waitMs).toBeGreaterThan(3_000_000);
  expect(refused.headers.get('retry-after')).toBe(String(Math.ceil(waitMs / 1_000)));
  expect(refused.headers.get('ratelimit')).toMatch(/^"2\/1h";r=0;t=3\d{3}$/);
  expect(await look()).toMatchObject({ sent: [{ at: first.body['at'] }, {}], waiting: [] });
});

it('gives the same id the same answer, and no second slot; another category is another ask', async () => {
  const { admit, look } = await open({
    LIMIT_RULES: '3/1h',
    ...(await limitsFile({ categories: { email: { rules: '1/1h' } } })),
  });
  const { body: first } = await admit({ id: 'msg-1', category: 'email' });
  expect((await admit({ id: 'msg-1', category: 'email' })).body).toMatchObject({ at: first['at'], repeated: true });
  const results = await Promise.all(Array.from({ length: 20 }, () => admit({ id: 'msg-1', category: 'sms' })));
  expect(new Set(results.map(({ body }) => body['at'])).size).toBe(1);
  expect(results.filter(({ body }) => body['repeated'] === false)).toHaveLength(1);
  expect((await look()).sent).toHaveLength(2);
  const other = await admit({ id: 'msg-2', category: 'email' });
  expect(other).toMatchObject({ status: 429, body: { rule: 'email:1/1h', category: 'email' } });
  expect((await admit({ id: 'msg-2' })).body).toMatchObject({ result: 'admitted', rule: '3/1h', remaining: 0 });
  expect((await admit({ id: 'msg-3', category: 'in-app' })).body).toMatchObject({ rule: '3/1h' });
});

it('an id takes a slot again when its first one counts no longer', async () => {
  const { admit, pass } = await open({ LIMIT_RULES: '1/10m' });
  const { body: first } = await admit({ id: 'a' });
  await pass(600_001);
  const { body: second } = await admit({ id: 'a' });
  expect(second).toMatchObject({ result: 'admitted', repeated: false });
  expect(Number(second['at'])).toBeGreaterThanOrEqual(Number(first['at']));

  // Also while a later slot keeps the first one in Redis.
  const two = await open({ LIMIT_RULES: '2/20m' });
  await two.admit({ id: 'a' });
  await two.pass(800_000);
  await two.admit({ id: 'b' });
  await two.pass(400_001);
  expect((await two.refund({ id: 'a' })).body).toEqual({ id: 'a', result: 'unknown' });
  expect((await two.refund({ id: 'b' })).body).toEqual({ id: 'b', result: 'refunded' });
});

it('reserves a slot for those who wait, answers at the slot, and only up to the longest wait', async () => {
  const { admit, look, pass } = await open({ LIMIT_RULES: '1/10m' });
  await admit({ id: 'a' });
  const { status, body } = await admit({ id: 'b', wait: true, maxWait: '15m' });
  expect({ status, body }).toMatchObject({ status: 202, body: { result: 'reserved', rule: '1/10m', before: 0 } });
  expect(await look()).toMatchObject({ waiting: [{ id: 'http:b', at: body['at'] }] });
  expect((await admit({ id: 'b', wait: true })).body).toMatchObject({ result: 'reserved', at: body['at'] });
  const behind = await admit({ id: 'c', wait: true, maxWait: '15m' });
  expect(behind).toMatchObject({ status: 429, body: { before: 1, because: 'max-wait' } });
  await pass(Number(body['at']) - Date.now() - 25_000);
  const { headers, body: near } = await admit({ id: 'b', wait: true });
  expect(near).toMatchObject({ result: 'reserved', againMs: near['waitMs'] });
  expect(headers.get('retry-after')).toBe(String(Math.ceil(Number(near['waitMs']) / 1_000)));
  await pass(Number(near['at']) - Date.now() - 100);
  const at = (await look()).waiting[0]?.at ?? Infinity;
  const { body: came } = await admit({ id: 'b', wait: true });
  expect(came).toMatchObject({ result: 'admitted', repeated: false });
  expect(Number(came['at'])).toBeGreaterThanOrEqual(at); // later, if this came late
  expect(Date.now()).toBeGreaterThanOrEqual(Number(came['at']) - 5);
});

it('gives back what it has reserved for one that is told not to send any more', async () => {
  const { admit, look, operate } = await open({ LIMIT_RULES: '1/10m' });
  await admit({ id: 'a' });
  for (const id of ['b', 'c']) expect((await admit({ id, wait: true })).body).toMatchObject({ result: 'reserved' });
  await operate('block', { for: '5d', reason: 'exam' });
  expect((await admit({ id: 'b', wait: true, maxWait: '1h' })).status).toBe(429);
  expect(await look()).toMatchObject({ waiting: [{ id: 'http:c' }] });
  expect((await admit({ id: 'c' })).status).toBe(429);
  expect(await look()).toMatchObject({ waiting: [] });
});

it('asks anew for one that was admitted, if nothing was sent, and sends nothing in a slot that is long past', async () => {
  const { admit, look, operate } = await open({ LIMIT_RULES: '2/1h' });
  const { body: first } = await admit({ id: 'a' });
  await operate('block', { for: '1h', reason: 'exam' });
  expect((await admit({ id: 'a' })).body).toMatchObject({ repeated: true, at: first['at'] });
  expect((await admit({ id: 'a', unsent: true })).body).toMatchObject({ result: 'refused', rule: 'block' });
  expect(await look()).toMatchObject({ sent: [], waiting: [] });
  await operate('unblock');
  expect((await admit({ id: 'a', unsent: true })).body).toMatchObject({ result: 'admitted', repeated: false });
  expect((await look()).sent).toHaveLength(1);
});

it('keeps the bounds of waiting of the workers: LIMIT_MAX_WAIT and LIMIT_MAX_PENDING', async () => {
  const { admit } = await open({ LIMIT_RULES: '1/10m', LIMIT_MAX_WAIT: '15m', LIMIT_MAX_PENDING: '1' });
  await admit({ id: 'a' });
  const reserved = await admit({ id: 'b', wait: true, maxWait: '1d' });
  expect(reserved.body).toMatchObject({ result: 'reserved', againMs: 30_000 });
  expect(reserved.headers.get('retry-after')).toBe('30');
  expect((await admit({ id: 'c', wait: true, maxWait: '1d' })).body).toMatchObject({ because: 'max-wait', before: 1 });
  const full = await open({ LIMIT_RULES: '1/10m', LIMIT_MAX_PENDING: '1' });
  for (const id of ['a', 'b']) await full.admit({ id, wait: true });
  const refused = await full.admit({ id: 'c', wait: true });
  expect(refused.body).toMatchObject({ because: 'max-pending' });
  expect(refused.body['detail']).toMatch(/^too many wait/);
});

it('with preview=true it says what it would answer, and writes nothing', async () => {
  const { admit, look, prefix } = await open({ LIMIT_RULES: '1/1h' });
  expect((await admit({ id: 'a' }, '?preview=true')).body).toMatchObject({ result: 'admitted', repeated: false });
  expect(await slotsIn(prefix)).toEqual({});
  await admit({ id: 'a' });
  const before = await slotsIn(prefix);
  expect(Object.keys(before)).toHaveLength(1);
  expect((await admit({ id: 'a' }, '?preview=true')).body).toMatchObject({ result: 'admitted', repeated: true });
  expect((await admit({ id: 'b', wait: true }, '?preview=true')).body).toMatchObject({ result: 'reserved' });
  expect((await admit({ id: 'b' }, '?preview=true')).status).toBe(429);
  expect(await slotsIn(prefix)).toEqual(before);
  expect((await look()).sent).toHaveLength(1);
});

it('gives a slot back once, a reservation too, and says so of an id that has none', async () => {
  const { admit, refund, look } = await open({
    LIMIT_RULES: '1/1h',
    ...(await limitsFile({ categories: { email: { rules: '1/1h' } } })),
  });
  const email = { id: 'a', category: 'email' };
  await admit(email);
  expect((await refund({ id: 'a' })).body).toEqual({ id: 'a', result: 'unknown' });
  expect((await admit({ id: 'b', wait: true })).body).toMatchObject({ result: 'reserved' });
  expect((await refund({ id: 'b' })).body).toEqual({ id: 'b', result: 'canceled' });
  expect((await refund(email)).body).toEqual({ ...email, result: 'refunded' });
  for (const one of [email, { id: 'b' }, { id: 'never' }])
    expect((await refund(one)).body).toEqual({ ...one, result: 'unknown' });
  expect(await look()).toMatchObject({ sent: [], waiting: [] });
  expect((await admit(email)).body).toMatchObject({ result: 'admitted', repeated: false });
});

it.each([
  ['a slot', 'a', 'refunded'],
  ['a reservation', 'b', 'canceled'],
])('who waits moves up when %s is given back', async (_, id, result) => {
  const { admit, refund, look } = await open({ LIMIT_RULES: '1/1h' });
  await admit({ id: 'a' });
  for (const waits of ['b', 'c']) await admit({ id: waits, wait: true, maxWait: '3h' });
  const [first] = (await look()).waiting;
  expect((await refund({ id })).body).toEqual({ id, result });
  const [moved] = (await look()).waiting;
  if (id === 'a') expect(moved).toMatchObject({ id: 'http:b' });
  else expect(moved).toMatchObject({ id: 'http:c' });
  expect(moved?.at).toBeLessThanOrEqual(id === 'a' ? Date.now() + 1_100 : (first?.at ?? 0));
});

it('what a mailer takes delays an alert of a worker, and what a mailer gives back brings it forward', async () => {
  const bench = await openReplicaBench();
  const shards = { QUEUE_SHARDS: '3' };
  await bench.startHere({ LIMIT_RULES: '1/10m', LIMIT_MIN_GAP: '0', ...shards });
  // The limits of the workers hold, not those of the API's own environment.
  const own = { QUEUE_PREFIX: bench.prefix, LIMIT_RULES: '50/1h', ...shards };
  const { admit, refund, look, operate, call } = await open(own);
  await admit({ id: 'a' });
  const { body: second } = await admit({ id: 'b', wait: true });
  const body = makeNotification({ recipientId: ID });
  const dueAfterSecond = async () =>
    Number((await call('GET', `/v1/notifications/${body.id}`)).body['until']) - Number(second['at']);
  await call('POST', '/v1/notifications', { body });
  await waitFor(async () => expect(await dueAfterSecond()).toBeGreaterThan(590_000));
  expect(await look()).toMatchObject({ waiting: [{ id: 'http:b' }, { before: 1 }] });
  expect((await refund({ id: 'b' })).body).toMatchObject({ result: 'canceled' });
  expect((await look()).waiting).toMatchObject([{ at: second['at'] }]);
  expect(await dueAfterSecond()).toBeLessThan(1_000);
  const behind = await admit({ id: 'c', wait: true }); // it obeys the alert
  expect(behind.body).toMatchObject({ result: 'reserved', rule: '1/10m', before: 1 });
  expect(behind.body['at']).toBeGreaterThanOrEqual(Number(second['at']) + 600_000);
  expect(bench.sandbox.journal.accepted).toHaveLength(0);
  await operate('reset');
  await waitFor(() => expect(bench.sandbox.journal.accepted).toHaveLength(1));
});

it.each([
  ['admit', {}, ['id']],
  ['admit', [], ['']],
  [
    'admit',
    { id: 'a b', category: 'é', wait: 'yes', maxWait: 'soon', nap: 1 },
    ['id', 'category', 'wait', 'maxWait', 'nap'],
  ],
  ['admit', { id: 'a', maxWait: '1m' }, ['wait']],
  ['admit', { id: 'a', wait: true, maxWait: '32d' }, ['maxWait']],
  ['refund', { id: 'x'.repeat(129), wait: true }, ['id', 'wait']],
])('%s refuses %j, names every field, and writes nothing', async (name, body, faulty) => {
  const api = await open();
  const answer = await (name === 'admit' ? api.admit(body) : api.refund(body));
  expect(answer).toMatchObject({ status: 422, body: { code: 'invalid' } });
  const faults = answer.body['faults'] as { path: string; expected: string; found: string }[];
  expect(faults.map(({ path }) => path).toSorted()).toEqual(faulty.toSorted());
  for (const { expected, found } of faults) expect([expected, found]).not.toContain('');
  expect(await slotsIn(api.prefix)).toEqual({});
});

it('is for tokens with the scope limit alone, and takes JSON of a size that it can have', async () => {
  const { call, secrets, admit, refund } = await open();
  for (const path of [`${PATH}/admit`, `${PATH}/refund`]) {
    expect((await call('POST', path, { body: { id: 'a' }, secret: secrets.others })).status).toBe(403);
    expect((await call('POST', path, { body: { id: 'a' }, secret: '' })).status).toBe(401);
    expect((await call('GET', path)).headers.get('allow')).toBe('POST');
  }
  expect((await call('GET', PATH, { secret: secrets.mailer })).status).toBe(403);
  expect((await admit('{')).status).toBe(400);
  expect((await admit('x'.repeat(16 * 1024 * 1024 + 1))).status).toBe(413);
  expect((await refund({ id: 'a' }, '?preview=true')).body).toMatchObject({ faults: [{ path: 'preview' }] });
  expect((await admit({ id: 'a' }, '?preview=maybe')).status).toBe(422);
});

it('takes every body that is described, and refuses others', async () => {
  const { content = {} } = paths['/v1/recipients/{id}/admit']?.['post']?.requestBody ?? {};
  const fits = validatorOf(content['application/json']?.schema ?? {});
  const { admit } = await open();
  for (const body of [{ id: 'a' }, { id: 'b', category: 'email', wait: true, maxWait: '1m' }]) {
    expect([fits(body), (await admit(body)).status < 300]).toEqual([true, true]);
  }
  for (const body of [{}, { id: 'a b' }, { id: 'a', nap: 1 }, { id: 'a', wait: 'yes' }]) {
    expect([fits(body), (await admit(body)).status]).toEqual([false, 422]);
  }
});

it('admits nobody while Redis is away: 503, and the same id takes one slot when it is back', async () => {
  const redis = await startEmbeddedRedis();
  const { admit, look, call } = await open({ REDIS_URL: redis.url });
  await admit({ id: 'a' });
  await redis.close();
  for (const id of ['a', 'b']) {
    const away = await admit({ id });
    expect(away).toMatchObject({ status: 503, body: { code: 'redis-away' } });
    expect(away.headers.get('retry-after')).toBe('2');
  }
  expect(String((await call('GET', '/metrics')).body['text'])).toContain('pushpacer_admits_total{result="failed"} 2\n');
  const again = await startEmbeddedRedis({ port: redis.port });
  onTestFinished(() => again.close());
  await expect.poll(async () => (await admit({ id: 'b' })).status).toBe(200);
  expect((await admit({ id: 'b' })).body).toMatchObject({ repeated: true });
  expect((await look()).sent).toHaveLength(1);
});

it('counts what it answers, for tokens that may read, and docs/http-api.md has each metric', async () => {
  const { admit, refund, call, secrets } = await open({
    LIMIT_RULES: '1/1h',
    ...(await limitsFile({ categories: { email: { rules: '1/1h' } } })),
  });
  for (const id of ['a', 'a', 'b']) await admit({ id, category: 'email' });
  await admit({ id: 'c', category: 'no-limits-of-its-own', wait: true });
  await refund({ id: 'c', category: 'no-limits-of-its-own' });
  const answer = await call('GET', '/metrics');
  expect(answer.headers.get('content-type')).toContain('text/plain');
  const page = String(answer.body['text']);
  for (const result of ['admitted', 'repeated', 'refused'])
    expect(page).toContain(`pushpacer_admits_total{result="${result}",category="email"} 1\n`);
  expect(page).toContain('pushpacer_admits_total{result="reserved"} 1\n');
  expect(page).toContain('pushpacer_refunds_total{result="canceled"} 1\n');
  expect(page).toContain('pushpacer_admit_seconds_count 4\n');
  expect((await call('GET', '/metrics', { secret: secrets.mailer })).status).toBe(403);
  expect((await call('GET', '/metrics', { secret: '' })).status).toBe(401);
  const text = await readFile('docs/http-api.md', 'utf8');
  for (const { name } of createAdmitMetrics().registry.getMetricsAsArray()) expect(text).toContain(`\`${name}\``);
});
