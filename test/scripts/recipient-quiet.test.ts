import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { main } from '../../scripts/recipient.ts';
import { readDays } from '../../src/operations/catalogue.ts';
import { DAYS, quietHoursText } from '../../src/domain/quiet-hours.ts';
import type { Limiter } from '../../src/limiter/limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { jsonOf, outputOf, runMain, type CommandExit } from '../support/command.ts';
import { temporaryFolder } from '../support/program.ts';
import { connectRedis, redisEnv, testPrefix } from '../support/redis.ts';

const ID = 'teacher-42';
const UNSET = { LIMITER_REDIS_URL: undefined, REDIS_CLUSTER: undefined, QUEUE_SHARDS: undefined };
const NIGHT = ['--timezone', 'Europe/Paris', '--from', '21:00', '--until', '07:00'];

interface Bench {
  readonly limiter: Limiter;
  readonly run: (...args: string[]) => Promise<CommandExit>;
}

/** A limiter as the workers have it, and the command at the same keys. */
async function openBench(limits: object = { categories: {} }): Promise<Bench> {
  const prefix = testPrefix();
  const file = join(await temporaryFolder(), 'limits.json');
  await writeFile(file, JSON.stringify(limits));
  const env = { ...UNSET, ...redisEnv(), QUEUE_PREFIX: prefix, LIMITS_FILE: file };
  const policy = { rules: [], minGapMs: 3_000 };
  return {
    limiter: createRedisLimiter({ redis: connectRedis(), policy, prefix }),
    run: (...args) => runMain(main, args, env),
  };
}

describe('recipient quiet', () => {
  test('stores quiet hours, which show prints and unquiet removes', async () => {
    const { limiter, run } = await openBench();
    expect(await outputOf(run('quiet', ID, ...NIGHT, '--days', 'mon-fri'))).toBe(
      'teacher-42 has quiet hours: mon,tue,wed,thu,fri 21:00-07:00, Europe/Paris\n',
    );
    const hours = {
      timezone: 'Europe/Paris',
      quietHours: [{ days: ['mon', 'tue', 'wed', 'thu', 'fri'], from: '21:00', until: '07:00' }],
    };
    expect((await limiter.inspect(ID)).quiet).toMatchObject({ hours, source: 'stored' });
    expect(await outputOf(run('show', ID))).toContain(
      'quiet      mon,tue,wed,thu,fri 21:00-07:00, Europe/Paris; stored',
    );
    expect(await outputOf(run('unquiet', ID))).toBe('teacher-42 has no quiet hours of its own any more\n');
    expect(await outputOf(run('unquiet', ID))).toBe('teacher-42 had no quiet hours of its own\n');
    expect(await outputOf(run('show', ID))).not.toContain('quiet');
  });

  test('reads several quiet times from a file, and moves what waits', async () => {
    const { limiter, run } = await openBench();
    const hour = (at: number) => new Date(Date.now() + at * 3_600_000).toISOString().slice(11, 16);
    const hours = {
      timezone: 'UTC',
      quietHours: [
        { from: hour(-1), until: hour(1) },
        { from: hour(3), until: hour(4) },
      ],
    };
    const file = join(await temporaryFolder(), 'hours.json');
    await writeFile(file, JSON.stringify(hours));
    for (const id of ['a/0', 'b/0']) await limiter.admit({ recipientId: ID, id });
    const answer = await jsonOf(run('quiet', ID, '--file', file, '--json'));
    expect(answer).toMatchObject({ recipientId: ID, quiet: { hours, source: 'stored' }, waiting: 1, moved: 1 });
    const [waiting] = (await limiter.inspect(ID)).reserved;
    expect(waiting).toMatchObject({ id: 'b/0', rule: 'quiet', at: (answer['quiet'] as { until: number }).until });
    expect(await outputOf(run('show', ID))).toMatch(/; stored; quiet now, until .*\n[^]*next free .*, by quiet/);
  });

  test('replaces the quiet hours of LIMITS_FILE, with none too', async () => {
    const { run } = await openBench({ timezone: 'UTC', quietHours: [{ from: '21:00', until: '07:00' }] });
    expect(await outputOf(run('show', ID))).toContain('quiet      21:00-07:00, UTC; from LIMITS_FILE');
    expect(await outputOf(run('quiet', ID, '--none'))).toBe('teacher-42 has quiet hours: none\n');
    expect(await outputOf(run('show', ID))).toContain('quiet      none; stored');
    expect(await outputOf(run('unquiet', ID))).toBe(
      'teacher-42 has no quiet hours of its own any more; in force is 21:00-07:00, UTC\n',
    );
  });

  test('shows which category is exempt from what', async () => {
    const emergency = { rules: '5/1h', exempt: ['quietHours', 'gap'] };
    const { run } = await openBench({ categories: { emergency } });
    expect(await outputOf(run('show', ID))).toContain(
      'emergency: 5/1h, no gap, exempt from the overall gap and quiet hours; from LIMITS_FILE',
    );
  });

  test.each([
    [[], '--timezone, --from, --until: expected --timezone, --from and --until (or --file, or --none), found nothing'],
    [
      ['--timezone', 'Europe/Pari', '--from', '25:00', '--until', '07:00'],
      '--timezone: expected a time zone such as Europe/Paris (did you mean Europe/Paris?), found "Europe/Pari"',
      '--from: expected a time from 00:00 to 23:59, found "25:00"',
    ],
    [
      [...NIGHT, '--days', 'mon-fry'],
      '--days: expected days such as mon-fri or sat,sun (did you mean fri?), found "mon-fry"',
    ],
    [['--timezone', 'UTC', '--from', '07:00', '--until', '07:00'], '--until: expected another time than from'],
    [[...NIGHT, '--none'], '--none: expected no other flag, found --timezone'],
    [['--file', 'x.json', '--none'], '--file: expected nothing beside it, found --none'],
    [['--file', '/nowhere.json'], '--file: expected a file that can be read, found "/nowhere.json" (ENOENT)'],
    [['--file', 'package.json'], '--file: timezone: expected a time zone such as Europe/Paris, found nothing'],
    [['--file', 'README.md'], '--file: expected JSON, found text that is not JSON'],
    [
      ['--timezone', 'UTC', '--from', '00:00', '--until', '24:00'],
      '--from, --until: expected some time in the week that is not quiet, found none',
    ],
  ])('refuses %j', async (args, ...faults) => {
    const { run } = await openBench();
    const { code, stderr, stdout } = await run('quiet', ID, ...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    for (const fault of faults) expect(stderr).toContain(fault);
  });

  test.each([
    ['mon-fri', ['mon', 'tue', 'wed', 'thu', 'fri']],
    ['sat,sun', ['sat', 'sun']],
    ['fri-mon, wed', ['fri', 'sat', 'sun', 'mon', 'wed']],
    ['mon,mon', ['mon']],
  ])('takes the days %s', (text, days) => {
    expect(readDays(text)).toEqual({ value: days });
  });

  test('writes every day without naming the days', () => {
    const days = DAYS;
    expect(quietHoursText({ timezone: 'UTC', quietHours: [{ days, from: '21:00', until: '24:00' }] })).toBe(
      '21:00-24:00, UTC',
    );
  });
});
