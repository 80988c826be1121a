import { userInfo } from 'node:os';
import { Worker } from 'bullmq';
import { describe, expect, onTestFinished, test } from 'vitest';
import { main } from '../../scripts/recipient.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { type Inspection, type Limiter, apartOptions } from '../../src/limiter/limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { jsonOf, outputOf, runMain, type CommandExit } from '../support/command.ts';
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
const BACKGROUND_RULES = [{ max: 3, perMs: HOUR }];
const LIVE_ACTIVITY_RULES = [{ max: 1, perMs: 30_000 }];

interface Bench {
  readonly limiter: Limiter;
  readonly background: Limiter;
  readonly liveActivity: Limiter;
  readonly run: (...args: string[]) => Promise<CommandExit>;
  readonly env: Env;
}

/** The limiters as the workers have them, and the command at the same keys. */
function openBench(policy = POLICY): Bench {
  const prefix = testPrefix();
  const env = { ...UNSET, ...redisEnv(), QUEUE_PREFIX: prefix, LIMIT_LIVE_ACTIVITY_RULES: '1/30s' };
  const redis = connectRedis();
  return {
    limiter: createRedisLimiter({ redis, policy, prefix }),
    background: createRedisLimiter({ redis, ...apartOptions('background', BACKGROUND_RULES, prefix) }),
    liveActivity: createRedisLimiter({ redis, ...apartOptions('liveactivity', LIVE_ACTIVITY_RULES, prefix) }),
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
    const text = await outputOf(run('show', 'teacher-42'));
    expect(text).toContain('policy     5/1m, gap 4s; stored, without an end\n');
    expect(text).toMatch(/\nblock {6}until .* \(in 1h\): parents' evening\n/);
    expect(text).toMatch(/\nsent {7}1 within 1m, the last .* ago\n/);
    expect(text).toMatch(/\nin 1h .* no job .* b\n/);
  });

  test('shows background pushes and Live Activities apart from alerts, where there are any', async () => {
    const { limiter, background, liveActivity, run } = openBench();
    await askFor(limiter, ['a/0']);
    const before = await jsonOf(run('show', 'teacher-42', '--json'));
    expect(before).not.toHaveProperty('background');
    expect(before).not.toHaveProperty('liveActivity');
    expect(await outputOf(run('show', 'teacher-42'))).not.toMatch(/background|live activity/);
    await askFor(background, ['p/0', 'q/0', 'r/0', 's/0']);
    await askFor(liveActivity, ['l/0', 'm/0']);
    const shown = await jsonOf<Inspection & Record<'background' | 'liveActivity', Inspection>>(
      run('show', 'teacher-42', '--json'),
    );
    const at = expect.any(Number) as number;
    expect([shown.sent.length, shown.reserved.length]).toEqual([1, 0]);
    expect(shown.background).toEqual({
      rules: BACKGROUND_RULES,
      sent: [{ at }, { at }, { at }],
      reserved: [{ at, id: 's/0', rule: '3/1h', before: 0 }],
    });
    expect(shown.liveActivity).toEqual({
      rules: LIVE_ACTIVITY_RULES,
      sent: [{ at }],
      reserved: [{ at, id: 'm/0', rule: '1/30s', before: 0 }],
    });
    const text = await outputOf(run('show', 'teacher-42'));
    expect(text).toMatch(
      /\nbackground {5}sent 3 within 1h, the last .* ago\n {15}reserved 1, in (1h|59m.*) \(3\/1h\)\n/,
    );
    expect(text).toMatch(/\nlive activity {2}sent 1 within 30s, the last .* ago\n {15}reserved 1, in .*\n/);
    expect(text).toMatch(/ no job \(live activity\) .* m\n.* no job \(background\) .* s\n$/);
  });

  test('shows the limits per category of the file that the workers have', async () => {
    const { env } = openBench();
    const text = await outputOf(recipient({ ...env, LIMITS_FILE: 'examples/limits.json' }, 'show', 'teacher-42'));
    expect(text).toContain('           messages: 5/1m, 50/1h, gap 10s; from LIMITS_FILE\n');
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
    const text = await outputOf(run('show', 'teacher-42'));
    expect(text).not.toContain('Nothing is stored');
    expect(text).toContain('\nwaiting    3 not taken yet\n');
    expect(text).toMatch(/\nnow .* not taken yet .* 2\n/);
    expect(await outputOf(run('show', 'teacher-8'))).toContain('Nothing is stored');
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
    const text = await outputOf(run('show', 'teacher-42'));
    expect(text).toMatch(/\nsent {7}1 within 1m, the last .* ago\n/);
    expect(text).toMatch(/\nsending {4}1, for .*\n/);
    expect(text).toMatch(/\nnow .* being sent .* msg-1\n$/);
  });
});

