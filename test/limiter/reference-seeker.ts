import { withoutExempt, type CategoryPolicy, type Policy } from '../../src/domain/limits.ts';
import {
  awakeFrom,
  limitsOf,
  soonest,
  soonestBetween,
  toleranceOf,
  type Check,
  type QuietTimes,
  type Soonest,
} from './reference-rules.ts';

export const GRACE_MS = 1_000;
export const LOOKED_AT = 100;

/** A slot; without an id it is what a blocked ask by `markOf` left. */
export interface Taken {
  readonly id?: string;
  readonly markOf?: string;
  readonly category?: string | undefined;
  readonly at: number;
  /** What its category thinks: where others were put off before it, only the overall line was told. */
  readonly categoryAt?: number;
  /** Reserved in its category alone, which holds it back for longer than what holds overall. */
  readonly isHeld?: boolean;
  /** Of a mark: the scopes in which no limit looks at it any more, by category, '' for the overall one. */
  readonly goneIn?: readonly string[];
}

export interface Scope {
  readonly category: string | undefined;
  readonly limits: readonly Omit<Check, 'instants'>[];
  readonly holdMs: number;
  readonly gapMs: number;
  /** Of the overall scope: the ask stands behind nobody in line. */
  readonly isUrgent?: boolean;
  /** Of an urgent ask: also the limits that are skipped for it. */
  readonly allLimits?: readonly Omit<Check, 'instants'>[];
}

export interface Place extends Soonest {
  readonly isHeld: boolean;
  readonly isPutOff?: boolean;
}

/** All that decides about one ask. */
export interface Seeking {
  readonly due: number | undefined;
  readonly isHeld: boolean;
  readonly isLate: boolean;
  readonly scopes: readonly Scope[];
  readonly holdMs: number;
  readonly now: number;
  readonly until: number | undefined;
  readonly quiet: QuietTimes;
  readonly sent: readonly Taken[];
  /** All that wait, but for the id itself. */
  readonly others: readonly Taken[];
}

/** Looks for the place of one id: docs/limiter.md in plain steps. */
export class Seeker {
  readonly #all: Seeking;

  constructor(all: Seeking) {
    this.#all = all;
  }

