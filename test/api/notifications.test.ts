import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { jobIdOf } from '../../src/queue/names.ts';
import { openApi, type ApiBench } from '../support/api.ts';
import { ownRedis } from '../support/own-redis.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

const PATH = '/v1/notifications';
const post = (api: ApiBench, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  api.call('POST', PATH, { body, headers });
const NDJSON = { 'content-type': 'application/x-ndjson' };
const resultsOf = (body: Record<string, unknown>) => body['results'] as readonly { result: string; id?: string }[];
const idsOf = (body: Record<string, unknown>) => resultsOf(body).flatMap(({ id }) => id ?? []);
const faultPaths = (body: Record<string, unknown>) => (body['faults'] as { path: string }[]).map(({ path }) => path);

describe('one notification', () => {
  it('is in the queue once it is answered with 202, as a producer adds it', async () => {
    const api = await openApi();
    const notification = makeNotification({ priority: 'high', sendAfter: Date.now() + 60_000 });
    const { status, body } = await post(api, notification);
    expect([status, body]).toMatchObject([202, { result: 'added', id: notification.id }]);
    expect(Number(body['estimatedAt'])).toBeGreaterThanOrEqual(Number(notification.sendAfter));
    const job = await api.queue.getJob(notification.id);
    expect(job?.data).toEqual(JSON.parse(JSON.stringify(notification)));
    expect(job?.opts).toMatchObject({ priority: 2 });
    expect(await api.queue.getJobState(notification.id)).toBe('delayed');
  });

  it('gets an id if it has none, and is a duplicate with the same id', async () => {
    const api = await openApi();
    const withoutId = { ...makeNotification(), id: undefined };
    const first = await post(api, withoutId);
    const id = String(first.body['id']);
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect((await post(api, { ...withoutId, id })).body).toMatchObject({ result: 'duplicate', id });
    expect(await api.queue.getJobCountByTypes('prioritized')).toBe(1);
  });

  it('is a duplicate too where it has a number that JSON writes in another way', async () => {
    const api = await openApi();
    const text = JSON.stringify({ ...makeNotification(), data: { at: [0, 1] } }).replace('[0,1]', '[-0.0,1.0]');
    expect((await post(api, text)).body).toMatchObject({ result: 'added' });
    expect((await post(api, text)).body).toMatchObject({ result: 'duplicate' });
  });

  it('is a conflict if its id is taken by one with other content', async () => {
    const api = await openApi();
    const notification = makeNotification();
    await post(api, notification);
    const { status, body, headers } = await post(api, { ...notification, alert: { title: 'Other' } });
    expect([status, body['code'], headers.get('content-type')]).toEqual([409, 'conflict', 'application/problem+json']);
    expect((await api.queue.getJob(notification.id))?.data).toMatchObject({ alert: { title: 'Room 12' } });
  });
});

it.each([
  ['every fault by its path', { recipientId: '', devices: [] }, {}, 422, 'invalid'],
  ['half of a JSON', '{"recipientId":"tea', {}, 400, 'not-json'],
  ['a null', 'null', {}, 422, 'invalid'],
  ['an array of nothing', [], {}, 422, 'invalid'],
  ['an array of 1,001', Array(1_001).fill({}), {}, 422, 'invalid'],
  ['a form', 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }, 415, 'unsupported-media-type'],
  ['a body of 17 MB', `["${'x'.repeat(17 * 1024 * 1024)}"]`, {}, 413, 'too-large'],
  ['one notification of 400,001 bytes', `{"a":"${'x'.repeat(400_000)}"}`, {}, 413, 'too-large'],
  ['an array of 100,001 values', `[${Array(100_001).fill('[]').join()}]`, {}, 413, 'too-large'],
  ['a body that is compressed', 'x', { 'content-encoding': 'gzip' }, 415, 'unsupported-media-type'],
  ['a stream that is compressed', 'x', { ...NDJSON, 'content-encoding': 'gzip' }, 415, 'unsupported-media-type'],
  ['a key with a space', {}, { 'idempotency-key': 'a b' }, 400, 'invalid'],
  ['a stream with a key', '{}', { ...NDJSON, 'idempotency-key': 'a' }, 400, 'invalid'],
])('refuses %s', async (_, body, headers, status, code) => {
  const api = await openApi();
  const answer = await post(api, body, headers);
  expect(answer.body).toMatchObject({ type: 'about:blank', status, code });
  expect(answer.status).toBe(status);
  expect(await api.queue.getJobCountByTypes('prioritized', 'wait', 'delayed')).toBe(0);
});

