import { describe, expect, it } from 'vitest';
import { openApiDocument } from '../../api/openapi.ts';
import { outcomeFields } from '../../src/notification/outcome.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { noteLoss } from '../../src/queue/losses.ts';
import { layoutKey, outcomesKey, shardPrefixes } from '../../src/queue/names.ts';
import { openApi, type ApiBench } from '../support/api.ts';
import { documentOf } from '../support/openapi.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openReplicaBench } from '../support/replica.ts';
import { deliver, openRunning } from '../support/waiting.ts';

describe('a notification', () => {
  it('is shown while it waits, is canceled once, and is unknown otherwise', async () => {
    const api = await openApi();
    const { id } = makeNotification();
    await api.call('POST', '/v1/notifications', { body: makeNotification({ id, sendAfter: Date.now() + 600_000 }) });
    const path = `/v1/notifications/${id}`;
    expect((await api.call('GET', path)).body).toMatchObject({ id, state: 'waiting' });
    expect((await api.call('DELETE', path)).body).toEqual({ id, result: 'canceled' });
    for (const method of ['GET', 'DELETE']) {
      expect((await api.call(method, '/v1/notifications/nobody')).body).toMatchObject({
        status: 404,
        code: 'not-found',
      });
      expect((await api.call(method, '/v1/notifications/a%20b')).body).toMatchObject({ status: 422 });
    }
    const server = { runId: 'a', isSame: true };
    await noteLoss(connectRedis(), api.prefix, { kind: 'emptied', redis: 'queue', at: Date.now() - 120_000, server });
    const { body } = await api.call('GET', '/v1/notifications/nobody');
    expect(body).toMatchObject({
      detail: expect.stringContaining('Redis was emptied (its keys were deleted), ') as string,
    });
  });

  it.each([
    ['DELETE', '/v1/notifications/msg-1'],
    ['DELETE', '/v1/recipients/teacher-42/notifications?cancellationKey=trip'],
    ['POST', '/v1/notifications'],
  ])('is left as it is by %s %s with preview=true, which has no preview', async (method, path) => {
    const api = await openApi();
    const sendAfter = Date.now() + 600_000;
    const one = makeNotification({ id: 'msg-1', recipientId: 'teacher-42', cancellationKey: 'trip', sendAfter });
    await api.call('POST', '/v1/notifications', { body: one });
    const previewed = `${path}${path.includes('?') ? '&' : '?'}preview=true`;
    const body = method === 'POST' ? { body: { ...one, id: 'msg-2' } } : {};
    expect(await api.call(method, previewed, body)).toMatchObject({
      status: 422,
      body: { faults: [{ path: 'preview' }] },
    });
    expect((await api.call('GET', '/v1/notifications/msg-1')).body).toMatchObject({ state: 'waiting' });
    expect((await api.call('GET', '/v1/notifications/msg-2')).status).toBe(404);
  });

  it('has no estimate if it expires before, is dropped, or has the id of another one', async () => {
    const api = await openApi({}, { olga: { scopes: ['send', 'operate'] } });
    const { olga: secret } = api.secrets;
    await api.call('POST', '/v1/recipients/teacher-42/block', { secret, body: { for: '2h', reason: 'exam' } });
    const one = makeNotification({ id: 'msg-1', recipientId: 'teacher-42' });
    const post = async (fields: object) => {
      const body = { ...one, ...fields };
      return (await api.call('POST', '/v1/notifications', { secret, body })).body;
    };
    expect((await post({}))['estimatedAt']).toBeGreaterThan(Date.now() + 6_000_000);
    expect(await post({})).toEqual({ id: 'msg-1', result: 'duplicate' });
    for (const fields of [{ expiresAt: Date.now() + 60_000 }, { onThrottle: 'drop' }])
      expect(await post({ ...fields, id: `msg-${Object.keys(fields)[0] ?? ''}` })).not.toHaveProperty('estimatedAt');
  });

  describe('is estimated as a worker will decide', () => {
    const open = async () => {
      const api = await openApi({ LIMIT_RULES: '1/1h', LIMIT_MIN_GAP: '0' });
      const estimate = async (fields: object) => {
        const { body } = await api.call('POST', '/v1/notifications', { body: makeNotification(fields) });
        expect(body).toMatchObject({ result: 'added' });
        const { estimatedAt } = body;
        return typeof estimatedAt === 'number' ? estimatedAt - Date.now() : undefined;
      };
      const post = (name: string, body: object) => api.call('POST', `/v1/recipients/teacher-42/${name}`, { body });
      return { estimate, post };
    };
    const NOW = expect.closeTo(0, -4) as number; // within 5 s
    const minute = (at: number) => new Date(at).toISOString().slice(11, 16);
    const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
    const HOUR_MS = 3_600_000;
    const quietFrom = (from: number) => ({
      timezone: 'UTC',
      days,
      from: minute(from),
      until: minute(from + 2 * HOUR_MS),
    });

    it('behind others, and before them if it goes first', async () => {
      const { estimate, post } = await open();
      await post('admit', { id: 'mail-1' });
      expect(await estimate({ onThrottle: 'silence' })).toEqual(NOW); // without sound
      expect(await estimate({ onThrottle: 'drop' })).toBeUndefined();
      expect(await estimate({ priority: 'high' })).toBeCloseTo(HOUR_MS, -4);
      await post('admit', { id: 'mail-2', wait: true });
      expect(await estimate({})).toBeCloseTo(2 * HOUR_MS, -4);
      expect(await estimate({ priority: 'high' })).toBeUndefined(); // it may go before mail-2
    });

    it('in quiet hours', async () => {
      const { estimate, post } = await open();
      await post('quiet', quietFrom(Date.now() - HOUR_MS));
      const untilEnd = Math.floor((Date.now() + HOUR_MS) / 60_000) * 60_000 - Date.now();
      expect(await estimate({})).toBeCloseTo(untilEnd, -4);
      expect(await estimate({ onQuiet: 'silence' })).toEqual(NOW);
      expect(await estimate({ onQuiet: 'drop' })).toBeUndefined();
      expect(await estimate({ onThrottle: 'drop' })).toBeCloseTo(untilEnd, -4);
      expect(await estimate({ onQuiet: 'silence', sendAfter: Date.now() + 60_000 })).toBeUndefined();
    });

    it('in quiet hours, where the limits block it beyond their end', async () => {
      const { estimate, post } = await open();
      await post('admit', { id: 'mail-1' });
      await post('quiet', quietFrom(Date.now() - 90 * 60_000));
      const untilEnd = Math.floor((Date.now() + HOUR_MS / 2) / 60_000) * 60_000 - Date.now();
      expect(await estimate({})).toBeCloseTo(HOUR_MS, -4);
      expect(await estimate({ onThrottle: 'silence' })).toBeCloseTo(untilEnd, -4); // without sound
      expect(await estimate({ onThrottle: 'drop' })).toBeUndefined(); // not known: only if there is a slot then
    });

    it('with a sendAfter, unless that is quiet', async () => {
      const { estimate, post } = await open();
      const sendAfter = Date.now() + 5 * HOUR_MS;
      expect(await estimate({ sendAfter })).toBeCloseTo(5 * HOUR_MS, -4);
      await post('quiet', quietFrom(sendAfter - HOUR_MS));
      expect(await estimate({ sendAfter })).toBeUndefined();
      expect(await estimate({ sendAfter: sendAfter + 2 * HOUR_MS })).toBeCloseTo(7 * HOUR_MS, -4);
    });
  });

  it('is canceled with all others under its cancellation key, which leaves a line with the name of the token', async () => {
    const api = await openApi({}, { bulk: { scopes: ['send'] } });
    const recipientId = 'a/b c?d#é';
    const fields = { recipientId, cancellationKey: 'trip 7', sendAfter: Date.now() + 600_000 };
    const [one, other] = [makeNotification(fields), makeNotification(fields)];
    await api.call('POST', '/v1/notifications', { body: [one, other] });
    await api.call('DELETE', `/v1/notifications/${one.id}`, { secret: api.secrets.bulk });
    const path = `/v1/recipients/${encodeURIComponent(recipientId)}/notifications`;
    expect((await api.call('DELETE', path)).body).toMatchObject({ status: 422 });
    expect((await api.call('DELETE', `${path}?cancellationKey=trip%207`)).body).toEqual({ canceled: 2, tooLate: 0 });
    await api.call('DELETE', '/v1/notifications/nobody');
    const logged = api.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(logged.filter(({ msg }) => msg === 'canceled')).toMatchObject([
      { by: 'bulk', id: one.id, canceled: 1, tooLate: 0 },
      { by: 'all', recipientId, canceled: 2, tooLate: 0 },
    ]);
  });
});

