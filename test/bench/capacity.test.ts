import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { main } from '../../bench/bench.ts';
import { failureOf, isOff, type Check } from '../../bench/capacity/check.ts';
import { example, magnitude, parsePlan } from '../../bench/capacity/example.ts';
import { DEFAULT_PLAN, MEASURED, needsOf, waitingBytes, type Plan } from '../../bench/capacity/model.ts';
import { loadConfig } from '../../src/config/config.ts';
import { runMain } from '../support/command.ts';

/** The rows of all tables of a page, as cells. */
function rowsOf(page: string): string[][] {
  const lines = page.split('\n').filter((line) => line.startsWith('| '));
  return lines.map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  );
}

describe('the pages', () => {
  test('every example of docs/scaling.md is what the model says', async () => {
    const page = await readFile('docs/scaling.md', 'utf8');
    const examples = [...page.matchAll(/npm run bench capacity -- --model (.+)\n```\n\n```text\n([^`]+)\n```/g)];
    expect(examples).toHaveLength(2);
    for (const [, args = '', text] of examples) {
      const [, needs = ''] = example(parsePlan(args.split(' '))).text.split('\n\n');
      expect(text).toBe(needs.replaceAll(/ +$/gm, ''));
    }
  });

  test('every row of its table is what the model says', async () => {
    const rows = rowsOf(await readFile('docs/scaling.md', 'utf8')).filter(([, plan = '']) => plan.startsWith('`'));
    expect(rows).toHaveLength(5);
    for (const [, plan = '', ...cells] of rows) {
      expect(cells, plan).toEqual(magnitude(parsePlan(plan.replaceAll('`', '').split(' '))));
    }
  });

  test('docs/capacity.md has every constant of the model once', async () => {
    const rows = rowsOf(await readFile('docs/capacity.md', 'utf8')).filter(([, , name = '']) => name.startsWith('`'));
    const onPage = rows.map(([, value = '', name = '']) => [
      name.replaceAll('`', ''),
      Number(value.replaceAll(',', '')),
    ]);
    expect(onPage.toSorted()).toEqual(constants(MEASURED).toSorted());
  });
});

/** `[['atOnce.queue.inBytes', 970], …]` */
function constants(of: object, before = ''): [string, number][] {
  return Object.entries(of).flatMap(([name, value]: [string, number | object]) =>
    typeof value === 'number' ? [[before + name, value]] : constants(value, `${before}${name}.`),
  );
}

describe('the model', () => {
  const plan = (more: Partial<Plan>): Plan => ({ ...DEFAULT_PLAN, ...more });

  test('the parts of memory are its total, and the masters have all of it', () => {
    const { total, shard, master, ...parts } = needsOf(plan({ shards: 6, masters: 3, history: 1_000 })).memory;
    expect(Object.values(parts).reduce((sum, bytes) => sum + bytes, 0)).toBeCloseTo(total, 0);
    expect(3 * master).toBeCloseTo(total, 0);
    expect(6 * shard + parts.recipients).toBeCloseTo(total, 0);
  });

  test('a master with one shard more than the others is the fullest and the busiest', () => {
    const [even, odd] = [needsOf(plan({ shards: 6, masters: 3 })), needsOf(plan({ shards: 7, masters: 3 }))];
    expect(odd.memory.master).toBeGreaterThan(even.memory.master);
    expect(odd.cores.queue).toBeCloseTo((even.cores.queue * 3 * 3) / 7);
    expect(odd.cores.limiter).toBeCloseTo(even.cores.limiter);
  });

  test('more bytes of a notification are more bytes wherever it is', () => {
    const [small, large] = [needsOf(plan({})), needsOf(plan({ payloadBytes: MEASURED.jsonBytes + 1_000 }))];
    expect(large.memory.waiting - small.memory.waiting).toBeCloseTo(1_000 * DEFAULT_PLAN.recipients, 0);
    expect(large.network.redisIn - small.network.redisIn).toBeCloseTo(1_000);
  });

  test('the line of a recipient is shared by those that wait in it', () => {
    const alone = waitingBytes(plan({ waits: 1, line: 1 }));
    expect(alone - waitingBytes(plan({ waits: 1, line: 10 }))).toBeCloseTo(0.9 * MEASURED.lineBytes);
  });

  test('slow answers need more workers, and more of them at once need fewer', () => {
    const workers = (more: Partial<Plan>): number => needsOf(plan(more)).workers.needed;
    expect(workers({ answerMs: 1_000 })).toBe(35);
    expect(workers({ answerMs: 1_000, concurrency: 1_000 })).toBe(2);
  });

  test('unless the plan says otherwise, a worker has as many jobs at once as one without WORKER_CONCURRENCY', () => {
    expect(DEFAULT_PLAN.concurrency).toBe(loadConfig({ ALLOW_NO_CREDENTIALS: 'true' }).concurrency);
  });

  test('each shard of a worker gets its part of the concurrency, rounded up', () => {
    const byAnswers = (shards: number): number => needsOf(plan({ shards, concurrency: 50 })).workers.byAnswers;
    expect([byAnswers(1) / byAnswers(4), byAnswers(1) / byAnswers(64)]).toEqual([
      expect.closeTo(52 / 50),
      expect.closeTo(64 / 50),
    ]);
  });

  test('only recipients with an alert within the longest window take memory', () => {
    const bytes = (more: Partial<Plan>): number => needsOf(plan({ alertsADay: 0, ...more })).memory.recipients;
    const all = DEFAULT_PLAN.recipients * MEASURED.recipientBytes;
    // The message to all takes ten hours, and an hour of it counts.
    expect(bytes({ broadcastMs: 36e6, windowMs: 36e5 })).toBeCloseTo(all / 10, 0);
    expect(bytes({ broadcastMs: 36e6, windowMs: 36e5, alertsADay: 4.8 })).toBeCloseTo((all * 3) / 10, 0);
    expect(bytes({ broadcastMs: 6e5, windowMs: 36e5 })).toBeCloseTo(all, 0);
    const further = DEFAULT_PLAN.recipients * MEASURED.furtherAlertBytes;
    expect(bytes({ broadcastMs: 6e5, windowMs: 864e5, alertsADay: 5 })).toBeCloseTo(all + 5 * further, 0);
  });
});

describe('--model', () => {
  test('prints the plan and what it needs, without measuring', async () => {
    const args = ['capacity', '--json', '--model', 'recipients=20000', 'broadcast=5m', 'waits=0.5'];
    const { code, stdout } = await runMain(main, args);
    expect(code).toBe(0);
    expect(stdout).toContain('By the model; nothing was measured.');
    const { plan } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as { plan: Plan };
    expect(plan).toMatchObject({ recipients: 20_000, broadcastMs: 300_000, waits: 0.5, shards: 1 });
  });

  test.each([
    ['people=7', '--model: expected NAME=VALUE with one of recipients, alerts, window, broadcast, ahead,'],
    ['recipients=many', '--model recipients: expected a whole number from 1, found "many"'],
    ['shards=0', '--model shards: expected a whole number from 1, found "0"'],
    ['waits=1.5', '--model waits: expected a share from 0 to 1, found "1.5"'],
    ['broadcast=soon', '--model broadcast: expected a duration such as 10m, found "soon"'],
  ])('refuses %s', async (text, message) => {
    const { code, stderr } = await runMain(main, ['capacity', '--model', text]);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });
});

describe('a check', () => {
  const check = (kind: Check['kind'], measured: number, model: number): Check => ({
    name: 'it',
    kind,
    measured,
    model,
  });

  test('bytes and counts may be off by a tenth, times by anything, and no bound may be passed', () => {
    for (const kind of ['bytes', 'count'] as const) {
      expect([90.1, 109.9, 89.9, 110.1, NaN].map((measured) => isOff(check(kind, measured, 100)))).toEqual([
        false,
        false,
        true,
        true,
        true,
      ]);
    }
    expect([1, 100, 101].map((measured) => isOff(check('bound', measured, 100)))).toEqual([false, false, true]);
    expect(isOff(check('time', 1_000, 1))).toBe(false);
  });

  test('a failure names what is off, with both figures', () => {
    expect(failureOf([check('bytes', 100, 100), check('time', 9, 1)])).toBeUndefined();
    expect(failureOf([check('bytes', 1_500, 1_000)])).toContain('it: measured 1,500, model 1,000');
  });
});
