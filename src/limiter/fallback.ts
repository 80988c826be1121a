import { describeFound, InputError } from '../domain/faults.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import { checkAsk } from './checks.ts';
import type { Admission, Ask, Limiter, Admitted } from './limiter.ts';
import { type MemoryLimiterOptions, openMemoryLimiter, type MemoryLimiter } from './memory/memory-limiter.ts';
import { NO_SHOW_MS, paceOf } from './pace.ts';

/**
 * What happens while the limiter's Redis does not answer.
 * - `closed`: nothing is admitted. Every call rejects with LimiterUnavailableError.
 * - `open`: everything is admitted, by the rule `unavailable`.
 * - `memory`: this process limits on its own, by the same policies, and remembers the ids that it admits.
 */
export type OnUnavailable = 'closed' | 'open' | 'memory';

export interface FallbackOptions extends MemoryLimiterOptions {
  readonly onUnavailable: OnUnavailable;
  /** After a failure, no ask tries the limiter for this time (ms); then one ask at a time tries it. Default: 1,000. */
  readonly pauseMs?: number | undefined;
  /** Called with true when answers begin to come from the fallback, and with false when they no longer do. */
  readonly onOutage?: ((isAway: boolean) => void) | undefined;
}

const PAUSE_MS = 1_000;
const ON_UNAVAILABLE: readonly OnUnavailable[] = ['closed', 'open', 'memory'];

/** Throws InputError if the value is none of the three: else a spelling mistake would only be noticed in an outage. */
export function checkOnUnavailable(value: OnUnavailable): void {
  if (ON_UNAVAILABLE.includes(value)) return;
  const found = describeFound(value, false);
  throw new InputError('unusable options', [{ path: 'onUnavailable', expected: 'closed, open or memory', found }]);
}

/**
 * Wraps a limiter so that asks get an answer even while the limiter does not answer. `closed` changes nothing: each ask waits
 * for the limiter, at most its `timeoutMs`. With `open` and `memory`, the only asks that wait are those under way when the
 * outage begins, and later one in each `pauseMs`. An operator's commands (`limit`, `block`, `inspect`, …) never get an answer
 * of the fallback.
 */
export function withFallback(limiter: Limiter, options: FallbackOptions): Limiter {
  const { onUnavailable, pauseMs = PAUSE_MS, onOutage, ...own } = options;
  if (onUnavailable === 'closed') return limiter;
  const standIn = onUnavailable === 'open' ? openStandIn(own) : memoryStandIn(own);
  const gate = createOutageGate({ pauseMs, onChange: onOutage });

  async function admit(ask: Ask): Promise<Admission> {
    const given = await standIn.given(ask);
    if (given !== undefined) return given;
    return gate.run(
      async () => {
        const answer = await limiter.admit(ask);
        await standIn.handOver(ask);
        return answer;
      },
      () => standIn.admit(ask),
    );
  }

  async function peek(ask: Ask): Promise<Admission> {
    const given = await standIn.given(ask);
    return (
      given ??
      gate.run(
        () => limiter.peek(ask),
        () => standIn.peek(ask),
      )
    );
  }

  /** Limiter and stand-in may both have a slot of this id: Redis may have done what a call wanted, but answered too late. */
  async function giveBack(change: (holder: Pick<Limiter, 'refund' | 'cancel'>) => Promise<boolean>): Promise<boolean> {
    const wasHere = await change(standIn);
    const wasThere = await gate.run(
      () => change(limiter),
      () => false,
    );
    return wasHere || wasThere;
  }

  return {
    admit,
    peek,
    refund: (slot) => giveBack((holder) => holder.refund(slot)),
    cancel: (slot) => giveBack((holder) => holder.cancel(slot)),
    moveUp: (recipientId, follow) =>
      gate.run(
        () => limiter.moveUp(recipientId, follow),
        () => standIn.moveUp(recipientId, follow),
      ),
    limit: (recipientId, policy, more) => limiter.limit(recipientId, policy, more),
    unlimit: (recipientId, follow) => limiter.unlimit(recipientId, follow),
    block: (recipientId, block, follow) => limiter.block(recipientId, block, follow),
    unblock: (recipientId, follow) => limiter.unblock(recipientId, follow),
    quiet: (recipientId, hours, follow) => limiter.quiet(recipientId, hours, follow),
    unquiet: (recipientId, follow) => limiter.unquiet(recipientId, follow),
    inspect: (recipientId) => limiter.inspect(recipientId),
    async reset(recipientId, follow) {
      const wasThere = await limiter.reset(recipientId, follow);
      return (await standIn.reset(recipientId)) || wasThere;
    },
  };
}

export interface OutageGateOptions {
  /** How long after a failure no call is tried, in milliseconds. */
  readonly pauseMs: number;
  /** Called with true at the first call that `otherwise` answers, and with false at the first one that `call` answers again. */
  readonly onChange?: ((isAway: boolean) => void) | undefined;
}

/** A circuit breaker for the limiter's Redis: while Redis does not answer, most calls need not wait for their timeout. */
export interface OutageGate {
  /**
   * Answers with `call`, or with `otherwise` if `call` rejects with LimiterUnavailableError or is not tried. After a failure no
   * call is tried for `pauseMs`, then one at a time until one is answered. No timer makes these tries: the next call after the
   * pause does.
   */
  run<T>(call: () => Promise<T>, otherwise: () => T | Promise<T>): Promise<T>;
}