describe('a retract', () => {
  it('by id cancels what waits, takes back what was sent, and takes an id that nobody knows; its line names the token', async () => {
    const bench = await openRunning({ LIMIT_MIN_GAP: '0' });
    const api = await openApi({ QUEUE_PREFIX: bench.prefix }, { bulk: { scopes: ['send'] } });
    const [sent, waiting] = [makeNotification(), makeNotification({ sendAfter: Date.now() + 600_000 })];
    await deliver(bench, sent);
    await api.call('POST', '/v1/notifications', { body: waiting });
    const retract = (id: string, body?: unknown) => {
      return api.call('POST', `/v1/notifications/${id}/retract`, { secret: api.secrets.bulk, body });
    };
    for (const [id, result] of [
      [sent.id, 'retracting'],
      [waiting.id, 'canceled'],
      ['early', 'unknown'],
    ] as const) {
      expect(await retract(id, { badge: 3 })).toMatchObject({ status: 202, body: { id, result } });
    }
    expect(
      (await api.call('POST', '/v1/notifications', { body: makeNotification({ id: 'early' }) })).body,
    ).toMatchObject({
      ...{ id: 'early', result: 'duplicate' },
    });
    const logged = api.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(logged.filter(({ msg }) => msg === 'retracted')).toMatchObject([
      { by: 'bulk', id: sent.id, canceled: 0, retracting: 1, ended: 0, unknown: 0 },
      { by: 'bulk', id: waiting.id, canceled: 1 },
      { by: 'bulk', id: 'early', unknown: 1 },
    ]);

    const story = async () => (await api.call('GET', `/v1/notifications/${sent.id}`)).body['story'];
    const why = expect.arrayContaining([
      expect.stringMatching(/^The retraction retract-\S+ took it from its devices at /),
    ]) as string[];
    await expect.poll(story, { timeout: 10_000 }).toMatchObject({ retractions: [{ outcome: 'retracted' }], why });
  });

  it('by key counts, and a body that does not fit is refused by the paths of its fields', async () => {
    const api = await openApi();
    const fields = { recipientId: 'a/b', cancellationKey: 'trip 7', sendAfter: Date.now() + 600_000 };
    await api.call('POST', '/v1/notifications', { body: [makeNotification(fields), makeNotification(fields)] });
    const retract = (path: string, body?: unknown) => api.call('POST', `/v1/${path}/retract`, { body });
    expect(await retract('recipients/a%2Fb', { cancellationKey: 'trip 7' })).toMatchObject({
      ...{ status: 202, body: { canceled: 2, retracting: 0, ended: 0, unknown: 0 } },
    });
    for (const [path, body, faulty] of [
      ['recipients/a', undefined, ['cancellationKey']],
      ['recipients/a', { cancellationKey: '', bagde: 1 }, ['cancellationKey', 'bagde']],
      ['notifications/m', { badge: -1, id: 'other' }, ['badge', 'id']],
      ['notifications/a%20b', undefined, ['id']],
      ['notifications/m', [], ['']],
    ] as const) {
      const { status, body: problem } = await retract(path, body);
      expect(status).toBe(422);
      expect((problem['faults'] as { path: string }[]).map((fault) => fault.path)).toEqual(faulty);
    }
    expect((await api.call('POST', '/v1/notifications/m/retract?preview=true')).body).toMatchObject({
      faults: [{ path: 'preview' }],
    });
  });
});

