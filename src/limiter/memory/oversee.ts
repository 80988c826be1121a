import type { CategoryPolicy } from '../../domain/limits.ts';
import type { Inspection, Moved, SlotView } from '../limiter.ts';
import { paceOf } from '../pace.ts';
import { causesOf, NO_CAUSE, replan, type Replanned, type Rooms, type Waiting } from '../replan.ts';
import { blockAt, policyAt, withScopes, type Book } from './book.ts';
import { decide } from './decide.ts';
import type { Opened } from './opened.ts';
import { reservations, type Scope, type Scopes } from './scope.ts';
import { including, type Slot } from './slots.ts';

type ExemptOf = (category: string | undefined) => CategoryPolicy['exempt'];

/** The book with all reservations planned anew, and those that moved. `opened` is the same book, with every category. */
export function replanned(
  book: Book,
  opened: Opened,
  leadMs: number,
  exemptOf: ExemptOf,
): readonly [Book, readonly Moved[]] {
  const { scopes, now, blockedUntil, quiet } = opened;
  const places = replan(waitingIn(scopes), roomsOf(scopes, exemptOf), { now, blockedUntil, leadMs, quiet });
  return [
    withScopes(
      book,
      scopes.map((scope) => placed(scope, places)),
    ),
    places.flatMap(movedOf),
  ];
}

function waitingIn(scopes: Scopes): Waiting[] {
  const categoryOf = new Map(scopes.flatMap(({ category, slots }) => idsOf(slots.reserved, category)));
  const held = new Map(scopes.flatMap(({ category, slots }) => idsOf(slots.held, category)));
  return reservations(scopes).map(({ id = '', at }) => ({
    entry: id,
    slot: at,
    category: held.get(id) ?? categoryOf.get(id),
    isHeld: held.has(id),
  }));
}

function roomsOf(scopes: Scopes, exemptOf: ExemptOf): Rooms {
  return new Map(
    scopes.map(({ category, limits, slots }) => [
      category,
      { limits, exempt: exemptOf(category), sent: slots.sent.map(({ at }) => at) },
    ]),
  );
}

function idsOf(slots: readonly Slot[], category: string | undefined): [string, string | undefined][] {
  return slots.map(({ id = '' }) => [id, category]);
}

/** A reservation in line is written to the overall scope and to its category; one that is held back to its category alone. */
function placed(scope: Scope, places: readonly Replanned[]): Scope {
  const ofScope = ({ waiting }: Replanned) => scope.category === undefined || waiting.category === scope.category;
  const slotsOf = (held: boolean) =>
    places
      .filter((place) => place.isHeld === held && ofScope(place))
      .reduce<readonly Slot[]>((slots, { waiting, at }) => including(slots, { id: waiting.entry, at }), []);
  const heldHere = scope.category === undefined ? [] : slotsOf(true);
  return { ...scope, slots: { ...scope.slots, reserved: slotsOf(false), held: heldHere } };
}

function movedOf({ waiting: { entry, slot, category }, at, cause }: Replanned): Moved[] {
  return at === slot ? [] : [{ id: entry, ...(category !== undefined && { category }), from: slot, at, ...cause }];
}

/** An ask with this id is refused, so no slot has it. */
const NOBODY = '';

/** The overall part of a book, and the answer that a newcomer would get. */
export function inspection(
  book: Book,
  opened: Opened,
  { countBlocked, keepIds, exemptOf }: { countBlocked: boolean; keepIds: boolean; exemptOf: ExemptOf },
): Inspection {
  const { now, policy, scopes, blockedUntil, quiet } = opened;
  const stored = policyAt(book, now);
  const block = blockAt(book, now);
  const [overall] = scopes;
  const { admission } = decide({ recipientId: NOBODY, id: NOBODY }, [overall], opened, countBlocked);
  const since = now - paceOf(policy).longestMs;
  const waiting = waitingIn(scopes);
  const causes = causesOf(waiting, roomsOf(scopes, exemptOf), { now, blockedUntil, quiet });
  return {
    now,
    policy,
    source: stored === undefined ? 'limiter' : 'stored',
    ...(stored !== undefined && stored.until !== Infinity && { policyUntil: stored.until }),
    ...(block !== undefined && { block }),
    sent: overall.slots.sent.filter(({ at }) => at >= since).map((slot) => view(slot, keepIds)),
    reserved: waiting.map(({ entry: id, slot: at }, index) => ({ at, id, ...(causes[index] ?? NO_CAUSE) })),
    nextAt: admission.kind === 'refused' ? now + admission.waitMs : admission.at,
    rule: admission.rule,
  };
}

function view({ at, id }: Slot, withId: boolean): SlotView {
  return withId && id !== undefined ? { at, id } : { at };
}
