import { blockAt, policyAt, type Book } from './book.ts';
import { decide } from './decide.ts';
import type { Inspection, SlotView } from '../limiter.ts';
import type { Opened } from './opened.ts';
import { paceOf } from '../pace.ts';
import { reservations } from './scope.ts';
import type { Slot } from './slots.ts';

/** An ask with this id is refused, so no slot has it. */
const NOBODY = '';

/** The overall part of a book, and the answer that a newcomer would get. */
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
