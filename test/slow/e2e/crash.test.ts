import { describe, expect, it, vi } from 'vitest';
import { tokenOf } from '../../../src/domain/device.ts';
import type { DeadLetter } from '../../../src/domain/outcome.ts';
import { killAgainAndAgain } from '../../support/kills.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { openWorkerBench } from '../../support/worker.ts';

const LOCK = { LOCK_DURATION: '1s', BACKOFF_BASE: '100ms' };
const SOON = { timeout: 20_000, interval: 20 };

describe('a worker that is killed', () => {
  it('while one device is acknowledged and another hangs: only the other is tried again, under the same id', async () => {
    const { queue, sandbox, startWorker } = await openWorkerBench();
    const [phone, tablet] = [makeDevice(), makeDevice()];
    sandbox.apns.script(tablet.token, [{ kind: 'hang', accepted: true }]);
    const worker = await startWorker(LOCK);
    const job = await queue.add('push', makeNotification({ devices: [phone, tablet] }), { priority: 10 });
    await vi.waitFor(async () => {
      const { progress } = (await queue.getJob(job.id ?? '')) ?? {};
      expect(progress).toMatchObject({ devices: { 'apns#0': 'delivered' } });
    }, SOON);
    worker.kill('SIGKILL');
    await worker.waitForExit();

    await startWorker(LOCK);
    await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1), SOON);
    const alertsTo = (token: string) => sandbox.journal.accepted.filter((entry) => entry.token === token);
    expect(alertsTo(phone.token)).toHaveLength(1);
    const copies = alertsTo(tablet.token);
    expect(copies).toHaveLength(2); // the window that cannot be closed
    expect(copies[1]).toMatchObject({ apnsId: copies[0]?.apnsId, collapseId: copies[0]?.collapseId });
  });

  it('while a blocked notification waits for its slot: it is alerted once, at that slot', async () => {
    const { queue, sandbox, startWorker } = await openWorkerBench();
    const worker = await startWorker({ ...LOCK, LIMIT_MIN_GAP: '3s' });
    await queue.add('push', makeNotification(), { priority: 10 });
    await queue.add('push', makeNotification(), { priority: 10 });
    await vi.waitFor(async () => {
      expect(await queue.getDelayedCount()).toBe(1);
      expect(await queue.getCompletedCount()).toBe(1); // else the first may be alerted again
    }, SOON);
    worker.kill('SIGKILL');
    await startWorker({ ...LOCK, LIMIT_MIN_GAP: '3s' });
    await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(2), SOON);
    const [first, second, ...more] = sandbox.journal.accepted;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(3_000 - 25);
    expect(more).toEqual([]);
  });

  it('again and again, under load: every notification is alerted, and more than once only what was in flight', async () => {
    const { queue, sandbox, startWorker } = await openWorkerBench();
    const env = { ...LOCK, LIMIT_MIN_GAP: '5ms', LIMIT_RULES: '1000/1s', WORKER_CONCURRENCY: '10' };
    const notifications = Array.from({ length: 300 }, (_, index) =>
      makeNotification({ recipientId: `teacher-${index % 40}` }),
    );
    sandbox.apns.setDefault({ kind: 'accept', delayMs: 40 });
    await queue.addBulk(notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } })));
    const inFlight = await killAgainAndAgain(queue, () => startWorker(env));
    await startWorker(env);
    await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(300), SOON);
    const idOf = new Map(notifications.map(({ id, devices }) => [devices.map(tokenOf).join(), id]));
    const alerts = Map.groupBy(sandbox.journal.accepted, ({ token }) => idOf.get(token) ?? '');
    expect(alerts.size).toBe(300);
    const doubled = [...alerts].filter(([, copies]) => copies.length > 1).map(([id]) => id);
    expect(doubled.filter((id) => !inFlight.has(id))).toEqual([]);
  });
});

describe('AT_MOST_ONCE', () => {
  it('makes what was being sent when its worker was killed a dead letter, and never alerts it again', async () => {
    const { queue, deadQueue, sandbox, startWorker } = await openWorkerBench();
    const env = { ...LOCK, AT_MOST_ONCE: 'true' };
    const device = makeDevice();
    sandbox.apns.script(device.token, [{ kind: 'hang', accepted: true }]);
    const worker = await startWorker(env);
    const notification = makeNotification({ devices: [device] });
    await queue.add('push', notification, { priority: 10 });
    await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1), SOON);
    worker.kill('SIGKILL');

    await startWorker(env);
    await vi.waitFor(async () => expect(await deadQueue.getJobCountByTypes('wait')).toBe(1), SOON);
    const [letter] = await deadQueue.getJobs();
    expect(letter?.data).toMatchObject({ notification, reason: 'ambiguous' } satisfies Partial<DeadLetter>);
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('makes an answer that leaves it open a dead letter at once, and alerts the rest', async () => {
    const { queue, deadQueue, sandbox, startWorker } = await openWorkerBench();
    await startWorker({ ...LOCK, AT_MOST_ONCE: 'true', LIMIT_MIN_GAP: '0' });
    const [cut, well, busy] = [makeDevice(), makeDevice(), makeDevice()];
    sandbox.apns.script(cut.token, [{ kind: 'reset', scope: 'stream', accepted: true }]);
    sandbox.apns.script(busy.token, [{ kind: 'refuse', status: 503, reason: 'ServiceUnavailable' }]);
    for (const device of [cut, well, busy])
      await queue.add('push', makeNotification({ devices: [device] }), { priority: 10 });
    await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(2), SOON);
    await vi.waitFor(async () => expect(await deadQueue.getJobCountByTypes('wait')).toBe(1), SOON);
    const [letter] = await deadQueue.getJobs();
    expect(letter?.data).toMatchObject({
      reason: 'ambiguous',
      attempts: [{ device: 'apns#0', error: expect.stringMatching(/^reset/) as string }],
    });
    expect(sandbox.journal.accepted.map(({ token }) => token).toSorted()).toEqual(
      [cut, well, busy].map(({ token }) => token).toSorted(),
    );
  });
});

it('poison that ends each worker which takes it becomes a dead letter, and its companions are delivered', async () => {
  const { queue, deadQueue, sandbox, startWorker } = await openWorkerBench();
  const env = { ...LOCK, MAX_STALLS: '2', LIMIT_MIN_GAP: '0' };
  const poison = makeNotification();
  sandbox.apns.script(
    poison.devices.map(tokenOf).join(),
    Array.from({ length: 9 }, () => ({ kind: 'hang' }) as const),
  );
  await queue.add('push', poison, { jobId: 'poison', priority: 10 });
  let taken = 0;
  for (let kills = 0; kills < 3; kills++) {
    const worker = await startWorker(env);
    taken = await vi.waitFor(() => {
      const { length } = sandbox.journal.all.filter(({ token }) => token === poison.devices.map(tokenOf).join());
      expect(length).toBeGreaterThan(taken);
      return length;
    }, SOON);
    worker.kill('SIGKILL');
  }
  const worker = await startWorker(env);
  await queue.add('push', makeNotification({ recipientId: 'somebody else' }), { priority: 10 });
  await worker.waitForLine(/"outcome":"delivered"/);
  await vi.waitFor(async () => expect(await deadQueue.getJobCountByTypes('wait')).toBe(1), SOON);
  const [letter] = await deadQueue.getJobs();
  expect(letter?.data).toMatchObject({ notification: poison, reason: 'stalled', generation: 0 });
});