it('shows a recipient: the limits of the living workers, what was sent, and what waits and why', async () => {
  const bench = await openReplicaBench();
  await bench.startHere({ LIMIT_RULES: '1/1h', LIMIT_MIN_GAP: '0' });
  const api = await openApi({ QUEUE_PREFIX: bench.prefix });
  const inputs = [0, 1, 2].map(() => makeNotification({ recipientId: 'teacher ü' }));
  for (const body of inputs) {
    await api.call('POST', '/v1/notifications', { body });
    await bench.line(new RegExp(`"jobId":"${body.id}".*"outcome"`)); // who asks first is first in the line
  }
  await expect
    .poll(async () => (await api.call('GET', '/v1/recipients/teacher%20%C3%BC')).body, { timeout: 10_000 })
    .toMatchObject({
      recipientId: 'teacher ü',
      policy: { rules: [{ max: 1, perMs: 3_600_000 }], minGapMs: 0 },
      sent: [{ at: expect.any(Number) as number }],
      waitingCount: 2,
      waiting: [
        { id: inputs[1]?.id, rule: '1/1h', before: 0 },
        { id: inputs[2]?.id, rule: '1/1h', before: 1 },
      ],
      notTaken: [],
    });
  const estimated = await api.call('POST', '/v1/notifications', {
    body: makeNotification({ recipientId: 'teacher ü' }),
  });
  expect(Number(estimated.body['estimatedAt'])).toBeGreaterThan(Date.now() + 2.5 * 3_600_000);
  expect((await api.call('GET', `/v1/recipients/${'x'.repeat(257)}`)).body).toMatchObject({ status: 422 });
});

