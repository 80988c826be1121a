import type { Queue } from 'bullmq';
import type { DeadLetter } from '../../src/notification/outcome.ts';
import { notification } from '../queue/support.ts';

/** The data of a dead letter; `fields` on top. */
export function deadLetter(id: string, fields: Partial<DeadLetter> = {}): DeadLetter {
  return {
    notification: notification({ id, recipientId: `recipient-${id}` }),
    reason: 'rejected',
    message: 'no',
    attempts: [],
    deadAt: Date.now(),
    generation: 0,
    ...fields,
  };
}

/** So many, by their ids: `n0`, `n1`, … */
export function manyLetters(count: number, fields: Partial<DeadLetter> = {}): Record<string, DeadLetter> {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`n${n}`, deadLetter(`n${n}`, fields)]));
}

/** Puts data among the dead letters, the oldest first, by the ids of their jobs. */
export async function addDead(deadQueue: Queue, letters: Readonly<Record<string, unknown>>): Promise<void> {
  const jobs = Object.entries(letters).map(([jobId, data]) => ({ name: 'push', data, opts: { jobId } }));
  await deadQueue.addBulk(jobs);
}

/** The ids of those that are there, sorted. */
export async function deadIdsIn(deadQueue: Queue): Promise<(string | undefined)[]> {
  return (await deadQueue.getJobs(['wait'])).map(({ id }) => id).sort();
}
