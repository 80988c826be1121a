import type { Queue } from 'bullmq';
import { expect, test } from 'vitest';
import { main } from '../../scripts/dead-letters.ts';
import type { DeadLetter } from '../../src/notification/outcome.ts';
import { shardPrefixes } from '../../src/queue/names.ts';
import { addDead, deadLetter, manyLetters } from '../dead-letters/letters.ts';
import { notification, openQueues } from '../queue/support.ts';
import { runMain, type CommandExit } from '../support/command.ts';
import { queueEnv, testPrefix } from '../support/redis.ts';

const MINUTE = 60_000;

interface Listed {
  readonly total: number;
  readonly matched: number;
  readonly byReason: Readonly<Record<string, number>>;
  readonly deadLetters: readonly {
    readonly id: string;
    readonly platforms?: readonly string[];
    readonly apps?: readonly string[];
    readonly notification: { readonly id?: string };
  }[];
}

function run(
  prefix: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandExit> {
  return runMain(main, args, { ...queueEnv(prefix), ...env });
}

async function list(prefix: string, args: readonly string[] = [], env = {}): Promise<Listed> {
  const exit = await run(prefix, [...args, '--json'], env);
  expect(exit).toMatchObject({ code: 0, stderr: '' });
  expect(exit.stdout.trimEnd().split('\n')).toHaveLength(1);
  return JSON.parse(exit.stdout) as Listed;
}

const idsOf = ({ deadLetters }: Listed) => deadLetters.map(({ id }) => id);

/** Three that died of different reasons, 30, 20 and 5 minutes ago. */
async function addThree(deadQueue: Queue): Promise<void> {
  const now = Date.now();
  await addDead(deadQueue, {
    first: deadLetter('first', { deadAt: now - 30 * MINUTE, reason: 'stalled', message: 'job stalled' }),
    second: deadLetter('second', {
      deadAt: now - 20 * MINUTE - 500,
      reason: 'attempts-exhausted',
      message: 'reset: socket hang up < read ECONNRESET',
      attempts: [
        { at: now - 22 * MINUTE, device: 'apns#0', error: 'InternalServerError' },
        { at: now - 20 * MINUTE, device: 'apns#0', error: 'reset: socket hang up < read ECONNRESET' },
      ],
      generation: 1,
    }),
    third: deadLetter('third', { deadAt: now - 5 * MINUTE - 500, reason: 'stalled', message: 'job stalled' }),
  });
}

test('a table, the newest last, and how many died of what', async () => {
  const { prefix, deadQueue } = openQueues();
  await addThree(deadQueue);
  const { code, stdout, stderr } = await run(prefix, []);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const [head, first, second, third, ...rest] = stdout.split('\n');
  expect(head).toMatch(/^id +reason +died +gen +tries +platform +recipient +message$/);
  expect(first).toMatch(/^first +stalled +[\d-]+T[\d:]{8}Z +30m ago +0 +0 +apns +recipient-first +job stalled$/);
  expect(second).toMatch(
    /^second +attempts-exhausted .+ 20m ago +1 +2 +apns +recipient-second +reset: socket hang up </,
  );
  expect(third).toMatch(/^third .+ 5m ago /);
  expect(rest).toEqual(['', '3 dead letters (2 stalled, 1 attempts-exhausted)', '']);
});

test('the flags choose', async () => {
  const { prefix, deadQueue } = openQueues();
  await addThree(deadQueue);
  expect(idsOf(await list(prefix, ['--reason', 'stalled']))).toEqual(['first', 'third']);
  expect(idsOf(await list(prefix, ['--recipient', 'recipient-second']))).toEqual(['second']);
  expect(idsOf(await list(prefix, ['--id', 'third']))).toEqual(['third']);
  expect(idsOf(await list(prefix, ['--since', '25m', '--until', '10m']))).toEqual(['second']);
  const newest = await list(prefix, ['--limit', '1']);
  expect(newest).toMatchObject({ total: 3, matched: 3, byReason: { stalled: 2, 'attempts-exhausted': 1 } });
  expect(idsOf(newest)).toEqual(['third']);
  expect((await run(prefix, ['--limit', '1'])).stdout).toMatch(
    /^… and 2 more, older ones; .+\nid .+\nthird .+\n\n3 dead/,
  );
  expect((await run(prefix, ['--id', 'none'])).stdout).toBe('0 of 3 dead letters\n');
});

/** What lies among the dead letters after years: of several devices and apps, with other ids, and of other programs. */
async function addOdd(deadQueue: Queue): Promise<void> {
  const [apns, fcm, webpush] = [
    { platform: 'apns', token: 'ab'.repeat(32), app: 'teacher' },
    { platform: 'fcm', token: 'some-token', app: 'parent' },
    { platform: 'webpush', endpoint: 'https://push.example/x', keys: {} },
  ] as const;
  const of = (fields: object) => ({ notification: { ...notification(), ...fields } }) as Partial<DeadLetter>;
  const both = of({ devices: [apns, fcm], category: 'messages' });
  const attempts = ['apns#0', 'fcm#1', 'apns#0', 'fcm#1', 'fcm#1'].map((device, at) => ({ at, device, error: 'no' }));
  const hostile = { devices: [{ platform: 'sms' }, null], category: 7, recipientId: '\u001b[31m\u009b\u202ered' };
  await addDead(deadQueue, {
    both: deadLetter('both', { ...both, attempts }),
    half: deadLetter('half', { ...both, delivered: ['apns#0'], attempts: [{ at: 1, error: 'TypeError' }] }),
    web: deadLetter('web', of({ devices: [webpush], category: 'trips' })),
    '#17': deadLetter('msg-1', of({ id: 'msg-1' })),
    '#18': deadLetter('', { ...of({ id: 8841 }), reason: 'invalid' }),
    '#19': deadLetter('', of({ id: undefined })),
    '#20#r1': deadLetter('', { ...of({ id: ['x'] }), reason: 'invalid' }),
    odd: deadLetter('odd', { notification: hostile, reason: 'invalid', message: 'line\nbreak' }),
    text: deadLetter('', { notification: 'text', reason: 'invalid', deadAt: 1e300 }),
    foreign: { foreign: true },
  });
}

test('app, platform and category choose, of the devices that were not alerted', async () => {
  const { prefix, deadQueue } = openQueues();
  await addOdd(deadQueue);
  const chosen = async (...args: string[]) => idsOf(await list(prefix, args));
  expect(await chosen('--app', 'teacher')).toEqual(['both']);
  expect(await chosen('--app', 'parent', '--platform', 'fcm')).toEqual(['both', 'half']);
  expect(await chosen('--app', 'parent', '--platform', 'apns')).toEqual([]);
  expect(await chosen('--app', '', '--platform', 'webpush')).toEqual(['web']);
  expect(await chosen('--category', 'trips')).toEqual(['web']);
  expect(await chosen('--id', '8841')).toEqual(['#18']);
  expect((await run(prefix, ['--platform', 'sms'])).code).toBe(2);
});

test('a table has what there is of each, and no terminal codes of others', async () => {
  const { prefix, deadQueue } = openQueues();
  await addOdd(deadQueue);
  const [head = '', ...rows] = (await run(prefix, [])).stdout.split('\n');
  expect(head).toMatch(/ tries +platform +app +category +recipient /);
  const line = (id: string) => rows.find((row) => row.startsWith(`${id} `)) ?? '';
  // Tries are those of one device, however many devices there are.
  expect(line('both')).toMatch(/ 3 +apns,fcm +parent,teacher +messages +teacher-42 /);
  expect(line('half')).toMatch(/ 1 +fcm +parent +messages /);
  expect(line('web')).toMatch(/ 0 +webpush +- +trips /);
  expect(line('odd')).toMatch(/ 0 +- +- +- +\\u\{1b\}\[31m\\u\{9b\}\\u\{202e\}red +line\\u\{a\}break$/);
  // An id that a producer gave the job alone is not shown as the notification's.
  const names = rows.map((row) => row.split('  ')[0]);
  expect(names).toEqual(expect.arrayContaining(['msg-1 (job #17)', '8841 (job #18)', '#19', '- (job #20#r1)']));
});

test('JSON has the same, with the terminal codes of others escaped', async () => {
  const { prefix, deadQueue } = openQueues();
  await addOdd(deadQueue);
  const { deadLetters } = await list(prefix);
  expect(deadLetters.slice(0, 3).map(({ platforms, apps }) => ({ platforms, apps }))).toEqual([
    { platforms: ['apns', 'fcm'], apps: ['parent', 'teacher'] },
    { platforms: ['fcm'], apps: ['parent'] },
    { platforms: ['webpush'] },
  ]);
  expect(deadLetters.slice(3, 7).map((each) => each.notification.id)).toEqual(['msg-1', '8841', '19', undefined]);
  for (const limit of [[], ['--limit', '3']]) {
    const { stdout } = await run(prefix, ['--json', ...limit]);
    expect(stdout).toContain('\\u001b[31m\\u009b\\u202ered');
  }
});

test('each can be shown, whatever it is', async () => {
  const { prefix, deadQueue } = openQueues();
  await addOdd(deadQueue);
  for (const id of ['both', 'msg-1', '#19', 'text', 'odd', 'foreign']) {
    expect(await run(prefix, ['show', id])).toMatchObject({ code: 0, stderr: '' });
  }
  expect((await run(prefix, ['show', 'both'])).stdout).toMatch(
    /^platform +apns, fcm\napp +parent, teacher\ncategory +messages$/m,
  );
  expect((await run(prefix, ['show', 'msg-1'])).stdout).toMatch(/^msg-1 \(job #17\)\n/);
  expect((await run(prefix, ['show', 'odd'])).stdout).toMatch(/^devices +\?#0, \?#1$/m);
});

test('many are printed with --json, and 50 in a table', async () => {
  const { prefix, deadQueue } = openQueues();
  const letters = manyLetters(320);
  await addDead(deadQueue, letters);
  const all = await list(prefix);
  expect(all).toMatchObject({ total: 320, matched: 320, byReason: { rejected: 320 } });
  expect(idsOf(all)).toEqual(Object.keys(letters));
  const lines = (await run(prefix, [])).stdout.split('\n');
  expect(lines[0]).toMatch(/^… and 270 more/);
  expect(lines.filter((line) => line.startsWith('n'))).toHaveLength(50);
});

test('shows one in full, and neither token nor text nor data', async () => {
  const { prefix, deadQueue } = openQueues();
  const secrets = { token: 'ab'.repeat(32), fcm: 'fcm-secret-token', body: 'SECRET-BODY', data: 'SECRET-DATA' };
  const expiresAt = '2026-11-21T18:00:00Z';
  await addDead(deadQueue, {
    'msg-1#d1': deadLetter('msg-1', {
      reason: 'stalled',
      message: 'job stalled more than allowable limit',
      attempts: [{ at: Date.UTC(2026, 10, 21, 12), device: 'fcm#1', error: 'QUOTA_EXCEEDED' }],
      delivered: ['apns#0'],
      notification: notification({
        id: 'msg-1',
        devices: [
          { platform: 'apns', token: secrets.token },
          { platform: 'fcm', token: secrets.fcm },
        ],
        alert: { body: secrets.body },
        data: { key: secrets.data },
        category: 'messages',
        priority: 'high',
        expiresAt,
      }),
    }),
  });
  const asText = await run(prefix, ['show', 'msg-1']);
  const asJson = await run(prefix, ['show', 'msg-1#d1', '--json']);
  const listed = await run(prefix, ['--json']);
  for (const { code, stdout, stderr } of [asText, asJson, listed]) {
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const secret of Object.values(secrets)) expect(stdout).not.toContain(secret);
  }
  for (const line of [
    /^reason +stalled$/m,
    /^message +job stalled more than allowable limit$/m,
    /^generation +0, never replayed$/m,
    /^recipient +teacher-42$/m,
    /^priority +high$/m,
    /^expires +2026-11-21T18:00:00Z/m,
    /^devices +apns#0 \(alerted\), fcm#1$/m,
    /^sizes +alert \d+, data \d+, all \d+ bytes$/m,
    /^2026-11-21T12:00:00Z .+ fcm#1 +QUOTA_EXCEEDED$/m,
  ]) {
    expect(asText.stdout).toMatch(line);
  }
  expect(JSON.parse(asJson.stdout)).toMatchObject({
    id: 'msg-1#d1',
    reason: 'stalled',
    delivered: ['apns#0'],
    attempts: [{ device: 'fcm#1', error: 'QUOTA_EXCEEDED' }],
    notification: { id: 'msg-1', recipientId: 'teacher-42', expiresAt: Date.parse(expiresAt), sizes: { alert: 22 } },
  });
  expect(await run(prefix, ['show', 'never'])).toMatchObject({
    code: 1,
    stderr: 'error: no dead letter has the id "never"\n',
  });
});

test('shows all dead letters of a notification by its id, also if one of them has the same id', async () => {
  const { prefix, deadQueue } = openQueues();
  await addDead(deadQueue, {
    'msg-1': deadLetter('msg-1', { message: 'the first time' }),
    'msg-1#d1': deadLetter('msg-1', { message: 'the second time', generation: 1 }),
    'msg-2': deadLetter('another', { message: 'a job with an id of its own' }),
  });
  const json = await run(prefix, ['show', 'msg-1', '--json']);
  expect(idsOf(JSON.parse(json.stdout) as Listed)).toEqual(['msg-1', 'msg-1#d1']);
  const { stdout } = await run(prefix, ['show', 'msg-1']);
  expect(stdout).toMatch(/the first time[^]*the second time/);
  for (const id of ['msg-1#d1', 'msg-2'])
    expect(JSON.parse((await run(prefix, ['show', id, '--json'])).stdout)).toMatchObject({ id });
});

test('of several shards, in the order of their deaths', async () => {
  const prefix = testPrefix();
  const env = { QUEUE_SHARDS: '3' };
  const now = Date.now();
  for (const [shard, shardPrefix] of shardPrefixes(prefix, 3).entries()) {
    const letters = [0, 1].map((n) => [`${n}-${shard}`, deadLetter('x', { deadAt: now - 10_000 + 100 * n + shard })]);
    await addDead(openQueues(shardPrefix).deadQueue, Object.fromEntries(letters) as Record<string, DeadLetter>);
  }
  const all = await list(prefix, [], env);
  expect(all.total).toBe(6);
  expect(idsOf(all)).toEqual(['0-0', '0-1', '0-2', '1-0', '1-1', '1-2']);
  expect(idsOf(await list(prefix, ['--limit', '2'], env))).toEqual(['1-1', '1-2']);
  expect((await run(prefix, ['show', '1-2'], env)).code).toBe(0);
});

test('with none it says so', async () => {
  const prefix = testPrefix();
  expect(await run(prefix, [])).toMatchObject({ code: 0, stdout: 'no dead letters\n' });
  expect(await list(prefix)).toEqual({ deadLetters: [], total: 0, matched: 0, byReason: {} });
});

test.each([[['show']], [['list']], [['--limit', 'all']], [['--since', '1h', '--until', '2h']], [['--rate', '1/s']]])(
  '%j is bad usage',
  async (args) => {
    expect(await run('{unused}', args)).toMatchObject({ code: 2, stdout: '' });
  },
);