describe('block', () => {
  test('moves what waits behind its end, and says so', async () => {
    const { limiter, run } = openBench();
    await askFor(limiter, ['a/0', 'b/0', 'c/0']);
    const text = await outputOf(run('block', 'teacher-42', '--for', '2h', '--reason', "parents' evening"));
    expect(text).toMatch(
      /^teacher-42 is blocked until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(in 2h\): parents' evening\n2 notifications wait, the last until .* \(in 2h\)\n$/,
    );
    const { block, reserved, now } = await limiter.inspect('teacher-42');
    expect(block?.reason).toBe("parents' evening");
    expect(block?.until).toBeGreaterThan(now + 2 * HOUR - 60_000);
    expect(reserved.map(({ id, at }) => [id, at >= (block?.until ?? Infinity)])).toEqual([
      ['b/0', true],
      ['c/0', true],
    ]);
  });

  test.each([
    ['background', ['p/0', 'q/0', 'r/0', 's/0']],
    ['liveActivity', ['l/0', 'm/0']],
  ] as const)('delays what waits in the limiter of %s too, and unblock lets it go', async (kind, ids) => {
    const { limiter, [kind]: apart, run } = openBench();
    await askFor(limiter, ['a/0', 'b/0']);
    await askFor(apart, ids);
    const blocked = await jsonOf(run('block', 'teacher-42', '--for', '2h', '--reason', 'a', '--json'));
    expect(blocked).toMatchObject({ waiting: 2, moved: 2 });
    const { block, reserved, now } = await apart.inspect('teacher-42');
    expect(block).toEqual({ until: blocked['until'], reason: 'a' });
    expect(reserved.map(({ at }) => at)).toEqual([blocked['until']]);
    expect(blocked['lastAt']).toBeGreaterThan(now + HOUR);

    const unblocked = await jsonOf(run('unblock', 'teacher-42', '--json'));
    expect(unblocked).toMatchObject({ wasBlocked: true, waiting: 2, moved: 2 });
    expect((await apart.inspect('teacher-42')).block).toBeUndefined();
    await apart.block('teacher-42', { until: Date.now() + HOUR, reason: 'only there' });
    expect(await jsonOf(run('unblock', 'teacher-42', '--json'))).toMatchObject({ wasBlocked: true });
  });

  test('takes an instant, and answers in JSON', async () => {
    const { limiter, run } = openBench();
    const until = Math.ceil(Date.now() / 1_000) * 1_000 + HOUR;
    const time = new Date(until).toISOString();
    expect(await jsonOf(run('block', 'teacher-42', '--until', time, '--reason', 'a', '--json'))).toEqual({
      ...{ recipientId: 'teacher-42', until, reason: 'a', waiting: 0, moved: 0 },
    });
    expect((await limiter.inspect('teacher-42')).block).toEqual({ until, reason: 'a' });
  });

  test('is undone by unblock, which moves what waits to its earliest slot and says until when', async () => {
    const { limiter, run } = openBench();
    await askFor(limiter, ['a/0', 'b/0']);
    await limiter.block('teacher-42', { until: Date.now() + HOUR, reason: 'a' });
    expect(await outputOf(run('unblock', 'teacher-42'))).toMatch(
      /^teacher-42 is not blocked any more; 1 notification waits, until .* \(in \d\.?\d?s\)\n$/,
    );
    expect((await limiter.inspect('teacher-42')).block).toBeUndefined();
    expect(await jsonOf(run('unblock', 'teacher-42', '--json'))).toMatchObject({ wasBlocked: false, waiting: 1 });
    expect(await outputOf(run('unblock', 'teacher-7'))).toBe('teacher-7 was not blocked\n');
  });
});