  admission(): number | undefined {
    const { edgeMs, windows } = this.#all.quiet;
    if (this.#all.due !== undefined && edgeMs > 0) {
      return new Seeker({ ...this.#all, quiet: { windows, edgeMs: 0 } }).admission();
    }
    const { due, isHeld, isLate, scopes, holdMs, now, until } = this.#all;
    const within = (at: number, from: number) => (at <= from + holdMs ? at : undefined);
    if (due === undefined) return within(Math.max(...scopes.map((scope) => this.#behind(scope, true).at)), now);
    if (!isLate) {
      const inLine = () => Math.max(due, ...scopes.map((scope) => this.#behind(scope, false).at));
      return within(isHeld ? inLine() : this.#own(due, holdMs, scopes).at, Math.max(now, due));
    }
    const [line] = scopes;
    const among = isHeld ? scopes.slice(1) : scopes;
    const from = isHeld && line ? this.#behind(line, false).at : now;
    const ahead = among.map((scope) => this.#ahead(scope, holdMs));
    const { at } = soonestBetween(this.#checks(among, ahead), from, until, this.#all.quiet);
    return isSeen(at, ahead) ? within(at, now) : undefined;
  }

  waiting(): Place {
    const { due, isHeld, isLate, scopes, holdMs, now, until } = this.#all;
    if (due === undefined) return this.#newcomer();
    if (isLate) {
      if (isHeld) return this.#newcomer();
      const ahead = scopes.map((scope) => this.#ahead(scope, 0));
      const hole = soonestBetween(this.#checks(scopes, ahead), now + holdMs + 1, until, this.#all.quiet);
      const lastInLine = Math.max(...(ahead[0]?.slice(0, LOOKED_AT) ?? []));
      return isSeen(hole.at, ahead) && hole.at < lastInLine ? { ...hole, isHeld: false } : this.#newcomer();
    }
    const [line, category] = scopes as [Scope, Scope?];
    const isUrgent = line.isUrgent === true;
    if (isUrgent && category) return this.#urgent(category, isHeld ? due : undefined);
    if (isHeld && category) {
      const [inLine, own] = [this.#behind(line, false), this.#behind(category, false)];
      if (own.at <= inLine.at + line.gapMs) return { ...(own.at > inLine.at ? own : inLine), isHeld: false };
      const overtakes = this.#all.others.some((each) => isHeldIn(category, each) && each.at > due && each.at <= own.at);
      return { ...(overtakes ? this.#behind(category, true) : own), isHeld: true };
    }
    const planned = this.#own(due, 0, scopes);
    const lateMs = planned.at > now + holdMs ? 0 : holdMs;
    const own = this.#own(due, lateMs, scopes);
    if (category && own.at > this.#own(due, lateMs, [line]).at + line.gapMs) return { ...own, isHeld: true };
    return { ...own, isHeld: false, isPutOff: true };
  }

  /** It is held back in any case: where its category allows it, and what is left of the overall limits. */
  #urgent(category: Scope, due: number | undefined): Place {
    const [line] = this.#all.scopes as [Scope, Scope?];
    const ends = (heldToo: boolean) =>
      [this.#behind(line, heldToo), this.#behind(category, heldToo)].reduce((a, b) => (b.at > a.at ? b : a));
    const own = ends(due === undefined);
    const isNext =
      due !== undefined &&
      !this.#all.others.some((each) => isHeldIn(category, each) && each.at > due && each.at <= own.at);
    return { ...(isNext ? own : ends(true)), isHeld: true };
  }

  #newcomer(): Place {
    const { scopes, others, now } = this.#all;
    const [line, category] = scopes as [Scope, Scope?];
    if (line.isUrgent === true && category) return this.#urgent(category, undefined);
    const inLine = this.#behind(line, true);
    if (category === undefined) return { ...inLine, isHeld: false };
    const own = this.#behind(category, true);
    const mates = others.filter((each) => isHeldIn(category, each) && each.at >= now - GRACE_MS);
    return mates.length > 0 || own.at > inLine.at ? { ...own, isHeld: true } : { ...inLine, isHeld: false };
  }

  /** The first instant behind all that was sent and is reserved in a scope. */
  #behind(scope: Scope, heldToo: boolean): Soonest {
    const { sent, others, holdMs, now, until, quiet } = this.#all;
    const ofScope = checksOf([scope], sent);
    const instants = sent.filter((each) => countsIn(scope, each)).map(({ at }) => at);
    const floor = Math.max(soonest(ofScope, now, until, { windows: [], edgeMs: 0 }).at - holdMs, 0, ...instants);
    const queued = (each: number) => each >= now - GRACE_MS;
    const line = (scope.isUrgent === true ? [] : slotsInLine(scope, others))
      .filter(queued)
      .map((at) => Math.max(at, floor));
    const held = heldToo ? others.filter((each) => isHeldIn(scope, each)).map(({ at }) => at) : [];
    const lastInLine = Math.max(floor, ...line);
    const queue = [...line, ...held.filter(queued).map((at) => Math.max(at, lastInLine))];
    const free = soonest(
      ofScope.map((check) => ({ ...check, instants: [...check.instants, ...queue] })),
      now,
      until,
      quiet,
    );
    return awakeFrom({ at: Math.max(free.at, ...queue), rule: free.rule }, quiet);
  }

  /** After what was sent, and after those before it that may still come on time, each so late. */
  #own(due: number, lateMs: number, scopes: readonly Scope[]): Soonest {
    const { others, now, holdMs, until } = this.#all;
    const before = scopes.map((scope) =>
      slotsInLine(scope, others)
        .filter((at) => at >= now - holdMs && at < due)
        .map((at) => at + lateMs),
    );
    return soonestBetween(this.#checks(scopes, before), Math.max(now, due), until, this.#all.quiet);
  }

  /** All that may still come on time, each so late, the next first. */
  #ahead(scope: Scope, lateMs: number): readonly number[] {
    const { others, now, holdMs } = this.#all;
    const held = others.filter((each) => isHeldIn(scope, each)).map(({ at }) => at);
    const pending = [...slotsInLine(scope, others), ...held].filter((at) => at >= now - holdMs);
    return pending.sort((a, b) => a - b).map((at) => at + lateMs);
  }

  #checks(scopes: readonly Scope[], waiting: readonly (readonly number[])[]): readonly Check[] {
    return scopes.flatMap((scope, index) =>
      checksOf([scope], this.#all.sent).map((check) => ({
        ...check,
        instants: [...check.instants, ...(waiting[index] ?? []).slice(0, LOOKED_AT)],
      })),
    );
  }
}

function isSeen(at: number, ahead: readonly (readonly number[])[]): boolean {
  return ahead.every((waiting) => waiting.length <= LOOKED_AT || at < (waiting[LOOKED_AT - 1] ?? NaN));
}

/** Every slot counts overall but what a category holds back; in a category, all of its own. */
export function countsIn({ category }: Scope, slot: Taken): boolean {
  if (slot.goneIn?.includes(category ?? '') === true) return false;
  return category === undefined ? slot.isHeld !== true : slot.category === category;
}

export function isHeldIn({ category }: Scope, slot: Taken): boolean {
  return category !== undefined && slot.isHeld === true && slot.category === category;
}

export function slotsInLine(scope: Scope, waiting: readonly Taken[]): readonly number[] {
  const inLine = waiting.filter((each) => each.isHeld !== true && countsIn(scope, each));
  return inLine.map(({ at, categoryAt = at }) => (scope.category === undefined ? at : categoryAt));
}

export function scopeOf(policy: Policy, category: string | undefined): Scope {
  const prefix = category === undefined ? '' : `${category}:`;
  return {
    category,
    limits: limitsOf(policy, prefix),
    gapMs: policy.minGapMs,
    holdMs: toleranceOf(policy),
  };
}

/** The overall scope for an ask of a category with exemptions. */
export function overallScope(policy: Policy, category: CategoryPolicy | undefined): Scope {
  const exempt = category?.exempt ?? [];
  if (!exempt.includes('gap') && !exempt.includes('rules')) return scopeOf(policy, undefined);
  const { limits: allLimits } = scopeOf(policy, undefined);
  return { ...scopeOf(withoutExempt(policy, { exempt }), undefined), allLimits, isUrgent: true };
}

export function checksOf(scopes: readonly Scope[], slots: readonly Taken[]): readonly Check[] {
  return scopes.flatMap((scope) => {
    const instants = slots.filter((slot) => countsIn(scope, slot)).map(({ at }) => at);
    return scope.limits.map((limit) => ({ ...limit, instants }));
  });
}

export function present(scopes: readonly [Scope, Scope?]): readonly Scope[] {
  return scopes.filter((scope) => scope !== undefined);
}

export function without(missed: ReadonlyMap<string, number>, name: string | undefined): ReadonlyMap<string, number> {
  return new Map([...missed].filter(([each]) => each !== name));
}
