import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { withoutExempt } from '../../src/domain/limits.ts';
import type { Ask, Follow, SlotId, Limiter, Moved, Admission } from '../../src/limiter/limiter.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { onClock } from '../support/redis-clock.ts';
import { hoursOf, LONGEST_MS, scenarios, steps, windowsOf, type Scenario, type Step } from './model-steps.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { countsIn, inOrder, type KeptSlot, type Answer } from './reference-rules.ts';
import { Reference } from './reference.ts';
import {
  given,
  expectKeptAround,
  AHEAD_MS,
  readEverything,
  recipientId,
  type Everything,
  type StoredScope,
  type StoredSet,
} from './support.ts';

/** All cases take a minute on a quiet machine with two cores, and much longer beside other work. */
const LONGEST_SEARCH_MS = 600_000;

describe.each(['in memory', 'on Redis'])(
  'any interleaving of asks, late returns, no-shows and what operators do, %s',
  (where) => {
    it(
      'is answered like the reference, and keeps the promise',
      async () => {
        const redis = where === 'on Redis' ? connectRedis() : undefined;
        const run = fc.asyncProperty(
          scenarios,
          fc.array(steps, { minLength: 5, maxLength: 60, size: 'max' }),
          async (scenario, script) => {
            const play = new Play(scenario, redis);
            for (const step of script) await play.step(step);
            await play.limiter.reset(recipientId);
          },
        );
        // A failure is reported within the test's time, however long the shortest example would take to find.
        const ends = { interruptAfterTimeLimit: LONGEST_SEARCH_MS, markInterruptAsFailure: true };
        await fc.assert(run, { ...ends, numRuns: redis === undefined ? 1_500 : 500 });
      },
      LONGEST_SEARCH_MS + 30_000,
    );
  },
);

interface Bounds {
  readonly maxWaitMs: number | undefined;
  readonly leadMs: number | undefined;
}

/** A limiter and the reference beside it, which get the same calls. */
class Play {
  readonly limiter: Limiter;
  readonly #reference: Reference;
  readonly #redis: Redis | undefined;
  readonly #prefix = testPrefix();
  readonly #scenario: Scenario;
  readonly #ids: string[] = [];
  readonly #categoryOf = new Map<string, string | undefined>();
  /** The slots that ids were admitted to and have not given back. */
  readonly #used = new Map<string, number>();
  /** Ids that did not come for a minute once: what is left of their old places is forgotten with the next write, or later. */
  readonly #noShows = new Set<string>();
  /** A slot was given back since the line was moved. */
  #canMoveUp = false;
  #waited: ReadonlySet<string> = new Set();
  readonly #start = Date.now() + AHEAD_MS;
  #now = this.#start;

