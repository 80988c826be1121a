import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Queue, Worker } from 'bullmq';
import { describe, expect, onTestFinished, test } from 'vitest';
import { main } from '../../scripts/recipient.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { type Inspection, type Limiter } from '../../src/limiter/limiter.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { jsonOf, outputOf, runMain, type CommandExit } from '../support/command.ts';
import { createRedisLimiter } from '../support/limiters.ts';
import { temporaryFolder } from '../support/program.ts';
import { enterWorker } from '../support/presence.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis, redisEnv, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

type Env = Readonly<Record<string, string | undefined>>;

const UNSET = Object.fromEntries(
  [
    'LIMITER_REDIS_URL',
    'REDIS_CLUSTER',
    'QUEUE_SHARDS',
    'LIMIT_RULES',
    'LIMIT_MIN_GAP',
    'LIMITS_FILE',
    'LIMIT_BACKGROUND_RULES',
    'LIMIT_LIVE_ACTIVITY_RULES',
  ].map((name) => [name, undefined]),
);
/** What the environment says where it says nothing. */
const POLICY: Policy = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 };
const HOUR = 3_600_000;
const ID = 'teacher-42';

interface Bench {
  readonly limiter: Limiter;
  readonly run: (...args: string[]) => Promise<CommandExit>;
  readonly env: Env;
}

/** The limiters as the workers have them, and the command at the same keys, with more variables. */
function openBench(policy = POLICY, more: Env = {}): Bench {
  const prefix = testPrefix();
  const env = { ...UNSET, ...redisEnv(), QUEUE_PREFIX: prefix, ...more };
  const redis = connectRedis();
  return {
    limiter: createRedisLimiter({ redis, policy, prefix }),
    run: (...args) => recipient(env, ...args),
    env,
  };
}

function recipient(env: Env, ...args: string[]): Promise<CommandExit> {
  return runMain(main, args, env);
}

/** The same, and a queue without workers. */
function openQueue(policy = POLICY) {
  const bench = openBench(policy);
  const prefix = bench.env['QUEUE_PREFIX'] ?? '';
  const producer = createProducer({ connection: connectRedis(), prefix });
  onTestFinished(() => producer.close());
  return { ...bench, prefix, producer };
}

/** The same, with this as its LIMITS_FILE. */
async function openWithLimits(limits: object): Promise<Bench> {
  const file = join(await temporaryFolder(), 'limits.json');
  await writeFile(file, JSON.stringify(limits));
  return openBench(POLICY, { LIMITS_FILE: file });
}

/** Asks for slots, one after the other: the first is sent, the others wait. */
async function askFor(limiter: Limiter, ids: readonly string[]): Promise<void> {
  for (const id of ids) await limiter.admit({ recipientId: 'teacher-42', id });
}

