import type { Queue } from 'bullmq';
import { jobIdOfAsk } from '../delivery/lines.ts';
import { COUNTED_APART, countedAs, type CountedApart, type CountedAs } from '../domain/limits.ts';
import { CREDENTIALS } from '../notification/outcome.ts';
import { SEND_AFTER } from '../domain/time.ts';
import type { Inspection, Limiter, OrderView, ReservedView } from '../limiter/limiter.ts';
import type { Connection } from '../redis/connection.ts';
import {
  findDelayed,
  findJobs,
  findNotTaken,
  findSending,
  type DelayedJobs,
  type FoundJobs,
  type SendingJob,
  type WaitingJob,
} from './jobs.ts';

/** A reserved slot, with its notification if the queue still has it. */
export interface WaitingSlot extends ReservedView {
  readonly notification?: WaitingJob;
}

/** What the limiter of background pushes, or of Live Activities, has about the recipient. */
export interface ApartLook extends Omit<Inspection, 'reserved'> {
  readonly kind: CountedApart;
  readonly reserved: readonly WaitingSlot[];
}

/** The names of these limiters in JSON, over HTTP and in the terminal. */
export const APART_FIELDS = { background: 'background', liveactivity: 'liveActivity' } as const satisfies Record<
  CountedApart,
  string
>;

/** Everything about one recipient, from its limiters and its queue. */
export interface RecipientLook {
  readonly inspection: Inspection;
  /** The reserved slots of the inspection, with their notifications. */
  readonly waiting: readonly WaitingSlot[];
  /** The other limiters, without those that have nothing about the recipient. */
  readonly others: readonly ApartLook[];
  /** Delayed notifications without a slot. */
  readonly delayed: DelayedJobs;
  /** Notifications that a worker may take now and that none has taken. */
  readonly notTaken: FoundJobs<WaitingJob>;
  /** Notifications that workers have now. */
  readonly sending: readonly SendingJob[];
}

export interface LookParts {
  readonly limiters: Readonly<Record<CountedAs, Pick<Limiter, 'inspect' | 'peek'>>>;
  /** The queues that may have the recipient's notifications, and their Redis. */
  readonly queues: readonly Queue<unknown>[];
  readonly connection: Connection;
  /** For at most this many slots of each limiter, the notification that holds the slot is read. */
  readonly most: number;
  /** At most this many delayed jobs, and as many that no worker has taken yet, are looked through. Default: 20,000. */
  readonly mostLookedAt?: number;
  /** Stops the look between its steps, because nobody waits for it any more. */
  readonly signal?: AbortSignal;
}

/** Reads everything about a recipient. Writes nothing. */
export async function lookAtRecipient(
  recipientId: string,
  { limiters, queues, connection, most, mostLookedAt, signal }: LookParts,
): Promise<RecipientLook> {
  const inspection = await limiters.alert.inspect(recipientId);
  const apart: { kind: CountedApart; found: Inspection }[] = [];
  for (const kind of COUNTED_APART) apart.push({ kind, found: await limiters[kind].inspect(recipientId) });
  const reserved = [inspection, ...apart.map(({ found }) => found)].flatMap((each) => each.reserved);
  const known = new Set(reserved.flatMap((slot) => (slot.id && jobIdOfAsk(slot.id)) ?? []));
  signal?.throwIfAborted();
  const asked = { recipientId, known, mostLookedAt, signal };
  const [waiting, delayed, notTaken, sending, ...ofApart] = await Promise.all([
    waitingOf(inspection, most, queues),
    findDelayed(queues, connection, asked),
    findNotTaken(queues, asked),
    findSending(
      queues,
      recipientId,
      async (data, askId) => {
        const { category } = data as { readonly category?: unknown };
        const answer = await limiters[countedAs(data as object)].peek({
          ...{ recipientId, id: askId },
          ...(typeof category === 'string' && { category }),
        });
        return answer.kind === 'admitted' && answer.repeated ? answer.at : undefined;
      },
      signal,
    ),
    ...apart.map(({ found }) => waitingOf(found, most, queues)),
  ]);
  const others = apart
    .map(({ kind, found }, index) => ({ kind, ...found, reserved: ofApart[index] ?? [] }))
    .filter((each) => each.sent.length + each.reserved.length > 0);
  return { inspection, waiting, others, delayed, notTaken, sending };
}

/**
 * `goes first`; `overtaken 2 times, at most 18 more`; '' for others.
 *
 * @param mostOvertaken how often a reservation may be overtaken; undefined if that is not known
 */
export function orderText({ goesBefore, overtaken = 0 }: OrderView, mostOvertaken: number | undefined): string {
  if (goesBefore !== undefined) return 'goes first';
  if (overtaken === 0) return '';
  const more = mostOvertaken === undefined ? '' : `, at most ${Math.max(0, mostOvertaken - overtaken)} more`;
  return `overtaken ${overtaken === 1 ? 'once' : `${overtaken} times`}${more}`;
}

/** Causes of a wait that are not rules; a notification may wait for them although it has a slot. */
const NO_RULES: ReadonlySet<string> = new Set(['retry', 'provider', CREDENTIALS, SEND_AFTER]);

/** The reserved slots with their notifications. The limiter says for which rule each one waits: the job's note may be old. */
async function waitingOf(
  { reserved }: Pick<Inspection, 'reserved'>,
  most: number,
  queues: readonly Queue<unknown>[],
): Promise<WaitingSlot[]> {
  const jobIds = reserved.slice(0, most).map(({ id }) => id && jobIdOfAsk(id));
  const jobs = await findJobs(
    queues,
    jobIds.filter((id) => id !== undefined),
  );
  return reserved.map((slot, index) => {
    const notification = jobs.get(jobIds[index] ?? '');
    if (notification === undefined) return slot;
    return {
      ...slot,
      notification: NO_RULES.has(notification.waitsFor) ? notification : { ...notification, waitsFor: slot.rule },
    };
  });
}
