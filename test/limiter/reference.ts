import type { CategoryPolicy, Policy } from '../../src/domain/limits.ts';
import type { Window } from '../../src/domain/quiet-hours.ts';
import type { Ask, Cause, Inspection, Moved, SlotView } from '../../src/limiter/limiter.ts';
import {
  admissionOf,
  allChecksOf,
  awakeFrom,
  checksOf,
  countsIn,
  earlyToleranceOf,
  GRACE_MS,
  inOrder,
  isHeldBackIn,
  longestCauseOf,
  overallScope,
  placeOf,
  present,
  quietBetween,
  roomAfter,
  roomOf,
  scopeOf,
  slotsInLine,
  soonest,
  type Answer,
  type QuietTimes,
  type Scope,
  type Seeking,
  type KeptSlot,
} from './reference-rules.ts';

const NO_SHOW_MS = 60_000;
const QUIET_EDGE_MS = 150;

export interface ReferenceOptions {
  readonly policy: Policy;
  readonly categories?: Readonly<Record<string, CategoryPolicy>>;
  /** The quiet times of everybody. */
  readonly quiet?: readonly Window[];
  readonly countBlocked?: boolean;
  readonly keepIds?: boolean;
  /** How long what was sent is remembered: at least the longest of all windows. */
  readonly keepMs: number;
  /** Which of the reservations of one instant and scope is moved first: the one that was placed there first, or the first by its id. */
  readonly tie?: 'placed' | 'id';
}

interface Decision {
  readonly answer: Answer;
  readonly sent?: readonly KeptSlot[];
  readonly reserved?: readonly KeptSlot[];
}

/**
 * A limiter for one recipient that is slow and plain: it keeps all slots of all scopes in one list, tries one instant
 * after the other, and counts what lies in the window of each.
 */
export class Reference {
  sent: readonly KeptSlot[] = [];
  reserved: readonly KeptSlot[] = [];
  stored: { readonly policy: Policy; readonly until: number } | undefined;
  block: { readonly until: number; readonly reason: string } | undefined;
  /** The quiet times that are stored for the recipient. */
  quiet: readonly Window[] | undefined;
  readonly options: ReferenceOptions;

  constructor(options: ReferenceOptions) {
    this.options = options;
  }

  admit(ask: Ask, now: number): Answer {
    const { answer, sent = this.sent, reserved = this.reserved } = this.#decide(ask, now);
    this.sent = sent;
    this.reserved = reserved;
    return answer;
  }

  peek(ask: Ask, now: number): Answer {
    return this.#decide(ask, now).answer;
  }

  /** The reservations that an ask stands behind, without its own. */
  queue({ id, ...ask }: Pick<Ask, 'id' | 'category'>, now: number): readonly KeptSlot[] {
    const scopes = present(this.scopes(ask, now));
    const stands = (slot: KeptSlot) => slot.id !== id && slot.at >= now - GRACE_MS;
    return this.reserved.filter((slot) => stands(slot) && scopes.some((scope) => countsIn(scope, slot)));
  }

  /**
   * The first of the overall line and of what each category holds back, each with the earliest instant that the sent slots allow
   * it. One that is held back may be behind the whole line instead.
   */
  firstOnes(now: number): readonly { readonly slot: KeptSlot; readonly earliest: number; readonly gapMs: number }[] {
    const sent = this.sent.filter(({ at }) => at >= now - this.options.keepMs);
    const waiting = this.#waiting(now).toSorted((a, b) => a.at - b.at);
    const inLine = waiting.filter(({ isHeldBack }) => isHeldBack !== true);
    const blockedUntil = this.#blockAt(now)?.until ?? -Infinity;
    const firsts = [undefined, ...this.#categories.keys()].flatMap((category) => {
      const own = category === undefined ? inLine : waiting.filter((slot) => slot.category === category);
      return own[0] === undefined || (category !== undefined && own[0].isHeldBack !== true) ? [] : own[0];
    });
    // At a slot after the end of the stored policy other limits hold than now.
    const policyUntil = this.#storedAt(now)?.until ?? Infinity;
    const alike = firsts.filter(({ at }) => at < policyUntil);
    return alike.map((slot) => {
      const scopes = this.scopes({ category: slot.category }, now);
      const free = (scope: Scope, from: number, ahead: readonly KeptSlot[] = []) =>
        soonest(allChecksOf([scope], [...sent, ...ahead]), from, blockedUntil, this.quietFor(slot)).at;
      const [line, ofCategory] = scopes;
      const isBehind = slot.isHeldBack === true && line.isUrgent !== true;
      const ahead = isBehind ? inLine : [];
      const before = [...sent, ...ahead].map(({ at }) => at); // nobody overtakes what was admitted a little ahead
      const last = Math.max(now, ...before, ofCategory === undefined ? now : free(ofCategory, now));
      // A stored policy that has ended by itself moved nobody, so its gap may still lie between those that wait.
      const policies = [this.options.policy, this.stored?.policy, this.#categories.get(slot.category ?? '')];
      const gaps = policies.map((policy) => (policy === undefined ? 0 : spacingMs(policy)));
      return { slot, earliest: free(line, last, ahead), gapMs: Math.max(...gaps) };
    });
  }