describe('show', () => {
  test('says plainly that a recipient is not known, and writes nothing', async () => {
    const { run, env } = openBench();
    const text = await outputOf(run('show', 'teacher-42'));
    expect(text).toContain('Nothing is stored: no alert lately');
    expect(text).toContain('policy     10/1m, gap 3s; from LIMIT_RULES and LIMIT_MIN_GAP of this command itself');
    expect(text).toContain('next free  now\n');
    const tag = env['QUEUE_PREFIX']?.replaceAll(/[{}]/g, '') ?? '';
    expect(await connectRedis().keys(`*${tag}*`)).toEqual([]);
  });

  test('shows slots, limits and block, as text and as JSON', async () => {
    const { limiter, run } = openBench();
    await askFor(limiter, ['a/0', 'b/0', 'c/0']);
    await limiter.limit('teacher-42', { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 4_000 });
    const until = Date.now() + HOUR;
    await limiter.block('teacher-42', { until, reason: "parents' evening" });
    const shown = await jsonOf<Inspection & { recipientId: string }>(run('show', 'teacher-42', '--json'));
    expect(shown).toMatchObject({
      recipientId: 'teacher-42',
      policy: { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 4_000 },
      source: 'stored',
      categories: {},
      block: { until, reason: "parents' evening" },
      reserved: [{ at: until, id: 'b/0' }, { id: 'c/0' }],
    });
    expect(shown.sent).toHaveLength(1);
    expect(shown.nextAt).toBeGreaterThanOrEqual(until);
    expect(await outputOf(run('show', 'teacher-42'))).toMatch(/\nin 1h .* no job .* b\n/);
  });

  test('shows the limits of the file that the workers have: categories, exemptions and quiet hours', async () => {
    const emergency = { rules: '5/1h', exempt: ['quietHours', 'gap'] };
    const { run } = await openWithLimits({
      ...{ timezone: 'UTC', quietHours: [{ from: '21:00', until: '07:00' }] },
      categories: { emergency, messages: { rules: '5/1m,50/1h', minGap: '10s' } },
    });
    const text = await outputOf(run('show', ID));
    expect(text).toContain('           messages: 5/1m, 50/1h, gap 10s; from LIMITS_FILE\n');
    expect(text).toContain('emergency: 5/1h, no gap, exempt from the overall gap and quiet hours; from LIMITS_FILE');
    expect(text).toContain('quiet      21:00-07:00, UTC; from LIMITS_FILE');
    await outputOf(run('quiet', ID, '--none'));
    expect(await outputOf(run('show', ID))).toContain('quiet      none; stored');
  });

  test('shows the limits of the workers that are alive, and says how many have others', async () => {
    const { run, prefix } = openQueue();
    const policy = { rules: [{ max: 7, perMs: HOUR }], minGapMs: 9_000 };
    const categories = { news: { rules: [{ max: 1, perMs: HOUR }], minGapMs: 0 } };
    await enterWorker(prefix, { id: 'a' }, { policy, categories });
    await enterWorker(prefix, { id: 'b' }, { policy, categories });
    await enterWorker(prefix, { id: 'c' }, { policy: POLICY });
    const text = await outputOf(run('show', ID));
    expect(text).toMatch(/policy +7\/1h, gap 9s; from LIMIT_RULES and LIMIT_MIN_GAP of 2 workers; 1 more has another/);
    expect(text).toMatch(/\n +news: 1\/1h, no gap; from/);
    expect(await jsonOf(run('show', ID, '--json'))).toMatchObject({ policy, limitsOf: { workers: 2, others: 1 } });
  });

  test('shows what no worker has taken yet', async () => {
    const { run, producer } = openQueue();
    for (const id of ['msg-1', '2', 'msg-3']) {
      await producer.enqueue(makeNotification({ id, recipientId: 'teacher-42' }));
    }
    await producer.enqueue(makeNotification({ id: 'msg-4', recipientId: 'teacher-7' }));
    const { notTaken } = await jsonOf<{ notTaken: { found: { id: string }[] } }>(run('show', 'teacher-42', '--json'));
    expect(notTaken).toMatchObject({ lookedAt: 4, of: 4 });
    expect(notTaken.found.map(({ id }) => id)).toEqual(['msg-1', '2', 'msg-3']);
    expect(await outputOf(run('show', 'teacher-42'))).toMatch(/\nnow .* not taken yet .* 2\n/);
    expect(await outputOf(run('show', 'teacher-8'))).toContain('Nothing is stored');
  });

  test('says what those wait for that are delayed without a slot', async () => {
    const { run, producer, prefix } = openQueue();
    const queue = new Queue(QUEUE, { connection: connectRedis(), prefix });
    onTestFinished(() => queue.close());
    for (const id of ['later', 'tried', 'held']) {
      await producer.enqueue(makeNotification({ id, recipientId: ID, sendAfter: Date.now() + HOUR }));
    }
    await (await queue.getJob('tried'))?.updateProgress({ tries: 1 });
    await (await queue.getJob('held'))?.updateProgress({ tries: 1, heldSince: Date.now() });
    const { delayed } = await jsonOf<{ delayed: { id: string; waitsFor: string }[] }>(run('show', ID, '--json'));
    const waits = Object.fromEntries(delayed.map(({ id, waitsFor }) => [id, waitsFor]));
    expect(waits).toEqual({ later: 'sendAfter', tried: 'retry', held: 'provider' });
  });

  test('says of an alert that hangs at its provider that it is being sent', async () => {
    const { run, producer, limiter, prefix } = openQueue({ ...POLICY, minGapMs: 0 });
    const answer = Promise.withResolvers<object>();
    const worker = new Worker(QUEUE, () => answer.promise, { connection: connectRedis(), prefix, drainDelay: 1 });
    onTestFinished(async () => {
      answer.resolve({ outcome: 'delivered' });
      await worker.close();
    });
    await askFor(limiter, ['msg-0/0', 'msg-1/0']);
    await producer.enqueue(makeNotification({ id: 'msg-1', recipientId: 'teacher-42' }));
    const shown = await waitFor(async () => {
      const found = await jsonOf<Inspection & { sending: { id: string; at: number }[] }>(
        run('show', 'teacher-42', '--json'),
      );
      expect(found.sending).toHaveLength(1);
      return found;
    });
    expect(shown.sending).toMatchObject([{ id: 'msg-1', at: shown.sent[1]?.at }]);
    expect(await outputOf(run('show', 'teacher-42'))).toMatch(/\nnow .* being sent .* msg-1\n$/);
  });
});