const ACTIVITY = { event: 'update', contentState: { score: '2 : 1' } } as const;

it('shows background pushes and Live Activities of a recipient apart from alerts, where there are any', async () => {
  const bench = await openReplicaBench();
  await bench.startHere({ LIMIT_BACKGROUND_RULES: '1/1h', LIMIT_LIVE_ACTIVITY_RULES: '1/1h' });
  const api = await openApi({ QUEUE_PREFIX: bench.prefix });
  const look = async () => (await api.call('GET', '/v1/recipients/teacher-42')).body;
  const before = await look();
  expect(before).not.toHaveProperty('background');
  expect(before).not.toHaveProperty('liveActivity');
  const silent = { recipientId: 'teacher-42', pushType: 'background', alert: undefined, data: { sync: true } } as const;
  const activity = { ...silent, pushType: 'liveactivity', data: undefined, liveActivity: ACTIVITY } as const;
  const ids: unknown[] = [];
  for (const made of [silent, silent, activity, activity]) {
    const { id } = (await api.call('POST', '/v1/notifications', { body: makeNotification(made) })).body;
    await bench.line(new RegExp(`"jobId":"${String(id)}".*"outcome"`));
    ids.push(id);
  }
  const at = expect.any(Number) as number;
  const apart = (id: unknown) => ({
    ...{ rules: [{ max: 1, perMs: 3_600_000 }], sent: [{ at }] },
    ...{ waitingCount: 1, waiting: [{ at, id, rule: '1/1h', before: 0 }] },
  });
  const body = await look();
  expect(body).toMatchObject({ sent: [], waitingCount: 0, waiting: [], delayed: [] });
  expect([body['background'], body['liveActivity']]).toEqual([apart(ids[1]), apart(ids[3])]);
  const { faultsOf } = documentOf(openApiDocument());
  expect(faultsOf('get', '/v1/recipients/{id}', 200, 'application/json', body)).toEqual([]);
});

it('says so where a newer version wrote the limits of a recipient, and enqueues all the same', async () => {
  const bench = await openReplicaBench();
  await bench.startHere();
  const api = await openApi({ QUEUE_PREFIX: bench.prefix });
  const { settings } = recipientKeys(bench.prefix, 'teacher-42');
  await connectRedis().hset(settings, 'format', '2');
  expect((await api.call('GET', '/v1/recipients/teacher-42')).body).toMatchObject({ status: 409, code: 'conflict' });
  const { body, status } = await api.call('POST', '/v1/notifications', { body: makeNotification() });
  expect(status).toBe(202);
  expect(body).not.toHaveProperty('estimatedAt');
  await bench.line(/a newer version of pushpacer wrote what this job needs.*/);
  await connectRedis().del(settings);
  await expect.poll(() => bench.sandbox.journal.accepted.length, { timeout: 15_000 }).toBe(1);
});

