import { ruleName, type Policy } from '../../src/domain/limits.ts';
import type { Admission, Ask, Inspection, SlotView } from '../../src/limiter/limiter.ts';

const GRACE_MS = 1_000;
const NO_SHOW_MS = 60_000;

/** What a limiter answers, but for the instant on this process's own clock. */
export interface Answer extends Omit<Admission, 'sendAt' | 'kind'> {
  readonly kind: Admission['kind'];
  readonly because?: 'max-wait' | 'max-pending';
  readonly at?: number;
  readonly waitMs?: number;
  readonly repeated?: boolean;
}

/** A slot; without an id it is what a blocked ask by `markOf` left. */
export interface Taken {
  readonly id?: string;
  readonly markOf?: string;
  readonly category?: string | undefined;
  readonly at: number;
  /** Reserved in its category alone, which holds it back for longer than what holds overall. */
  readonly isHeld?: boolean;
}

export interface ReferenceOptions {
  readonly policy: Policy;
  readonly categories?: Readonly<Record<string, Policy>>;
  readonly countBlocked?: boolean;
  readonly keepIds?: boolean;
  /** How long what was sent is remembered: at least the longest of all windows. */
  readonly keepMs: number;
  /**
   * Which of the reservations of one instant is moved first: the one that was placed there first, of those overall
   * before those that only their category has; or the first by its id.
   */
  readonly tie?: 'placed' | 'id';
}

interface Scope {
  readonly limits: readonly { readonly name: string; readonly max: number; readonly perMs: number }[];
  readonly holdMs: number;
  readonly gapMs: number;
  readonly has: (slot: Taken) => boolean;
}

/** What counts in a scope. */
interface Counted extends Pick<Scope, 'limits'> {
  readonly instants: readonly number[];
}

interface Decision {
  readonly answer: Answer;
  readonly sent?: readonly Taken[];
  readonly reserved?: readonly Taken[];
}

/**
 * A limiter for one recipient that is slow and plain: it keeps all slots of all scopes in one list, tries one instant
 * after the other, and counts what lies in the window of each.
 */
export class Reference {
  sent: readonly Taken[] = [];
  reserved: readonly Taken[] = [];
  stored: { readonly policy: Policy; readonly until: number } | undefined;
  block: { readonly until: number; readonly reason: string } | undefined;
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

  /** The reservations that an ask stands behind, but for its own. */
  queue({ id, ...ask }: Pick<Ask, 'id' | 'category'>, now: number): readonly Taken[] {
    const scopes = this.scopes(ask, now);
    const stands = (slot: Taken) => slot.id !== id && slot.at >= now - GRACE_MS;
    return this.reserved.filter((slot) => stands(slot) && scopes.some(({ has }) => has(slot)));
  }

  limit(policy: Policy, until: number, now: number): void {
    this.stored = { policy, until };
    this.#replan(now);
  }

  blockUntil(until: number, reason: string, now: number): void {
    this.block = { until, reason };
    this.#replan(now);
  }

  inspect(now: number): Inspection {
    const { keepIds = false } = this.options;
    const policy = this.#policyAt(now);
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
      sent: inOrder(this.sent.filter(({ at }) => at >= now - longestMs).map((slot) => view(slot, keepIds))),
      reserved: inOrder(this.#waiting(now).map((slot) => view(slot, true))),
      nextAt: next.at ?? NaN,
      rule: next.rule,
    };
  }

