import type { NotificationInput } from '../../src/domain/notification.ts';
import type { Canceled } from '../../src/queue/producer.ts';
import type { JournalEntry } from '../../src/sandbox/journal.ts';
import { shownOf } from '../support/shown.ts';
import type { Check, WaitingCounts } from './verdict.ts';

/** The teachers of the morning for whom something else than waiting is asked for. */
export const THREAD = 'teacher-rossi';
export const MATCH = 'teacher-silva';
export const TRIP = { recipientId: 'teacher-weber', cancellationKey: 'trip-77' };
export const NIGHT = 'teacher-ncube';

const HOUR_MS = 3_600_000;

/** What is canceled in the demo was to be sent in an hour. */
export function withSendAfter<Input extends NotificationInput>(input: Input, now: number): Input {
  return input.cancellationKey === undefined ? input : { ...input, sendAfter: now + HOUR_MS };
}

export interface WaitingParts {
  readonly entries: readonly JournalEntry[];
  /** Token → recipient. */
  readonly recipientOf: ReadonlyMap<string, string>;
  readonly valid: readonly NotificationInput[];
  readonly counts: WaitingCounts;
  /** The answer to the cancel. */
  readonly canceled: Canceled;
}

/** What was promised to those teachers, by what their devices got. */
export function checkWaiting({ entries, recipientOf, valid, counts, canceled }: WaitingParts): Check[] {
  const arrived = (recipientId: string): JournalEntry[] =>
    entries.filter((entry) => entry.accepted && recipientOf.get(entry.token) === recipientId);
  const asked = (recipientId: string) => valid.filter((one) => one.recipientId === recipientId);

  const told = arrived(THREAD).map(({ body = '' }) => Number(/^(\d+) new messages$/.exec(body)?.[1] ?? 1));
  const messages = told.reduce((sum, count) => sum + count, 0);
  const scores = arrived(MATCH).map(({ body }) => body);
  const newest = asked(MATCH).at(-1)?.alert?.body;
  const shown = Object.groupBy(arrived(NIGHT), shownOf);
  const silent = asked(NIGHT).filter(({ onQuiet }) => onQuiet === 'silence').length;
  return [
    {
      what: 'messages of one thread, in how many alerts',
      found: `${messages} in ${told.length} (expected ${asked(THREAD).length})`,
      ok: messages === asked(THREAD).length && told.length < messages && counts.merged > 0,
    },
    {
      what: 'scores of a match: the newest comes last, and takes the slot of others',
      found: `${scores.join(', ')}; ${counts.superseded} superseded`,
      ok:
        scores.at(-1) === newest && counts.superseded === asked(MATCH).length - scores.length && counts.superseded > 0,
    },
    {
      what: 'canceled, and arrived all the same',
      found: `${canceled.canceled} of ${asked(TRIP.recipientId).length}, ${arrived(TRIP.recipientId).length} (expected 0)`,
      ok:
        canceled.canceled === asked(TRIP.recipientId).length &&
        counts.canceled === canceled.canceled &&
        arrived(TRIP.recipientId).length === 0,
    },
    {
      what: 'in quiet hours: silent, dropped, and the urgent one that sounds',
      found: `${shown.silent?.length ?? 0}, ${counts.dropped}, ${shown.alert?.length ?? 0} (expected ${silent}, 1, 1)`,
      ok: shown.silent?.length === silent && counts.dropped === 1 && shown.alert?.length === 1,
    },
  ];
}
