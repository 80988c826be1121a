import type { Policy } from '../../src/domain/limits.ts';
import type { Window } from '../../src/domain/quiet-windows.ts';
import type { Ask, Inspection, Moved, SlotView } from '../../src/limiter/limiter.ts';
import type { Answer, Decision, ReferenceOptions } from './reference-types.ts';
import { awakeFrom, quietBetween, roomAfter, roomOf, soonest, type QuietTimes } from './reference-rules.ts';
import {
  checksOf,
  countsIn,
  GRACE_MS,
  isHeldIn,
  LOOKED_AT,
  overallScope,
  present,
  scopeOf,
  Seeker,
  slotsInLine,
  without,
  type Scope,
  type Taken,
} from './reference-seeker.ts';

const NO_SHOW_MS = 60_000;

/**
 * A limiter for one recipient that is slow and plain: it keeps all slots of all scopes in one list, tries one instant
 * after the other, and counts what lies in the window of each.
 */
export class Reference {
  sent: readonly Taken[] = [];
  reserved: readonly Taken[] = [];
  stored: { readonly policy: Policy; readonly until: number } | undefined;
  block: { readonly until: number; readonly reason: string } | undefined;
  /** The quiet times that are stored for the recipient. */
  quiet: readonly Window[] | undefined;
  /** By category, '' for the overall line: how many came late one after the other. */
  missed: ReadonlyMap<string, number> = new Map();
  readonly options: ReferenceOptions;

  constructor(options: ReferenceOptions) {
    this.options = options;
  }

  admit(ask: Ask, now: number): Answer {
    const { answer, sent = this.sent, reserved = this.reserved, missed = this.missed } = this.#decide(ask, now);
    this.sent = sent;
    this.reserved = reserved;
    this.missed = missed;
    return answer;
  }

  peek(ask: Ask, now: number): Answer {
    return this.#decide(ask, now).answer;
  }

  /** The reservations that an ask stands behind, but for its own. */
  queue({ id, ...ask }: Pick<Ask, 'id' | 'category'>, now: number): readonly Taken[] {
    const scopes = present(this.scopes(ask, now));
    const stands = (slot: Taken) => slot.id !== id && slot.at >= now - GRACE_MS;
    return this.reserved.filter((slot) => stands(slot) && scopes.some((scope) => countsIn(scope, slot)));
  }

  /** What an operator does: `change` what is stored, and all that wait get their earliest places. Tells who has moved. */
  oversee(change: () => void, now: number): readonly Moved[] {
    change();
    return this.#replan(now);
  }

