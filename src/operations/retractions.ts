import type { Queue } from 'bullmq';
import { findDeadLetter } from '../dead-letters/store.ts';
import { printable } from '../domain/faults.ts';
import { defined } from '../domain/json.ts';
import { hasTaken, retractionOf, RETRACTION } from '../notification/retraction.ts';
import { findByKey } from '../producer/find.ts';
import { notificationIdOf } from '../queue/names.ts';
import type { ShardQueues } from '../queue/shards/shards.ts';
import type { NotificationStatus } from '../queue/status.ts';
import type { Connection } from '../redis/connection.ts';
import { fromNow, timeNear } from '../terminal/text.ts';

// Which retractions take a notification from its devices, and sentences that say so.

type Ended = Extract<NotificationStatus, { state: 'ended' }>;

/** A retraction that names a notification, and what became of it: the fields as in NotificationStatus. */
export interface RetractionSeen extends Partial<Pick<Ended, 'outcome' | 'endedAt' | 'devices'>> {
  readonly id: string;
  readonly state: NotificationStatus['state'];
  readonly until?: number;
}

export interface RetractionParts {
  readonly connection: Connection;
  /** The queues that may have notifications of a recipient, the queues of the recipient's shard first. */
  readonly homes: (recipientId: string) => Promise<readonly ShardQueues[]>;
  /** `producer.status` */
  readonly status: (id: string) => Promise<NotificationStatus>;
}

/**
 * The retractions that take back this notification of this recipient. A retraction is known until an hour after its end, or as
 * long as its dead letter is kept. Each retraction names all notifications that were retracted in the last hour. So if several
 * retractions took this one, only the first counts. Retractions that a newer one replaced do not count.
 */
export async function findRetractions(
  id: string,
  recipientId: string,
  { connection, homes, status }: RetractionParts,
): Promise<readonly RetractionSeen[]> {
  const shards = await homes(recipientId);
  const queues = shards.map(({ queue }) => queue);
  const prefixes = queues.map(({ opts }) => opts.prefix ?? '');
  const place = { recipientId, cancellationKey: RETRACTION };
  const { jobs, gone } = await findByKey(place, { connection, queues, homes: () => prefixes });
  const letters = await deadOf([...new Set([...gone.values()].flat())], shards);
  const all = [...jobs.map(({ job }): Enqueued => [job.id ?? '', job.data]), ...letters];
  const named = all.filter(([, data]) => retractionOf(data)?.retract.includes(id) === true);
  const ids = [...new Set(named.map(([jobId]) => notificationIdOf(jobId)))];
  const seen = await Promise.all(ids.map(async (each) => seenOf(each, await status(each))));
  const took = seen
    .filter(({ outcome }) => outcome === 'retracted')
    .toSorted((a, b) => (a.endedAt ?? 0) - (b.endedAt ?? 0));
  const first = took.find(isWhole) ?? took[0];
  if (first !== undefined) return [first];
  return seen.filter(({ state, outcome }) => state !== 'unknown' && outcome !== 'superseded');
}

/** Whether every device has taken the retraction, or is gone. */
function isWhole({ devices = {} }: Pick<RetractionSeen, 'devices'>): boolean {
  return Object.values(devices).every(hasTaken);
}

type Enqueued = readonly [jobId: string, data: unknown];

/** The dead letters with these ids, each with its notification. */
async function deadOf(ids: readonly string[], shards: readonly { readonly deadQueue: Queue }[]): Promise<Enqueued[]> {
  const found = await Promise.all(shards.flatMap(({ deadQueue }) => ids.map((id) => findDeadLetter(deadQueue, id))));
  return found.flatMap((each): Enqueued[] => (each === undefined ? [] : [[each.id, each.letter.notification]]));
}

function seenOf(id: string, status: NotificationStatus): RetractionSeen {
  const { state, until, outcome, endedAt, devices } = { ...NONE, ...status };
  return defined({ id, state, until, outcome, endedAt, devices });
}

const NONE = { until: undefined, outcome: undefined, endedAt: undefined, devices: undefined };

/** `The retraction retract-7 took it from its devices at 09:14:03Z.` */
export function takenBackText(
  now: number,
  { id, state, until, outcome, endedAt = now, devices = {} }: RetractionSeen,
): string {
  const name = `The retraction ${printable(id)}`;
  switch (state) {
    case 'dead-lettered':
      return `${name} failed, and is a dead letter: ${STILL_SHOWN}.`;
    case 'ended': {
      if (outcome !== 'retracted') return `${name} ended as ${outcome ?? 'unknown'}: ${STILL_SHOWN}.`;
      return `${name} ${isWhole({ devices }) ? 'took it from its devices' : 'reached only some of the devices'} at ${timeNear(now, endedAt)}.`;
    }
    default: {
      const isAhead = until !== undefined && until > now;
      const wait = isAhead ? `waits until ${timeNear(now, until)} (${fromNow(now, until)})` : 'waits for a worker';
      const what = state === 'sending' ? 'is being sent' : wait;
      return `It is being taken back: the retraction ${printable(id)} ${what}.`;
    }
  }
}

const STILL_SHOWN = 'the devices may still show it';

/** At most this many ids are listed. */
const MOST_NAMES = 10;

/** `msg-1, msg-2 and 3 more` */
export function namesText(ids: readonly string[]): string {
  const names = printable(ids.slice(0, MOST_NAMES).join(', '));
  return ids.length <= MOST_NAMES ? names : `${names} and ${ids.length - MOST_NAMES} more`;
}
