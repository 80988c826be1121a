import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { createCanceller, type Canceller } from '../../src/limiter/redis/canceller.ts';
import { createWaitingLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import type { Join, WaitingLimiter } from '../../src/limiter/limiter.ts';
import { cases } from '../support/cases.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { AHEAD_MS, recipientId } from './support.ts';

/** All cases take seven seconds on a quiet machine with two cores, and twice as long beside other work. */
const LONGEST_SEARCH_MS = 60_000;

/**
 * Notifications to one recipient: those that wait alone, for the newest, or for a digest. Passes, crashes between the ask and
 * the end of the pass, failed sends, cancels and time come in any order. In the end every notification that was enqueued has
 * ended in exactly one way.
 */
it(
  'every notification ends in one way: none lost, none sent twice, none in two digests, none sent after its cancel',
  async () => {
    const redis = connectRedis();
    const run = fc.asyncProperty(fc.array(steps, { minLength: 10, maxLength: 80, size: 'max' }), async (script) => {
      const play = new Play(redis);
      for (const step of script) await play.step(step);
      await play.finish();
      play.check();
    });
    await fc.assert(run, {
      numRuns: cases(600),
      interruptAfterTimeLimit: LONGEST_SEARCH_MS,
      markInterruptAsFailure: true,
    });
  },
  LONGEST_SEARCH_MS + 30_000,
);

const KINDS = ['alone', 'latest', 'digest', 'small digest'] as const;
const number = fc.nat(30);
const steps = fc.oneof(
  { weight: 8, arbitrary: fc.record({ does: fc.constantFrom('enqueue', 'arrive'), kind: fc.constantFrom(...KINDS) }) },
  { weight: 6, arbitrary: fc.record({ does: fc.constantFrom('pass', 'crash', 'refused'), number }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant('cancel'), number, and: fc.option(number) }) },
  { weight: 4, arbitrary: fc.record({ does: fc.constant('wait'), ms: fc.constantFrom(1, 200, 1_000, 5_000) }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('wait'), ms: fc.constantFrom(61_000, 600_000) }) },
);
type Step = typeof steps extends fc.Arbitrary<infer T> ? T : never;

interface One {
  readonly name: string;
  readonly kind: (typeof KINDS)[number];
  readonly at: number;
  asks: number;
  /** Whether it has to come back, and when. */
  waits: boolean;
  dueAt: number;
  /** What the answer to the pass said about its digest, and the job remembers. */
  digest: { readonly count: number; readonly own: boolean } | undefined;
  /** How it ended for its job. */
  end: 'sent' | 'canceled' | 'superseded' | 'merged' | undefined;
  by: string | undefined;
  /** What the last cancel answered. */
  canceled: boolean;
}

class Play {
  readonly #all: One[] = [];
  readonly #limiter: WaitingLimiter;
  readonly #canceller: Canceller;
  #now = Date.now() + AHEAD_MS;