  /** What an operator does: `change` what is stored, and all that wait get their earliest places. Answers those that have moved. */
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
    const view = ({ at, id }: KeptSlot, named: boolean): SlotView => (named && id !== undefined ? { at, id } : { at });
    const overall = this.sent.filter(({ goneIn }) => goneIn?.includes('') !== true);
    return {
      now,
      policy,
      source: stored ? 'stored' : 'limiter',
      ...(stored && stored.until < Infinity && { policyUntil: stored.until }),
      ...(block && { block }),
      sent: inOrder(overall.filter(({ at }) => at >= now - longestMs).map((slot) => view(slot, keepIds))),
      reserved: inOrder(
        this.#waiting(now).map((slot) => ({ ...view(slot, true), ...this.#causeOf(slot, this.#waiting(now), now) })),
      ) as Inspection['reserved'],
      nextAt: next.at ?? NaN,
      rule: next.rule,
    };
  }

  /** The policies that an ask has to keep, the overall one first. */
  scopes(ask: Pick<Ask, 'policy'> & Pick<KeptSlot, 'category'>, now: number): readonly [Scope, Scope?] {
    const { category } = ask;
    const own = category === undefined ? undefined : this.#categories.get(category);
    const stored = this.#storedAt(now);
    const after = overallScope(ask.policy ?? this.options.policy, own);
    const overall: Scope = {
      ...overallScope(this.policyFor(ask, now), own),
      ...(stored !== undefined && { later: { from: stored.until, limits: after.limits } }),
    };
    return own === undefined ? [overall] : [overall, scopeOf(own, category)];
  }

  /** The overall policy in force for an ask. */
  policyFor({ policy = this.options.policy }: Pick<Ask, 'policy'>, now: number): Policy {
    return this.#storedAt(now)?.policy ?? policy;
  }

  /** The quiet times that apply to an ask. */
  quietFor({ category = '' }: Pick<KeptSlot, 'category'>): QuietTimes {
    const isExempt = this.#categories.get(category)?.exempt?.includes('quietHours') === true;
    return { windows: isExempt ? [] : (this.quiet ?? this.options.quiet ?? []), edgeMs: QUIET_EDGE_MS };
  }

  /** How late an ask may be, and how early. */
  tolerances(ask: Pick<Ask, 'category' | 'policy'>, now: number): Pick<Seeking, 'lateMs' | 'earlyMs'> {
    const lateMs = Math.min(...present(this.scopes(ask, now)).map((scope) => scope.lateMs));
    return { lateMs, earlyMs: earlyToleranceOf(lateMs) };
  }

  #decide(ask: Ask, now: number): Decision {
    const { id, category, maxPending = Infinity, renew = false, everyRule = false, leadMs = 0 } = ask;
    const both = this.scopes(ask, now);
    const scopes = present(both);
    const tolerances = this.tolerances(ask, now);
    const kept = this.sent.filter(({ at }) => at >= now - this.options.keepMs);
    const sentAt = kept.find((slot) => slot.id === id)?.at;
    const own = this.#waiting(now).find((waiting) => waiting.id === id);
    const rest = kept.filter((sent) => sent.id !== id);
    const quiet = this.quietFor(ask);
    const blockedUntil = this.#blockAt(now)?.until ?? -Infinity;
    const mates = this.#waiting(now).filter((waiting) => waiting.id !== id);

    const common = { toleranceMs: tolerances.lateMs, gapMs: Math.max(...scopes.map(({ gapMs }) => gapMs)) };
    const rules = (slots: readonly KeptSlot[]) =>
      everyRule ? { rules: checksOf(scopes, slots).map((check) => roomOf(check, now)) } : {};
    const wait = (place: Pick<KeptSlot, 'at' | 'isHeldBack'>, sent: readonly KeptSlot[], isFull = false): Answer => {
      const { at } = place;
      const facts = { sent, others: mates, now, blockedUntil, quiet };
      const besides = longestCauseOf(both, place, { ...facts, quietMs: 0 });
      const { isTooLong, ...counted } = boundsOf(ask, { quiet, blockedUntil }, now, at, now + besides.ms);
      const { cause } = longestCauseOf(both, place, { ...facts, ...counted });
      const standing = { waitMs: at - now, remaining: 0, resetMs: at - now, ...cause, ...common, ...rules(rest) };
      if (!isTooLong && !isFull) return { kind: 'reserved', at, ...standing };
      const leftMs = awakeFrom({ at: now, rule: '' }, { ...quiet, edgeMs: 0 }).at - now;
      const because = isTooLong ? 'max-wait' : 'max-pending';
      return { kind: 'refused', because, ...standing, ...(leftMs > 0 && { quietMs: leftMs }) };
    };
    const go = (at: number, repeated: boolean): Answer => {
      const after = [...rest, { id, category, at }];
      return { kind: 'admitted', at, repeated, ...roomAfter(checksOf(scopes, after), now), ...common, ...rules(after) };
    };

    if (sentAt !== undefined && !renew) return { answer: go(sentAt, true) };
    if (own !== undefined && own.at > now + tolerances.earlyMs) {
      return { answer: wait(own, rest) };
    }

    const due = own?.at ?? sentAt;
    const seeking: Seeking = {
      ...{ ...tolerances, scopes: both, now, due, isHeldBack: own?.isHeldBack ?? false, leadMs, blockedUntil, quiet },
      ...{ sent: rest, others: mates },
    };
    const at = admissionOf(seeking);
    if (at !== undefined) {
      return {
        answer: go(at, false),
        // What is too old to be looked at may be there still, until the same list is written for this id.
        sent: [...this.sent.filter((sent) => sent.id !== id), { id, category, at }],
        reserved: this.reserved.filter((waiting) => waiting.id !== id || waiting.at < now - NO_SHOW_MS),
      };
    }

    const all = this.#marked(id, category, now, scopes);
    const after = all.filter((each) => each.id !== id || each.at < now - this.options.keepMs);
    const counted = after.filter((each) => each.at >= now - this.options.keepMs);
    const place = placeOf({ ...seeking, sent: counted });
    const isFull = due === undefined && scopes.some((scope) => this.#pending(scope, now) >= maxPending);
    const answer = wait(place, counted, isFull);
    if (answer.kind === 'refused') return { answer, sent: this.#trimmed(all, scopes) };
    const others = this.reserved.filter((waiting) => waiting.id !== id);
    return {
      answer,
      sent: this.#trimmed(after, scopes),
      reserved: [...others, { id, category, at: place.at, isHeldBack: place.isHeldBack }],
    };
  }

  /** With the mark of this ask in all its scopes, if blocked asks count. */
  #marked(id: string, category: string | undefined, now: number, scopes: readonly Scope[]): readonly KeptSlot[] {
    if (this.options.countBlocked !== true) return this.sent;
    const isMark = (each: KeptSlot) => each.markOf === id && each.at === now;
    const names = scopes.map((scope) => scope.category ?? '');
    const before = this.sent.find(isMark) ?? { markOf: id, category, at: now };
    const goneIn = (before.goneIn ?? []).filter((name) => !names.includes(name));
    return [...this.sent.filter((each) => !isMark(each)), { ...before, goneIn }];
  }

  /** Without the marks that are older than as many slots as the limits of a scope look at. */
  #trimmed(sent: readonly KeptSlot[], scopes: readonly Scope[]): readonly KeptSlot[] {
    if (this.options.countBlocked !== true) return sent;
    return scopes.reduce((all, scope) => {
      const most = Math.max(1, ...(scope.allLimits ?? scope.limits).map(({ max }) => max));
      const instants = all.filter((each) => countsIn(scope, each)).map(({ at }) => at);
      const last = instants.sort((a, b) => a - b).at(-most) ?? -Infinity;
      const isGone = (each: KeptSlot) => each.markOf !== undefined && each.at < last && countsIn(scope, each);
      return all.map((each) =>
        isGone(each) ? { ...each, goneIn: [...(each.goneIn ?? []), scope.category ?? ''] } : each,
      );
    }, sent);
  }

  #pending(scope: Scope, now: number): number {
    const waiting = this.#waiting(now).filter(({ at }) => at >= now - GRACE_MS);
    return slotsInLine(scope, waiting).length + waiting.filter((each) => isHeldBackIn(scope, each)).length;
  }

  /** As if all asked anew, one after the other. */
  #replan(now: number): readonly Moved[] {
    const names = [...this.#categories.keys()];
    const heldBackLast = ({ isHeldBack = false }: KeptSlot) => Number(isHeldBack);
    const placing = ({ category = '', isHeldBack = false }: KeptSlot) => (isHeldBack ? names.indexOf(category) : 0);
    const tie = ({ id: a = '' }: KeptSlot, { id: b = '' }: KeptSlot) =>
      this.options.tie !== 'id' ? 0 : a < b ? -1 : 1;
    const waiting = this.#waiting(now).toSorted(
      (a, b) => a.at - b.at || heldBackLast(a) - heldBackLast(b) || placing(a) - placing(b) || tie(a, b),
    );
    const sent = this.sent.filter(({ at }) => at >= now - this.options.keepMs);
    const blockedUntil = this.#blockAt(now)?.until ?? -Infinity;
    const placed: KeptSlot[] = [];
    for (const each of waiting) {
      const [line, own] = this.scopes({ category: each.category }, now);
      const isUrgent = line.isUrgent === true;
      const behind = (scope: Scope, from = 0) => {
        const ahead = scope.isUrgent === true ? [] : placed.filter((other) => countsIn(scope, other));
        const last = Math.max(from, Math.min(each.at, now), ...ahead.map(({ at }) => at));
        return soonest(allChecksOf([scope], [...sent, ...ahead]), last, blockedUntil, this.quietFor(each)).at;
      };
      const holdsBackOthers = own !== undefined && placed.some((other) => isHeldBackIn(own, other));
      const ends = [behind(line), own === undefined ? -Infinity : behind(own)] as const;
      const isHeldBack = isUrgent || holdsBackOthers || ends[1] > ends[0];
      const at = isUrgent ? behind(line, Math.max(...ends)) : isHeldBack ? ends[1] : ends[0];
      placed.push({ id: each.id ?? '', category: each.category, at, isHeldBack });
    }
    // No-shows stay where they are, until something is written beside them.
    this.reserved = [...this.reserved.filter(({ at }) => at < now - NO_SHOW_MS), ...placed];
    return waiting.flatMap(({ id = '', category, at: from }, index) => {
      const at = placed[index]?.at ?? NaN;
      const named = category !== undefined && names.includes(category) ? { category } : {};
      const place = placed[index];
      return at === from || place === undefined
        ? []
        : [{ id, ...named, from, at, ...this.#causeOf(place, placed, now) }];
    });
  }

  /** Why one of those that wait has no earlier slot. */
  #causeOf(slot: KeptSlot, waiting: readonly KeptSlot[], now: number): Cause {
    const quiet = this.quietFor(slot);
    return longestCauseOf(this.scopes({ category: slot.category }, now), slot, {
      sent: this.sent.filter(({ at }) => at >= now - this.options.keepMs),
      others: waiting.filter((other) => other !== slot),
      ...{ now, quiet, blockedUntil: this.#blockAt(now)?.until ?? -Infinity },
      quietMs: quietBetween(quiet, now, slot.at),
    }).cause;
  }

  get #categories(): ReadonlyMap<string, CategoryPolicy> {
    return new Map(Object.entries(this.options.categories ?? {}));
  }

  #waiting(now: number): readonly KeptSlot[] {
    return this.reserved.filter(({ at }) => at >= now - NO_SHOW_MS);
  }

  #storedAt(now: number): Reference['stored'] {
    return this.stored && now < this.stored.until ? this.stored : undefined;
  }

  #blockAt(now: number): Reference['block'] {
    return this.block && now < this.block.until ? this.block : undefined;
  }
}