describe('outcomes', () => {
  /** Reads events until there are so many. */
  async function events(api: ApiBench, query: string, count: number, headers: Readonly<Record<string, string>> = {}) {
    const gone = new AbortController();
    const response = await fetch(`${api.url}/v1/outcomes${query}`, {
      headers: { authorization: `Bearer ${api.secrets.all}`, ...headers },
      signal: gone.signal,
    });
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of (response.body as ReadableStream<Uint8Array> | null) ?? []) {
      text += decoder.decode(chunk, { stream: true });
      if (text.split('\nid: ').length > count) break;
    }
    gone.abort();
    return text.split('\n\n').flatMap((block) => {
      const [, event = '', id = '', data = ''] = /event: (\w+)\nid: (\S+)\ndata: (.*)/.exec(block) ?? [];
      return event === '' ? [] : [{ event, id, data: JSON.parse(data) as Record<string, string> }];
    });
  }

  it('come from a cursor, go on after the last one that was read, and say where some are gone', async () => {
    const api = await openApi();
    const [redis, key] = [connectRedis(), outcomesKey(api.prefix)];
    const add = (id: string) => redis.xadd(key, '*', 'id', id, 'outcome', 'delivered');
    for (const id of ['a', 'b', 'c']) await add(id);
    const all = await events(api, '?after=0', 3);
    expect(all.map(({ event, data }) => [event, data['id']])).toEqual([
      ['outcome', 'a'],
      ['outcome', 'b'],
      ['outcome', 'c'],
    ]);
    const [, second] = all;
    const rest = await events(api, '?after=0', 1, { 'last-event-id': second?.id ?? '' });
    expect(rest.map(({ data }) => data['id'])).toEqual(['c']);
    await redis.xtrim(key, 'MAXLEN', 1);
    const late = await events(api, `?after=${second?.id ?? ''}`, 2);
    expect(late.map(({ event }) => event)).toEqual(['missed', 'outcome']);
    expect((await api.call('GET', '/v1/outcomes?after=yesterday')).body).toMatchObject({ status: 400 });
    expect((await api.call('HEAD', '/v1/outcomes')).status).toBe(200);
  });

  it('have numbers, `true` and objects as such, and what a newer version added as text', async () => {
    const api = await openApi();
    const outcome = {
      ...({ id: '17', recipientId: '42', platform: 'apns,fcm', outcome: 'delivered', generation: 2 } as const),
      ...({ enqueuedAt: 1_795_284_000_000, silenced: true, sentAt: 1_795_284_000_040, waitMs: 40 } as const),
      devices: { 'apns#0': 'delivered', 'fcm#1': 'unregistered' } as const,
    };
    await connectRedis().xadd(outcomesKey(api.prefix), '*', ...outcomeFields(outcome), 'newer', '7');
    const retracted = { ...outcome, outcome: 'retracted', retracted: ['msg-1', 'msg-2'] } as const;
    await connectRedis().xadd(outcomesKey(api.prefix), '*', ...outcomeFields(retracted));
    const all = await events(api, '?after=0', 2);
    expect(all.map(({ data }) => data)).toEqual([{ ...outcome, newer: '7' }, retracted]);
  });

  it('say that there are none, once, while all living workers have OUTCOMES_MAX 0', async () => {
    const bench = await openReplicaBench();
    const api = await openApi({ QUEUE_PREFIX: bench.prefix });
    const opened = async (): Promise<string> => {
      const gone = new AbortController();
      const headers = { authorization: `Bearer ${api.secrets.all}` };
      const response = await fetch(`${api.url}/v1/outcomes`, { headers, signal: gone.signal });
      const { value } = await (response.body as ReadableStream<Uint8Array>).getReader().read();
      gone.abort();
      return new TextDecoder().decode(value);
    };
    expect(await opened()).toBe(': connected\n\n'); // no worker lives
    await bench.startHere();
    await expect
      .poll(opened)
      .toMatch(/^: connected\n\nevent: off\ndata: \{"detail":"no outcomes are written: .*OUTCOMES_MAX.*"\}\n\n$/);
    await bench.startHere({ OUTCOMES_MAX: '10' });
    await expect.poll(opened).toBe(': connected\n\n');
  });

  it('come from all shards, with one cursor for all', async () => {
    const api = await openApi({ QUEUE_SHARDS: '3' });
    const redis = connectRedis();
    for (const [shard, prefix] of shardPrefixes(api.prefix, 3).entries())
      for (const n of [1, 2]) await redis.xadd(outcomesKey(prefix), '*', 'id', `${shard}-${n}`);
    const all = await events(api, '?after=0', 6);
    expect(all.map(({ data }) => data['id']).toSorted()).toEqual(['0-1', '0-2', '1-1', '1-2', '2-1', '2-2']);
    const rest = await events(api, `?after=${all[3]?.id ?? ''}`, 2);
    expect(rest.map(({ data }) => data['id'])).toEqual(all.slice(4).map(({ data }) => data['id']));
  });

  it('come from the former shards too, where their number has changed, and cursors of before hold', async () => {
    const api = await openApi();
    const redis = connectRedis();
    const two = shardPrefixes(api.prefix, 2);
    const add = (prefix: string, id: string) => redis.xadd(outcomesKey(prefix), '*', 'id', id);
    for (const id of ['a', 'b']) await add(api.prefix, id);
    const [first] = await events(api, '?after=0', 1);
    const reading = events(api, `?after=${first?.id ?? ''}`, 4); // it goes on while the number changes
    const layout = { version: 1, phase: 'steady', prefixes: two, former: [[api.prefix]] };
    await redis.set(layoutKey(api.prefix), JSON.stringify(layout));
    for (const [shard, prefix] of two.entries()) await add(prefix, `new-${shard}`);
    await add(api.prefix, 'c');
    const idsOf = (all: readonly { data: Record<string, string> }[]) => all.map(({ data }) => data['id']).toSorted();
    expect(idsOf(await reading)).toEqual(['b', 'c', 'new-0', 'new-1']);

    const later = await openApi({ QUEUE_PREFIX: api.prefix });
    const rest = await events(later, `?after=${first?.id ?? ''}`, 4);
    expect(idsOf(rest)).toEqual(['b', 'c', 'new-0', 'new-1']);
    const last = await events(later, `?after=${rest[2]?.id ?? ''}`, 1);
    expect(idsOf(last)).toEqual(idsOf(rest.slice(3)));
  });
});
