import { expect, it } from 'vitest';
import { createRedelays } from '../../src/delivery/lines.ts';
import type { NotificationInput } from '../../src/notification/notification.ts';
import type { Due } from '../../src/queue/job-lock.ts';
import { makeNotification } from '../support/push.ts';
import { openBench, RECIPIENT, type Bench } from './support.ts';

/** So far ahead that the machine may be slow. */
const BLOCKED_MS = 60_000;

/** So many wait, a second apart, the first one for the end of a block. */
async function openLine(waiting: number): Promise<Bench> {
  const bench = await openBench();
  await bench.limiter.block(RECIPIENT, { until: Date.now() + BLOCKED_MS, reason: 'exam' });
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
  const slots = before.reserved.map(({ at }) => at);
  const { outcome, progress } = await bench.run(high());
  expect(outcome).toMatchObject({ kind: 'requeued' });
  expect(outcome.kind === 'requeued' && outcome.delayMs).toBeLessThanOrEqual(BLOCKED_MS);
  expect(await lineOf(bench)).toEqual(['closed/0', 'chat-1/0', 'chat-2/0', 'chat-3/0']);
  const after = await bench.limiter.inspect(RECIPIENT);
  expect(after.reserved.slice(0, 3).map(({ at }) => at)).toEqual(slots);
  const due = new Map(bench.redelayed.map(({ jobId, at }) => [jobId, at]));
  expect([...due.keys()].toSorted()).toEqual(['chat-1', 'chat-2', 'chat-3', 'closed']);
  for (const { id = '', at } of after.reserved.slice(1)) expect(at - (due.get(id.slice(0, -2)) ?? 0)).toBe(25);
  // Another pass before its slot changes nothing.
  const { length } = bench.redelayed;
  await bench.run(high(), progress);
  expect(bench.redelayed).toHaveLength(length);
});

it.each([
  ['normal', makeNotification({ id: 'closed' }), {}],
  ['high, where nobody is to be overtaken', high(), { overtaking: { mostTimes: 0, mostMs: 600_000 } }],
])('one of priority %s goes behind all others', async (_, notification, overrides) => {
  const bench = await openLine(2);
  await bench.run(notification, undefined, overrides);
  expect(await lineOf(bench)).toEqual(['chat-1/0', 'chat-2/0', 'closed/0']);
});

it('its bounds are compared with the slot that it has then, and not with the end of the line', async () => {
  const bench = await openLine(5);
  const expiresAt = Date.now() + BLOCKED_MS + 2_000;
  expect((await bench.run(high({ expiresAt }))).outcome.kind).toBe('requeued');
  expect((await bench.run(high({ id: 'second' }), undefined, { maxWaitMs: BLOCKED_MS + 3_000 })).outcome.kind).toBe(
    'requeued',
  );
  expect((await lineOf(bench)).slice(0, 2)).toEqual(['closed/0', 'second/0']);
});

it('one that would wait too long all the same leaves no reservation', async () => {
  const bench = await openLine(1);
  for (const id of ['first', 'second', 'third']) await bench.run(high({ id }));
  const { outcome } = await bench.run(high(), undefined, { maxWaitMs: BLOCKED_MS });
  expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'throttled-too-long' });
  expect(await lineOf(bench)).not.toContain('closed/0');
});

it('new due times of one recipient are written one after the other, and of each job only the newest', async () => {
  const written: Due[][] = [];
  let write = Promise.withResolvers<undefined>();
  const redelays = createRedelays(async (_, due) => {
    written.push([...due]);
    await write.promise;
  });
  const first = redelays.write(RECIPIENT, [{ jobId: 'a', at: 1 }]);
  await redelays.write(RECIPIENT, [{ jobId: 'a', at: 2 }]);
  await redelays.write(RECIPIENT, [
    { jobId: 'a', at: 3 },
    { jobId: 'b', at: 4 },
  ]);
  expect(written).toEqual([[{ jobId: 'a', at: 1 }]]);
  const before = write;
  write = Promise.withResolvers();
  write.resolve(undefined);
  before.resolve(undefined);
  await first;
  expect(written.slice(1)).toEqual([
    [
      { jobId: 'a', at: 3 },
      { jobId: 'b', at: 4 },
    ],
  ]);
});
