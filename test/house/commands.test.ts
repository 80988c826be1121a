import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { main as chaos } from '../../chaos/chaos.ts';
import { countResult } from '../../demo/counts.ts';
import type { DemoDeadLetter } from '../../demo/queue.ts';
import { COMMANDS, loadCommand, type CommandMain, main as pushpacer } from '../../scripts/support/commands.ts';
import { definitionOf } from '../../src/terminal/command.ts';
import { apartOptions } from '../../src/limiter/limiter.ts';
import { cluster, judged } from '../chaos/facts.ts';
import { addDead, deadLetter } from '../dead-letters/letters.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { layoutKey, shardPrefixes } from '../../src/queue/names.ts';
import { notification, openQueues } from '../queue/support.ts';
import { expectDocumented } from './documented.ts';
import { runMain, type CommandExit } from '../support/command.ts';
import { createRedisLimiter } from '../support/limiters.ts';
import { enterWorker } from '../support/presence.ts';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectRedis, queueEnv } from '../support/redis.ts';

const PAGE = 'docs/commands.md';

async function answerOf(name: string, args: readonly string[], env: Env): Promise<unknown> {
  const exit = await run(name, [...args, '--json'], env);
  expect(exit).toMatchObject({ code: 0, stderr: '' });
  return lastJson(exit.stdout);
}

type Env = Readonly<Record<string, string | undefined>>;

async function run(name: string, args: readonly string[], env: Env = {}): Promise<CommandExit> {
  return runMain(await commandOf(name), args, env);
}

async function commandOf(name: string): Promise<CommandMain> {
  const main = await loadCommand(name);
  if (main === undefined) throw new TypeError(`no command ${name}`);
  return main;
}

/** Each command that reads the environment, and then looks into Redis. */
const AT_REDIS: readonly (readonly [name: string, ...args: readonly string[]])[] = [
  ['enqueue', '--recipient', 't', '--apns', 'abab', '--title', 'T', '--body', 'B'],
  ['status'],
  ['status', 'msg-1'],
  ['why', 'msg-1'],
  ['cancel', '--id', 'msg-1'],
  ['retract', '--id', 'msg-1'],
  ['dead-letters'],
  ['replay', '--all', '--yes'],
  ['discard', '--all', '--yes'],
  ['recipient', 'show', 't'],
  ['recipient', 'unblock', 't'],
  ['recipient', 'reset', 't'],
];

/** One that was sent, and whose retraction waits; and one whose id a retract took. */
async function retracted(prefix: string): Promise<readonly string[]> {
  const { queue } = openQueues(prefix);
  const producer = createProducer({ connection: connectRedis(), prefix });
  onTestFinished(() => producer.close());
  const job = await queue.add('push', notification({ id: 'taken' }), { jobId: 'taken', delay: 60_000 });
  await job.updateProgress({ devices: { 'apns#0': 'delivered' } });
  for (const id of ['taken', 'early']) await producer.retract({ id });
  const [retraction = ''] = (await queue.getJobs(['prioritized'])).flatMap(({ id = '' }) =>
    id.startsWith('retract-') ? [id] : [],
  );
  expect(retraction).not.toBe('');
  return ['taken', 'early', retraction];
}

const lastJson = (stdout: string): unknown => JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');