it('names every fault of a notification, and repeats no token and no text', async () => {
  const api = await openApi();
  const { body } = await post(api, {
    recipientId: 'teacher-42',
    devices: [{ platform: 'fcm', token: 'secret token' }],
    alert: { title: 'secret text', boddy: 'x' },
    sendAfter: 1_700_000,
  });
  expect(faultPaths(body).toSorted()).toEqual(['alert.boddy', 'devices[0].token', 'sendAfter']);
  expect(JSON.stringify(body)).not.toContain('secret');
});

describe('an array', () => {
  it('adds those that fit, and answers each at its place', async () => {
    const api = await openApi();
    const [good, other] = [makeNotification(), makeNotification()];
    await post(api, other);
    const { status, body } = await post(api, [good, { recipientId: 1 }, other, { ...other, badge: 3 }]);
    expect(status).toBe(202);
    expect(body).toMatchObject({ added: 1, duplicate: 1, invalid: 1, conflict: 1, refused: 0 });
    expect(resultsOf(body).map(({ result }) => result)).toEqual(['added', 'invalid', 'duplicate', 'conflict']);
    expect(await api.queue.getJobCountByTypes('prioritized')).toBe(2);
    expect((await post(api, [{}, { a: 1 }])).status).toBe(422);
    expect((await post(api, [{ ...other, badge: 4 }])).status).toBe(409);
  });

  it('names the first 20 faults of all, and then only which are invalid', async () => {
    const api = await openApi();
    const one = Object.fromEntries(Array.from({ length: 98 }, (_, at) => [`name${at}`, 1]));
    const { body } = await post(api, [one, one]);
    const [first, second] = body['results'] as { faults: { found: string }[] }[];
    expect(first?.faults).toHaveLength(21);
    expect(first?.faults.at(-1)).toMatchObject({ expected: 'no more faults', found: '81' });
    expect(second).toEqual({ result: 'invalid' });
  });

  it('of 1,000 is added whole', async () => {
    const api = await openApi();
    const { status, body } = await post(
      api,
      Array.from({ length: 1_000 }, () => makeNotification()),
    );
    expect([status, body['added']]).toEqual([202, 1_000]);
    expect(await api.queue.getJobCountByTypes('prioritized')).toBe(1_000);
  });
});

