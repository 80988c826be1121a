import type { Job } from 'bullmq';
import { expect } from 'vitest';
import { main as recipient } from '../../scripts/recipient.ts';
import type { Notification } from '../../src/notification/notification.ts';
import { runMain } from './command.ts';
import { makeNotification } from './push.ts';
import { queueEnv } from './redis.ts';
import { openReplicaBench, type ReplicaBench } from './replica.ts';
import { waitFor } from './wait.ts';

/** One alert, and the next only in an hour. */
export const SLOW = { LIMIT_RULES: '1/1h', LIMIT_MIN_GAP: '0' };

function outcomeOf(bench: ReplicaBench, id: string): Promise<unknown> {
  return bench.queue.getJob(id).then((job) => (job as Job | undefined)?.returnvalue as unknown);
}

/** Resolves when its job has ended like this. */
export async function ends(bench: ReplicaBench, id: string, outcome: string): Promise<void> {
  await waitFor(async () => expect(await outcomeOf(bench, id)).toMatchObject({ outcome }));
}

/** Resolves when its job is delayed. */
export const waits = (bench: ReplicaBench, id: string) =>
  waitFor(async () => {
    const job = await bench.queue.getJob(id);
    expect(await job?.getState()).toBe('delayed');
  });

/** What was sent to the recipient no longer counts: what waits for a slot goes now. */
export async function reset({ prefix }: Pick<ReplicaBench, 'prefix'>, recipientId = 'teacher-42'): Promise<void> {
  expect(await runMain(recipient, ['reset', recipientId], queueEnv(prefix))).toMatchObject({ code: 0 });
}

/** A bench with a replica that runs. */
export async function openRunning(env?: Readonly<Record<string, string>>): Promise<ReplicaBench> {
  const bench = await openReplicaBench();
  await bench.startHere(env);
  return bench;
}

/** Enqueues it, and resolves when it was delivered. */
export async function deliver(bench: ReplicaBench, notification: Notification): Promise<void> {
  await bench.producer.enqueue(notification);
  await ends(bench, notification.id, 'delivered');
}

/** Enqueues them one after the other, each when the one before it waits, and resolves when all wait. */
export async function enqueueWaiting(bench: ReplicaBench, notifications: readonly Notification[]): Promise<void> {
  for (const each of notifications) {
    await bench.producer.enqueue(each);
    await waits(bench, each.id);
  }
}

/** One that is delivered, and more of the same recipient that wait: under the limits of `SLOW` for an hour and longer. */
export async function blocked<const Fields extends readonly Partial<Notification>[]>(
  bench: ReplicaBench,
  fields: Fields,
  first: Partial<Notification> = { priority: 'high' },
): Promise<{ [At in keyof Fields]: Notification }> {
  await deliver(bench, makeNotification(first));
  const others = fields.map((more) => makeNotification(more));
  await enqueueWaiting(bench, others);
  return others as { [At in keyof Fields]: Notification };
}