  /** The policies that an ask has to keep, the overall one first. */
  scopes(ask: Pick<Ask, 'policy'> & Pick<Taken, 'category'>, now: number): readonly Scope[] {
    const { categories = {} } = this.options;
    const { category } = ask;
    const overall = scopeOf(this.#policyAt(now, ask.policy), '', ({ isHeld = false }) => !isHeld);
    const own = category === undefined ? undefined : categories[category];
    if (own === undefined) return [overall];
    return [overall, scopeOf(own, `${category}:`, (slot) => slot.category === category)];
  }

  /** The overall policy in force for an ask. */
  policyFor(ask: Pick<Ask, 'policy'>, now: number): Policy {
    return this.#policyAt(now, ask.policy);
  }

  holdMs(ask: Pick<Ask, 'category' | 'policy'>, now: number): number {
    return Math.min(...this.scopes(ask, now).map((scope) => scope.holdMs));
  }

  #decide(ask: Ask, now: number): Decision {
    const { id, category, maxWaitMs = Infinity, maxPending = Infinity, renew = false } = ask;
    const scopes = this.scopes(ask, now);
    const holdMs = this.holdMs(ask, now);
    const common = { toleranceMs: holdMs, gapMs: Math.max(...scopes.map(({ gapMs }) => gapMs)) };
    const kept = this.sent.filter(({ at }) => at >= now - this.options.keepMs);
    const sentAt = kept.find((slot) => slot.id === id)?.at;
    const slot = this.#waiting(now).find((waiting) => waiting.id === id)?.at;
    const rest = kept.filter((sent) => sent.id !== id);
    const soonest = this.#soonest(counted(scopes, rest), now);

    const wait = (at: number, rule: string, because?: Answer['because']): Answer => {
      const told = { waitMs: at - now, rule, remaining: 0, resetMs: at - now, ...common };
      return because === undefined ? { kind: 'reserved', at, ...told } : { kind: 'refused', because, ...told };
    };
    const go = (at: number, repeated: boolean): Answer => {
      const after = counted(scopes, [...rest, { id, category, at }]);
      return { kind: 'admitted', at, repeated, ...roomAfter(after, now), ...common };
    };
    // What is too old to be looked at may be there still, until the same list is written for this id.
    const admit = (at: number): Decision => ({
      answer: go(at, false),
      sent: [...this.sent.filter((sent) => sent.id !== id), { id, category, at }],
      reserved: this.reserved.filter((waiting) => waiting.id !== id || waiting.at < now - NO_SHOW_MS),
    });

    if (sentAt !== undefined && !renew) return { answer: go(sentAt, true) };
    if (slot !== undefined && slot > now + holdMs) {
      return { answer: wait(slot, soonest.rule, slot - now > maxWaitMs ? 'max-wait' : undefined) };
    }
    const due = slot ?? sentAt;
    const wasHeld = this.#waiting(now).some((waiting) => waiting.id === id && waiting.isHeld);
    const place = (sent: readonly Taken[]) => this.#place(scopes, sent, ask, holdMs, now, wasHeld);
    if (due !== undefined) {
      const at = Math.max(wasHeld ? place(rest).at : soonest.at, due);
      if (at <= Math.max(now, due) + holdMs) return admit(at);
    }
    const unmarked = place(rest);
    if (unmarked.at <= now + holdMs) return admit(unmarked.at);

    const isMarked = this.sent.some((sent) => sent.markOf === id && sent.at === now);
    const mark = this.options.countBlocked === true && !isMarked ? [{ markOf: id, category, at: now }] : [];
    const queue = this.queue(ask, now);
    const ofCategory = queue.filter((waiting) => waiting.id !== id && scopes[1]?.has(waiting));
    const latest = Math.max(...ofCategory.map(({ at }) => at));
    const isBehindHeld = due === undefined && ofCategory.some(({ at, isHeld }) => isHeld && at === latest);
    const tail = isBehindHeld
      ? this.#tail(scopes.slice(1), [...rest, ...mark], ask, holdMs, now)
      : place([...rest, ...mark]);
    const isFull = due === undefined && scopes.some(({ has }) => queue.filter(has).length >= maxPending);
    const because = tail.at - now > maxWaitMs ? 'max-wait' : isFull ? 'max-pending' : undefined;
    const answer = wait(tail.at, tail.rule, because);
    const line = this.#tail(scopes.slice(0, 1), [...rest, ...mark], ask, holdMs, now);
    if (because !== undefined) return { answer, sent: [...this.sent, ...mark] };
    const placed = { id, category, at: tail.at, isHeld: isBehindHeld || line.at < tail.at };
    const reserved = [...this.reserved.filter((waiting) => waiting.id !== id), placed];
    const sent = [...this.sent.filter((each) => each.id !== id || !kept.includes(each)), ...mark];
    return {
      answer,
      sent,
      reserved: wasHeld && scopes[1] ? this.#movedOn(reserved, sent, placed, slot ?? 0, scopes[1], now) : reserved,
    };
  }