describe('limit', () => {
  test('stores limits with an end, and says what it stored', async () => {
    const { limiter, run } = openBench();
    const text = await outputOf(run('limit', 'teacher-42', '--rules', '5/1m,50/1h', '--min-gap', '10s', '--for', '7d'));
    expect(text).toMatch(/^teacher-42 is limited to 5\/1m, 50\/1h, gap 10s until .*Z \(in 7d\)\n$/);
    const { policy, source, policyUntil, now } = await limiter.inspect('teacher-42');
    expect({ policy, source }).toEqual({
      source: 'stored',
      policy: {
        rules: [
          { max: 5, perMs: 60_000 },
          { max: 50, perMs: HOUR },
        ],
        minGapMs: 10_000,
      },
    });
    expect(policyUntil).toBeGreaterThan(now + 6 * 24 * HOUR);
  });

  test('keeps what is not given as the environment has it', async () => {
    const { limiter, run } = openBench();
    expect(await outputOf(run('limit', 'teacher-42', '--rules', '5/1m'))).toBe(
      'teacher-42 is limited to 5/1m, gap 3s, without an end\n',
    );
    expect(await outputOf(run('limit', 'teacher-42', '--min-gap', '0'))).toContain('limited to 10/1m, no gap, without');
    expect(await jsonOf(run('limit', 'teacher-42', '--rules', 'none', '--json'))).toEqual({
      ...{ recipientId: 'teacher-42', policy: { rules: [], minGapMs: 3_000 }, source: 'stored', waiting: 0, moved: 0 },
    });
    expect((await limiter.inspect('teacher-42')).policyUntil).toBeUndefined();
  });

  test('is forgotten with --clear', async () => {
    const { limiter, run } = openBench();
    await limiter.limit('teacher-42', { rules: [], minGapMs: 0 });
    expect(await outputOf(run('limit', 'teacher-42', '--clear'))).toBe(
      'teacher-42 has no limits of its own any more; in force is 10/1m, gap 3s\n',
    );
    expect(await outputOf(run('limit', 'teacher-42', '--clear'))).toContain('teacher-42 had no limits of its own; ');
    expect((await limiter.inspect('teacher-42')).source).toBe('limiter');
  });

  test('says until when notifications wait that it moved', async () => {
    const { limiter, run } = openBench();
    await askFor(limiter, ['a/0', 'b/0']);
    const text = await outputOf(run('limit', 'teacher-42', '--rules', '1/1h'));
    expect(text).toMatch(/\n1 notification waits, until .* \(in (1h|59m .*)\)\n$/);
  });
});

test('reset forgets what was sent, and neither what waits, nor limits, nor block', async () => {
  const { limiter, run } = openBench();
  await askFor(limiter, ['a/0', 'b/0', 'c/0']);
  await limiter.limit('teacher-42', POLICY);
  await limiter.block('teacher-42', { until: Date.now() + HOUR, reason: 'a' });
  expect(await outputOf(run('reset', 'teacher-42'))).toMatch(
    /^forgot 1 sent to teacher-42; 2 notifications wait, the last until .* \(in 1h( 0m)?|59m .*\)\n$/,
  );
  expect(await limiter.inspect('teacher-42')).toMatchObject({
    ...{ sent: [], reserved: [{ id: 'b/0' }, { id: 'c/0' }], source: 'stored' },
  });
  expect((await limiter.inspect('teacher-42')).block).toBeDefined();
  expect(await outputOf(run('reset', 'teacher-7'))).toBe('nothing was sent to teacher-7 lately\n');
  expect(await jsonOf(run('reset', 'teacher-7', '--json'))).toEqual({
    ...{ recipientId: 'teacher-7', wasKnown: false, sent: 0, waiting: 0, moved: 0 },
  });
});

test('what was done is in the audit, with the user of the machine', async () => {
  const { run, prefix } = openQueue();
  await run('block', 'teacher-42', '--for', '1h', '--reason', 'exam');
  await run('limit', 'teacher-42', '--rules', '5/1m');
  await run('limit', 'teacher-42', '--clear');
  await run('block', 'teacher-42', '--until', '2020-01-01T00:00:00Z', '--reason', 'refused');
  const who = `${userInfo().username} (terminal)`;
  expect(await createAudit(connectRedis(), prefix).read({ count: 9 })).toMatchObject([
    { who, action: 'recipient unlimit', on: 'teacher-42', facts: { moved: 0 } },
    { who, action: 'recipient limit', on: 'teacher-42', facts: { rules: '5/1m', minGap: '3s', moved: 0 } },
    { who, action: 'recipient block', on: 'teacher-42', facts: { reason: 'exam', moved: 0 } },
  ]);
});