  constructor(scenario: Scenario, redis: Redis | undefined) {
    const { quietMinutes, ...rest } = scenario;
    const quietHours = quietMinutes && hoursOf(quietMinutes, this.#start);
    const options = { ...rest, keepMs: LONGEST_MS, quietHours };
    const now = () => this.#now;
    this.limiter = redis
      ? createRedisLimiter({ ...options, redis: onClock(redis, now), prefix: this.#prefix })
      : createMemoryLimiter({ ...options, now });
    const quiet = quietMinutes ? windowsOf(quietMinutes, this.#start) : [];
    this.#reference = new Reference({ ...options, quiet, tie: redis ? 'id' : 'placed' });
    this.#redis = redis;
    this.#scenario = scenario;
  }

  async step(step: Step): Promise<void> {
    await this.#take(step);
    this.#expectWorkConserving();
  }

  /** Whoever frees a slot moves the line. From then on the first of each line has the earliest instant that the limits allow. */
  #expectWorkConserving(): void {
    const waiting = new Set<string>(
      this.#reference.reserved.flatMap(({ id, at }) => (id === undefined || at < this.#now - 60_000 ? [] : id)),
    );
    const hasForgotten = [...this.#waited].some((id) => !waiting.has(id) && !this.#used.has(id));
    this.#waited = waiting;
    if (hasForgotten) this.#canMoveUp = true; // a no-show is forgotten without a word
    // With `countBlocked` the marks go that the limits of today do not look at, though those of tomorrow would.
    if (this.#canMoveUp || this.#scenario.countBlocked) return;
    for (const { slot, earliest, gapMs } of this.#reference.firstOnes(this.#now)) {
      expect(slot.at, `the first one, ${slot.id}, could go at ${earliest}`).toBeLessThanOrEqual(earliest + 2 * gapMs);
    }
  }

  async #take(step: Step): Promise<void> {
    switch (step.do) {
      case 'ask': {
        const id = `id-${this.#ids.length}`;
        this.#ids.push(id);
        this.#categoryOf.set(id, step.category);
        const { maxWaitMs, maxQuietMs, expiresInMs, maxPending, policy, everyRule } = step;
        const terms = { maxWaitMs, maxQuietMs, expiresInMs, maxPending, policy, everyRule };
        return this.#ask(given({ ...this.#slotId(id), ...terms }));
      }
      case 'return': {
        const id = pick(
          this.#reference.reserved.map((slot) => slot.id ?? ''),
          step.which,
        );
        if (id === undefined) return;
        const slot = this.#reference.reserved.find((waiting) => waiting.id === id)?.at ?? NaN;
        const slotId = this.#slotId(id);
        const { lateMs, earlyMs } = this.#reference.tolerances(slotId, this.#now);
        const edgeMs = { early: -earlyMs, slot: 0, late: lateMs }[step.edge];
        this.#now = Math.max(this.#now, slot + edgeMs + step.lateMs);
        const { leadMs, maxWaitMs, maxPending, everyRule } = step;
        return this.#ask(given({ ...slotId, leadMs, maxWaitMs, maxPending, everyRule }));
      }
      case 'pass':
        this.#now += step.ms;
        return;
      case 'limit': {
        const until = step.forMs === undefined ? {} : { until: this.#now + step.forMs };
        return this.#oversee(
          (follow) => this.limiter.limit(recipientId, step.policy, { ...until, ...follow }),
          () => {
            this.#reference.stored = { policy: step.policy, until: until.until ?? Infinity };
          },
        );
      }
      case 'block': {
        const block = { until: this.#now + step.forMs, reason: 'on leave' };
        return this.#oversee(
          (follow) => this.limiter.block(recipientId, block, follow),
          () => {
            this.#reference.block = block;
          },
        );
      }
      case 'unlimit': {
        const { source } = this.#reference.inspect(this.#now);
        return this.#oversee(
          async (follow) => expect(await this.limiter.unlimit(recipientId, follow)).toBe(source === 'stored'),
          () => {
            this.#reference.stored = undefined;
          },
        );
      }
      case 'quiet':
        return this.#oversee(
          (follow) => this.limiter.quiet(recipientId, hoursOf(step.minutes, this.#start), follow),
          () => {
            this.#reference.quiet = windowsOf(step.minutes, this.#start);
          },
        );
      case 'unquiet': {
        const wasStored = this.#reference.quiet !== undefined;
        return this.#oversee(
          async (follow) => expect(await this.limiter.unquiet(recipientId, follow)).toBe(wasStored),
          () => {
            this.#reference.quiet = undefined;
          },
        );
      }
      case 'unblock': {
        const { block } = this.#reference.inspect(this.#now);
        return this.#oversee(
          async (follow) => expect(await this.limiter.unblock(recipientId, follow)).toBe(block !== undefined),
          () => {
            this.#reference.block = undefined;
          },
        );
      }
      case 'reset':
        return this.#reset();
      case 'moveUp':
        return this.#oversee(
          (follow) => this.limiter.moveUp(recipientId, follow),
          () => undefined,
        );
      case 'inspect':
        await this.#inspect();
        return;
      default: {
        const id = pick(this.#ids, step.which);
        if (id === undefined) return;
        return this.#act(step.do, id, step);
      }
    }
  }

  async #act(what: string, id: string, { maxWaitMs, leadMs }: Bounds): Promise<void> {
    const slotId = this.#slotId(id);
    switch (what) {
      case 'again': // the client resends the script: the same answer, the same slot
        await this.#ask(slotId);
        return this.#ask(slotId);
      case 'renew':
        return this.#ask(given({ ...slotId, renew: true, maxWaitMs, leadMs }));
      case 'peek':
        return this.#unchanged(async () => {
          const ask = given({ ...slotId, maxWaitMs, leadMs });
          expect(withoutSendAt(await this.limiter.peek(ask))).toEqual(this.#reference.peek(ask, this.#now));
        });
      case 'refund': {
        const at = this.#sentAt(id) ?? Infinity;
        const isRefunded = await this.limiter.refund(slotId);
        // One that is older than it is kept for may be there still, or not.
        if (at >= this.#now - LONGEST_MS) expect(isRefunded).toBe(at !== Infinity);
        this.#reference.sent = this.#reference.sent.filter((slot) => slot.id !== id);
        this.#used.delete(id);
        this.#canMoveUp = true;
        return;
      }
      case 'cancel': {
        this.#seeNoShows();
        const at = this.#reference.reserved.find((slot) => slot.id === id)?.at ?? Infinity;
        const isCancelled = await this.limiter.cancel(slotId);
        if (!this.#noShows.has(id)) expect(isCancelled).toBe(at !== Infinity);
        this.#reference.reserved = this.#reference.reserved.filter((slot) => slot.id !== id);
        this.#canMoveUp = true;
      }
    }
  }

  async #ask(ask: Ask): Promise<void> {
    const { id } = ask;
    this.#seeNoShows();
    const queue = this.#reference.queue(ask, this.#now);
    const { sent, reserved } = this.#reference;
    const isNew = ![...sent, ...reserved].some((slot) => slot.id === id);
    if (ask.policy !== undefined || ask.renew === true) this.#canMoveUp = true; // placed by other limits; or its slot is free
    const before = await this.#stored();
    const expected = this.#reference.admit(ask, this.#now);
    const answer = withoutSendAt(await this.limiter.admit(ask));
    expect(answer).toEqual(expected);
    const isUrgent = this.#reference.scopes(ask, this.#now)[0].isUrgent === true;
    // What its category holds back stands behind the others of its category only; it is in no line yet.
    const isHeldBack = this.#reference.reserved.some((slot) => slot.id === id && slot.isHeldBack === true);
    const behind = queue
      .filter(({ category }) => !(isHeldBack || isUrgent) || category === ask.category)
      .map(({ at }) => at);
    if (isNew && answer.kind !== 'refused') expect(answer.at).toBeGreaterThanOrEqual(Math.max(0, ...behind));
    if (answer.kind === 'refused' && JSON.stringify(this.#reference.sent) === JSON.stringify(sent)) {
      expect(await this.#stored()).toEqual(before);
    }
    if (answer.kind === 'reserved') this.#used.delete(id);
    if (answer.kind === 'admitted' && answer.repeated === false) {
      this.#used.set(id, answer.at ?? NaN);
      this.#expectKept(ask);
    }
    const after = await this.#stored();
    if (after) this.#expectStored(after, answer.kind !== 'refused');
  }

  #seeNoShows(): void {
    for (const { id = '', at } of this.#reference.reserved) if (at < this.#now - 60_000) this.#noShows.add(id);
  }

  async #reset(): Promise<void> {
    const { sent } = this.#reference;
    const scopes = [undefined, ...Object.keys(this.#scenario.categories)].map((category) => ({ category }));
    const counts = (slot: KeptSlot) => scopes.some((scope) => countsIn(scope, slot));
    const isAlive = sent.some((slot) => slot.at >= this.#now - LONGEST_MS && counts(slot));
    this.#used.clear();
    return this.#oversee(
      async (follow) => {
        const wasSent = await this.limiter.reset(recipientId, follow);
        if (isAlive || sent.length === 0) expect(wasSent).toBe(isAlive);
      },
      () => {
        this.#reference.sent = [];
      },
    );
  }

  /** What an operator does: all that wait are moved as the reference moves them, and reported. */
  async #oversee(act: (follow: Follow) => Promise<void>, actThere: () => void): Promise<void> {
    this.#seeNoShows();
    const moved: Moved[] = [];
    const expected = this.#reference.oversee(actThere, this.#now);
    await act({ onMoved: (some) => void moved.push(...some) });
    expect(byId(moved)).toEqual(byId(expected));
    this.#canMoveUp = false;
    await this.#inspect();
    const stored = await this.#stored();
    if (stored) this.#expectStored(stored, true);
  }

  async #inspect(): Promise<void> {
    const found = await this.#unchanged(() => this.limiter.inspect(recipientId));
    const { sent, reserved } = found;
    const { quiet, ...rest } = found;
    expect({ ...rest, sent: inOrder(sent), reserved: inOrder(reserved) }).toEqual(this.#reference.inspect(this.#now));
    expect(quiet?.source).toBe(this.#reference.quiet ? 'stored' : this.#scenario.quietMinutes && 'limiter');
  }

  /** What this id was admitted to keeps the policies in force at that instant, with all that was admitted before. */
  #expectKept(ask: Ask): void {
    const at = this.#used.get(ask.id) ?? NaN;
    expect(this.#reference.quietFor(ask).windows.filter(({ from, until }) => at >= from && at < until)).toEqual([]);
    const exempt = new Map(Object.entries(this.#scenario.categories)).get(ask.category ?? '')?.exempt;
    const overall = withoutExempt(this.#reference.policyFor(ask, at), given({ exempt }));
    expectKeptAround(overall, [...this.#used.values()], at);
    const { category = '' } = ask;
    const policy = new Map(Object.entries(this.#scenario.categories)).get(category);
    const ofCategory = [...this.#used].filter(([id]) => this.#categoryOf.get(id) === category);
    const instants = ofCategory.map(([, instant]) => instant);
    if (policy) expectKeptAround(policy, instants, at);
  }

  async #unchanged<T>(act: () => Promise<T>): Promise<T> {
    const before = await this.#stored();
    const result = await act();
    expect(await this.#stored()).toEqual(before);
    return result;
  }

  async #stored(): Promise<Everything | undefined> {
    return this.#redis && readEverything(this.#redis, this.#prefix, Object.keys(this.#scenario.categories));
  }

  /** Nothing beyond what the reference has, in every scope, and an expiry for every key. */
  #expectStored({ overall, ofCategories }: Everything, wasWritten: boolean): void {
    const expected = { reference: this.#reference, now: this.#now, wasWritten };
    expectScope(overall, undefined, expected);
    for (const [category, stored] of ofCategories) if (stored) expectScope(stored, category, expected);
  }

  #slotId(id: string): SlotId {
    return given({ recipientId, id, category: this.#categoryOf.get(id) });
  }

  #sentAt(id: string): number | undefined {
    return this.#reference.sent.find((slot) => slot.id === id)?.at;
  }
}

/** What Redis is compared with. */
interface Expected {
  readonly reference: Reference;
  readonly now: number;
  /** Whether the last call has written, so that every expiry is exact. */
  readonly wasWritten: boolean;
}

/** Nothing beyond what the reference has in this scope, and an expiry for every key. */
function expectScope(
  { sent, reserved, heldBack }: StoredScope,
  category: string | undefined,
  { reference, now, wasWritten }: Expected,
): void {
  const has = (slot: KeptSlot) => countsIn({ category }, slot);
  const isKept = (at: number) => at >= now - LONGEST_MS;
  const counted = reference.sent.filter(has).map(({ at }) => at);
  const found = sent.slots.map(([, at]) => at);
  expect(found.filter(isKept)).toEqual(counted.filter(isKept).sort((a, b) => a - b));
  expect(new Set(sent.slots.map(([member]) => member)).size).toBe(sent.slots.length);

  const isAwaited = ({ at }: { readonly at: number }) => at >= now - 60_000;
  const waiting = reference.reserved.filter((slot) => has(slot) && isAwaited(slot));
  const views = (set: StoredSet) => inOrder(set.slots.map(([id, at]) => ({ id, at })).filter(isAwaited));
  const expected = (isHeldBack: boolean) =>
    inOrder(waiting.filter((slot) => (slot.isHeldBack ?? false) === isHeldBack).map(({ id = '', at }) => ({ id, at })));
  expect(views(reserved)).toEqual(expected(false));
  if (category !== undefined) expect(views(heldBack)).toEqual(expected(true));

  if (!wasWritten) return;
  for (const [{ slots, expiresAt }, keepMs] of [
    [sent, LONGEST_MS],
    [reserved, 60_000],
    [heldBack, 60_000],
  ] as const) {
    const last = slots.at(-1)?.[1];
    expect(expiresAt === undefined).toBe(last === undefined);
    if (last === undefined) continue;
    // A refund moves the expiry by what is left of it, which Redis rounds to whole milliseconds. What is over on the test's clock
    // is still there by Redis's own, and keeps its expiry.
    const ends = last + keepMs;
    if (ends <= now) expect(expiresAt).toBeLessThanOrEqual(now + 2);
    else expect(Math.abs(Number(expiresAt) - ends)).toBeLessThanOrEqual(2);
  }
}

function byId(moved: readonly Moved[]): Moved[] {
  return moved.toSorted((a, b) => ((a.id ?? '') < (b.id ?? '') ? -1 : 1));
}

function pick(ids: readonly string[], which: number): string | undefined {
  return ids[Math.floor((which * ids.length) / 100)];
}

function withoutSendAt(admission: Admission): Answer {
  return Object.fromEntries(Object.entries(admission).filter(([field]) => field !== 'sendAt')) as unknown as Answer;
}
