import { MOST_LOOKED_AT } from '../pace.ts';
import { firstFit, queued, tailInstant, withoutEdge, type Instant } from './plan.ts';
import type { Moment, Scope, Scopes } from './scope.ts';
import type { Slot } from './slots.ts';

/** What the place of an id depends on. */
export interface Comer {
  /** Its slot, or the admission that it renews; undefined for a newcomer. */
  readonly due: number | undefined;
  /** Its category holds it back: it is not in the overall line yet. */
  readonly isHeld: boolean;
  /** It is so late that it loses its place. */
  readonly isLate: boolean;
}

/** The slot of an id that must wait. */
export interface Place extends Instant {
  /** Reserved in its category alone, so that no id in the overall line has to wait for it. */
  readonly isHeld: boolean;
  /** It came on time but must wait because of a sent slot: those behind it are kept behind it. */
  readonly isPutOff: boolean;
}

/** Finds the place of one id; `scopes` are those of the ask, without the id's own slots. */
export class Places {
  readonly #comer: Comer;
  readonly #scopes: Scopes;
  readonly #holdMs: number;
  readonly #moment: Moment;

  constructor(comer: Comer, scopes: Scopes, holdMs: number, moment: Moment) {
    this.#comer = comer;
    this.#scopes = scopes;
    this.#holdMs = holdMs;
    this.#moment = moment;
  }

  /** The instant at which the id may be sent, if that is now or within the tolerance; undefined if it must wait. */
  admission(): number | undefined {
    const { due, isHeld, isLate } = this.#comer;
    if (due !== undefined && this.#moment.edgeMs > 0) {
      return new Places(this.#comer, this.#scopes, this.#holdMs, withoutEdge(this.#moment)).admission();
    }
    const { now } = this.#moment;
    if (due === undefined) return this.#within(this.#tail(true).at, now);
    if (isLate) return this.#lateAdmission();
    const from = Math.max(now, due);
    return this.#within(isHeld ? Math.max(due, this.#tail(false).at) : this.#ownPlace(due, this.#holdMs).at, from);
  }

  /** The place of an id that cannot be admitted now. */
  waiting(): Place {
    const { due, isHeld, isLate } = this.#comer;
    if (due === undefined) return this.#newcomer();
    if (isLate) return (isHeld ? undefined : this.#hole()) ?? this.#newcomer();
    return isHeld ? this.#heldAgain(due) : this.#putOff(due);
  }

  /** It waits in its category alone, behind nobody in the overall line. */
  get #isUrgent(): boolean {
    return this.#scopes[0].isUrgent === true;
  }

  #within(at: number, from: number): number | undefined {
    return at <= from + this.#holdMs ? at : undefined;
  }