test('takes any recipient that a notification may have', async () => {
  const { run } = openBench();
  const id = '--Übung {学校} "🏫"';
  expect(await outputOf(run('block', '--for', '1h', '--reason', 'a', '--', id))).toContain(`${id} is blocked until`);
  expect(await outputOf(run('show', '--', id))).toContain('block      until');
});

test('Redis away is reported at once, without the password', async () => {
  for (const name of ['show', 'unblock', 'reset']) {
    const env = { ...UNSET, REDIS_URL: 'redis://:s3cret@127.0.0.1:1', QUEUE_PREFIX: '{unused}' };
    const { code, stderr, stdout } = await recipient(env, name, 'teacher-42');
    expect(stderr).toMatch(/^error: Redis is away: 127\.0\.0\.1:1 \(.+\)\n$/);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  }
});

test('a bad environment is reported as by the worker', async () => {
  const { code, stderr } = await recipient({ ...UNSET, LIMIT_RULES: 'ten' }, 'show', 'teacher-42');
  expect(stderr).toContain('error: bad environment: LIMIT_RULES: expected');
  expect(code).toBe(1);
});

describe('bad usage', () => {
  const ID = 'teacher-42';
  test.each([
    [[], 'Usage: recipient'],
    [['look', ID], "unknown command 'look'"],
    [['show'], "missing required argument 'id'"],
    [['show', ''], 'ID: expected 1 to 256 printable characters, found ""'],
    [['show', 'a\nb'], 'ID: expected 1 to 256 printable characters, found "a\\nb"'],
    [['block', ID, '--for', '2h'], "required option '--reason <text>' not specified"],
    [['block', ID, '--reason', 'a'], '--for: expected --for or --until, found neither'],
    [['block', ID, '--reason', '', '--for', '2h'], '--reason: expected 1 to 500 printable characters, found ""'],
    [['block', ID, '--reason', 'a', '--for', 'soon'], '--for: expected a duration such as 250ms, 3s, 1m, 2h or 1d'],
    [['block', ID, '--reason', 'a', '--for', '367d'], 'at most 366d, found "367d"'],
    [['block', ID, '--reason', 'a', '--for', '1h', '--until', '1999999999999'], '--until: expected --until or --for'],
    [['block', ID, '--reason', 'a', '--until', '2026-02-30T00:00:00Z'], '--until: expected an RFC 3339 date-time or'],
    [['limit', ID], '--rules: expected --rules, --min-gap or --clear, found none of them'],
    [['limit', ID, '--rules', '5/1m,0/1h'], '--rules[1].max: expected an integer from 1 to 100000, found 0'],
    [['limit', ID, '--min-gap', '32d'], '--min-gap: expected 0 or a duration such as 250ms, 3s, 1m, 2h or 1d, at most'],
    [['limit', ID, '--clear', '--rules', '5/1m'], '--clear: expected nothing beside it, found --rules'],
  ])('%j', async (args, message) => {
    const nobody = { ...UNSET, REDIS_URL: 'redis://127.0.0.1:1' }; // reported without asking Redis
    const { code, stderr, stdout } = await recipient(nobody, ...args);
    expect(stderr).toContain(message);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });

  test.each([
    ['an end that has passed', '2020-01-01T00:00:00Z'],
    ['an end too far ahead', new Date(Date.now() + 367 * 24 * HOUR).toISOString()],
  ])('%s', async (_, until) => {
    const { run } = openBench();
    const { code, stderr } = await run('block', ID, '--reason', 'a', '--until', until);
    expect(stderr).toMatch(/^error: --until: expected an instant ahead of now, .* by 366d at most, found "/);
    expect(code).toBe(2);
  });
});

test.each(['show', 'block', 'unblock', 'limit', 'reset'])('%s has --help', async (name) => {
  const text = await outputOf(recipient(UNSET, name, '--help'));
  expect(text).toContain(`Usage: recipient ${name} [options] <id>`);
  expect(text).toContain('--json');
});