/**
 * Whether a wait until `at` passes a bound of the ask, and how much quiet time, and which block, then count as its cause. `till`:
 * until when it would wait if no time were quiet.
 */
function boundsOf(
  ask: Ask,
  { quiet, blockedUntil }: { quiet: QuietTimes; blockedUntil: number },
  now: number,
  at: number,
  till: number,
): { isTooLong: boolean; quietMs: number; blockedUntil: number } {
  const { maxWaitMs = Infinity, maxQuietMs = Infinity, expiresInMs = Infinity } = ask;
  const quietMs = quietBetween(quiet, now, at);
  const isQuietNow = awakeFrom({ at: now, rule: '' }, { ...quiet, edgeMs: 0 }).at > now;
  const isQuietThen = awakeFrom({ at: till, rule: '' }, quiet).at > till;
  if (quietMs > maxQuietMs && (isQuietNow || isQuietThen || quietMs > till - now))
    return { isTooLong: true, quietMs: Infinity, blockedUntil };
  if (maxWaitMs === 0 && at - now > quietMs) return { isTooLong: true, quietMs: 0, blockedUntil };
  const after = Math.max(now, Math.min(blockedUntil, at));
  if (at - after - quietBetween(quiet, after, at) > maxWaitMs)
    return { isTooLong: true, quietMs: 0, blockedUntil: -Infinity };
  return { isTooLong: at - now > expiresInMs, quietMs, blockedUntil };
}

/**
 * The gap, or what a rule leaves between two slots on average, which a slot that was used a little early or missed may cost.
 * Without a gap, as in pace.ts, the shortest window.
 */
function spacingMs({ rules, minGapMs }: Policy): number {
  const windows = rules.map(({ perMs }) => perMs);
  const gaps = rules.map(({ max, perMs }) => Math.ceil(perMs / max));
  return Math.max(minGapMs, ...gaps, minGapMs === 0 && windows.length > 0 ? Math.min(...windows) : 0);
}
