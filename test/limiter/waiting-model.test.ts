import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { createCanceller, createEndLook, type Canceller, type EndLook } from '../../src/limiter/redis/canceller.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { createWaitingLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import type { Digest, Ending, Join, NotToBeSent, Released, WaitingLimiter } from '../../src/limiter/limiter.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { AHEAD_MS, recipientId } from './support.ts';

/** All cases take two minutes on a quiet machine with two cores, and much longer beside other work. */
const LONGEST_SEARCH_MS = 1_800_000;
const SEQUENCES = 3_000;

/**
 * Notifications to one recipient over days: those that wait alone, for the newest, or for a digest. Passes, crashes between the ask
 * and the end of the pass, crashes after it, failed sends, refusals, cancels, dead letters and their replays, also where the limiter did
 * not answer, jobs that expire or that somebody removes, ids that are used again, blocks and weeks without workers come in any order. In the end every notification has ended in exactly one way.
 */
it(
  'every notification ends in one way: none lost, none sent twice, none in two digests, none sent after its cancel',
  async () => {
    const redis = connectRedis();
    const run = fc.asyncProperty(fc.array(steps, { minLength: 10, maxLength: 40, size: 'max' }), async (script) => {
      const play = new Play(redis);
      for (const step of script) await play.step(step);
      await play.finish();
      play.check();
    });
    await fc.assert(run, {
      numRuns: SEQUENCES,
      interruptAfterTimeLimit: LONGEST_SEARCH_MS,
      markInterruptAsFailure: true,
    });
  },
  LONGEST_SEARCH_MS + 30_000,
);

const DAY_MS = 86_400_000;
/** As delivery/lines.ts has it. */
const MOVE_LEAD_MS = 1_000;
const POLICY = { rules: [{ max: 3, perMs: 20_000 }], minGapMs: 1_000 };
const KINDS = ['alone', 'latest', 'digest', 'digest that expires soon', 'digest that expires', 'small digest'] as const;
const number = fc.nat(30);
const LEAVES = ['die', 'die unreleased', 'stall', 'expire', 'remove', 'replay', 'reuse', 'error'] as const;
const PASSES = ['pass', 'crash', 'crash at the end', 'end later', 'refused', 'limited'] as const;
const steps = fc.oneof(
  { weight: 8, arbitrary: fc.record({ does: fc.constantFrom('enqueue', 'arrive'), kind: fc.constantFrom(...KINDS) }) },
  { weight: 6, arbitrary: fc.record({ does: fc.constantFrom(...PASSES), number }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant('cancel'), number }) },
  { weight: 5, arbitrary: fc.record({ does: fc.constantFrom(...LEAVES), number }) },
  { weight: 4, arbitrary: fc.record({ does: fc.constant('wait'), ms: fc.constantFrom(1, 200, 1_000, 5_000) }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('wait'), ms: fc.constantFrom(61_000, DAY_MS, 7 * DAY_MS) }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('unblock, and die'), ms: fc.constant(0) }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('block'), ms: fc.constantFrom(0, 60_000, 3 * DAY_MS) }) },
);
type Pass = (typeof PASSES)[number];
type Step = typeof steps extends fc.Arbitrary<infer T> ? T : never;

interface One {
  /** The id of its job. */
  name: string;
  readonly kind: (typeof KINDS)[number];
  /** When it was enqueued: the order of enqueuing. */
  readonly at: number;
  readonly expiresAt: number;
  asks: number;
  /** A worker died when it may have sent it. */
  mayBeSeen: boolean;
  /** Whether it has to come back, and when. */
  waits: boolean;
  dueAt: number;
  /** What the answer to the pass said about its digest, and the job remembers. */
  digest: Digest | undefined;
  end: 'sent' | 'canceled' | 'superseded' | 'merged' | 'expired' | 'removed' | undefined;
  /** The digest that it is in, if it ended as merged. */
  by: One | undefined;
  /** It is a dead letter. */
  isDead: boolean;
  replays: number;
  /** What a pass was told, that has yet to end its job. */
  told?: Pick<NotToBeSent, 'how' | 'by'>;
  /** What the last cancel answered. */
  canceled: boolean;
  /** When its newest admission was after which it was sent, or may have been. */
  admittedAt: number;
}

class Play {
  readonly #all: One[] = [];
  /** Those that were admitted as a digest, by the name that they had then. */
  readonly #digests = new Map<string, One>();
  readonly #limiter: WaitingLimiter;
  readonly #canceller: Canceller;
  readonly #endOf: EndLook;
  readonly #redis: Redis;
  readonly #settings: string;
  /** The line as it was after the step before, and whether a slot in it became free without a word since it was moved. */
  #waited: ReadonlyMap<string, number> = new Map();
  #canMoveUp = false;
  #now = Date.now() + AHEAD_MS;

