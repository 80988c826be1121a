import { expect, it } from 'vitest';
import { judge } from '../../../sandbox/judge.ts';
import { readProgress } from '../../../src/delivery/progress.ts';
import type { Notification } from '../../../src/notification/notification.ts';
import { PRIORITY } from '../../../src/queue/names.ts';
import { makeDevice, makeTraced } from '../../support/push.ts';
import { openRealBench } from '../../support/real-bench.ts';
import { waitFor } from '../../support/wait.ts';

const MESSAGES = 24;
const GAP_MS = 600;

it('an alert of high priority goes before the chat messages that wait, which keep their order', async () => {
  const bench = await openRealBench();
  const env = { LIMIT_RULES: '1000/1m', LIMIT_MIN_GAP: `${GAP_MS}ms` };
  await Promise.all([bench.startWorker(env), bench.startWorker(env)]);
  const devices = [makeDevice('fcm')];
  const chat = Array.from({ length: MESSAGES }, (_, index) => `chat ${index}`);
  await bench.enqueue(chat.map((title) => makeTraced({ devices, alert: { title } })));
  await waitFor(async () => expect(await bench.queue.getDelayedCount()).toBeGreaterThan(MESSAGES - 10));

  // Two workers may swap those that were enqueued together: their order is that of their slots.
  const line = (await bench.queue.getDelayed()).map(({ data }) => (data as Notification).alert?.title ?? '');
  const urgent = makeTraced({ devices, alert: { title: 'School is closed' }, priority: 'high' });
  const before = bench.accepted().length;
  await bench.queue.add('push', urgent, { jobId: urgent.id, priority: PRIORITY.high });
  await bench.completed(MESSAGES + 1);

  const titles = bench.accepted().map(({ title = '' }) => title);
  // One may be on its way when it is enqueued, and the next one is about to be sent.
  expect(titles.indexOf('School is closed')).toBeLessThanOrEqual(before + 2);
  const jobs = await bench.queue.getJobs(['completed']);
  const passesOf = jobs.map(({ data, progress }) => ({
    title: (data as Notification).alert?.title,
    passes: readProgress(progress).requeues + 1,
  }));
  // Who misses a slot, because the machine stood still for half a gap, gets the last one.
  const late = passesOf.filter(({ passes }) => passes > 2).map(({ title = '' }) => title);
  expect(late.length).toBeLessThan(MESSAGES / 8);
  const inTime = line.filter((title) => !late.includes(title));
  expect(titles.filter((title) => inTime.includes(title))).toEqual(inTime);
  const arrivals = bench.accepted().map(({ title = '', token, at, delayMs }) => {
    return { recipientId: 'one', notificationId: title, device: token, at, delayMs };
  });
  expect(judge(arrivals, { rules: [], minGapMs: GAP_MS })).toMatchObject({ gapViolations: 0, duplicates: 0 });
}, 120_000);