  /** The others that the category holds back, from `slot` on, behind those that are in line and behind this one. */
  #movedOn(
    reserved: readonly Taken[],
    sent: readonly Taken[],
    own: Taken,
    slot: number,
    category: Scope,
    now: number,
  ): readonly Taken[] {
    const mates = reserved.filter((each) => category.has(each) && each.at >= now - NO_SHOW_MS);
    const isMoved = (each: Taken) => each !== own && (each.isHeld ?? false) && each.at >= slot;
    const taken = [
      ...sent.filter((each) => category.has(each) && each.at >= now - this.options.keepMs),
      ...mates.filter((each) => each === own || each.isHeld !== true),
    ];
    const slots = new Map<Taken, number>();
    for (const each of mates.filter(isMoved).toSorted((a, b) => a.at - b.at || this.#tie(a, b))) {
      const from = Math.max(each.at, ...slots.values());
      const { at } = this.#soonest(counted([category], taken), -Infinity, from);
      slots.set(each, at);
      taken.push({ ...each, at });
    }
    return reserved.map((each) => ({ ...each, at: slots.get(each) ?? each.at }));
  }

  #tie(a: Taken, b: Taken): number {
    return this.options.tie === 'id' ? ((a.id ?? '') < (b.id ?? '') ? -1 : 1) : 0;
  }

  /** Behind all; one that its category held back, behind the overall line and those before it in its category. */
  #place(
    scopes: readonly Scope[],
    sent: readonly Taken[],
    ask: Ask,
    holdMs: number,
    now: number,
    wasHeld: boolean,
  ): Soonest {
    if (!wasHeld) return this.#tail(scopes, sent, ask, holdMs, now);
    const behind = this.#tail(scopes.slice(0, 1), sent, ask, holdMs, now);
    const slot = this.reserved.find(({ id }) => id === ask.id)?.at ?? 0;
    const allowed = this.#tail(scopes.slice(1), sent, ask, holdMs, now, slot);
    return allowed.at > behind.at ? allowed : behind;
  }

  /** The first instant behind all that was sent and is reserved, but for what this id holds. */
  #tail(
    scopes: readonly Scope[],
    sent: readonly Taken[],
    ask: Ask,
    holdMs: number,
    now: number,
    before = Infinity,
  ): Soonest {
    const queue = this.queue(ask, now).filter(({ at }) => at < before);
    const ends: number[] = [];
    const lists = scopes.map((scope): Counted => {
      const [ofScope] = counted([scope], sent);
      const bound = this.#soonest(counted([scope], sent), now).at - holdMs;
      const floor = Math.max(bound, ...(ofScope?.instants ?? []));
      const waiting = queue.filter(scope.has).map(({ at }) => Math.max(at, floor));
      ends.push(...waiting);
      return { limits: scope.limits, instants: [...(ofScope?.instants ?? []), ...waiting] };
    });
    const free = this.#soonest(lists, now);
    return { at: Math.max(free.at, ...ends), rule: free.rule };
  }

  /** The first instant from `now` that is not blocked and has fewer than max slots in each window before it. */
  #soonest(scopes: readonly Counted[], now: number, from = now): Soonest {
    const until = this.#blockAt(now)?.until ?? -Infinity;
    const ends = scopes.flatMap(({ limits, instants }) =>
      limits.flatMap(({ perMs }) => instants.map((instant) => instant + perMs)),
    );
    const checks = scopes.flatMap(({ limits, instants }) => limits.map((limit) => ({ ...limit, instants })));
    const isFree = (t: number) => t >= until && checks.every((check) => countAfter(check, t) < check.max);
    const at = Math.min(...[from, until, ...ends].filter((t) => t >= from && isFree(t)));
    if (at - 1 < until) return { at, rule: 'block' };
    const deciding = checks.find((check) => countAfter(check, at - 1) >= check.max) ?? checks[0];
    return { at, rule: deciding?.name ?? 'none' };
  }

  #replan(now: number): void {
    const byId = (a: Taken, b: Taken) => ((a.id ?? '') < (b.id ?? '') ? -1 : 1);
    const heldLast = (a: Taken, b: Taken) => Number(a.isHeld ?? false) - Number(b.isHeld ?? false);
    const tie = this.options.tie === 'id' ? byId : heldLast;
    const waiting = this.#waiting(now).toSorted((a, b) => a.at - b.at || tie(a, b));
    const sent = this.sent.filter(({ at }) => at >= now - this.options.keepMs);
    const moved: Taken[] = [];
    for (const slot of waiting) {
      const scopes = this.scopes(slot, now).filter(({ has }) => has(slot));
      const ahead = moved.filter((other) => scopes.some(({ has }) => has(other)));
      const from = Math.max(slot.at, ...ahead.map(({ at }) => at));
      moved.push({ ...slot, at: this.#soonest(counted(scopes, [...sent, ...moved]), now, from).at });
    }
    this.reserved = moved;
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

  #policyAt(now: number, policy = this.options.policy): Policy {
    return this.#storedAt(now)?.policy ?? policy;
  }
}

