import { describe, expect, it } from 'vitest';
import { isWedged, quantileOf } from '../../console/samples.ts';
import { LATENESS_BOUNDS_MS } from '../../src/domain/time.ts';
import { workersKey } from '../../src/queue/names.ts';
import type { WorkerFacts } from '../../src/queue/workers.ts';
import { addDead, manyLetters } from '../dead-letters/letters.ts';
import { openConsole, type ConsoleBench } from '../support/console.ts';
import { enterWorker } from '../support/presence.ts';
import { makeNotification } from '../support/push.ts';
import { POLICY } from './school.ts';

const MINUTE = 60_000;
const LATE = LATENESS_BOUNDS_MS.map(() => 0);

/** A worker in the registry, which has finished nothing for five minutes. */
function enter({ prefix }: ConsoleBench, facts: Partial<WorkerFacts>): Promise<void> {
  const lastPassAt = Date.now() - 5 * MINUTE;
  const own = {
    ...{ version: '1.2.3', pid: 4711, startedAt: Date.now() - 10 * MINUTE, inHand: 3, asleep: 1, platforms: ['fcm'] },
    tally: { passes: 9, lastPassAt, delivered: 5, dead: 1, requeued: 3, late: [...LATE, 0] },
  };
  return enterWorker(prefix, { ...own, ...facts }, { policy: POLICY });
}

/** A notification whose time has come a minute ago, and that no worker took. */
async function addDue({ queue }: ConsoleBench): Promise<void> {
  const { id, ...data } = makeNotification({ id: 'due' });
  await queue.add(
    'push',
    { id, ...data },
    { jobId: id, delay: MINUTE, timestamp: Date.now() - 2 * MINUTE, priority: 10 },
  );
}

describe('the page Now', () => {
  it('names a worker that is alive and finishes nothing although notifications are due', async () => {
    const bench = await openConsole();
    await addDue(bench);
    await enter(bench, {});
    const { text } = await bench.get('/');
    expect(text).toContain('web-1 (process 4711) finishes nothing although notifications are due');
    expect(text).toContain('finishes nothing</span>');
  });

  it('does not name one that finished something a moment ago or says less, nor one to which nothing is due', async () => {
    const [busy, idle, old] = [await openConsole(), await openConsole(), await openConsole()];
    for (const bench of [busy, old]) await addDue(bench);
    await enter(busy, { tally: { passes: 9, lastPassAt: Date.now(), delivered: 5, dead: 1, requeued: 3, late: LATE } });
    await enter(idle, {});
    await enter(old, { tally: undefined }); // of an older version
    for (const { get } of [busy, idle, old]) expect((await get('/')).text).not.toContain('finishes nothing');
  });

  it('shows version, places in use, clock and how much of a quota is used', async () => {
    const bench = await openConsole();
    const quotas = [
      { account: 'fcm', rules: '600000/1m' },
      { account: 'webpush~teacher~~fcm.googleapis.com', rules: '1000/1m' },
    ];
    await enter(bench, { quotas, clockOffsetMs: -7 });
    const { text } = await bench.get('/');
    for (const shown of ['1.2.3', '2 of 50, 1 asleep', '-7 ms', 'quota of fcm: 0 of 600000/1m', 'All is well']) {
      expect(text).toContain(shown);
    }
    expect(text).toContain('quota of webpush (teacher) (fcm.googleapis.com): 0 of 1000/1m');
  });

  it('says what to start if no worker is alive, and which was seen last', async () => {
    const bench = await openConsole();
    await addDead(bench.deadQueue, manyLetters(21));
    const text = (await bench.get('/')).text.replaceAll(/\s+/g, ' ');
    expect(text).toContain('<strong>No worker is alive, so nothing is sent.</strong> Start one: <code>');
    expect(text.match(/<code>(npx )?(pushpacer|npm run) worker<\/code>/g)).toHaveLength(1);
    expect(text).not.toContain('every provider that was tried');
    expect(text).toMatch(/look: <code>(npx )?(pushpacer|npm run) dead-letters (-- )?--since 30m<\/code>/);
    // Also without scripts.
    expect(text.match(/<svg[^>]* role="img" aria-label="[^"]+: no values yet"/g)).toHaveLength(4);

    const ended = await openConsole();
    await enter(ended, {});
    const key = workersKey(ended.prefix);
    const entry = (await ended.connection.hget(key, 'a')) ?? '';
    await ended.connection.hset(key, 'a', entry.replace(/^\d+/, String(Date.now() - 5 * MINUTE)));
    expect((await ended.get('/')).text).toMatch(/The last one, web-1 \(process 4711\), was seen <time[^>]*>5m ago</);
  });
});

it('a worker that has just started is not taken for one that finishes nothing', () => {
  const worker = { alive: true, stopping: false, startedAt: 100_000, tally: undefined };
  const tally = { passes: 0, delivered: 0, dead: 0, requeued: 0, late: LATE };
  const look = { now: 130_000, due: { count: 1, oldestAt: 0 } };
  expect(isWedged({ ...worker, tally }, look)).toBe(false);
  expect(isWedged({ ...worker, tally }, { ...look, now: 200_000 })).toBe(true);
  expect(isWedged({ ...worker, tally, alive: false }, { ...look, now: 200_000 })).toBe(false);
});

it('a quantile of lateness is the bound that it did not exceed', () => {
  const late = (counts: Readonly<Record<number, number>>) =>
    [...LATENESS_BOUNDS_MS, Infinity].map((bound) => counts[bound] ?? 0);
  expect(quantileOf(late({}), 0.5)).toBeNull();
  expect(quantileOf(late({ 5: 99, 250: 1 }), 0.5)).toBe(5);
  expect(quantileOf(late({ 5: 99, 250: 1 }), 0.99)).toBe(5);
  expect(quantileOf(late({ 5: 98, 250: 2 }), 0.99)).toBe(250);
  expect(quantileOf(late({ 5: 1, [Infinity]: 1 }), 0.99)).toBe(Infinity);
});
