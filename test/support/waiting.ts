import type { Job } from 'bullmq';
import { expect, vi } from 'vitest';
import type { Notification } from '../../src/notification/notification.ts';
import { makeNotification } from './push.ts';
import type { ReplicaBench } from './replica.ts';

/** How long to wait for a worker. */
export const WITHIN = { timeout: 10_000 };
/** One alert, and the next only in an hour. */
export const SLOW = { LIMIT_RULES: '1/1h', LIMIT_MIN_GAP: '0' };

function outcomeOf(bench: ReplicaBench, id: string): Promise<unknown> {
  return bench.queue.getJob(id).then((job) => (job as Job | undefined)?.returnvalue as unknown);
}

/** Resolves when its job has ended like this. */
export async function ends(bench: ReplicaBench, id: string, outcome: string): Promise<void> {
  await vi.waitFor(async () => expect(await outcomeOf(bench, id)).toMatchObject({ outcome }), WITHIN);
}

/** Resolves when its job is delayed. */
export const waits = (bench: ReplicaBench, id: string) =>
  vi.waitFor(async () => {
    const job = await bench.queue.getJob(id);
    expect(await job?.getState()).toBe('delayed');
  }, WITHIN);

/** One that is delivered, and more of the same recipient that wait for an hour and longer. */
export async function blocked<const Fields extends readonly Partial<Notification>[]>(
  bench: ReplicaBench,
  fields: Fields,
): Promise<{ [At in keyof Fields]: Notification }> {
  const first = makeNotification({ priority: 'high' });
  await bench.producer.enqueue(first);
  await ends(bench, first.id, 'delivered');
  const others = fields.map((more) => makeNotification(more));
  for (const other of others) {
    await bench.producer.enqueue(other);
    await waits(bench, other.id);
  }
  return others as { [At in keyof Fields]: Notification };
}
