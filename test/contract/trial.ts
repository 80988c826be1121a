import { expect } from 'vitest';
import type { CategoryPolicy, Policy, Overtaking } from '../../src/domain/limits.ts';
import type { QuietHours } from '../../src/domain/quiet-hours.ts';
import type { Admission, Ask, Cause, Follow, Inspection, Limiter, SlotView } from '../../src/limiter/limiter.ts';

/** A limiter on a clock that stands still until the test moves it. */
export interface LimiterUnderTest {
  readonly limiter: Limiter;
  /** Whole epoch milliseconds on the limiter's clock. */
  now(): number;
  /** Moves the clock; back with a negative number. */
  advance(ms: number): void;
}

export interface LimiterTestOptions {
  readonly categories?: Readonly<Record<string, CategoryPolicy>>;
  readonly quietHours?: QuietHours;
  readonly countBlocked?: boolean;
  readonly keepIds?: boolean;
  readonly overtaking?: Overtaking;
}

export type LimiterFactory = (policy: Policy, options?: LimiterTestOptions) => LimiterUnderTest;

export const MINUTE = 60_000;
export const recipientId = 'teacher-42';
/** 3 in 10 s with 2 s between: the gap decides first, then the window. One may come 1.8 s late, and 120 ms early. */
export const POLICY: Policy = { rules: [{ max: 3, perMs: 10_000 }], minGapMs: 2_000 };
/** Three in 10 s and no gap. */
export const BURSTS: Policy = { rules: [{ max: 3, perMs: 10_000 }], minGapMs: 0 };
export const UNLIMITED: Policy = { rules: [], minGapMs: 0 };

/** `perMs`, at most `max`: a policy of one rule. */
export function atMost(max: number, perMs: number): Policy {
  return { rules: [{ max, perMs }], minGapMs: 0 };
}

export function gapOf(minGapMs: number): Policy {
  return { rules: [], minGapMs };
}

/** Quiet every day in these times: each from the minute of its first instant until that of its last one. */
export function quietIn(...times: readonly { readonly from: number; readonly until: number }[]): QuietHours {
  const timeOf = (at: number): string => new Date(at).toISOString().slice(11, 16);
  return {
    timezone: 'UTC',
    quietHours: times.map(({ from, until }) => ({ from: timeOf(from), until: timeOf(until) })),
  };
}

type More = Partial<Omit<Ask, 'recipientId' | 'id'>>;

/** One recipient of a new limiter. Instants, in and out, are counted in milliseconds from the start of the test. */
export class Trial {
  readonly limiter: Limiter;
  readonly start: number;
  readonly #clock: LimiterUnderTest;

  constructor(create: LimiterFactory, policy: Policy = POLICY, options: LimiterTestOptions = {}) {
    this.#clock = create(policy, options);
    this.limiter = this.#clock.limiter;
    this.start = this.#clock.now();
  }

  async ask(id: string, more: More = {}): Promise<unknown> {
    return this.#answerOf(await this.limiter.admit({ recipientId, id, ...more }));
  }

  async peek(id: string, more: More = {}): Promise<unknown> {
    return this.#answerOf(await this.limiter.peek({ recipientId, id, ...more }));
  }

  /** Asks for each in turn. */
  async askAll(ids: string, more: More = {}): Promise<unknown[]> {
    const answers: unknown[] = [];
    for (const id of ids) answers.push(await this.ask(id, more));
    return answers;
  }

  refund(id: string, category?: string): Promise<boolean> {
    return this.limiter.refund(slotId(id, category));
  }

  cancel(id: string, category?: string): Promise<boolean> {
    return this.limiter.cancel(slotId(id, category));
  }

  /** The id asks, and goes first from then on. */
  async askFirst(id: string, more: More = {}, follow: Follow = {}): Promise<void> {
    await this.limiter.admit({ recipientId, id, goesFirst: true, ...more });
    await this.limiter.moveUp(recipientId, follow);
  }