describe('an Idempotency-Key', () => {
  const key = { 'idempotency-key': 'order-77' };

  it('adds nothing the second time, also when the first ones have ended and their jobs are gone', async () => {
    const api = await openApi();
    const withoutId = { ...makeNotification(), id: undefined };
    const inputs = [withoutId, { nonsense: true }, makeNotification()];
    const first = await post(api, inputs, key);
    expect(first.body).toMatchObject({ added: 2, invalid: 1 });
    const ids = idsOf(first.body);
    for (const id of ids) await api.queue.remove(jobIdOf(id));
    const second = await post(api, inputs, key);
    expect(second.body).toMatchObject({ added: 0, duplicate: 2, invalid: 1 });
    expect(idsOf(second.body)).toEqual(ids);
    expect(await api.queue.getJobCountByTypes('prioritized')).toBe(0);
  });

  it('is refused with another body, and is kept for a day', async () => {
    const api = await openApi();
    await post(api, makeNotification(), key);
    const { status, body } = await post(api, makeNotification(), key);
    expect([status, body['code']]).toEqual([409, 'conflict']);
    const redis = connectRedis();
    const [stored = ''] = await redis.keys(`${api.prefix}:idempotency:*`);
    expect(await redis.ttl(stored)).toBeGreaterThan(86_000);
    expect(stored + String(await redis.get(stored))).not.toContain('order-77');
  });

  it('is of one token: another token may have the same one', async () => {
    const api = await openApi({}, { another: { scopes: ['send'] } });
    const [one, other] = [makeNotification(), makeNotification()];
    expect((await post(api, one, key)).status).toBe(202);
    expect(
      (await api.call('POST', PATH, { body: other, headers: key, secret: api.secrets.another })).body,
    ).toMatchObject({
      result: 'added',
    });
  });

  it('adds once where the same request comes ten times at once', async () => {
    const api = await openApi();
    const withoutId = { ...makeNotification(), id: undefined };
    const answers = await Promise.all(Array.from({ length: 10 }, () => post(api, withoutId, key)));
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(202));
    expect(new Set(answers.map(({ body }) => body['id'])).size).toBe(1);
    expect(await api.queue.getJobCountByTypes('prioritized')).toBe(1);
  });

  it('adds the rest where the first request did not come to its end', async () => {
    const api = await openApi();
    const inputs = [makeNotification(), makeNotification()];
    await post(api, inputs, key);
    const redis = connectRedis();
    const [stored = ''] = await redis.keys(`${api.prefix}:idempotency:*`);
    const [fingerprint = ''] = String(await redis.get(stored)).split('+');
    await redis.set(stored, fingerprint, 'KEEPTTL'); // as if it had been killed before it was done
    await api.queue.remove(inputs[1]?.id ?? '');
    expect((await post(api, inputs, key)).body).toMatchObject({ added: 1, duplicate: 1 });
  });

  it('answers 409 again where the id is taken, of one and of all of an array, and adds the notification once the id is free', async () => {
    const api = await openApi();
    const taken = makeNotification();
    await post(api, taken);
    const other = { ...taken, badge: 4 };
    const first = await post(api, other, key);
    expect([first.status, first.body['code']]).toEqual([409, 'conflict']);
    const second = await post(api, other, key);
    expect([second.status, second.body]).toEqual([409, first.body]);
    await api.queue.remove(taken.id);
    const results = [await post(api, other, key), await post(api, other, key)].map(({ body }) => body['result']);
    expect(results).toEqual(['added', 'duplicate']);
    const [all, again] = [{ 'idempotency-key': 'all' }, [{ ...taken, badge: 5 }]];
    const ofAll = [await post(api, again, all), await post(api, again, all)];
    expect(ofAll.map(({ status }) => status)).toEqual([409, 409]);
    expect(ofAll[1]?.body).toEqual(ofAll[0]?.body);
  });

  it('answers conflicts at their places again, also when what they conflict with is gone', async () => {
    const api = await openApi();
    const [taken, wasTaken] = [makeNotification(), makeNotification()];
    await post(api, [taken, wasTaken]);
    const good = makeNotification();
    const inputs = [{ ...taken, badge: 4 }, good, { nonsense: true }, { ...wasTaken, badge: 4 }];
    const first = await post(api, inputs, key);
    expect(first.body).toMatchObject({ added: 1, duplicate: 0, invalid: 1, conflict: 2 });
    await api.queue.remove(wasTaken.id);
    const second = await post(api, inputs, key);
    expect(second.status).toBe(202);
    expect(resultsOf(second.body)).toEqual(
      resultsOf(first.body).map((each) => (each.result === 'added' ? { ...each, result: 'duplicate' } : each)),
    );
    expect(await api.queue.getJobCountByTypes('prioritized')).toBe(2);
  });
});

