import { onRefused } from '../src/delivery/decide.ts';
import { jobIdOfAsk } from '../src/delivery/lines.ts';
import { mayWait } from '../src/delivery/slot.ts';
import { countedAs } from '../src/domain/limits.ts';
import { quietWindows } from '../src/domain/quiet-hours.ts';
import type { Admission, Inspection } from '../src/limiter/limiter.ts';
import { parseNotification, type Notification } from '../src/notification/notification.ts';
import { keptFields } from '../src/operations/catalogue.ts';
import type { DelayedJob, FoundJobs, SendingJob, WaitingJob } from '../src/operations/jobs.ts';
import { APART_FIELDS } from '../src/operations/recipient.ts';
import { jobIdOf, notificationIdOf } from '../src/queue/names.ts';
import type { Backend } from './backend.ts';
import type { OpenLimiters } from './limiters.ts';

interface Waiting {
  /** How many notifications have a slot and wait for it. */
  readonly waitingCount: number;
  /** The first 1,000 waiting notifications, the next slot first: each with the rule it waits for and how many come before. */
  readonly waiting: Inspection['reserved'];
}

/** What is counted apart from alerts. */
type Apart = Waiting & Pick<Inspection, 'sent'> & Pick<Inspection['policy'], 'rules'>;

/** What the API answers about one recipient. All instants are epoch milliseconds. */
export interface RecipientView extends Omit<Inspection, 'reserved'>, Waiting {
  readonly recipientId: string;
  /** Background pushes; absent if none was sent and none waits. */
  readonly background?: Apart;
  /** Live Activities without an alert; absent if none was sent and none waits. */
  readonly liveActivity?: Apart;
  /** Notifications that wait without a slot, for example for another attempt. */
  readonly delayed: readonly DelayedJob[];
  /** Notifications that no worker has looked at yet. */
  readonly notTaken: readonly WaitingJob[];
  /** Notifications that workers have now. */
  readonly sending: readonly SendingJob[];
  /** Of `delayed` and `notTaken`: with less looked at than there are, the recipient may have more. */
  readonly lookedThrough: { readonly delayed: Looked; readonly notTaken: Looked };
}

/** How many jobs of all recipients were looked at, and how many there are. */
type Looked = Pick<FoundJobs<unknown>, 'lookedAt' | 'of'>;

export interface Recipients {
  /** @param signal stops the look between its steps */
  look(recipientId: string, signal: AbortSignal): Promise<RecipientView>;
  /**
   * When a notification that was just enqueued would be sent, judged by the present slots: epoch milliseconds. Notifications
   * that no worker has looked at yet have no slots. Undefined if it will not be sent, if the instant is not known, or if the
   * limiter does not answer.
   */
  estimate(data: unknown): Promise<number | undefined>;
}

const MOST_SHOWN = 1_000;
/**
 * What waits for a slot is known to the limiter by its recipient. For other jobs there is no such index, so at most this many
 * delayed jobs of all recipients are looked at, and as many that no worker has taken.
 */
const MOST_LOOKED_AT = 5_000;

export function createRecipients({ look, limiters }: Pick<Backend, 'look' | 'limiters'>): Recipients {
  return {
    async look(recipientId, signal) {
      const seen = await look(recipientId, { most: 0, mostLookedAt: MOST_LOOKED_AT, signal });
      const { reserved, ...inspection } = seen.inspection;
      const apart = seen.others.map(({ kind, policy: { rules }, sent, reserved: own }) => [
        APART_FIELDS[kind],
        { rules, sent, ...waitingOf(own) },
      ]);
      const { found: delayed, ...ofDelayed } = seen.delayed;
      const { found: notTaken, ...ofNotTaken } = seen.notTaken;
      const lookedThrough = { delayed: ofDelayed, notTaken: ofNotTaken };
      return {
        ...{ recipientId, ...inspection, ...waitingOf(reserved), delayed, notTaken, sending: seen.sending },
        lookedThrough,
        ...(Object.fromEntries(apart) as Pick<RecipientView, 'background' | 'liveActivity'>),
        ...keptFields(seen.kept),
      };
    },
    async estimate(data) {
      const parsed = parseNotification(data);
      if (!parsed.ok) return undefined;
      const { notification } = parsed;
      const { id, recipientId, category, onQuiet, sendAfter = 0, expiresAt = Infinity } = notification;
      try {
        const opened = await limiters();
        const limiter = opened.limiters[countedAs(notification)];
        const answer = await limiter.peek({
          ...{ recipientId, id: `${jobIdOf(id)}/0`, ...(category !== undefined && { category }) },
          ...(!mayWait({ notification }) && { maxWaitMs: 0 }),
          ...(onQuiet !== 'delay' && { maxQuietMs: 0 }),
        });
        const now = Date.now();
        // The limiter was not asked about this later instant. It is only known whether quiet hours include it.
        if (sendAfter > now) {
          if (answer.kind === 'refused') return undefined;
          const { quiet } = await limiter.inspect(recipientId);
          if (quiet !== undefined && quietWindows(quiet.hours, sendAfter, sendAfter + 1).length > 0) return undefined;
        }
        const slot = slotIn(answer, notification, { now, isHighFirst: mayGoFirst(opened) });
        const at = slot === undefined ? undefined : Math.max(sendAfter, Math.round(slot));
        return at !== undefined && at < expiresAt ? at : undefined;
      } catch {
        return undefined; // the notification is enqueued in any case
      }
    },
  };
}

function waitingOf(reserved: Inspection['reserved']): Waiting {
  const waiting = reserved.slice(0, MOST_SHOWN).map((slot) => {
    const jobId = slot.id && jobIdOfAsk(slot.id);
    return { ...slot, ...(jobId !== undefined && { id: notificationIdOf(jobId) }) };
  });
  return { waitingCount: reserved.length, waiting };
}

/** Whether notifications of high priority go before others. Without workers this is not known, and counts as true. */
function mayGoFirst({ limitsOf }: Pick<OpenLimiters, 'limitsOf'>): boolean {
  return limitsOf === undefined || (limitsOf.mostOvertaken ?? 0) > 0;
}

/** When a worker would send after this answer, in epoch milliseconds. Undefined if it would not send, or if nobody can know. */
function slotIn(
  answer: Admission,
  notification: Notification,
  { now, isHighFirst }: { readonly now: number; readonly isHighFirst: boolean },
): number | undefined {
  if (answer.kind === 'reserved' && answer.before > 0 && notification.priority === 'high' && isHighFirst)
    return undefined;
  if (answer.kind !== 'refused') return answer.at;
  if (onRefused({ notification }, answer) !== 'silence') return undefined;
  return notification.onQuiet === 'delay' ? now + (answer.quietMs ?? 0) : now;
}