export function createOutageGate({ pauseMs, onChange }: OutageGateOptions): OutageGate {
  let isAway = false;
  let isProbing = false;
  let triedAgainAt = 0;
  let answeredAt = -Infinity;

  function turn(away: boolean): void {
    if (isAway === away) return;
    isAway = away;
    onChange?.(away);
  }

  /** A failure does not count if the limiter has answered another call since the failed one was made. */
  function failed(calledAt: number): void {
    if (calledAt < answeredAt) return;
    triedAgainAt = performance.now() + pauseMs;
    turn(true);
  }

  function answered(): void {
    answeredAt = performance.now();
    turn(false);
  }

  return {
    async run(call, otherwise) {
      const isProbe = isAway;
      if (isProbe && (isProbing || performance.now() < triedAgainAt)) return otherwise();
      if (isProbe) isProbing = true;
      const calledAt = performance.now();
      try {
        const answer = await call();
        answered();
        return answer;
      } catch (error) {
        if (!(error instanceof LimiterUnavailableError)) throw error;
        failed(calledAt);
      } finally {
        if (isProbe) isProbing = false;
      }
      return otherwise();
    },
  };
}

/** Answers in place of the limiter during an outage. */
interface StandIn extends Pick<Limiter, 'admit' | 'peek' | 'refund' | 'cancel' | 'moveUp' | 'reset'> {
  /** The admission that this stand-in gave to this id. Undefined if there is none, or if it went unused (`renew`). */
  given(ask: Ask): Promise<Admission | undefined>;
  /** The limiter has answered this ask, so the slot that the id has in this stand-in is given back. */
  handOver(ask: Ask): Promise<void>;
}

/** Admits every ask and stores nothing. */
function openStandIn({ policy, categories = {}, now = Date.now }: MemoryLimiterOptions): StandIn {
  const ofCategories = new Map(Object.entries(categories));
  const nothing = (): Promise<false> => Promise.resolve(false);
  const admit = async (ask: Ask): Promise<Admitted> => {
    checkAsk(ask);
    const ofCategory = ofCategories.get(ask.category ?? '');
    const inForce = [ask.policy ?? policy, ...(ofCategory === undefined ? [] : [ofCategory])];
    const toleranceMs = Math.min(...inForce.map((each) => paceOf(each).toleranceMs));
    const spacing = { toleranceMs, gapMs: Math.max(...inForce.map(({ minGapMs }) => minGapMs)) };
    const standing = { rule: 'unavailable', remaining: Infinity, resetMs: 0, ...spacing };
    return Promise.resolve({ kind: 'admitted', at: now(), sendAt: performance.now(), repeated: false, ...standing });
  };
  return {
    given: () => Promise.resolve(undefined),
    handOver: () => Promise.resolve(),
    admit,
    peek: admit,
    refund: nothing,
    cancel: nothing,
    moveUp: () => Promise.resolve(),
    reset: nothing,
  };
}

/**
 * Limits in this process alone. The first ask of an outage creates a memory limiter, which is dropped when none of its slots
 * counts any more. Until then, the memory limiter answers for the ids that it admitted, and takes back their slots.
 */
function memoryStandIn(options: MemoryLimiterOptions): StandIn {
  const { policy, categories = {}, keepMs = 0, now = Date.now } = options;
  const policies = [policy, ...Object.values(categories)];
  const ownKeepMs = Math.max(keepMs, NO_SHOW_MS, ...policies.map((one) => paceOf(one).longestMs));
  let memory: MemoryLimiter | undefined;
  let neededUntil = 0;

  function current(): MemoryLimiter | undefined {
    if (now() > neededUntil) memory = undefined;
    return memory;
  }

  async function given(ask: Ask): Promise<Admission | undefined> {
    if (ask.renew === true) return undefined;
    const answer = await current()?.peek(ask);
    return answer?.kind === 'admitted' && answer.repeated ? answer : undefined;
  }

  async function admit(ask: Ask): Promise<Admission> {
    const keptMs = Math.max(ownKeepMs, ask.policy === undefined ? 0 : paceOf(ask.policy).longestMs);
    memory = current() ?? openMemoryLimiter(options);
    neededUntil = Math.max(neededUntil, now() + keptMs);
    const answer = await memory.admit(ask);
    if ('at' in answer) neededUntil = Math.max(neededUntil, answer.at + keptMs);
    return answer;
  }

  return {
    given,
    admit,
    peek: (ask) => (current() ?? openMemoryLimiter(options)).peek(ask),
    async handOver(ask) {
      if (ask.renew === true) await current()?.refund(ask);
      await current()?.cancel(ask);
    },
    refund: async (slot) => (await current()?.refund(slot)) ?? false,
    cancel: async (slot) => (await current()?.cancel(slot)) ?? false,
    moveUp: async (recipientId, follow) => current()?.moveUp(recipientId, follow),
    reset: async (recipientId) => (await current()?.reset(recipientId)) ?? false,
  };
}
