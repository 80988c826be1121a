import { describe, expect, it } from 'vitest';
import { createMoveUps } from '../../src/delivery/lines.ts';
import type { NotificationInput } from '../../src/notification/notification.ts';
import { makeNotification } from '../support/push.ts';
import { openBench, RECIPIENT, type Bench } from './support.ts';

const BLOCKED_MS = 60_000;

/** So many wait, a second apart, the first one for the end of a block. */
async function openLine(waiting: number): Promise<Bench> {
  const bench = await openBench();
  await bench.limiter.block(RECIPIENT, { until: bench.clock.now() + BLOCKED_MS, reason: 'exam' });
  for (let index = 1; index <= waiting; index += 1) await bench.run(makeNotification({ id: `chat-${index}` }));
  return bench;
}

const high = (fields: Partial<NotificationInput> = {}) =>
  makeNotification({ id: 'closed', priority: 'high', ...fields });

async function lineOf({ limiter }: Bench): Promise<(string | undefined)[]> {
  return (await limiter.inspect(RECIPIENT)).reserved.map(({ id }) => id);
}

it('one of high priority is put back until the first slot, and the jobs of those behind until the next ones', async () => {
  const bench = await openLine(3);
  const before = await bench.limiter.inspect(RECIPIENT);
  const { outcome, progress } = await bench.run(high());
  expect(outcome).toMatchObject({ kind: 'requeued', rule: 'block', before: 0 });
  expect(outcome.kind === 'requeued' && outcome.delayMs).toBeLessThanOrEqual(BLOCKED_MS);
  expect(await lineOf(bench)).toEqual(['closed/0', 'chat-1/0', 'chat-2/0', 'chat-3/0']);
  const after = await bench.limiter.inspect(RECIPIENT);
  expect(after.reserved.slice(0, 3).map(({ at }) => at)).toEqual(before.reserved.map(({ at }) => at));
  const due = new Map(bench.redelayed.map(({ jobId, at }) => [jobId, at]));
  expect([...due.keys()]).toEqual(['chat-1', 'chat-2', 'chat-3']); // the pass puts its own job back
  for (const { id = '', at } of after.reserved.slice(1)) expect(at - (due.get(id.slice(0, -2)) ?? 0)).toBe(25);
  // Another pass before its slot changes nothing.
  const { length } = bench.redelayed;
  await bench.run(high(), progress);
  expect(bench.redelayed).toHaveLength(length);
});

it.each([
  ['normal', makeNotification({ id: 'closed' }), {}],
  ['high, where those do not go first', high(), { isHighFirst: false }],
  ['high that does not wait', high({ onThrottle: 'drop' }), {}],
])('one of priority %s overtakes nobody', async (_, notification, overrides) => {
  const bench = await openLine(2);
  await bench.run(notification, undefined, overrides);
  expect((await lineOf(bench)).slice(0, 2)).toEqual(['chat-1/0', 'chat-2/0']);
  expect(bench.redelayed).toEqual([]);
});

describe('bounds of its wait', () => {
  it('are compared with the slot that it would have, and not with the end of the line', async () => {
    const bench = await openLine(5);
    const expiresAt = bench.clock.now() + BLOCKED_MS + 2_000;
    expect((await bench.run(high({ expiresAt }))).outcome.kind).toBe('requeued');
    const second = await bench.run(high({ id: 'second' }), undefined, { maxWaitMs: 3_000 });
    expect(second.outcome.kind).toBe('requeued');
    expect((await lineOf(bench)).slice(0, 2)).toEqual(['closed/0', 'second/0']);
  });

  it('refuse one that would wait too long all the same, and it leaves no trace in the line', async () => {
    const bench = await openLine(1);
    for (const id of ['first', 'second', 'third']) await bench.run(high({ id }));
    const before = await bench.limiter.inspect(RECIPIENT);
    const redelays = bench.redelayed.length;
    const { outcome } = await bench.run(high(), undefined, { maxWaitMs: 500 });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'throttled-too-long' });
    expect((await bench.run(high({ id: 'short', expiresAt: bench.clock.now() + BLOCKED_MS }))).outcome.kind).toBe(
      'expired',
    );
    expect((await bench.limiter.inspect(RECIPIENT)).reserved).toEqual(before.reserved);
    expect(bench.redelayed).toHaveLength(redelays);
  });

  it('are those of quiet hours too: not dropped, if only the end of the line lies in them', async () => {
    const bench = await openLine(3);
    const { reserved } = await bench.limiter.inspect(RECIPIENT);
    const quietFrom = (reserved[1]?.at ?? 0) + 500;
    const clockAt = (at: number): string => new Date(at).toISOString().slice(11, 16);
    const begins = Math.ceil(quietFrom / 60_000) * 60_000;
    await bench.limiter.block(RECIPIENT, { until: begins - 3_000, reason: 'exam' });
    const quietHours = [{ from: clockAt(begins), until: clockAt(begins + 3_600_000) }];
    await bench.limiter.quiet(RECIPIENT, { timezone: 'UTC', quietHours });
    expect((await bench.run(makeNotification({ id: 'normal', onQuiet: 'drop' }))).outcome.kind).toBe('dropped');
    expect((await bench.run(high({ onQuiet: 'drop' }))).outcome.kind).toBe('requeued');
    expect((await lineOf(bench))[0]).toBe('closed/0');
  });

  it('refuse a newer one of several, and the older one is sent', async () => {
    const bench = await openLine(0);
    const latest = (id: string) => high({ id, onThrottle: 'latest', collapseId: 'score' });
    for (const id of ['first', 'second', 'third']) await bench.run(high({ id }));
    const older = await bench.run(latest('older'));
    const newer = await bench.run(latest('newer'), undefined, { maxWaitMs: 500 });
    expect([older.outcome.kind, newer.outcome.kind]).toEqual(['requeued', 'dead-letter']);
    expect(await lineOf(bench)).toEqual(['first/0', 'second/0', 'third/0', 'older/0']);
    expect((await bench.run(latest('older'), older.progress)).outcome.kind).toBe('requeued');
  });
});

describe('move-ups of one line', () => {
  it('go on where one fails', async () => {
    const moveUps = createMoveUps();
    const failing = Promise.withResolvers<undefined>();
    let runs = 0;
    const work = async (): Promise<void> => {
      runs += 1;
      if (runs === 1) await failing.promise;
    };
    const first = moveUps.run('line', work);
    const second = moveUps.run('line', work);
    failing.reject(new Error('away'));
    await expect(first.ended).rejects.toThrow('away');
    await second.ended;
    await first.allEnded;
    expect(runs).toBe(2);
  });
});
