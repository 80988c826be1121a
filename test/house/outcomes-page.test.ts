import { readFile } from 'node:fs/promises';
import { expect, it, onTestFinished } from 'vitest';
import { outcomeFields, type Outcome } from '../../src/domain/outcome.ts';
import { OUTCOMES } from '../../src/index.ts';
import { createOutcomes } from '../../src/queue/outcomes.ts';
import { DEFAULT_PREFIX } from '../../src/redis/target.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { connectRedis } from '../support/redis.ts';
import { runSnippet, snippetOf } from '../support/snippet.ts';
import { strictFaults } from '../support/strict-typescript.ts';

const PAGE = 'docs/outcomes.md';
const page = await readFile(PAGE, 'utf8');

const OUTCOME: Outcome = {
  ...{ id: 'msg-8841', recipientId: 'teacher-42', category: 'messages', outcome: 'delivered', generation: 0 },
  ...{ enqueuedAt: 1_784_000_000_000, sentAt: 1_784_000_000_040, waitMs: 40, devices: { 'fcm#0': 'delivered' } },
};

/** A Redis with two copies of one outcome in the stream. */
async function openRedis(): Promise<string> {
  const server = await startEmbeddedRedis();
  onTestFinished(() => server.close());
  const options = { prefix: DEFAULT_PREFIX, shards: 1, max: 100, insistMs: 1_000, onLost: () => undefined };
  const outcomes = createOutcomes({ redis: connectRedis(server.url), ...options });
  await Promise.all([outcomes.write(OUTCOME), outcomes.write(OUTCOME)]);
  return server.url;
}

it.each([
  ['status', 'waiting\n'],
  ['outcomes', "msg-8841 delivered { 'fcm#0': 'delivered' }\n"],
])('what it shows for %s works', async (name, stdout) => {
  expect(await runSnippet(PAGE, name, await openRedis())).toEqual({ code: 0, signal: null, stdout, stderr: '' });
});

it('strict TypeScript takes what it shows for status', async () => {
  expect(strictFaults(await snippetOf(PAGE, 'status'))).toEqual([]);
});

it('what it shows for redis-cli works, line by line', async () => {
  const [, script = ''] = /<!-- test: outcomes-cli -->\n\n```sh\n([^]*?)```/.exec(page) ?? [];
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

it('has no snippet that is not run', () => {
  expect(page.match(/```(js|ts)\n/g)).toHaveLength(2);
});

it('names every field of an entry, and every outcome', () => {
  const section = page.split('## Read all: the stream')[1]?.split('\n## ')[0] ?? '';
  const named = [...section.matchAll(/^\| `(\w+)` /gm)].map(([, name]) => name);
  const all = outcomeFields({
    ...OUTCOME,
    reason: 'stalled',
    by: 'msg-8842',
    forOthers: true,
    silenced: true,
    platform: 'fcm',
    app: 'teacher',
  });
  expect(named.toSorted()).toEqual(all.filter((_, index) => index % 2 === 0).toSorted());
  for (const outcome of OUTCOMES) expect(section).toContain(`\`${outcome}\``);
});
