import { blockAt, policyAt, type Book } from './book.ts';
import { decide } from './decide.ts';
import type { Inspection, SlotView } from '../limiter.ts';
import type { Opened } from './opened.ts';
import { paceOf } from '../pace.ts';
import { reservations } from './scope.ts';
import type { Slot } from './slots.ts';

/** No ask may have this id, so nobody holds a slot under it. */
const NOBODY = '';

/** Tells what a book says overall, and what a newcomer would be told. */
export function inspection(book: Book, opened: Opened, countBlocked: boolean, keepIds: boolean): Inspection {
  const { now, policy, scopes } = opened;
  const stored = policyAt(book, now);
  const block = blockAt(book, now);
  const [overall] = scopes;
  const { admission } = decide({ recipientId: NOBODY, id: NOBODY }, [overall], opened, countBlocked);
  const since = now - paceOf(policy).longestMs;
  return {
    now,
    policy,
    source: stored === undefined ? 'limiter' : 'stored',
    ...(stored !== undefined && stored.until !== Infinity && { policyUntil: stored.until }),
    ...(block !== undefined && { block }),
    sent: overall.slots.sent.filter(({ at }) => at >= since).map((slot) => view(slot, keepIds)),
    reserved: reservations(scopes).map((slot) => view(slot, true)),
    nextAt: admission.kind === 'refused' ? now + admission.waitMs : admission.at,
    rule: admission.rule,
  };
}

function view({ at, id }: Slot, withId: boolean): SlotView {
  return withId && id !== undefined ? { at, id } : { at };
}
