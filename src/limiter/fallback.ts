import { createOutageGate } from './outage.ts';
import type { Admission, Ask, Limiter } from './limiter.ts';
import type { MemoryLimiterOptions } from './memory/memory-limiter.ts';
import { memoryStandIn, openStandIn } from './stand-in.ts';

/**
 * What happens while the limiter has no answer.
 * - `closed`: nothing is admitted. Every call rejects with LimiterUnavailableError, as the limiter itself does.
 * - `open`: everything is admitted, by the rule `unavailable`.
 * - `memory`: this process paces alone, by the same policies, and forgets none of the ids that it admitted.
 */
export type OnUnavailable = 'closed' | 'open' | 'memory';

export interface FallbackOptions extends MemoryLimiterOptions {
  readonly onUnavailable: OnUnavailable;
  /** After a failure nothing waits for the limiter for so long; then one ask at a time tries it again. 1,000. */
  readonly pauseMs?: number | undefined;
  /** Told when answers begin to come from the fallback (true), and when they no longer do (false). */
  readonly onOutage?: ((isAway: boolean) => void) | undefined;
}

const PAUSE_MS = 1_000;

/**
 * The limiter with an answer of its own while the other one has none. Closed is the limiter itself: each ask waits for
 * it, at most its `timeoutMs`, and the first after its return is answered. In the others only the asks that meet the
 * outage first, and then one in `pauseMs`, wait at all. What an operator does (`limit`, `block`, `inspect` and the like)
 * is never answered by a fallback.
 */
export function withFallback(limiter: Limiter, options: FallbackOptions): Limiter {
  const { onUnavailable, pauseMs = PAUSE_MS, onOutage, ...own } = options;
  if (onUnavailable === 'closed') return limiter;
  const standIn = onUnavailable === 'open' ? openStandIn(own) : memoryStandIn(own);
  const gate = createOutageGate({ pauseMs, onChange: onOutage });

  async function admit(ask: Ask): Promise<Admission> {
    const told = await standIn.told(ask);
    if (told !== undefined) return told;
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
    const told = await standIn.told(ask);
    return (
      told ??
      gate.run(
        () => limiter.peek(ask),
        () => standIn.peek(ask),
      )
    );
  }

  /** Both may hold the id: a call that was given up may have been carried out. */
  async function giveBack(
    change: (holder: Pick<Limiter, 'refund' | 'postpone' | 'cancel'>) => Promise<boolean>,
  ): Promise<boolean> {
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
    refund: (held) => giveBack((holder) => holder.refund(held)),
    postpone: (held, at) => giveBack((holder) => holder.postpone(held, at)),
    cancel: (held) => giveBack((holder) => holder.cancel(held)),
    limit: (recipientId, policy, more) => limiter.limit(recipientId, policy, more),
    unlimit: (recipientId, follow) => limiter.unlimit(recipientId, follow),
    block: (recipientId, block, follow) => limiter.block(recipientId, block, follow),
    unblock: (recipientId, follow) => limiter.unblock(recipientId, follow),
    inspect: (recipientId) => limiter.inspect(recipientId),
    async reset(recipientId, follow) {
      const wasThere = await limiter.reset(recipientId, follow);
      return (await standIn.reset(recipientId)) || wasThere;
    },
  };
}