describe('the JSON of each command is that of the page', () => {
  test('channel', async () => {
    const { prefix } = openQueues();
    const env = { ...(await openSandbox()).env(), ...queueEnv(prefix) };
    const created = (await answerOf('channel', ['create'], env)) as { id: string };
    await expectDocumented('channel create', created);
    await expectDocumented('channel list', await answerOf('channel', ['list'], env));
    await expectDocumented('channel show', await answerOf('channel', ['show', created.id], env));
    await expectDocumented('channel delete', await answerOf('channel', ['delete', created.id, '--yes'], env));
  });

  test('enqueue', async () => {
    const { prefix } = openQueues();
    const file = join(await temporaryFolder(), 'f.ndjson');
    await writeFile(file, JSON.stringify(notification()));
    const one = ['--recipient', 't', '--apns', 'abab', '--title', 'T', '--body', 'B'];
    const answers = [
      await answerOf('enqueue', ['--file', file], queueEnv(prefix)),
      await answerOf('enqueue', one, queueEnv(prefix)),
    ];
    await expectDocumented('enqueue', ...answers);
  });

  test('status', async () => {
    const { prefix, queue, deadQueue } = openQueues();
    const redis = connectRedis();
    const breaker = { service: 'webpush~teacher@push.example', trouble: 'outage', code: 'timeout', since: 1, until: 2 };
    const facts = {
      ...{ inHand: 1, platforms: ['apns'], apps: ['teacher'], appCount: 1, breakers: [breaker] },
      unreachable: [
        { service: 'webpush~teacher@push.example', host: 'push.example:443', cause: 'ENOTFOUND', since: 1 },
      ],
      withoutSlot: { code: 'replicas-missing', since: 1, lastAt: 10_000 },
    };
    await enterWorker(prefix, facts, {
      policy: { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 },
      categories: { messages: { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 0, exempt: ['gap'] } },
      quietHours: { timezone: 'Europe/Paris', quietHours: [{ from: '21:00', until: '07:00', days: ['mon'] }] },
      apartRules: { background: [{ max: 3, perMs: 3_600_000 }], liveactivity: [{ max: 1, perMs: 15_000 }] },
    });
    const one = notification({ id: 'one', category: 'messages', priority: 'high', sendAfter: 1_700_000_000_000 });
    await queue.add('push', { ...one, expiresAt: Date.now() + 60_000 }, { jobId: 'one', priority: 10 });
    const waiting = await queue.add('push', notification({ id: 'two' }), { jobId: 'two', delay: 60_000, timestamp: 1 });
    const failed = [{ at: 1, device: 'apns#0', error: 'Shutdown' }];
    await waiting.updateProgress({ rule: 'gap', tries: 1, attempts: failed });
    await queue.add('push', notification({ id: 'due' }), { jobId: 'due', delay: 60_000 });
    await redis.zadd(queue.toKey('delayed'), 1, 'due');
    await addDead(deadQueue, { three: deadLetter('three') });
    const env = queueEnv(prefix);
    await expectDocumented('status', await answerOf('status', [], env));
    const answers = [];
    const ids = ['one', 'two', 'three', 'four', ...(await retracted(prefix))];
    for (const id of ids) answers.push(await answerOf('status', [id], env));
    await expectDocumented('status ID', ...answers);
  });

  test('reshard', async () => {
    const { prefix, queue } = openQueues();
    await queue.add('push', notification({ id: 'one' }), { jobId: 'one', delay: 60_000 });
    const layout = { version: 1, phase: 'steady', prefixes: shardPrefixes(prefix, 2), former: [[prefix]] };
    const redis = connectRedis();
    await redis.set(layoutKey(prefix), JSON.stringify(layout));
    await expectDocumented('reshard', await answerOf('reshard', ['--to', '2'], queueEnv(prefix)));
  });

  test('why', async () => {
    const { prefix, queue, deadQueue } = openQueues();
    const pass = { at: 1, worker: 'web-1:7', result: 'requeued', rule: 'quiet', ruleUntil: 2, before: 3, until: 4 };
    const sends = [{ device: 'apns#0', code: '200', tookMs: 5, accepted: true }];
    const other = {
      at: 1,
      result: 'retried',
      code: 'x',
      slot: 1,
      lateMs: 0.1,
      wokenLateMs: 2,
      stalls: 1,
      silenced: true,
    };
    const passes = [pass, { ...other, sends }];
    const job = await queue.add('push', notification({ id: 'one' }), { jobId: 'one', delay: 60_000 });
    await job.updateProgress({ passes, passesLeftOut: 2, rule: 'quiet', ruleUntil: 2 });
    const replayed = { at: 1, result: 'replayed', reason: 'rejected', message: 'no', deadAt: 1, by: 'x' };
    const story = { firstEnqueuedAt: 1, enqueuedBy: 'timetable', passes: [replayed] };
    await addDead(deadQueue, { two: deadLetter('two', { story }) });
    const answers = [];
    const ids = await retracted(prefix);
    for (const id of ['one', 'two', 'three', ...ids]) answers.push(await answerOf('why', [id], queueEnv(prefix)));
    await expectDocumented('why', ...answers);
  });

  test.each<[name: string, args: string[], env?: Env]>([
    ['doctor', [], { REDIS_CLUSTER: 'true', ALLOW_NO_CREDENTIALS: 'true' }],
    ['cancel', ['--id', 'msg-1']],
    ['retract', ['--id', 'msg-1']],
  ])('%s', async (name, args, env) => {
    await expectDocumented(name, await answerOf(name, args, { ...queueEnv(openQueues().prefix), ...env }));
  });

  test('dead-letters, replay and discard', async () => {
    const { prefix, deadQueue } = openQueues();
    const attempts = [{ at: 1, device: 'apns#0', error: 'Shutdown' }];
    const full = notification({
      id: 'full',
      category: 'messages',
      priority: 'high',
      expiresAt: Date.now() + 60_000,
      data: { a: 'b' },
    });
    await addDead(deadQueue, {
      full: deadLetter('full', { notification: full, attempts, delivered: ['apns#0'] }),
      named: deadLetter('named', {
        notification: { ...full, id: 'named', devices: [{ platform: 'fcm', token: 't', app: 'teacher' }] },
      }),
      other: deadLetter('other'),
    });
    const env = queueEnv(prefix);
    await expectDocumented(
      'dead-letters',
      await answerOf('dead-letters', [], env),
      await answerOf('dead-letters', ['--limit', '1'], env),
    );
    await expectDocumented(
      'dead-letters show',
      await answerOf('dead-letters', ['show', 'full'], env),
      await answerOf('dead-letters', ['show', 'named'], env),
    );
    await expectDocumented('discard', await answerOf('discard', ['--all', '--dry-run'], env));
    await expectDocumented('replay', await answerOf('replay', ['--all', '--yes'], env));
  });

  test('recipient', async () => {
    const { prefix, queue } = openQueues();
    const limits = join(await temporaryFolder(), 'limits.json');
    await writeFile(limits, JSON.stringify({ categories: { messages: { rules: '5/1m', minGap: '1s' } } }));
    const env = { ...queueEnv(prefix), LIMIT_RULES: '10/1m', LIMIT_MIN_GAP: '3s', LIMITS_FILE: limits };
    const policy = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 };
    const limiter = createRedisLimiter({ redis: connectRedis(), policy, prefix });
    const asked = ['one', 'two', 'three'].map((id) => ({ id, recipientId: 't', category: 'messages' }));
    for (const { id } of asked) await limiter.admit({ recipientId: 't', id: `${id}/0` });
    const pushes = createRedisLimiter({
      redis: connectRedis(),
      ...apartOptions('background', [{ max: 3, perMs: 3_600_000 }], prefix),
    });
    for (const id of ['p', 'q', 'r', 's']) await pushes.admit({ recipientId: 't', id: `${id}/0` });
    const jobs = [...asked, { id: 'retried', recipientId: 't', category: 'messages' }];
    for (const data of jobs)
      await queue.add('push', notification(data), { jobId: data.id, delay: 600_000, priority: 10 });
    const answer = (...args: string[]) => answerOf('recipient', args, env);

    const before = await answer('show', 't');
    await expectDocumented('recipient limit', await answer('limit', 't', '--rules', '5/1m', '--for', '7d'));
    await expectDocumented('recipient block', await answer('block', 't', '--for', '1h', '--reason', 'quiet'));
    const night = ['--timezone', 'Europe/Paris', '--from', '21:00', '--until', '07:00', '--days', 'mon-fri'];
    await expectDocumented('recipient quiet', await answer('quiet', 't', ...night));
    await expectDocumented('recipient show', before, await answer('show', 't'));
    await expectDocumented('recipient unblock', await answer('unblock', 't'));
    await expectDocumented('recipient unquiet', await answer('unquiet', 't'));
    await expectDocumented('recipient reset', await answer('reset', 't'));
  });

  test('redis', async () => {
    const redis = startProcess({ args: ['scripts/redis.ts', '--json'] });
    await expectDocumented('redis', JSON.parse(await redis.waitForLine(/^\{/)));
    redis.kill();
    expect(await redis.waitForExit()).toMatchObject({ code: 0 });
  });

  test('sandbox', async () => {
    const sandbox = startProcess({ args: ['scripts/sandbox.ts', '--json'] });
    expect(JSON.parse(await sandbox.waitForLine(/^\{/))).toHaveProperty('APNS_ENDPOINT');
    sandbox.kill();
    await expectDocumented('sandbox', lastJson((await sandbox.waitForExit()).stdout));
  });

  test('demo', async () => {
    const policy = { rules: [{ max: 1, perMs: 1 }], minGapMs: 0 };
    const result = countResult(
      [],
      { alerts: [], silent: [], pushes: [] },
      { completed: [], deadLettered: [] },
      { alerts: policy, pushes: policy },
      { workers: 4, lateWakes: 0, mostLateMs: 0, lateToleranceMs: 0, standstills: 0 },
    );
    const deadLetters: DemoDeadLetter[] = [{ id: 'm-1', recipientId: 't', reason: 'unregistered', message: 'gone' }];
    await expectDocumented('demo', { ...result, replayed: 1, longestStallMs: 0, deadLetters });
  });

  test('chaos', async () => {
    const planOf = async (...flags: string[]): Promise<{ readonly faults: readonly { readonly kind: string }[] }> =>
      lastJson((await runMain(chaos, ['--plan', '--seconds', '600', '--json', ...flags])).stdout) as never;
    const plan = await planOf();
    expect(new Set(plan.faults.map(({ kind }) => kind)).size).toBe(13);
    const { faults } = await planOf('--cluster');
    await expectDocumented('chaos --plan', { ...plan, faults: [...plan.faults, ...faults] });
    const { result } = judged(cluster());
    await expectDocumented('chaos', result);
  });
});

test('the page has every command, with its subcommands', async () => {
  const text = await readFile(PAGE, 'utf8');
  for (const name of Object.keys(COMMANDS)) {
    const command = await definitionOf(await commandOf(name));
    const names = command.commands.length > 0 && name !== 'dead-letters' ? [] : [name];
    for (const each of [...names, ...command.commands.map((sub) => `${name} ${sub.name()}`)])
      expect(text).toContain(`\`${each}`);
  }
});

test.each([60, 200])('the help of every command fits %i columns, and no line ends inside a word', async (columns) => {
  const before = { isTTY: process.stdout.isTTY, columns: process.stdout.columns };
  Object.assign(process.stdout, { isTTY: true, columns });
  onTestFinished(() => void Object.assign(process.stdout, before));
  const all: (readonly string[])[] = [[]];
  for (const name of Object.keys(COMMANDS)) {
    const { commands } = await definitionOf(await commandOf(name));
    all.push([name], ...commands.map((sub) => [name, sub.name()]));
  }
  expect(all.length).toBeGreaterThan(19);
  for (const words of all) {
    const { code, stdout, stderr } = await runMain(pushpacer, [...words, '--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const lines = stdout.split('\n').map((line) => stripVTControlCharacters(line));
    expect(lines[0]).toContain(`Usage: ${words.join(' ')}`);
    expect(lines.length).toBeGreaterThan(5);
    const toCopy = /^ {2}pushpacer completion fish > /;
    const tooLong = lines.filter((line) => line.length > columns && !toCopy.test(line));
    expect({ words, tooLong }).toEqual({ words, tooLong: [] });
  }
});

describe('exit codes', () => {
  test.each(Object.keys(COMMANDS))('%s: 2 for a flag that there is not', async (name) => {
    const bad = await run(name, ['--nope']);
    expect(bad).toMatchObject({ code: 2, stdout: '' });
    expect(bad.stderr).toMatch(/^error: (unknown option '--nope'|missing required argument)/);
  });

  test.each(AT_REDIS)('%s: 1 where Redis is away, without the password', async (name, ...args) => {
    const exit = await run(name, args, { ...queueEnv('{away}'), REDIS_URL: 'redis://:s3cret@127.0.0.1:1' });
    expect(exit).toMatchObject({ code: 1, stdout: '' });
    const advice = ['replay', 'discard'].includes(name) ? '; start again to go on\n$' : '';
    expect(exit.stderr).toMatch(new RegExp(String.raw`^error: Redis is away: 127\.0\.0\.1:1 \(.+\)${advice}`));
    expect(exit.stderr).not.toContain('s3cret');
  });

  test('worker, redis and sandbox: 1 where they cannot start', async () => {
    const bad = await run('worker', [], { ATTEMPTS: 'x' });
    expect(bad.stderr).toContain('ATTEMPTS: expected an integer');
    expect(bad.code).toBe(1);
    const { code, stderr } = await run('worker', [], {});
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^error: .*ALLOW_NO_CREDENTIALS=true.*\n$/) as string,
    });
    const { port } = new URL(connectRedis().options.path ?? `redis://x:${connectRedis().options.port ?? 0}`);
    expect(await run('sandbox', ['--apns-port', port])).toMatchObject({ code: 1, stdout: '' });
    expect(await run('redis', ['--port', port])).toMatchObject({ code: 1, stdout: '' });
  });
});

