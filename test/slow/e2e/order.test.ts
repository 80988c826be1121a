import { expect, it } from 'vitest';
import { readProgress } from '../../../src/delivery/context.ts';
import type { Device, Notification } from '../../../src/domain/notification.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { openRealBench } from '../../support/real-bench.ts';

const COUNT = 60;
const IN_ORDER = Array.from({ length: COUNT }, (_, index) => index);

/** To one recipient: some to an iPhone, some to an Android phone, some to both; numbered by their titles. */
function mixed(): Notification[] {
  const devices: Device[][] = [[makeDevice('apns')], [makeDevice('fcm')], [makeDevice('fcm'), makeDevice('apns')]];
  return IN_ORDER.map((index) =>
    makeNotification({ devices: devices[index % 3] ?? [], alert: { title: String(index) } }),
  );
}

it('slots of one recipient follow the order of enqueuing, also at a worker that has just started', async () => {
  const bench = await openRealBench();
  await bench.enqueue(mixed());
  await bench.startWorker({ WORKER_CONCURRENCY: '50', LIMIT_RULES: '1000/1m', LIMIT_MIN_GAP: '300ms' });
  await bench.completed(COUNT);
  const order = [...new Set(bench.accepted().map(({ title }) => Number(title)))];
  expect(order).toHaveLength(COUNT);
  // Who misses a slot, because the machine stood still for half a gap, gets the last one.
  const jobs = await bench.queue.getJobs(['completed']);
  const late = jobs.filter(({ progress }) => readProgress(progress).requeues > 1);
  const lateTitles = late.map(({ data }) => Number((data as Notification).alert?.title));
  expect(late.length).toBeLessThan(COUNT / 4);
  expect(order.filter((title) => !lateTitles.includes(title))).toEqual(
    IN_ORDER.filter((title) => !lateTitles.includes(title)),
  );
}, 90_000);