describe('what was invalid under an Idempotency-Key', () => {
  it('is invalid again, also when it would fit by now, and adds nothing', async () => {
    const api = await openApi();
    const key = { 'idempotency-key': 'far' };
    const startMs = Date.now();
    vi.useFakeTimers({ now: startMs, toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const sendAfter = startMs + 366 * 86_400_000 + 4_000;
    const inputs = [makeNotification(), makeNotification({ sendAfter }), { nonsense: true }];
    expect(resultsOf((await post(api, inputs, key)).body).map(({ result }) => result)).toEqual([
      ...['added', 'invalid', 'invalid'],
    ]);
    vi.setSystemTime(startMs + 5_000);
    const { body } = await post(api, inputs, key);
    expect(body['results']).toMatchObject([
      { result: 'duplicate' },
      { result: 'invalid', faults: [{ path: '', expected: 'one that fitted when this Idempotency-Key came first' }] },
      { result: 'invalid', faults: expect.arrayContaining([]) as unknown },
    ]);
    expect(await api.queue.getJobCountByTypes()).toBe(1);
    expect((await post(api, inputs[1])).body).toMatchObject({ result: 'added' });
  });

  it('is checked again if an earlier version noted only the conflicts', async () => {
    const api = await openApi();
    const key = { 'idempotency-key': 'old' };
    const inputs = [makeNotification(), { nonsense: true }];
    await post(api, inputs, key);
    const redis = connectRedis();
    const [stored = ''] = await redis.keys(`${api.prefix}:idempotency:*`);
    const [fingerprint] = String(await redis.get(stored)).split('+');
    await redis.set(stored, `${fingerprint}+`, 'KEEPTTL');
    expect((await post(api, inputs, key)).body).toMatchObject({ duplicate: 1, invalid: 1 });
  });
});

describe('a stream', () => {
  it('is answered line by line, with the counts at its end', async () => {
    const api = await openApi();
    const [one, two] = [makeNotification(), makeNotification()];
    const text = [
      JSON.stringify(one),
      '',
      '{"half',
      JSON.stringify(two),
      JSON.stringify(one),
      'x'.repeat(500_000),
    ].join('\n');
    const { status, body } = await api.call('POST', PATH, { body: text, headers: NDJSON });
    const lines = String(body['text'])
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(status).toBe(200);
    expect(lines.map(({ line, result }) => [line, result])).toEqual([
      ...[
        [1, 'added'],
        [3, 'invalid'],
        [4, 'added'],
        [5, 'duplicate'],
        [6, 'invalid'],
        [undefined, undefined],
      ],
    ]);
    expect(lines.at(-1)).toEqual({ end: true, added: 2, duplicate: 1, invalid: 2, conflict: 0, refused: 0 });
    const minimal = await api.call('POST', PATH, { body: text, headers: { ...NDJSON, prefer: 'return=minimal' } });
    const answered = String(minimal.body['text']).trim().split('\n');
    expect(answered.map((line) => (JSON.parse(line) as { line?: number }).line)).toEqual([3, 6, undefined]);
  });
});

describe('where many wait', () => {
  it('a token adds none beyond its own number, and others go on', async () => {
    const api = await openApi({ API_MAX_WAITING: '4' }, { few: { scopes: ['send'], maxWaiting: 2 } });
    await post(api, [makeNotification(), makeNotification()]);
    const refused = await api.call('POST', PATH, { body: makeNotification(), secret: api.secrets.few });
    expect([refused.status, refused.body['code']]).toEqual([429, 'queue-full']);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await post(api, [makeNotification(), makeNotification()])).status).toBe(202);
    expect((await post(api, makeNotification())).status).toBe(429);
    const stream = await api.call('POST', PATH, { body: JSON.stringify(makeNotification()), headers: NDJSON });
    expect(String(stream.body['text'])).toContain('"result":"refused"');
    await api.queue.drain(true);
    await waitFor(async () => expect((await post(api, makeNotification())).status).toBe(202));
  });
});

describe('where Redis is away', () => {
  it('is 503, and takes requests again when Redis is back', async () => {
    const redis = await ownRedis();
    const api = await openApi({ REDIS_URL: redis.url });
    expect((await post(api, makeNotification())).status).toBe(202);
    process.kill(redis.pid, 'SIGSTOP');
    const notification = makeNotification();
    const { status, body, headers } = await post(api, notification, { 'idempotency-key': 'again' });
    expect([status, body['code'], headers.get('retry-after')]).toEqual([503, 'redis-away', '2']);
    expect((await api.call('GET', '/readyz')).status).toBe(503);
    process.kill(redis.pid, 'SIGCONT');
    await waitFor(async () => {
      expect((await post(api, notification, { 'idempotency-key': 'again' })).status).toBe(202);
    });
    expect(await api.queue.getJob(notification.id)).toBeDefined();
  });

  it('says that Redis is full, where it is', async () => {
    const redis = await ownRedis();
    const api = await openApi({ REDIS_URL: redis.url });
    expect((await post(api, makeNotification())).status).toBe(202);
    await connectRedis(redis.url).config('SET', 'maxmemory', '1');
    const { status, body } = await post(api, makeNotification());
    expect([status, body['code']]).toEqual([503, 'redis-away']);
    expect(body['detail']).toBe(
      'Redis answers that it cannot do this now (OOM); what was not answered yet may be sent again with the same ids',
    );
  });

  it('starts without Redis, and says so', async () => {
    const api = await openApi({ REDIS_URL: 'redis://127.0.0.1:1' });
    expect((await api.call('GET', '/readyz')).body).toEqual({ ok: false, redis: false });
    expect((await post(api, makeNotification())).status).toBe(503);
    const outcomes = await api.call('GET', '/v1/outcomes');
    expect([outcomes.status, outcomes.body['code']]).toEqual([503, 'redis-away']);
  });
});
