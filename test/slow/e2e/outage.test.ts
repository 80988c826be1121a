import { setTimeout as sleep } from 'node:timers/promises';
import type { Queue } from 'bullmq';
import { describe, expect, it, vi } from 'vitest';
import { readProgress } from '../../../src/delivery/progress.ts';
import type { Notification } from '../../../src/notification/notification.ts';
import type { SeenEntry } from '../../../demo/providers-child.ts';
import { judge } from '../../../sandbox/judge.ts';
import { makeDevice, makeTraced } from '../../support/push.ts';
import { openRealBench } from '../../support/real-bench.ts';
import { openWorkerBench, type WorkerQueues } from '../../support/worker.ts';

const SOON = { timeout: 60_000, interval: 50 };
const GAP_MS = 200;
const ENV = {
  ATTEMPTS: '2',
  BACKOFF_BASE: '100ms',
  LIMIT_MIN_GAP: `${GAP_MS}ms`,
  LIMIT_RULES: '1000/1s',
  PROVIDER_PAUSE_BASE: '300ms',
  PROVIDER_PAUSE_MAX: '1s',
};

/** Eight recipients with a phone each, so many notifications for each. */
function lessons(platform: 'apns' | 'fcm', each: number): Notification[] {
  const devices = Array.from({ length: 8 }, () => makeDevice(platform));
  return Array.from({ length: 8 * each }, (_, index) => {
    const device = devices[index % 8];
    if (device === undefined) throw new Error('eight devices');
    return makeTraced({
      recipientId: `${platform}-teacher-${index % 8}`,
      devices: [device],
      alert: { title: String(index) },
    });
  });
}

async function enqueue(queue: Queue, notifications: readonly Notification[]): Promise<void> {
  await queue.addBulk(notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } })));
}

async function readyz(url: string): Promise<{ providers: Record<string, unknown> }> {
  return (await (await fetch(`${url}/readyz`)).json()) as { providers: Record<string, unknown> };
}

async function settled({ queue }: Pick<WorkerQueues, 'queue'>, count: number): Promise<void> {
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(count), SOON);
}

/** Pairs of one recipient that arrived the other way round than they were enqueued. */
function swappedPairs(accepted: readonly SeenEntry[]): number {
  const swapped = [...Map.groupBy(accepted, ({ token }) => token).values()].flatMap((own) =>
    own.flatMap(({ title }, index) => own.slice(index + 1).filter((later) => Number(later.title) < Number(title))),
  );
  return swapped.length;
}

/** How many alerts of one recipient came too early after another one. */
function gapViolations(accepted: readonly SeenEntry[]): number {
  const arrivals = accepted.map(({ token, apnsId, at, delayMs }) => {
    return { recipientId: token, notificationId: apnsId ?? '', device: token, at, delayMs };
  });
  return judge(arrivals, { rules: [], minGapMs: GAP_MS }).gapViolations;
}

describe('a provider that is down', () => {
  it.each([1, 2])(
    'keeps its notifications at %i worker(s) without an attempt, and at their pace, while the other one goes on',
    async (count) => {
      const bench = await openRealBench();
      const { queue, providers, startWorker } = bench;
      const env = { ...ENV, PROVIDER_PAUSE_BASE: '2s', PROVIDER_PAUSE_MAX: '3s' };
      const workers = await Promise.all(Array.from({ length: count }, () => startWorker(env)));
      await providers.order({ do: 'down', platform: 'apns' });
      const [kept, others] = [lessons('apns', 5), lessons('fcm', 2)];
      await enqueue(queue, others);
      for (let from = 0; from < kept.length; from += 8) {
        await enqueue(queue, kept.slice(from, from + 8)); // one for each teacher
        await sleep(600);
      }
      await settled(bench, others.length); // undisturbed
      for (const { url } of workers) {
        await vi.waitFor(async () => {
          const { providers } = await readyz(url);
          expect(providers).toMatchObject({ apns: { breaker: 'open', trouble: 'outage' }, fcm: { breaker: 'closed' } });
          expect(await (await fetch(`${url}/metrics`)).text()).toMatch(
            /pushpacer_breaker_open_seconds\{platform="apns"\} [0-9.]+/,
          );
        }, SOON);
      }
      await sleep(1_000); // trials fail meanwhile
      await providers.order({ do: 'up', platform: 'apns' });
      await settled(bench, kept.length + others.length);

      const jobs = await queue.getJobs(['completed']);
      expect(jobs.map(({ progress }) => readProgress(progress).tries)).toEqual(jobs.map(() => 0));
      const accepted = bench.accepted().filter(({ platform }) => platform === 'apns');
      expect(accepted).toHaveLength(kept.length);
      expect(gapViolations(accepted)).toBe(0);
      expect((await readyz(workers[0]?.url ?? '')).providers).toMatchObject({ apns: { breaker: 'closed' } });
      // Chance would swap half of the pairs. Several workers come back from an outage at different times: what was
      // enqueued within seconds may be swapped between them.
      if (count === 1) expect(swappedPairs(accepted)).toBeLessThan((8 * 10) / 5);
    },
  );

  it('that answers 503 to everybody is left alone too, and no notification is given up for it', async () => {
    const bench = await openWorkerBench();
    const { queue, sandbox, startWorker, deadQueue } = bench;
    await startWorker({ ...ENV, ATTEMPTS: '3' });
    sandbox.apns.setDefault({ kind: 'refuse', status: 503, reason: 'ServiceUnavailable' });
    const kept = lessons('apns', 4);
    await enqueue(queue, kept);
    await sleep(5_000);
    const refused = sandbox.journal.all.length;
    sandbox.apns.setDefault(undefined);
    await settled(bench, kept.length);
    expect(await deadQueue.count()).toBe(0);
    expect(refused).toBeLessThan(3 * kept.length); // without a breaker: each every 100 to 400 ms
  });
});

it('refused credentials open the breaker of all workers, and a trial finds out that they are taken again', async () => {
  const bench = await openWorkerBench();
  const { queue, sandbox, startWorker } = bench;
  const workers = [await startWorker(ENV), await startWorker(ENV), await startWorker(ENV)];
  sandbox.apns.revokeKey();
  const kept = lessons('apns', 3);
  await enqueue(queue, kept);
  for (const worker of workers) await worker.waitForLine(/the provider refuses the credentials/);
  await sleep(2_000);
  expect(sandbox.journal.all.length).toBeLessThan(kept.length);
  sandbox.apns.restoreKey();
  await settled(bench, kept.length);
  const jobs = await queue.getJobs(['completed']);
  expect(jobs.map(({ progress }) => readProgress(progress).tries)).toEqual(jobs.map(() => 0));
});