  limit(policy: Policy, until?: number): Promise<void> {
    return this.limiter.limit(recipientId, policy, until === undefined ? {} : { until: this.start + until });
  }

  unlimit(): Promise<boolean> {
    return this.limiter.unlimit(recipientId);
  }

  block(until: number, reason = 'on leave'): Promise<void> {
    return this.limiter.block(recipientId, { until: this.start + until, reason });
  }

  unblock(): Promise<boolean> {
    return this.limiter.unblock(recipientId);
  }

  reset(): Promise<boolean> {
    return this.limiter.reset(recipientId);
  }

  /** Without the causes of waits: see `causes`. */
  async inspect(): Promise<Omit<Inspection, 'reserved'> & { readonly reserved: readonly SlotView[] }> {
    const { now, policyUntil, block, quiet, sent, reserved, nextAt, ...rest } = await this.limiter.inspect(recipientId);
    const since = (slot: SlotView): SlotView => ({ ...slot, at: slot.at - this.start });
    return {
      ...rest,
      now: now - this.start,
      ...(policyUntil !== undefined && { policyUntil: policyUntil - this.start }),
      ...(block && { block: { ...block, until: block.until - this.start } }),
      ...(quiet && { quiet: { ...quiet, ...(quiet.until !== undefined && { until: quiet.until - this.start }) } }),
      sent: sent.map(since),
      reserved: reserved.map(({ at, id }) => since({ at, ...(id !== undefined && { id }) })),
      nextAt: nextAt - this.start,
    };
  }

  /** The slots that are reserved, by id, as `inspect` shows them. */
  async slots(): Promise<Record<string, number>> {
    const { reserved } = await this.inspect();
    return Object.fromEntries(reserved.map(({ id, at }) => [id ?? '', at]));
  }

  goTo(at: number): void {
    this.#clock.advance(this.start + at - this.#clock.now());
  }

  /** Why an ask would have to wait. */
  async why(id: string, more: More = {}): Promise<string> {
    return this.cause(await this.limiter.peek({ recipientId, id, ...more }));
  }

  /** Why those that are reserved wait, the next one first. */
  async causes(): Promise<Record<string, string>> {
    const { reserved } = await this.limiter.inspect(recipientId);
    return Object.fromEntries(reserved.map((slot) => [slot.id ?? '', this.cause(slot)]));
  }

  /** `gap, 3 before`, `quiet until 28800000, 0 before`: why something waits. */
  cause(of: object): string {
    const { rule, before, ruleUntil } = of as Cause;
    const until = ruleUntil === undefined ? '' : ` until ${ruleUntil - this.start}`;
    return `${rule}${until}, ${before} before`;
  }

  #answerOf(admission: Admission): unknown {
    const { sendAt, gapMs, toleranceMs, before, ruleUntil, ...answer } = {
      ...{ sendAt: undefined, before: undefined, ruleUntil: undefined },
      ...admission,
    };
    expect([typeof gapMs, typeof toleranceMs]).toEqual(['number', 'number']);
    expect(ruleUntil).toBeTypeOf(answer.kind !== 'admitted' && isTimed(answer.rule) ? 'number' : 'undefined');
    expect(before).toBeTypeOf(answer.kind === 'admitted' ? 'undefined' : 'number');
    if (admission.kind === 'admitted') expect(sendAt).toBeTypeOf('number');
    return 'at' in answer ? { ...answer, at: answer.at - this.start } : answer;
  }
}

function slotId(id: string, category?: string) {
  return { recipientId, id, ...(category !== undefined && { category }) };
}

/** An admission, whatever it says about the next one. */
export function admitted(at: number, repeated = false): unknown {
  return expect.objectContaining({ kind: 'admitted', at, repeated });
}

function isTimed(rule: string): boolean {
  return rule === 'block' || rule === 'quiet';
}

