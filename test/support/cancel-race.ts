import { setTimeout as sleep } from 'node:timers/promises';
import type { Job, Queue } from 'bullmq';
import { expect } from 'vitest';
import type { Notification } from '../../src/notification/notification.ts';
import { tokenOf } from '../../src/notification/device.ts';
import type { Canceled, Producer } from '../../src/producer/producer.ts';
import { makeNotification } from './push.ts';
import { waitFor } from './wait.ts';

/** A gap between alerts of one recipient, so that slots lie 150 ms apart. */
export const RACE_LIMITS = { LIMIT_RULES: '1000/1m', LIMIT_MIN_GAP: '150ms' };
const GAP_MS = 150;

interface Race {
  readonly producer: Producer;
  readonly queue: Queue;
  readonly recipients: number;
  /** For each recipient. */
  readonly notifications: number;
  /** The tokens that a provider has accepted. */
  readonly accepted: () => readonly string[];
  /** A cancel may also reach what is sent by several workers, one of which was killed: then an alert may come twice. */
  readonly mayRepeat?: boolean;
  /** How much later than the planned slots the cancels come, milliseconds. Default: 0. */
  readonly lateMs?: number;
}

/** How many were canceled, and for how many it was too late. */
export interface RaceResult {
  readonly canceled: number;
  readonly tooLate: number;
}

/**
 * Enqueues, and cancels each notification at a random instant around its slot, by every way there is. Fails unless each is either
 * canceled and never received, or too late and received.
 */
export async function race(options: Race): Promise<RaceResult> {
  const { producer, queue, recipients, notifications, accepted, mayRepeat = false, lateMs = 0 } = options;
  const round = crypto.randomUUID(); // what an earlier round canceled under the same key would be counted again
  const all: Notification[] = Array.from({ length: recipients * notifications }, (_, n) =>
    makeNotification({ recipientId: `teacher-${n % recipients}`, cancellationKey: `${round}-${n}` }),
  );
  const results = await producer.enqueueMany(all);
  expect(results.every(({ kind }) => kind === 'added')).toBe(true);
  const answers = await Promise.all(
    all.map(async (each, n) => {
      const slotMs = Math.floor(n / recipients) * GAP_MS + lateMs;
      await sleep(Math.max(0, slotMs + 2 * GAP_MS * (Math.random() - 0.5)));
      return WAYS[n % WAYS.length]?.(each, options);
    }),
  );
  // What was too late may still be under way.
  const late = all.filter((_, n) => answers[n]?.canceled !== 1);
  await waitFor(() => {
    const got = new Set(accepted());
    expect(late.filter((each) => !got.has(tokensOf(each))).map(({ id }) => id)).toEqual([]);
  });
  await waitFor(async () => expect(await queue.getJobCountByTypes('active', 'delayed', 'prioritized', 'wait')).toBe(0));
  const got = accepted();
  const counts = { canceled: 0, tooLate: 0 };
  for (const [n, each] of all.entries()) {
    const { canceled = 0, tooLate = 0 } = answers[n] ?? {};
    const times = got.filter((token) => token === tokensOf(each)).length;
    const outcome = ((await queue.getJob(each.id)) as Job | undefined)?.returnvalue as { outcome?: string } | undefined;
    const said = { id: each.id, canceled, outcome: outcome?.outcome };
    if (canceled === 1) expect({ ...said, times }).toEqual({ ...said, outcome: 'canceled', times: 0 });
    else {
      expect({ ...said, outcome: outcome?.outcome }).toEqual({ ...said, outcome: 'delivered' });
      expect(times).toBeGreaterThanOrEqual(1);
      if (!mayRepeat) expect(times).toBe(1);
    }
    counts.canceled += canceled;
    counts.tooLate += tooLate;
  }
  return counts;
}

type Way = (notification: Notification, race: Race) => Promise<Canceled>;

const WAYS: readonly Way[] = [
  ({ id }, { producer }) => producer.cancel({ id }),
  ({ recipientId, cancellationKey = '' }, { producer }) => producer.cancel({ recipientId, cancellationKey }),
  async ({ id }, { queue }) => {
    const { id: jobId = '' } = await queue.add('cancel', { id }, { priority: 1 });
    return waitFor(async () => {
      const job = (await queue.getJob(jobId)) as Job | undefined;
      expect(job?.finishedOn).toBeDefined();
      return job?.returnvalue as Canceled;
    });
  },
];

function tokensOf({ devices }: Notification): string {
  return devices.map(tokenOf).join();
}
