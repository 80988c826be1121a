import { checkAsk } from './checks.ts';
import type { Admission, Admitted, Ask, Limiter } from './limiter.ts';
import { openMemoryLimiter, type MemoryLimiter, type MemoryLimiterOptions } from './memory/memory-limiter.ts';
import { NO_SHOW_MS, paceOf } from './pace.ts';

/** Answers in place of a limiter that does not answer (fallback.ts). */
export interface StandIn extends Pick<Limiter, 'admit' | 'peek' | 'refund' | 'cancel' | 'reset'> {
  /** The admission that this stand-in gave to this id, unless the ask says that it went unused (`renew`). */
  told(ask: Ask): Promise<Admission | undefined>;
  /** The limiter has answered this ask: gives back what the id holds here. */
  handOver(ask: Ask): Promise<void>;
}

/** Admits every ask and stores nothing. */
export function openStandIn({ policy, categories = {}, now = Date.now }: MemoryLimiterOptions): StandIn {
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
    told: () => Promise.resolve(undefined),
    handOver: () => Promise.resolve(),
    admit,
    peek: admit,
    refund: nothing,
    cancel: nothing,
    reset: nothing,
  };
}

/**
 * Limits in this process alone. The memory limiter is created with the first ask of an outage, and dropped when none of its
 * slots counts any more. Until then an id that it admitted is answered from it, and gives its slot back to it.
 */
export function memoryStandIn(options: MemoryLimiterOptions): StandIn {
  const { policy, categories = {}, keepMs = 0, now = Date.now } = options;
  const policies = [policy, ...Object.values(categories)];
  const ownKeepMs = Math.max(keepMs, NO_SHOW_MS, ...policies.map((one) => paceOf(one).longestMs));
  let memory: MemoryLimiter | undefined;
  let neededUntil = 0;

  function current(): MemoryLimiter | undefined {
    if (now() > neededUntil) memory = undefined;
    return memory;
  }

  async function told(ask: Ask): Promise<Admission | undefined> {
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
    told,
    admit,
    peek: (ask) => (current() ?? openMemoryLimiter(options)).peek(ask),
    async handOver(ask) {
      if (ask.renew === true) await current()?.refund(ask);
      await current()?.cancel(ask);
    },
    refund: async (held) => (await current()?.refund(held)) ?? false,
    cancel: async (held) => (await current()?.cancel(held)) ?? false,
    reset: async (recipientId) => (await current()?.reset(recipientId)) ?? false,
  };
}
