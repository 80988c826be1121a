import { jobIdOfAsk } from '../src/delivery/slot.ts';
import { countedAs } from '../src/domain/limits.ts';
import { parseNotification } from '../src/notification/notification.ts';
import type { Inspection } from '../src/limiter/limiter.ts';
import { jobIdOf, notificationIdOf } from '../src/queue/names.ts';
import { keptAbout, keptFields } from '../src/operations/catalogue.ts';
import { findDelayed, findNotTaken, type DelayedJob, type WaitingJob } from '../src/operations/jobs.ts';
import type { Connection } from '../src/redis/connection.ts';
import type { Queue } from 'bullmq';
import type { OpenLimiters } from './limiters.ts';

/** What the API says of one recipient. All instants are epoch milliseconds. */
export interface RecipientView extends Omit<Inspection, 'reserved'> {
  readonly recipientId: string;
  /** How many wait for a slot that they have. */
  readonly waitingCount: number;
  /** The first 1,000 of them, the next one first, each with the rule that makes it wait and how many are before it. */
  readonly waiting: Inspection['reserved'];
  /** Those that wait without a slot, such as for another attempt. */
  readonly delayed: readonly DelayedJob[];
  /** Those that no worker has looked at yet. */
  readonly notTaken: readonly WaitingJob[];
}

export interface RecipientsParts {
  readonly redis: Connection;
  /** QUEUE_PREFIX. */
  readonly prefix: string;
  readonly limiters: () => Promise<Pick<OpenLimiters, 'limiters'>>;
  /** The queues that may have a recipient's notifications. */
  readonly homes: (recipientId: string) => Promise<readonly Queue[]>;
}

export interface Recipients {
  look(recipientId: string): Promise<RecipientView>;
  /**
   * When a notification that was just enqueued would be sent, as far as the slots so far say: epoch milliseconds. Those that no
   * worker has looked at yet have none. Undefined if it will not be sent, or the limiter does not answer.
   */
  estimate(data: unknown): Promise<number | undefined>;
}

const MOST_SHOWN = 1_000;

export function createRecipients({ redis, prefix, homes, limiters }: RecipientsParts): Recipients {
  return {
    async look(recipientId) {
      const queues = await homes(recipientId);
      const { reserved, ...inspection } = await (await limiters()).limiters.alert.inspect(recipientId);
      const jobIds = reserved.map(({ id }) => id && jobIdOfAsk(id));
      const known = new Set(jobIds.filter((id) => id !== undefined));
      const [delayed, notTaken, kept] = await Promise.all([
        findDelayed(queues, redis, { recipientId, known }),
        findNotTaken(queues, { recipientId, known }),
        keptAbout(recipientId, { connection: redis, prefix }),
      ]);
      const waiting = reserved.slice(0, MOST_SHOWN).map((slot, index) => {
        const jobId = jobIds[index];
        return { ...slot, ...(jobId !== undefined && { id: notificationIdOf(jobId) }) };
      });
      const lists = { waitingCount: reserved.length, waiting, delayed: delayed.found, notTaken: notTaken.found };
      return { recipientId, ...inspection, ...lists, ...keptFields(kept) };
    },
    async estimate(data) {
      const parsed = parseNotification(data);
      if (!parsed.ok) return undefined;
      const { id, recipientId, category, sendAfter = 0 } = parsed.notification;
      try {
        const limiter = (await limiters()).limiters[countedAs(parsed.notification)];
        const named = category !== undefined && { category };
        const answer = await limiter.peek({ recipientId, id: `${jobIdOf(id)}/0`, ...named });
        return answer.kind === 'refused' ? undefined : Math.max(sendAfter, Math.round(answer.at));
      } catch {
        return undefined; // it is enqueued in any case
      }
    },
  };
}