  constructor(redis: Redis) {
    const options = { redis: onClock(redis, () => this.#now), prefix: testPrefix() };
    const policy = { rules: [{ max: 3, perMs: 20_000 }], minGapMs: 1_000 };
    this.#limiter = createWaitingLimiter({ ...options, policy, keepMs: 86_400_000 });
    this.#canceller = createCanceller(options);
  }

  async step(step: Step): Promise<void> {
    if ('ms' in step) this.#now += step.ms;
    else if ('kind' in step) {
      const one = this.#enqueue(step.kind);
      if (step.does === 'arrive') await this.#pass(one, 'pass');
    } else if ('and' in step) await this.#cancel([this.#find(step.number), this.#find(step.and ?? undefined)]);
    else await this.#pass(this.#find(step.number), step.does);
  }

  /** All jobs come back until each has ended. */
  async finish(): Promise<void> {
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
      const mergedInto = this.#all.filter(({ by, end }) => by === one.name && end === 'merged');
      if (one.canceled) {
        // One that carries a digest goes on for the others.
        const isCarrier = one.end === 'sent' && mergedInto.length > 0 && one.digest?.own === false;
        expect(one.end === 'canceled' || one.end === 'merged' || isCarrier, `${one.name} ${one.end}`).toBe(true);
      } else {
        expect(one.end).not.toBe('canceled');
      }
      if (one.end === 'sent' && one.digest !== undefined) {
        const members = mergedInto.filter(({ canceled }) => !canceled).length + (one.canceled ? 0 : 1);
        expect(one.digest, one.name).toEqual({ count: members, own: !one.canceled });
      }
      if (one.end === 'merged') {
        const holder = this.#named(one.by);
        expect(one.canceled || holder?.end === 'sent', `${one.name} in ${holder?.end}`).toBe(true);
        expect(holder?.kind).toBe(one.kind);
      }
      if (one.end === 'superseded') expect(this.#named(one.by)?.at).toBeGreaterThanOrEqual(one.at);
    }
    // Of those under one collapse id, the newest one is never superseded.
    const newest = this.#all.findLast(({ kind }) => kind === 'latest');
    expect(newest?.end).not.toBe('superseded');
  }

  #enqueue(kind: One['kind']): One {
    const [name, at] = [`n${this.#all.length}`, this.#all.length];
    const fresh = {
      asks: 0,
      waits: false,
      dueAt: 0,
      digest: undefined,
      end: undefined,
      by: undefined,
      canceled: false,
    };
    const one: One = { name, kind, at, ...fresh };
    this.#all.push(one);
    return one;
  }

  #find(at: number | undefined): One | undefined {
    return at === undefined ? undefined : this.#all[at % Math.max(1, this.#all.length)];
  }

  #named(name: string | undefined): One | undefined {
    return this.#all.find((one) => one.name === name);
  }

  /** `crash`: the worker dies after the ask. `refused`: the provider refuses, so that the job is tried again. */
  async #pass(one: One | undefined, how: string): Promise<void> {
    if (one === undefined || one.end !== undefined) return;
    const id = `${one.name}/${one.asks}`;
    const join = this.#joinOf(one);
    const answer = await this.#limiter.admit({ recipientId, id, ...(join && { join }) });
    if (answer.kind === 'reserved') [one.waits, one.dueAt] = [true, answer.at];
    if (how === 'crash' || answer.kind === 'reserved' || answer.kind === 'refused') return;
    if (answer.kind === 'ended') {
      [one.end, one.by] = [answer.how, answer.by];
      return;
    }
    if (answer.digest !== undefined) one.digest = answer.digest;
    if (answer.repeated) {
      one.asks += 1; // the worker that died may have sent: the job asks anew, as in delivery/slot.ts
      return this.#pass(one, how);
    }
    if (how === 'refused') {
      await this.#limiter.refund({ recipientId, id });
      one.asks += 1;
      one.waits = false;
      return;
    }
    one.end = 'sent';
    const newer = this.#all.find((other) => other.kind === 'latest' && other.at > one.at && wasFirst(other));
    if (one.kind === 'latest') expect(newer?.name, `waits or went before the older ${one.name}`).toBeUndefined();
  }

  /** As delivery/slot.ts does. */
  #joinOf({ kind, at, asks }: One): Join | undefined {
    if (kind === 'alone' || (kind !== 'latest' && asks > 0)) return undefined;
    return { kind: kind === 'latest' ? kind : 'digest', key: kind, at, max: kind === 'small digest' ? 2 : 100 };
  }

  async #cancel(some: readonly (One | undefined)[]): Promise<void> {
    const asked = [...new Set(some)].filter((one) => one !== undefined);
    const requests = asked.map(({ name: jobId, asks }) => ({ jobId, asks, keepMs: 0 }));
    const answers = await this.#canceller.cancel(recipientId, requests);
    for (const [index, one] of asked.entries()) {
      const canceled = answers[index]?.canceled ?? false;
      if (one.canceled) expect(canceled, 'the same answer again').toBe(true);
      one.canceled = canceled;
    }
  }
}

function wasFirst({ waits, end, canceled }: One): boolean {
  return end === 'sent' || (waits && end === undefined && !canceled);
}