  constructor(redis: Redis) {
    // Redis answers in time however busy the machine is: no answer is a fault of its own.
    const options = { redis: onClock(redis, () => this.#now), prefix: testPrefix(), timeoutMs: 60_000 };
    this.#redis = redis;
    this.#settings = recipientKeys(options.prefix, recipientId).settings;
    this.#limiter = createWaitingLimiter({ ...options, policy: POLICY });
    this.#canceller = createCanceller(options);
    this.#endOf = createEndLook(options);
  }

  async step(step: Step): Promise<void> {
    await this.#take(step);
    await this.#expectWorkConserving();
  }

  /** An operator's process that dies before it moves anything. */
  async #loseBlock(): Promise<void> {
    await this.#redis.del(this.#settings);
    this.#canMoveUp = true;
  }

  /** What a pass does when it has given back a slot, or learned that nobody moved the line when that became free. */
  async #moveUp(): Promise<void> {
    await this.#limiter.moveUp(recipientId, { leadMs: MOVE_LEAD_MS });
    this.#canMoveUp = false;
  }

  /**
   * Whatever has happened, the first of the line has the earliest instant that the limits allow. Only a no-show is forgotten without a
   * word, and who dies half-way says nothing: the next one that has to wait finds out.
   */
  async #expectWorkConserving(): Promise<void> {
    const { reserved, sent, block } = await this.#limiter.inspect(recipientId);
    const waited = this.#waited;
    this.#waited = new Map(reserved.map(({ id = '', at }) => [id, at]));
    if ([...waited].some(([id, at]) => at < this.#now - 60_000 && !this.#waited.has(id))) this.#canMoveUp = true;
    const [first] = reserved;
    if (first === undefined || this.#canMoveUp) return;
    const instants = sent.map(({ at }) => at);
    const { minGapMs, rules } = POLICY;
    const limits = [{ max: 1, perMs: minGapMs }, ...rules].map(({ max, perMs }) => (instants.at(-max) ?? 0) + perMs);
    const earliest = Math.max(this.#now + MOVE_LEAD_MS, block?.until ?? 0, ...limits);
    expect(first.at, `${first.id} could go at ${earliest}`).toBeLessThanOrEqual(earliest + 2 * minGapMs);
  }

  async #take(step: Step): Promise<void> {
    if ('kind' in step) {
      const one = this.#enqueue(step.kind);
      if (step.does === 'arrive') await this.#pass(one, 'pass');
    } else if ('ms' in step) {
      if (step.does === 'wait') this.#now += step.ms;
      else if (step.does === 'unblock, and die') await this.#loseBlock();
      else if (step.ms === 0) await this.#limiter.unblock(recipientId);
      else await this.#limiter.block(recipientId, { until: this.#now + step.ms, reason: 'a trip' });
    } else {
      const one = this.#all[step.number % Math.max(1, this.#all.length)];
      if (one !== undefined) await this.#act(one, step.does);
    }
  }

  /** All dead letters are replayed, and all jobs come back until each has ended. */
  async finish(): Promise<void> {
    await this.#limiter.unblock(recipientId);
    for (const one of this.#all) this.#replay(one);
    for (let round = 0; round < 500; round++) {
      const open = this.#all.filter(({ end }) => end === undefined);
      if (open.length === 0) return;
      this.#now = Math.max(this.#now, Math.min(...open.map(({ dueAt }) => dueAt)));
      for (const one of open) if (one.dueAt <= this.#now) await this.#pass(one, 'pass');
    }
  }

  check(): void {
    for (const one of this.#all) {
      expect(one.end, one.name).toBeDefined();
      if (one.canceled) expect(['canceled', 'expired', 'removed'], `${one.name} ${one.end}`).toContain(one.end);
      else expect(one.end, one.name).not.toBe('canceled');
      if (one.end === 'sent') {
        const merged = this.#all.filter(({ by, end }) => by === one && end === 'merged').length;
        // A part whose job somebody removed is counted all the same.
        const gone = this.#all.filter(({ kind, end }) => keyOf(kind) === keyOf(one.kind) && end === 'removed');
        expect(one.digest?.count ?? 1, one.name).toBeGreaterThanOrEqual(1 + merged);
        expect(one.digest?.count ?? 1, one.name).toBeLessThanOrEqual(1 + merged + gone.length);
      }
      if (one.end === 'merged') {
        // Who removes the job of a digest that was tried removes what it is made of.
        expect(['sent', 'removed', 'expired'], `${one.name} in ${one.by?.name}`).toContain(one.by?.end);
        expect(keyOf(one.by?.kind ?? 'alone')).toBe(keyOf(one.kind));
      }
      if (one.end === 'superseded') {
        const newer = this.#all.some(({ kind, at }) => kind === 'latest' && at > one.at);
        expect(newer, one.name).toBe(true);
      }
    }
  }

  #enqueue(kind: One['kind'], name = `n${this.#all.length}`): One {
    const lastsMs =
      kind === 'digest that expires soon' ? 10_000 : kind === 'digest that expires' ? 2 * DAY_MS : Infinity;
    const fresh = {
      expiresAt: this.#now + lastsMs,
      mayBeSeen: false,
      asks: 0,
      waits: false,
      dueAt: 0,
      digest: undefined,
      end: undefined,
      by: undefined,
    };
    const one: One = {
      name,
      kind,
      at: this.#all.length + 1,
      ...fresh,
      isDead: false,
      replays: 0,
      canceled: false,
      admittedAt: 0,
    };
    this.#all.push(one);
    return one;
  }

  async #act(one: One, does: Pass | 'cancel' | (typeof LEAVES)[number]): Promise<void> {
    if (does === 'replay') this.#replay(one);
    else if (does === 'reuse') this.#reuse(one);
    else if (one.end !== undefined || one.isDead) return;
    else if (one.told !== undefined && does !== 'cancel') await this.#ended(one, one.told);
    else if (does === 'cancel') await this.#cancel(one);
    else if (does === 'remove') one.end = 'removed';
    else if (does === 'error') await this.#error(one);
    else if (does === 'expire' && (one.digest?.count ?? 1) > 1)
      return; // its parts expire no later
    else if (does === 'die' || does === 'die unreleased' || does === 'stall' || does === 'expire')
      await this.#leave(one, does);
    else await this.#pass(one, does);
  }

  #replay(one: One): void {
    if (!one.isDead) return;
    one.isDead = false;
    one.replays += 1;
    const name = `${one.name.replace(/#.*/, '')}#r${one.replays}`;
    Object.assign(one, { name, asks: 0, waits: false, dueAt: 0 });
  }

  /** The id of one that has ended is used again, but not that of a digest, since its parts name it. */
  #reuse({ name, end, kind }: One): void {
    const [base = ''] = name.split('#');
    const isTaken = this.#all.some((other) => other.name.split('#')[0] === base && other.end === undefined);
    if (end !== undefined && !isTaken && !this.#digests.has(base) && name === base) {
      for (const other of this.#all) if (other.name === base) other.name = `${base} before ${this.#all.length}`;
      this.#now += 3_600_000; // BullMQ keeps it for an hour
      this.#enqueue(kind, base);
    }
  }

  /** An error that no step foresaw, before anything was sent: it gives back what it holds, and asks again. */
  async #error(one: One): Promise<void> {
    one.digest = (await this.#release(one, 'ended')).digest ?? one.digest;
    one.waits = false; // until it asks again, an older `latest` may go
  }

  /** A pass that ends before its ask, as in delivery/deliver.ts; `stall`: no pass looks at it, as in dead-letters/store.ts. */
  async #leave(one: One, how: 'die' | 'die unreleased' | 'stall' | 'expire'): Promise<void> {
    const ending = { recipientId, jobId: one.name, enqueuedAt: one.at };
    const ended = how !== 'stall' && one.digest === undefined ? await this.#endOf(ending) : undefined;
    if (ended !== undefined) {
      await this.#release(one, 'ended');
      return this.#ended(one, ended);
    }
    const isUnseen = how === 'die' && !one.mayBeSeen;
    const released: Released =
      how === 'die unreleased'
        ? { hadSlot: false }
        : await this.#release(one, how === 'expire' ? 'ended' : isUnseen ? 'unseen' : 'dead');
    one.digest = released.digest ?? one.digest;
    if (how === 'expire') one.end = 'expired';
    else one.isDead = true;
  }

