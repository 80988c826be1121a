import { expect, test } from 'vitest';
import type { Inspection } from '../../../src/limiter/limiter.ts';
import type { WaitingSlot } from '../../../src/operations/recipient.ts';
import type { DelayedJob } from '../../../src/operations/jobs.ts';
import { startProcess } from '../../support/process.ts';
import { makeNotification } from '../../support/push.ts';
import { waitFor } from '../../support/wait.ts';
import { openWorkerBench, type WorkerBench } from '../../support/worker.ts';

/** The JSON of a subcommand: `show` has all of it, the others some. */
interface Shown extends Omit<Inspection, 'reserved'> {
  readonly reserved: readonly WaitingSlot[];
  readonly delayed: readonly DelayedJob[];
  readonly background?: { readonly reserved: readonly WaitingSlot[] };
  readonly until?: number;
}

interface Bench extends WorkerBench {
  /** Runs the command beside the workers, with their environment; its JSON. */
  readonly recipient: (...args: string[]) => Promise<Shown>;
  /** Adds notifications to teacher-42, one after the other. */
  readonly enqueue: (titles: readonly string[], fields?: { category?: string; recipientId?: string }) => Promise<void>;
  /** Resolves once so many jobs wait for their slots. */
  readonly untilWaiting: (count: number) => Promise<void>;
  /** The titles of what the devices got, in the order in which they got it. */
  readonly delivered: () => (string | undefined)[];
}

async function openBench(limits: Readonly<Record<string, string>>): Promise<Bench> {
  const bench = await openWorkerBench();
  const env = { ...bench.env, ...limits };
  await bench.startWorker(limits);
  return {
    ...bench,
    recipient: async (...args) => {
      const exit = await startProcess({ args: ['scripts/recipient.ts', ...args, '--json'], env }).waitForExit();
      expect(exit).toMatchObject({ code: 0, stderr: '' });
      return JSON.parse(exit.stdout) as Shown;
    },
    enqueue: async (titles, fields = {}) => {
      for (const title of titles) {
        const notification = makeNotification({ id: `msg-${title}`, alert: { title }, ...fields });
        await bench.queue.add('push', notification, { jobId: notification.id, priority: 10 });
      }
    },
    untilWaiting: async (count) => waitFor(async () => expect(await bench.queue.getDelayedCount()).toBe(count)),
    delivered: () => bench.sandbox.journal.accepted.map(({ title }) => title),
  };
}

test('show names the notifications that a worker has put back', async () => {
  const { recipient, enqueue, untilWaiting, env } = await openBench({ LIMIT_MIN_GAP: '1m' });
  await enqueue(['a', 'b', 'c'], { category: 'messages' });
  await untilWaiting(2);
  const { sent, reserved, nextAt, rule } = await recipient('show', 'teacher-42');
  expect(sent).toHaveLength(1);
  const known = { category: 'messages', priority: 'normal', attempts: 0, requeues: 1, waitsFor: 'gap' };
  expect(reserved).toMatchObject([
    { id: 'msg-b/0', notification: { id: 'msg-b', ...known } },
    { id: 'msg-c/0', notification: { id: 'msg-c', ...known } },
  ]);
  expect(Object.keys(reserved[0]?.notification ?? {}).toSorted()).toEqual(
    ['attempts', 'category', 'enqueuedAt', 'id', 'priority', 'requeues', 'waitsFor'], // neither texts nor tokens
  );
  const [first, second] = reserved.map(({ at }) => at);
  // A send that is late takes a new slot, and those that wait already keep theirs until they ask.
  const afterSentMs = (first ?? 0) - (sent[0]?.at ?? 0);
  expect(afterSentMs).toBeLessThanOrEqual(60_000);
  expect(afterSentMs).toBeGreaterThan(58_000);
  expect(second).toBe((first ?? 0) + 60_000);
  expect([nextAt, rule]).toEqual([(second ?? 0) + 60_000, 'gap']);

  const text = startProcess({
    args: ['scripts/recipient.ts', 'show', 'teacher-42'],
    env: { ...env, LIMIT_MIN_GAP: '1m' },
  });
  expect((await text.waitForExit()).stdout).toMatch(/\nin .* messages {2}msg-b\nin .* messages {2}msg-c\n$/);
});

test('block delays what waits already, and what comes, until its end: in order, once each', async () => {
  const limits = { LIMIT_RULES: '4/15s', LIMIT_MIN_GAP: '100ms' };
  const { recipient, enqueue, untilWaiting, delivered, sandbox } = await openBench(limits);
  await enqueue(['a', 'b', 'c', 'd', 'e', 'f']);
  await waitFor(() => expect(delivered().toSorted()).toEqual(['a', 'b', 'c', 'd']));
  await untilWaiting(2);
  const blocked = await recipient('block', 'teacher-42', '--for', '20s', '--reason', "parents' evening");
  expect(blocked).toMatchObject({ waiting: 2, until: expect.any(Number) as number });
  await enqueue(['g', 'h']);
  await untilWaiting(4);
  const { reserved } = await recipient('show', 'teacher-42');
  expect(reserved.map(({ notification }) => notification?.id)).toEqual(['msg-e', 'msg-f', 'msg-g', 'msg-h']);
  // As a set: who is woken late, on a busy machine, goes behind the others.
  const all = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  await waitFor(() => expect(delivered().toSorted()).toEqual(all));
  const [first] = sandbox.journal.accepted.slice(4);
  // The journal's clock and Redis's are the same machine's, read to the millisecond.
  expect(first?.at).toBeGreaterThan((blocked.until ?? Infinity) - 2);
  expect(await recipient('show', 'teacher-42')).toMatchObject({ reserved: [] });
}, 120_000);

test('block delays background pushes too, and unblock lets them go', async () => {
  const { recipient, untilWaiting, queue, sandbox } = await openBench({ LIMIT_BACKGROUND_RULES: '1/2s' });
  const push = async (id: string): Promise<void> => {
    const notification = makeNotification({ id, pushType: 'background', alert: undefined });
    await queue.add('push', notification, { jobId: id, priority: 10 });
  };
  await push('p');
  await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1));
  expect(await recipient('block', 'teacher-42', '--for', '1h', '--reason', 'asleep')).toMatchObject({ waiting: 0 });
  await push('q');
  await push('r');
  await untilWaiting(2);
  const { background, reserved, delayed } = await recipient('show', 'teacher-42');
  const waiting = background?.reserved.map(({ notification }) => `${notification?.id}: ${notification?.waitsFor}`);
  expect(waiting?.toSorted()).toEqual(['q: block', 'r: block']); // a worker takes both at once
  expect([reserved, delayed]).toEqual([[], []]);
  expect(await recipient('unblock', 'teacher-42')).toMatchObject({ wasBlocked: true, waiting: 2, moved: 2 });
  await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(3));
});

test('show lists what is delayed without a slot, and what it waits for', async () => {
  const { recipient, enqueue, untilWaiting, sandbox } = await openBench({ BACKOFF_BASE: '1h' });
  sandbox.apns.setRates([{ rate: 1, answer: { kind: 'refuse', status: 500, reason: 'InternalServerError' } }]);
  await enqueue(['a']);
  await untilWaiting(1);
  const { reserved, delayed } = await recipient('show', 'teacher-42');
  expect({ reserved, delayed }).toMatchObject({
    reserved: [],
    delayed: [{ id: 'msg-a', attempts: 1, waitsFor: 'retry' }],
  });
  expect(delayed[0]?.dueAt).toBeGreaterThan(Date.now() + 200_000);
});
