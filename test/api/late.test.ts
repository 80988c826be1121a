import { Queue } from 'bullmq';
import { expect, it, onTestFinished, vi } from 'vitest';
import { openApiDocument } from '../../api/openapi.ts';
import { revokeToken, SCOPES } from '../../api/tokens.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { DEAD_LETTERS } from '../../src/queue/names.ts';
import { addDead, manyLetters } from '../dead-letters/letters.ts';
import { openApi } from '../support/api.ts';
import { sendHalf } from '../support/half-sent.ts';
import { documentOf } from '../support/openapi.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

const { paths } = documentOf(openApiDocument());

/** A body that each route takes, by the last word of its path. */
const BODIES: Readonly<Record<string, unknown>> = {
  notifications: [makeNotification(), makeNotification()],
  block: { for: '1h', reason: 'exam' },
  limit: { minGap: '1s' },
  quiet: { none: true },
  note: { text: 'a note' },
  cancel: { key: 'trip-77' },
  admit: { id: 'mail-1' },
  refund: { id: 'mail-1' },
  retract: { cancellationKey: 'trip-77' },
  replay: { all: true },
  discard: { all: true },
};

/** Each path that takes a body, with one that it takes. */
const ROUTES = Object.entries(paths).flatMap(([template, { post }]) => {
  if (post?.requestBody === undefined) return [];
  const body = template === '/v1/notifications/{id}/retract' ? {} : BODIES[template.split('/').at(-1) ?? ''];
  return [[template.replace('{id}', 'teacher-42'), JSON.stringify(body ?? {}).padEnd(10)] as const];
});

it('a request whose token is revoked before its body has come does nothing, whatever it is', async () => {
  const api = await openApi({}, { late: { scopes: [...SCOPES] } });
  const deadQueue = new Queue(DEAD_LETTERS, { connection: connectRedis(), prefix: api.prefix });
  onTestFinished(() => deadQueue.close());
  await addDead(deadQueue, manyLetters(2));
  const halves = await Promise.all(ROUTES.map(([path, body]) => sendHalf(`${api.url}${path}`, api.secrets.late, body)));
  expect(halves.length).toBeGreaterThan(15);
  expect(await revokeToken(api.tokensFile, 'late')).toBe(true);
  await waitFor(async () =>
    expect((await api.call('GET', '/v1/notifications/x', { secret: api.secrets.late })).status).toBe(401),
  );
  const answers = await Promise.all(halves.map((half) => half.finish()));
  const acted = ROUTES.filter((_, at) => answers[at]?.status !== 401).map(([path]) => path);
  expect(acted).toEqual([]);
  for (const { text } of answers) expect(JSON.parse(text)).toMatchObject({ code: 'unauthorized' });
  expect(await api.queue.getJobCountByTypes()).toBe(0);
  expect(await deadQueue.getJobCountByTypes('wait')).toBe(2);
  expect(await createAudit(connectRedis(), api.prefix).read({ count: 10 })).toEqual([]);
  expect(api.lines.join('')).toContain('"unknownToken":'); // it is counted as other refusals are
  // The same requests do something with a valid token.
  for (const [path, body] of ROUTES) {
    expect([path, (await api.call('POST', path, { body })).status]).toEqual([path, expect.toSatisfy((s) => s < 300)]);
  }
});

it('a body that does not come to its end within 30 s is refused, and the connection closed', async () => {
  const api = await openApi();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldAdvanceTime: true });
  onTestFinished(() => void vi.useRealTimers());
  const half = await sendHalf(`${api.url}/v1/recipients/b/block`, api.secrets.all, JSON.stringify(BODIES['block']));
  await vi.advanceTimersByTimeAsync(29_000);
  const other = await sendHalf(`${api.url}/v1/recipients/a/block`, api.secrets.all, JSON.stringify(BODIES['block']));
  expect((await other.finish()).status).toBe(200);
  await vi.advanceTimersByTimeAsync(1_100);
  const { status, text } = await half.answer();
  expect([status, JSON.parse(text)]).toMatchObject([408, { code: 'too-slow' }]);
  expect(await api.queue.getJobCountByTypes()).toBe(0);
});

it('a client that leaves amid its body is no bug: nothing is logged', async () => {
  const api = await openApi();
  const urls = ['/v1/notifications', '/v1/recipients/a/block'].map((path) => `${api.url}${path}`);
  const halves = await Promise.all(urls.map((url) => sendHalf(url, api.secrets.all, JSON.stringify(BODIES['block']))));
  const before = api.lines.length;
  for (const half of halves) half.leave();
  const done = await api.call('POST', '/v1/recipients/a/block', { body: BODIES['block'] });
  expect(done.status).toBe(200);
  await waitFor(() => expect(api.lines.length).toBeGreaterThan(before));
  expect(api.lines.slice(before).filter((line) => !line.includes('an operator acted'))).toEqual([]);
});
