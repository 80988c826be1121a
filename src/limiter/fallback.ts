import { describeFound, InputError } from '../domain/faults.ts';
import { createOutageGate } from './outage.ts';
import type { Admission, Ask, Limiter } from './limiter.ts';
import type { MemoryLimiterOptions } from './memory/memory-limiter.ts';
import { memoryStandIn, openStandIn } from './stand-in.ts';

/**
 * What happens while the limiter's Redis does not answer.
 * - `closed`: nothing is admitted. Every call rejects with LimiterUnavailableError.
 * - `open`: everything is admitted, by the rule `unavailable`.
 * - `memory`: this process limits alone, by the same policies, and remembers the ids that it admits.
 */
export type OnUnavailable = 'closed' | 'open' | 'memory';

export interface FallbackOptions extends MemoryLimiterOptions {
  readonly onUnavailable: OnUnavailable;
  /** After a failure the limiter is not asked for this long; then one ask at a time tries it. Default: 1,000. */
  readonly pauseMs?: number | undefined;
  /** Called with true when answers begin to come from the fallback, and with false when they no longer do. */
  readonly onOutage?: ((isAway: boolean) => void) | undefined;
}

const PAUSE_MS = 1_000;
const ON_UNAVAILABLE: readonly OnUnavailable[] = ['closed', 'open', 'memory'];

/** Throws InputError if it is none of the three: a word with a mistake in it must not decide what happens in an outage. */
export function checkOnUnavailable(value: OnUnavailable): void {
  if (ON_UNAVAILABLE.includes(value)) return;
  const found = describeFound(value, false);
  throw new InputError('unusable options', [{ path: 'onUnavailable', expected: 'closed, open or memory', found }]);
}

/**
 * Wraps a limiter so that asks are answered while it does not answer. `closed` changes nothing: each ask waits for the
 * limiter, at most its `timeoutMs`. With `open` and `memory` only the asks under way when the outage begins, and then one
 * ask in `pauseMs`, wait at all. An operator's commands (`limit`, `block`, `inspect`, …) never get a fallback's answer.
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

  /** Both may hold the id: Redis may have carried out a call whose answer came too late. */
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
    refund: (held) => giveBack((holder) => holder.refund(held)),
    cancel: (held) => giveBack((holder) => holder.cancel(held)),
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