test('each command that reads the environment names a mistyped variable, and the worker logs it', async () => {
  const { prefix } = openQueues();
  const env = { ...queueEnv(prefix), LIMIT_RULE: 's3cret' };
  const warning = 'warning: LIMIT_RULE is not known; did you mean LIMIT_RULES?\n';
  for (const [name, ...args] of AT_REDIS) {
    expect(await run(name, args, env)).toMatchObject({ code: 0, stderr: warning });
  }
  const started = { ...queueEnv(prefix), APNS_TOPICS: 's3cret', METRICS_PORT: 'off', ALLOW_NO_CREDENTIALS: 'true' };
  const worker = startProcess({ args: ['workers/notifications.ts'], env: started });
  onTestFinished(() => {
    worker.kill('SIGKILL');
  });
  const line = JSON.parse(await worker.waitForLine(/APNS_TOPICS is not known/)) as object;
  expect(line).toMatchObject({ variable: 'APNS_TOPICS', meant: 'APNS_TOPIC' });
  await worker.waitForLine(/"msg":"ready"/);
  expect(worker.stdout()).not.toContain('s3cret');
  worker.kill();
  expect((await worker.waitForExit()).code).toBe(0);
});

describe('pushpacer', () => {
  const start = (...args: string[]) => runMain(pushpacer, args);

  test('lists its commands, with and without --help', async () => {
    for (const args of [[], ['--help'], ['-h'], ['help']]) {
      const { code, stdout } = await start(...args);
      expect(stdout).toMatch(/^Usage: pushpacer <command>/);
      expect(code).toBe(0);
    }
  });

  test('hands the flags on, and the exit code back', async () => {
    const help = await start('redis', '--help');
    expect(help).toMatchObject({ code: 0, stdout: expect.stringContaining('Usage: redis') as string });
    expect(await start('help', 'redis')).toEqual(help);
    expect(await start('help', 'reddis')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('did you mean redis?') as string,
    });
    const args = ['scripts/pushpacer.ts', 'redis', '--port', 'x'];
    expect(await startProcess({ args }).waitForExit()).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--port: expected an integer from 1 to 65535, found "x"') as string,
    });
  });

  test.each(['rediss', 'constructor', '--nope'])('refuses %s as bad usage', async (name) => {
    const { code, stderr, stdout } = await start(name);
    expect(stderr).toContain(`no command "${name}"`);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });
});