/** All of an admission without `sendAt`, `gapMs`, `toleranceMs`, `before` and `ruleUntil`, which have tests of their own. */
export function admittedWith(at: number, rule: string, remaining: number, resetMs: number, repeated = false): unknown {
  return { kind: 'admitted', at, repeated, rule, remaining, resetMs };
}

/** All of a reservation, as above. */
export function reserved(at: number, rule: string, waitMs: number): unknown {
  return { kind: 'reserved', at, waitMs, rule, remaining: 0, resetMs: waitMs };
}

/** All of a refusal, as above. */
export function refused(because: string, rule: string, waitMs: number): unknown {
  return { kind: 'refused', because, waitMs, rule, remaining: 0, resetMs: waitMs };
}

/** One job of a crowd, as its worker would ask for it. Instants are milliseconds from the start of the test. */
export interface CrowdJob {
  readonly id: string;
  readonly asksAt: number;
  readonly category?: string;
  /** How late it comes back at a slot, early if negative; 0 if it is left out. */
  readonly lateMs?: (slot: number) => number;
}

/** What became of a job. */
export interface Passed {
  readonly id: string;
  readonly category?: string | undefined;
  readonly asks: number;
  readonly at: number;
  /** How late it came back each time. */
  readonly lateMsOf: readonly number[];
}

interface Turn {
  readonly job: CrowdJob;
  readonly at: number;
  readonly lateMsOf: readonly number[];
}

const MOST_ASKS = 100;

/**
 * All jobs ask at their instants and come back at the slots of the answers, each so late, until all were admitted. In the
 * order in which they were.
 */
export async function passAll(trial: Trial, jobs: readonly CrowdJob[]): Promise<Passed[]> {
  const turns = new Turns(jobs.map((job) => ({ job, at: job.asksAt, lateMsOf: [] })));
  const passed: Passed[] = [];
  for (let turn = turns.next(); turn !== undefined; turn = turns.next()) {
    const { job, lateMsOf } = turn;
    const asks = lateMsOf.length + 1;
    trial.goTo(turn.at);
    const more: Partial<Ask> = job.category === undefined ? {} : { category: job.category };
    const answer = (await trial.ask(job.id, more)) as { readonly kind: string; readonly at: number };
    if (asks > MOST_ASKS) throw new Error(`${job.id} asks more than ${MOST_ASKS} times`);
    if (answer.kind === 'admitted') {
      passed.push({ id: job.id, category: job.category, asks, at: answer.at, lateMsOf });
      continue;
    }
    const lateMs = job.lateMs?.(answer.at) ?? 0;
    turns.add({ job, at: Math.max(turn.at, answer.at + lateMs), lateMsOf: [...lateMsOf, lateMs] });
  }
  return passed;
}

/** The turns to come, the next first; of one instant the one that was added first. */
class Turns {
  readonly #turns: Turn[];

  constructor(turns: readonly Turn[]) {
    this.#turns = turns.toSorted((a, b) => a.at - b.at);
  }

  next(): Turn | undefined {
    return this.#turns.shift();
  }

  add(turn: Turn): void {
    let [low, high] = [0, this.#turns.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#turns[middle]?.at ?? Infinity) <= turn.at) low = middle + 1;
      else high = middle;
    }
    this.#turns.splice(low, 0, turn);
  }
}

/** How many that asked later each job was overtaken by, by its id; `jobs` in the order of asking. */
export function overtakenBy(jobs: readonly CrowdJob[], passed: readonly Passed[]): Map<string, number> {
  const asked = new Map(jobs.map(({ id }, index) => [id, index]));
  const order = passed.toSorted((a, b) => a.at - b.at).map(({ id }) => asked.get(id) ?? NaN);
  return new Map(
    passed.map(({ id }) => {
      const own = asked.get(id) ?? NaN;
      return [id, order.slice(0, order.indexOf(own)).filter((other) => other > own).length];
    }),
  );
}

export function averageAsks(passed: readonly Passed[]): number {
  return passed.reduce((sum, { asks }) => sum + asks, 0) / passed.length;
}