describe('quiet', () => {
  test('reads several quiet times from a file, moves what waits, and is shown', async () => {
    const { limiter, run } = openBench();
    const hour = (at: number) => new Date(Date.now() + at * HOUR).toISOString().slice(11, 16);
    const hours = {
      timezone: 'UTC',
      quietHours: [
        { from: hour(-1), until: hour(1) },
        { from: hour(3), until: hour(4) },
      ],
    };
    const file = join(await temporaryFolder(), 'hours.json');
    await writeFile(file, JSON.stringify(hours));
    await askFor(limiter, ['a/0', 'b/0']);
    const answer = await jsonOf(run('quiet', ID, '--file', file, '--json'));
    expect(answer).toMatchObject({ recipientId: ID, quiet: { hours, source: 'stored' }, waiting: 1, moved: 1 });
    const [waiting] = (await limiter.inspect(ID)).reserved;
    expect(waiting).toMatchObject({ id: 'b/0', rule: 'quiet', at: (answer['quiet'] as { until: number }).until });
    expect(await outputOf(run('show', ID))).toMatch(/; stored; quiet now, until .*\n[^]*next free .*, by quiet/);
  });
});

test('takes any recipient that a notification may have', async () => {
  const { run } = openBench();
  const id = '--Übung {学校} "🏫"';
  expect(await outputOf(run('block', '--for', '1h', '--reason', 'a', '--', id))).toContain(`${id} is blocked until`);
  expect(await outputOf(run('show', '--', id))).toContain('block      until');
});

test('shows a recipient that an earlier version took, and this one refuses', async () => {
  const { run } = openBench();
  expect(await outputOf(run('show', '..'))).toContain('..');
});

// Reported without asking Redis. What is wrong with each field is held by test/operations/catalogue.test.ts.
test.each([
  [[], 'Usage: recipient'],
  [['look', ID], "unknown command 'look'"],
  [['show'], "missing required argument 'id'"],
  [['show', 'a\nb'], 'ID: expected 1 to 256 printable characters, found "a\\nb"'],
  [['block', '.', '--for', '2h', '--reason', 'a'], 'ID: expected another text than . and .., which no URL can name'],
  [['block', ID], '--for: expected --for or --until, found neither'],
  [['limit', ID], '--rules: expected --rules, --min-gap or --clear, found none of them'],
  [['limit', ID, '--clear', '--rules', '5/1m'], '--clear: expected nothing beside it, found --rules'],
  [['note', ID], 'TEXT: expected'],
  [['quiet', ID, '--file', 'x.json', '--none'], '--file: expected nothing beside it, found --none'],
  [
    ['quiet', ID, '--file', '/nowhere.json'],
    '--file: expected a file that can be read, found "/nowhere.json" (ENOENT)',
  ],
  [
    ['quiet', ID, '--file', 'package.json'],
    '--file: timezone: expected a time zone such as Europe/Paris, found nothing',
  ],
  [['quiet', ID, '--file', 'README.md'], '--file: expected JSON, found text that is not JSON'],
])('%j is bad usage', async (args, message) => {
  const nobody = { ...UNSET, REDIS_URL: 'redis://127.0.0.1:1' };
  const { code, stderr, stdout } = await recipient(nobody, ...args);
  expect(stderr).toContain(message);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});

test('after what docs/upgrading.md says, nothing is left of a person that an operator stored', async () => {
  const { run, env } = openBench();
  const tag = env['QUEUE_PREFIX']?.replaceAll(/[{}]/g, '') ?? '';
  const left = () => connectRedis().keys(`*${tag}*${ID}*`);
  await outputOf(run('limit', ID, '--rules', '1/1h'));
  await outputOf(run('block', ID, '--for', '1h', '--reason', 'on leave'));
  await outputOf(run('quiet', ID, '--timezone', 'Europe/Paris', '--from', '21:00', '--until', '07:00'));
  await outputOf(run('note', ID, 'asked for fewer'));
  expect(await left()).not.toEqual([]);
  const page = await readFile('docs/upgrading.md', 'utf8');
  const commands = [...page.matchAll(/`npx pushpacer recipient (\w+) ID( --clear)?`/g)];
  for (const [, name = '', flag] of commands) await outputOf(run(name, ID, ...(flag === undefined ? [] : ['--clear'])));
  expect(await left()).toEqual([]);
});
