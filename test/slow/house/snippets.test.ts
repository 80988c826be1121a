import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { outcomeFields, type Outcome } from '../../../src/notification/outcome.ts';
import { parseNotification } from '../../../src/notification/notification.ts';
import { OUTCOMES } from '../../../src/index.ts';
import { newLayout } from '../../../src/queue/shards/layout.ts';
import { JOB, PRIORITY, QUEUE } from '../../../src/queue/names.ts';
import { createOutcomes } from '../../../src/queue/outcomes.ts';
import { DEFAULT_PREFIX } from '../../../src/redis/target.ts';
import { ownRedis } from '../../support/own-redis.ts';
import { connectRedis } from '../../support/redis.ts';
import { runSnippet, snippetOf } from '../../support/snippet.ts';
import { strictFaults } from '../../support/strict-typescript.ts';

/** Nobody listens on port 1. */
const NOWHERE = 'redis://127.0.0.1:1';

const textOf = (page: string) => readFile(page, 'utf8');

/**
 * Every snippet of these pages, and whether strict TypeScript takes it; of a request to `http-refusal` the application has the type.
 * Those of the README are run by test/slow/e2e/readme.test.ts.
 */
const PAGES: Readonly<Record<string, Readonly<Record<string, 'strict' | 'run'>>>> = {
  'README.md': { enqueue: 'strict', 'plain-bullmq': 'strict' },
  'docs/errors.md': {
    'input-error': 'strict',
    'redis-away': 'strict',
    'limiter-unavailable': 'strict',
    'http-refusal': 'run',
  },
  'docs/outcomes.md': { status: 'strict', outcomes: 'run' },
};

it.each(Object.entries(PAGES))('%s has no snippet in JavaScript that is not run', async (page, snippets) => {
  const text = await textOf(page);
  const named = [...text.matchAll(/<!-- test: ([a-z-]+) -->\n\n?```js/g)].map(([, name]) => name);
  expect(named).toEqual(Object.keys(snippets));
  expect(text.match(/```(js|ts)\n/g)).toHaveLength(named.length);
});

it('strict TypeScript takes what the pages show, and a field that may be undefined wherever one may be left out', async () => {
  const strict = Object.entries(PAGES).flatMap(([page, snippets]) =>
    Object.keys(snippets)
      .filter((name) => snippets[name] === 'strict')
      .map((name) => [page, name] as const),
  );
  const shown = await Promise.all(strict.map(([page, name]) => snippetOf(page, name)));
  expect(strictFaults(...shown, MAY_BE_UNDEFINED)).toEqual([]);
});

const MAY_BE_UNDEFINED = `
  import { createProducer, type EnqueueInput, type NotificationInput } from 'pushpacer';
  const { QUEUE_PREFIX: prefix, REDIS_URL: redisUrl } = process.env;
  declare const badge: number | undefined;
  export const input: EnqueueInput = {
    recipientId: 'teacher-42',
    devices: [{ platform: 'fcm', token: 'a-registration-token' }],
    alert: { title: 'Room 12', body: undefined },
    ...{ badge, sound: undefined, priority: undefined, expiresAt: undefined, onThrottle: undefined },
  };
  export const withId: NotificationInput = { ...input, id: 'msg-8841' };
  createProducer();
  createProducer({ redisUrl, prefix, shards: undefined, timeoutMs: undefined, cluster: undefined, sentinel: undefined });
`;

it.each([
  ['input-error', 'devices[0].token: an APNs device token: 2 to 512 hexadecimal digits\nbadge: at least 0\n'],
  ['redis-away', 'Redis is away: 127.0.0.1:1 (connect ECONNREFUSED 127.0.0.1:1)\n'.repeat(3)],
  ['limiter-unavailable', "not now: the limiter's Redis did not answer within 500 ms\n"],
  ['http-refusal', '429 60 Quota Exceeded\n'],
])('what it shows for %s happens as it says, without a Redis', async (name, stdout) => {
  expect(await runSnippet('docs/errors.md', name, NOWHERE)).toMatchObject({ code: 0, stdout, stderr: '' });
});

it.each([
  ['redis-away', 'added\n'],
  ['limiter-unavailable', 'admitted\n'],
])('what it shows for %s works with a Redis too', async (name, stdout) => {
  expect(await runSnippet('docs/errors.md', name, (await ownRedis()).url)).toMatchObject({
    code: 0,
    stdout,
    stderr: '',
  });
});