  inspect(now: number): Inspection {
    const { keepIds = false } = this.options;
    const policy = this.policyFor({}, now);
    const stored = this.#storedAt(now);
    const block = this.#blockAt(now);
    const longestMs = Math.max(0, policy.minGapMs, ...policy.rules.map(({ perMs }) => perMs));
    const next = this.peek({ recipientId: 'teacher-42', id: 'nobody' }, now);
    const view = ({ at, id }: Taken, named: boolean): SlotView => (named && id !== undefined ? { at, id } : { at });
    return {
      now,
      policy,
      source: stored ? 'stored' : 'limiter',
      ...(stored && stored.until < Infinity && { policyUntil: stored.until }),
      ...(block && { block }),
      sent: inOrder(
        this.#overall()
          .filter(({ at }) => at >= now - longestMs)
          .map((slot) => view(slot, keepIds)),
      ),
      reserved: inOrder(this.#waiting(now).map((slot) => view(slot, true))),
      nextAt: next.at ?? NaN,
      rule: next.rule,
    };
  }

  /** The policies that an ask has to keep, the overall one first. */
  scopes(ask: Pick<Ask, 'policy'> & Pick<Taken, 'category'>, now: number): readonly [Scope, Scope?] {
    const { categories = {} } = this.options;
    const { category } = ask;
    const own = category === undefined ? undefined : categories[category];
    const overall = overallScope(this.policyFor(ask, now), own);
    return own === undefined ? [overall] : [overall, scopeOf(own, category)];
  }

  /** The overall policy in force for an ask. */
  policyFor({ policy = this.options.policy }: Pick<Ask, 'policy'>, now: number): Policy {
    return this.#storedAt(now)?.policy ?? policy;
  }

  /** The quiet times that hold for an ask. */
  quietFor({ category }: Pick<Taken, 'category'>): QuietTimes {
    const { categories = {}, quiet = [] } = this.options;
    const isExempt = category !== undefined && categories[category]?.exempt?.includes('quietHours') === true;
    return { windows: isExempt ? [] : (this.quiet ?? quiet), edgeMs: 150 };
  }

  holdMs(ask: Pick<Ask, 'category' | 'policy'>, now: number): number {
    return Math.min(...present(this.scopes(ask, now)).map((scope) => scope.holdMs));
  }

  #decide(ask: Ask, now: number): Decision {
    const { id, category, maxWaitMs = Infinity, maxPending = Infinity, renew = false, everyRule = false } = ask;
    const scopes = present(this.scopes(ask, now));
    const holdMs = this.holdMs(ask, now);
    const common = { toleranceMs: holdMs, gapMs: Math.max(...scopes.map(({ gapMs }) => gapMs)) };
    const kept = this.sent.filter(({ at }) => at >= now - this.options.keepMs);
    const sentAt = kept.find((slot) => slot.id === id)?.at;
    const own = this.#waiting(now).find((waiting) => waiting.id === id);
    const slot = own?.at;
    const rest = kept.filter((sent) => sent.id !== id);
    const until = this.#blockAt(now)?.until;
    const quiet = this.quietFor(ask);
    const { maxQuietMs = Infinity, expiresInMs = Infinity } = ask;
    const isTooQuiet = (at: number) => quietBetween(quiet, now, at) > maxQuietMs;
    const isTooLong = (at: number) =>
      isTooQuiet(at) || at - now > expiresInMs || at - now - quietBetween(quiet, now, at) > maxWaitMs;

    const rules = (slots: readonly Taken[]) =>
      everyRule ? { rules: checksOf(scopes, slots).map((check) => roomOf(check, now)) } : {};
    const wait = (at: number, rule: string, among: readonly Taken[], because?: Answer['because']): Answer => {
      const told = { waitMs: at - now, rule, remaining: 0, resetMs: at - now, ...common, ...rules(among) };
      if (because === undefined) return { kind: 'reserved', at, ...told };
      const quietMs = awakeFrom({ at: now, rule }, { ...quiet, edgeMs: 0 }).at - now;
      const inQuiet = { ...(quietMs > 0 && { quietMs }), ...(isTooQuiet(at) && { rule: 'quiet' }) };
      return { kind: 'refused', because, ...told, ...inQuiet };
    };
    const go = (at: number, repeated: boolean): Answer => {
      const after = [...rest, { id, category, at }];
      return { kind: 'admitted', at, repeated, ...roomAfter(checksOf(scopes, after), now), ...common, ...rules(after) };
    };

    if (sentAt !== undefined && !renew) return { answer: go(sentAt, true) };
    if (slot !== undefined && slot > now + holdMs) {
      const { rule } = soonest(checksOf(scopes, rest), now, until, quiet);
      return { answer: wait(slot, rule, rest, isTooLong(slot) ? 'max-wait' : undefined) };
    }

    const due = slot ?? sentAt;
    const isHeld = own?.isHeld ?? false;
    const isInTime = due !== undefined && now <= due + holdMs;
    const isLate = due !== undefined && this.#isLate(due, isHeld, ask, now);
    const names = { from: own && (isHeld ? (category ?? '') : ''), late: isHeld ? (category ?? '') : '' };
    const seek = (sent: readonly Taken[]) =>
      new Seeker({
        due,
        isHeld,
        isLate,
        scopes,
        holdMs,
        now,
        until,
        quiet,
        sent,
        others: this.#others(id, now),
      });
    const at = seek(rest).admission();
    if (at !== undefined) {
      return {
        answer: go(at, false),
        // What is too old to be looked at may be there still, until the same list is written for this id.
        sent: [...this.sent.filter((sent) => sent.id !== id), { id, category, at }],
        reserved: this.reserved.filter((waiting) => waiting.id !== id || waiting.at < now - NO_SHOW_MS),
        missed: isInTime ? without(this.missed, names.from) : this.missed,
      };
    }

    const all = this.#marked(id, category, now, scopes);
    const after = all.filter((each) => each.id !== id || each.at < now - this.options.keepMs);
    const keptAfter = after.filter((each) => each.at >= now - this.options.keepMs);
    const place = seek(keptAfter).waiting();
    const isFull = due === undefined && scopes.some((scope) => this.#pending(scope, now) >= maxPending);
    const because = isTooLong(place.at) ? 'max-wait' : isFull ? 'max-pending' : undefined;
    const answer = wait(place.at, place.rule, rest, because);
    if (because !== undefined) return { answer, sent: this.#trimmed(all, scopes) };
    const placed = { id, category, at: place.at, isHeld: place.isHeld };
    const to = place.isHeld ? (category ?? '') : '';
    const left = names.from === to || !isInTime ? this.missed : without(this.missed, names.from);
    const missed = this.#awaited(to, id, now) ? left : without(left, to);
    const isCounted = isLate && names.late === to;
    const others = this.reserved.filter((waiting) => waiting.id !== id);
    const line = place.isPutOff ? this.#keptInOrder(others, keptAfter, ask, due ?? NaN, place.at, now) : others;
    return {
      answer,
      sent: this.#trimmed(after, scopes),
      reserved: [...line, placed],
      missed: isCounted ? new Map([...missed, [to, (missed.get(to) ?? 0) + 1]]) : missed,
    };
  }

  /** With the mark of this ask, where blocked asks count, in all its scopes. */
  #marked(id: string, category: string | undefined, now: number, scopes: readonly Scope[]): readonly Taken[] {
    if (this.options.countBlocked !== true) return this.sent;
    const isMark = (each: Taken) => each.markOf === id && each.at === now;
    const names = scopes.map((scope) => scope.category ?? '');
    const before = this.sent.find(isMark) ?? { markOf: id, category, at: now };
    const goneIn = (before.goneIn ?? []).filter((name) => !names.includes(name));
    return [...this.sent.filter((each) => !isMark(each)), { ...before, goneIn }];
  }

  /** Without the marks that are older than as many slots as the limits of a scope look at. */
  #trimmed(sent: readonly Taken[], scopes: readonly Scope[]): readonly Taken[] {
    if (this.options.countBlocked !== true) return sent;
    return scopes.reduce((all, scope) => {
      const most = Math.max(1, ...(scope.allLimits ?? scope.limits).map(({ max }) => max));
      const instants = all.filter((each) => countsIn(scope, each)).map(({ at }) => at);
      const last = instants.sort((a, b) => a - b).at(-most) ?? -Infinity;
      const isGone = (each: Taken) => each.markOf !== undefined && each.at < last && countsIn(scope, each);
      return all.map((each) =>
        isGone(each) ? { ...each, goneIn: [...(each.goneIn ?? []), scope.category ?? ''] } : each,
      );
    }, sent);
  }

