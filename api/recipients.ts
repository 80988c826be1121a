import { jobIdOfAsk } from '../src/delivery/lines.ts';
import { countedAs } from '../src/domain/limits.ts';
import type { Inspection } from '../src/limiter/limiter.ts';
import { parseNotification } from '../src/notification/notification.ts';
import { keptFields } from '../src/operations/catalogue.ts';
import type { DelayedJob, SendingJob, WaitingJob } from '../src/operations/jobs.ts';
import { jobIdOf, notificationIdOf } from '../src/queue/names.ts';
import type { Backend } from './backend.ts';

/** What the API answers about one recipient. All instants are epoch milliseconds. */
export interface RecipientView extends Omit<Inspection, 'reserved'> {
  readonly recipientId: string;
  /** How many notifications have a slot and wait for it. */
  readonly waitingCount: number;
  /** The first 1,000 of them, the next slot first, each with the rule that makes it wait and with how many are before it. */
  readonly waiting: Inspection['reserved'];
  /** Notifications that wait without a slot, for example for another attempt. */
  readonly delayed: readonly DelayedJob[];
  /** Notifications that no worker has looked at yet. */
  readonly notTaken: readonly WaitingJob[];
  /** Notifications that workers have now. */
  readonly sending: readonly SendingJob[];
}

export interface Recipients {
  look(recipientId: string): Promise<RecipientView>;
  /**
   * When a notification that was just enqueued would be sent, judged by the present slots: epoch milliseconds. Notifications
   * that no worker has looked at yet have no slots. Undefined if it will not be sent, or the limiter does not answer.
   */
  estimate(data: unknown): Promise<number | undefined>;
}

const MOST_SHOWN = 1_000;

export function createRecipients({ look, limiters }: Pick<Backend, 'look' | 'limiters'>): Recipients {
  return {
    async look(recipientId) {
      const seen = await look(recipientId, { most: 0 });
      const { reserved, ...inspection } = seen.inspection;
      const waiting = reserved.slice(0, MOST_SHOWN).map((slot) => {
        const jobId = slot.id && jobIdOfAsk(slot.id);
        return { ...slot, ...(jobId !== undefined && { id: notificationIdOf(jobId) }) };
      });
      const lists = { delayed: seen.delayed.found, notTaken: seen.notTaken.found, sending: seen.sending };
      return {
        ...{ recipientId, ...inspection, waitingCount: reserved.length, waiting, ...lists },
        ...keptFields(seen.kept),
      };
    },
    async estimate(data) {
      const parsed = parseNotification(data);
      if (!parsed.ok) return undefined;
      const { id, recipientId, category, sendAfter = 0, expiresAt = Infinity, onThrottle } = parsed.notification;
      try {
        const limiter = (await limiters()).limiters[countedAs(parsed.notification)];
        const named = category !== undefined && { category };
        const answer = await limiter.peek({ recipientId, id: `${jobIdOf(id)}/0`, ...named });
        if (answer.kind === 'refused' || (answer.kind === 'reserved' && onThrottle === 'drop')) return undefined;
        const at = Math.max(sendAfter, Math.round(answer.at));
        return at < expiresAt ? at : undefined;
      } catch {
        return undefined; // the notification is enqueued in any case
      }
    },
  };
}