  /** Its job has ended in the queue. */
  async #ended(one: One, { how, by }: Pick<NotToBeSent, 'how' | 'by'>): Promise<void> {
    delete one.told;
    [one.end, one.by] = [how, this.#digests.get(by ?? '')];
    await this.#limiter.forget({ recipientId, id: `${one.name}/${one.asks}`, enqueuedAt: one.at });
  }

  async #release({ name, asks, at }: One, how: Ending['how']): Promise<Released> {
    const released = await this.#limiter.release({ recipientId, id: `${name}/${asks}`, enqueuedAt: at, how });
    if (released.hadSlot) await this.#moveUp();
    return released;
  }

  /**
   * `crash`: the worker dies after the ask. `crash at the end`: the limiter ended it, and the worker dies before the queue knows it.
   * `end later`: so that other passes come in between.
   * `refused`: the provider refuses, so that the job is tried again. `limited`: no longer wait is allowed.
   */
  async #pass(one: One, how: Pass): Promise<void> {
    if (one.told !== undefined) return this.#ended(one, one.told);
    if (one.expiresAt <= this.#now) return this.#leave(one, 'expire');
    const id = `${one.name}/${one.asks}`;
    const join = this.#joinOf(one);
    const expiresInMs = one.expiresAt - this.#now;
    const answer = await this.#limiter.admit({
      ...{ recipientId, id, enqueuedAt: one.at },
      ...(join && { join }),
      ...(expiresInMs < Infinity && { expiresInMs }),
      ...(how === 'limited' && { maxWaitMs: 500 }),
    });
    if (answer.kind === 'admitted' && answer.digest !== undefined) this.#digests.set(one.name, one);
    if (answer.kind === 'reserved') {
      [one.waits, one.dueAt] = [true, answer.at];
      if (answer.canMoveUp === true) await this.#moveUp();
      return;
    }
    if (how === 'crash') {
      [one.mayBeSeen, one.waits] = [true, false];
      one.admittedAt = this.#now;
      if (answer.kind === 'ended' && answer.gaveBackSlot) this.#canMoveUp = true;
      return;
    }
    if (answer.kind === 'refused') {
      const isOver = answer.waitMs >= expiresInMs;
      one.digest = (await this.#release(one, isOver ? 'ended' : 'unseen')).digest ?? one.digest;
      if (isOver) one.end = 'expired';
      else one.isDead = true;
      return;
    }
    if (answer.kind === 'ended') {
      if (answer.gaveBackSlot) await this.#moveUp();
      if (how === 'end later') one.told = answer;
      else if (how !== 'crash at the end') await this.#ended(one, answer);
      return;
    }
    if (answer.digest !== undefined) one.digest = answer.digest;
    if (answer.repeated) {
      one.asks += 1; // the worker that died may have sent: the job asks anew, as in delivery/slot.ts
      return this.#pass(one, how);
    }
    if (how === 'refused') {
      await this.#limiter.refund({ recipientId, id });
      await this.#moveUp();
      one.asks += 1;
      one.waits = false;
      return;
    }
    one.end = 'sent';
    one.admittedAt = this.#now;
    if ((one.digest?.count ?? 1) > 1) await this.#limiter.forget({ recipientId, id, enqueuedAt: one.at });
    if (one.kind !== 'latest') return;
    for (const other of this.#all.filter(({ kind, at }) => kind === 'latest' && at > one.at)) {
      if (!wasFirst(other, this.#now)) continue;
      // One that waits may have been superseded by one that was canceled since.
      const ended = await this.#endOf({ recipientId, jobId: other.name, enqueuedAt: other.at });
      expect(ended?.how, `${other.name} waits or went before the older ${one.name}`).toBe('superseded');
    }
  }

  /** As delivery/slot.ts does. */
  #joinOf({ kind, at, asks, digest, expiresAt }: One): Join | undefined {
    if (kind === 'alone' || (kind !== 'latest' && (asks > 0 || digest !== undefined))) return undefined;
    const expires = expiresAt < Infinity ? { expires: expiresAt } : {};
    return {
      kind: kind === 'latest' ? kind : 'digest',
      key: keyOf(kind),
      at,
      ...expires,
      max: kind === 'small digest' ? 2 : 100,
    };
  }

  async #cancel(one: One): Promise<void> {
    const id = `${one.name}/${one.asks}`;
    const { canceled } = await this.#canceller.cancel({ recipientId, id, enqueuedAt: one.at });
    if (one.canceled) expect(canceled, 'the same answer again').toBe(true);
    one.canceled = canceled;
  }
}

/** The digests that expire wait with those that do not. */
function keyOf(kind: One['kind']): string {
  return kind.replace(/ that expires.*/, '');
}

/** It was sent within the last week, or may have been; or it waits for its slot. It is not canceled, nor a dead letter. */
function wasFirst({ waits, mayBeSeen, end, canceled, isDead, admittedAt }: One, now: number): boolean {
  const isNew = now - admittedAt < 7 * DAY_MS;
  if (end === 'sent') return isNew;
  return (waits || (mayBeSeen && isNew)) && end === undefined && !canceled && !isDead;
}