  #pending(scope: Scope, now: number): number {
    const waiting = this.#waiting(now);
    const held = waiting.filter((each) => isHeldIn(scope, each)).map(({ at }) => at);
    const inLine = scope.isUrgent === true ? [] : slotsInLine(scope, waiting);
    return [...inLine, ...held].filter((at) => at >= now - GRACE_MS).length;
  }

  /** Whether others wait in line, or are held back by a category. */
  #awaited(name: string, id: string, now: number): boolean {
    const others = this.#others(id, now);
    return others.some(({ isHeld = false, category }) => (name === '' ? !isHeld : isHeld && category === name));
  }

  #isLate(due: number, isHeld: boolean, ask: Ask, now: number): boolean {
    if (now <= due + this.holdMs(ask, now)) return false;
    const name = isHeld ? (ask.category ?? '') : '';
    const missed = this.#awaited(name, ask.id, now) ? (this.missed.get(name) ?? 0) : 0;
    return missed < 3;
  }

  #others(id: string, now: number): readonly Taken[] {
    return this.#waiting(now).filter((waiting) => waiting.id !== id);
  }

  /** Those in line from `due` on that would come before `at` follow behind it, in their order. */
  #keptInOrder(
    reserved: readonly Taken[],
    sent: readonly Taken[],
    ask: Ask,
    due: number,
    at: number,
    now: number,
  ): readonly Taken[] {
    const [line] = this.scopes(ask, now);
    const all = reserved.toSorted((a, b) => a.at - b.at || this.#tie(a, b));
    const inLine = all.filter((each) => each.isHeld !== true);
    const before = inLine.filter((each) => each.at >= now - this.holdMs(ask, now) && each.at < due);
    const counted = sent.filter((each) => countsIn(line, each)).map((each) => each.at);
    const instants = [...counted.sort((a, b) => a - b), ...before.map((each) => each.at), at];
    const moved = new Map<Taken, Taken>();
    let last = at;
    for (const each of inLine.filter((one) => one.at >= due)) {
      if (each.at > last || moved.size >= LOOKED_AT) break;
      const ends = line.limits.map(({ max, perMs }) => (instants.at(-max) ?? -Infinity) + perMs);
      last = awakeFrom({ at: Math.max(last, ...ends), rule: '' }, this.quietFor(ask)).at;
      instants.push(last);
      moved.set(each, { ...each, at: last, categoryAt: each.categoryAt ?? each.at });
    }
    return all.map((each) => moved.get(each) ?? each).sort((a, b) => a.at - b.at);
  }

  #tie(a: Taken, b: Taken): number {
    if (this.options.tie === 'id') return (a.id ?? '') < (b.id ?? '') ? -1 : 1;
    return 0;
  }

  /** As if all asked anew, one after the other. */
  #replan(now: number): readonly Moved[] {
    const names = Object.keys(this.options.categories ?? {});
    const held = ({ isHeld = false }: Taken) => Number(isHeld);
    const placing = ({ category = '', isHeld = false }: Taken) =>
      isHeld && this.options.tie !== 'id' ? names.indexOf(category) : 0;
    // What its category thinks to be a no-show, it has forgotten.
    const remembered = this.#waiting(now).map((each) => {
      const isForgotten = each.isHeld !== true && (each.categoryAt ?? each.at) < now - NO_SHOW_MS;
      return isForgotten ? { ...each, category: undefined } : each;
    });
    const waiting = remembered.toSorted(
      (a, b) => a.at - b.at || held(a) - held(b) || placing(a) - placing(b) || this.#tie(a, b),
    );
    const sent = this.sent.filter(({ at }) => at >= now - this.options.keepMs);
    const until = this.#blockAt(now)?.until;
    const placed: Taken[] = [];
    for (const each of waiting) {
      const [line, own] = this.scopes({ category: each.category }, now);
      const isUrgent = line.isUrgent === true;
      const quiet = this.quietFor(each);
      const from = Math.min(each.at, now);
      const behind = (scope: Scope) => {
        const ahead = scope.isUrgent === true ? [] : placed.filter((other) => countsIn(scope, other));
        const last = Math.max(from, ...ahead.map(({ at }) => at));
        const { at } = soonest(checksOf([scope], [...sent, ...ahead]), last, until, quiet);
        return at;
      };
      const mates = own === undefined ? [] : placed.filter((other) => other.isHeld === true && countsIn(own, other));
      const ends = [behind(line), own === undefined ? -Infinity : behind(own)] as const;
      const isHeld = isUrgent || (own !== undefined && (mates.length > 0 || ends[1] > ends[0]));
      const at = isUrgent ? Math.max(...ends) : isHeld ? ends[1] : ends[0];
      placed.push({ id: each.id ?? '', category: each.category, at, isHeld });
    }
    this.missed = new Map([...this.missed].filter(([name]) => this.#awaited(name, '', now)));
    // No-shows stay where they are, until something is written beside them.
    this.reserved = [...this.reserved.filter(({ at }) => at < now - NO_SHOW_MS), ...placed];
    return waiting.flatMap(({ id = '', category, at: from }, index) => {
      const at = placed[index]?.at ?? NaN;
      const named = category !== undefined && names.includes(category) ? { category } : {};
      return at === from ? [] : [{ id, ...named, from, at }];
    });
  }

  #overall(): readonly Taken[] {
    return this.sent.filter(({ goneIn }) => goneIn?.includes('') !== true);
  }

  #waiting(now: number): readonly Taken[] {
    return this.reserved.filter(({ at }) => at >= now - NO_SHOW_MS);
  }

  #storedAt(now: number): Reference['stored'] {
    return this.stored && now < this.stored.until ? this.stored : undefined;
  }

  #blockAt(now: number): Reference['block'] {
    return this.block && now < this.block.until ? this.block : undefined;
  }
}

/** Slots of one instant in the order of their ids: which of them is told first says nothing. */
export function inOrder(slots: readonly SlotView[]): readonly SlotView[] {
  return slots.toSorted((a, b) => a.at - b.at || ((a.id ?? '') < (b.id ?? '') ? -1 : 1));
}