  /** The instant behind the overall line or behind the category's line, whichever is later. */
  #tail(heldToo: boolean): Instant {
    const [line, category] = this.#tails(heldToo);
    return category !== undefined && category.at > line.at ? category : line;
  }

  #tails(heldToo: boolean): readonly [Instant, Instant | undefined] {
    const [line, category] = this.#scopes;
    const tail = (scope: Scope) => tailInstant(scope, this.#holdMs, this.#moment, heldToo);
    return [tail(line), category && tail(category)];
  }

  /** Held back if the category makes it wait longer than the overall line does, or holds back others already. */
  #newcomer(): Place {
    const [line, category] = this.#tails(true);
    if (this.#isUrgent) return { ...this.#tail(true), isHeld: true, isPutOff: false };
    const mates = queued(this.#scopes[1]?.slots.held ?? [], this.#moment.now);
    const isHeld = category !== undefined && (mates.length > 0 || category.at > line.at);
    return { ...(isHeld ? category : line), isHeld, isPutOff: false };
  }

  /**
   * For an id that its category held back. It joins the line if its category allows it no later than one gap behind the line's
   * end. Else it stays held back: before those that are held back behind it, or behind all of them if it would come after one.
   */
  #heldAgain(due: number): Place {
    const [line, ofCategory = line] = this.#tails(false);
    const category = this.#isUrgent ? this.#tail(false) : ofCategory;
    if (!this.#isUrgent && this.#isInReach(category, line)) {
      return { ...(category.at > line.at ? category : line), isHeld: false, isPutOff: false };
    }
    const held = this.#scopes[1]?.slots.held ?? [];
    const isInOrder = !held.some(({ at }) => at > due && at <= category.at);
    if (isInOrder) return { ...category, isHeld: true, isPutOff: false };
    const behind = this.#isUrgent ? this.#tail(true) : (this.#tails(true)[1] ?? category);
    return { ...behind, isHeld: true, isPutOff: false };
  }

  #isInReach(own: Instant, line: Instant): boolean {
    return own.at <= line.at + this.#scopes[0].gapMs;
  }

  /** The first instant behind the sent slots and the earlier reservations that may still come on time, each late by `lateMs`. */
  #ownPlace(due: number, lateMs: number, scopes: readonly Scope[] = this.#scopes): Instant {
    const filled = scopes.map(({ limits, slots }) => {
      const before = this.#pending(slots.reserved)
        .filter(({ at }) => at < due)
        .slice(0, MOST_LOOKED_AT);
      return { limits, instants: ascending([...slots.sent, ...later(before, lateMs)]) };
    });
    return firstFit(filled, Math.max(this.#moment.now, due), this.#moment);
  }

  #putOff(due: number): Place {
    if (this.#isUrgent) return this.#newcomer();
    const planned = this.#ownPlace(due, 0);
    const isAhead = planned.at > this.#moment.now + this.#holdMs;
    const lateMs = isAhead ? 0 : this.#holdMs;
    const own = isAhead ? planned : this.#ownPlace(due, lateMs);
    const inLine = this.#ownPlace(due, lateMs, this.#scopes.slice(0, 1));
    const isHeld = !this.#isInReach(own, inLine);
    return { ...own, isHeld, isPutOff: !isHeld };
  }

  /** An instant within the tolerance, if all that may still come on time can then still be sent, even at their latest. */
  #lateAdmission(): number | undefined {
    const { now } = this.#moment;
    const [line, ...others] = this.#scopes;
    const { isHeld } = this.#comer;
    const from = isHeld ? tailInstant(line, this.#holdMs, this.#moment, false).at : now;
    const near = (isHeld ? others : this.#scopes).map((scope) => this.#near(scope, this.#holdMs));
    const { at } = firstFit(near, from, this.#moment);
    return near.every(({ seenUntil }) => at < seenUntil) ? this.#within(at, now) : undefined;
  }

  /** A free place between the reservations ahead; undefined if there is none before the last one that is looked at. */
  #hole(): Place | undefined {
    const near = this.#scopes.map((scope) => this.#near(scope, 0));
    const [line] = near;
    const hole = firstFit(near, this.#moment.now + this.#holdMs + 1, this.#moment);
    const isSeen = near.every(({ seenUntil }) => hole.at < seenUntil) && hole.at < (line?.last ?? -Infinity);
    return isSeen ? { ...hole, isHeld: false, isPutOff: false } : undefined;
  }

  /** The sent slots and the next reservations, each late by `lateMs`. Reservations after `seenUntil` were not looked at. */
  #near({ limits, slots }: Scope, lateMs: number) {
    const ahead = [...this.#pending(slots.reserved), ...this.#pending(slots.held)].sort((a, b) => a.at - b.at);
    const seen = later(ahead.slice(0, MOST_LOOKED_AT), lateMs);
    const last = seen.at(-1)?.at;
    const seenUntil = ahead.length > MOST_LOOKED_AT ? (last ?? Infinity) : Infinity;
    return { limits, instants: ascending([...slots.sent, ...seen]), last, seenUntil };
  }

  /** Reservations that may still come on time. */
  #pending(slots: readonly Slot[]): readonly Slot[] {
    return slots.filter(({ at }) => at >= this.#moment.now - this.#holdMs);
  }
}

function later(slots: readonly Slot[], byMs: number): Slot[] {
  return slots.map((slot) => ({ ...slot, at: slot.at + byMs }));
}

function ascending(slots: readonly Slot[]): number[] {
  return slots.map(({ at }) => at).sort((a, b) => a - b);
}