interface Soonest {
  readonly at: number;
  readonly rule: string;
}

function scopeOf({ rules, minGapMs }: Policy, prefix: string, has: Scope['has']): Scope {
  const gap = minGapMs > 0 ? [{ name: `${prefix}gap`, max: 1, perMs: minGapMs }] : [];
  const limits = [...gap, ...rules.map((rule) => ({ ...rule, name: prefix + ruleName(rule) }))];
  const spacingMs = minGapMs > 0 ? minGapMs : Math.min(...rules.map(({ perMs }) => perMs));
  return { limits, gapMs: minGapMs, holdMs: Math.min(150, Math.floor((spacingMs - 1) / 2)), has };
}

function counted(scopes: readonly Scope[], slots: readonly Taken[]): readonly Counted[] {
  return scopes.map(({ limits, has }) => ({ limits, instants: slots.filter(has).map(({ at }) => at) }));
}

function countAfter({ instants, perMs }: { instants: readonly number[]; perMs: number }, at: number): number {
  return instants.filter((instant) => instant > at - perMs).length;
}

/** What an admission says about the next one. */
function roomAfter(scopes: readonly Counted[], now: number): Pick<Answer, 'rule' | 'remaining' | 'resetMs'> {
  const checks = scopes.flatMap(({ limits, instants }) => limits.map((limit) => ({ ...limit, instants })));
  const [first] = checks;
  if (first === undefined) return { rule: 'none', remaining: Infinity, resetMs: 0 };
  const waits = checks.map((check) => {
    const ends = check.instants.map((instant) => instant + check.perMs - now);
    return Math.min(...[0, ...ends].filter((ms) => ms >= 0 && countAfter(check, now + ms) < check.max));
  });
  const longest = Math.max(...waits);
  const slowest = checks[waits.indexOf(longest)];
  if (longest > 0) return { rule: slowest?.name ?? '', remaining: 0, resetMs: longest };
  const left = first.instants.map((instant) => instant + first.perMs - now).filter((ms) => ms > 0);
  return { rule: first.name, remaining: first.max - left.length, resetMs: left.length > 0 ? Math.min(...left) : 0 };
}

/** Slots of one instant in the order of their ids: which of them is told first says nothing. */
export function inOrder(slots: readonly SlotView[]): readonly SlotView[] {
  return slots.toSorted((a, b) => a.at - b.at || ((a.id ?? '') < (b.id ?? '') ? -1 : 1));
}