it.each([
  ['docs/limiter.md', 'limiter-library', 'admitted newsletters:1/1d 0\n'],
  ['docs/limiter.md', 'limiter-moved', 'msg-1 24 hours earlier\n'],
  ['docs/quota.md', 'quota', 'taken 599999\n'],
  ['docs/broadcasts.md', 'broadcast', '1200 0\n0 1200\n'],
])('what %s shows is answered as it says', async (page, name, answer) => {
  const { code, stdout } = await runSnippet(page, name, (await ownRedis()).url);
  expect({ code, stdout }).toEqual({ code: 0, stdout: answer });
});

describe('docs/outcomes.md', () => {
  const OUTCOME: Outcome = {
    ...{ id: 'msg-8841', recipientId: 'teacher-42', category: 'messages', outcome: 'delivered', generation: 0 },
    ...{ enqueuedAt: 1_784_000_000_000, sentAt: 1_784_000_000_040, waitMs: 40, devices: { 'fcm#0': 'delivered' } },
  };

  /** A Redis with two copies of one outcome in the stream. */
  async function openRedis(): Promise<string> {
    const { url } = await ownRedis();
    const layout = newLayout({ prefix: DEFAULT_PREFIX, shards: 1 });
    const options = { layout: () => layout, max: 100, insistMs: 1_000, onLost: () => undefined };
    const outcomes = createOutcomes({ redis: connectRedis(url), ...options });
    await Promise.all([outcomes.write(OUTCOME), outcomes.write(OUTCOME)]);
    return url;
  }

  it.each([
    ['status', 'waiting\n'],
    ['outcomes', "msg-8841 delivered { 'fcm#0': 'delivered' }\n"],
  ])('what it shows for %s works', async (name, stdout) => {
    expect(await runSnippet('docs/outcomes.md', name, await openRedis())).toEqual({
      code: 0,
      signal: null,
      stdout,
      stderr: '',
    });
  });

  it('what it shows for redis-cli works, line by line', async () => {
    const script = await snippetOf('docs/outcomes.md', 'outcomes-cli', 'sh');
    const redis = connectRedis(await openRedis());
    const answers: unknown[] = [];
    for (const line of script.trim().split('\n')) {
      const [program, command = '', ...args] = line.split(' ').map((word) => word.replaceAll("'", ''));
      expect(program).toBe('redis-cli');
      answers.push(await redis.call(command, ...args));
    }
    const fields = outcomeFields(OUTCOME);
    const entries = [expect.any(String) as string, fields];
    expect(answers).toEqual(['OK', [`${DEFAULT_PREFIX}:outcomes`, [entries, entries]], 0, 2]);
  });

  it('names every field of an entry, and every outcome', async () => {
    const section = (await textOf('docs/outcomes.md')).split('## Read all: the stream')[1]?.split('\n## ')[0] ?? '';
    const named = [...section.matchAll(/^\| `(\w+)` /gm)].map(([, name]) => name);
    const all = outcomeFields({
      ...OUTCOME,
      reason: 'stalled',
      by: 'msg-8842',
      silenced: true,
      maybeShown: true,
      retracted: ['msg-8840'],
      platform: 'fcm',
      app: 'teacher',
    });
    expect(named.toSorted()).toEqual(all.filter((_, index) => index % 2 === 0).toSorted());
    for (const outcome of OUTCOMES) expect(section).toContain(`\`${outcome}\``);
  });
});

describe('the producer in Python of docs/getting-started.md', async () => {
  const code = /```python\n([^]*?)```/.exec(await textOf('docs/getting-started.md'))?.[1] ?? '';

  it('adds a notification that fits', () => {
    const data = /NOTIFICATION = (\{[^]*?^\})/m.exec(code)?.[1] ?? '';
    const notification: unknown = JSON.parse(data.replaceAll(/,(?=\s*[}\]])/g, '')); // the rest of it is JSON
    expect(parseNotification(notification)).toMatchObject({ ok: true });
  });

  it('adds it where workers look, as they expect it', () => {
    expect(code).toContain(`Queue("${QUEUE}", {`);
    expect(code).toContain(`"prefix": "${DEFAULT_PREFIX}"`);
    expect(code).toContain(
      `queue.add("${JOB}", NOTIFICATION, {"jobId": NOTIFICATION["id"], "priority": ${PRIORITY.normal}})`,
    );
  });
});
