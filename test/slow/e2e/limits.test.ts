import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { openWorkerBench } from '../../support/worker.ts';

async function limitsFile(categories: unknown): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'pushpacer-limits-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'limits.json');
  await writeFile(file, JSON.stringify({ categories }));
  return file;
}

it('a category with a policy of its own is paced by it, and the others are not', async () => {
  const { queue, sandbox, startWorker } = await openWorkerBench();
  const LIMITS_FILE = await limitsFile({ homework: { minGap: '700ms' } });
  const worker = await startWorker({ LIMITS_FILE, LIMIT_RULES: '100/1m', LIMIT_MIN_GAP: '10ms' });
  const devices = [makeDevice()];
  const homework = Array.from({ length: 3 }, () =>
    makeNotification({ devices, category: 'homework', collapseId: 'homework' }),
  );
  const messages = Array.from({ length: 3 }, () => makeNotification({ devices, category: 'messages' }));
  for (const each of [...homework, ...messages]) await queue.add('push', each, { priority: 10 });

  await worker.waitForLine(/"rule":"homework:gap"/);
  await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(6), { timeout: 10_000 });
  const arrivals = sandbox.journal.accepted.filter(({ collapseId }) => collapseId === 'homework').map(({ at }) => at);
  const gaps = arrivals.slice(1).map((at, index) => at - (arrivals[index] ?? NaN));
  expect(gaps).toHaveLength(2);
  for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(675);
  const firstHomework = arrivals.at(0) ?? NaN;
  const others = sandbox.journal.accepted.filter(({ collapseId }) => collapseId !== 'homework').map(({ at }) => at);
  expect(others.filter((at) => at < firstHomework + 700)).toHaveLength(3);
});

it('a quota of the project holds over all workers, and what is over it waits its turn once', async () => {
  const { queue, sandbox, startWorker } = await openWorkerBench();
  const env = { FCM_QUOTA: '5/1s', LIMIT_RULES: '100/1m', LIMIT_MIN_GAP: '0' };
  const workers = [await startWorker(env), await startWorker(env)];
  const toSend = Array.from({ length: 15 }, (_, number) =>
    makeNotification({ recipientId: `teacher-${number}`, devices: [makeDevice('fcm')] }),
  );
  await queue.addBulk(toSend.map((data) => ({ name: 'push', data, opts: { priority: 10 } })));
  await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(15), { timeout: 20_000 });

  const arrivals = sandbox.journal.accepted.map(({ at }) => at).toSorted((a, b) => a - b);
  // The way to the provider is not the same for each, above all on a busy machine.
  const most = Math.max(...arrivals.map((from) => arrivals.filter((at) => at >= from && at < from + 800).length));
  expect(most).toBeLessThanOrEqual(5);
  await Promise.any(workers.map((worker) => worker.waitForLine(/"rule":"fcm:5\/1s"/)));
});

it('where too many wait for one recipient, one more becomes a dead letter', async () => {
  const { queue, deadQueue, sandbox, startWorker } = await openWorkerBench();
  await startWorker({ LIMIT_MAX_PENDING: '2', LIMIT_RULES: '100/1m', LIMIT_MIN_GAP: '400ms', WORKER_CONCURRENCY: '1' });
  for (const data of Array.from({ length: 5 }, () => makeNotification()))
    await queue.add('push', data, { priority: 10 });
  await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(3), { timeout: 10_000 });
  await vi.waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(2), { timeout: 10_000 });
  for (const { data } of await deadQueue.getJobs()) {
    expect(data).toMatchObject({ reason: 'throttled-too-long' });
    expect((data as { message: string }).message).toMatch(/^2 or more wait for this recipient already/);
  }
});
