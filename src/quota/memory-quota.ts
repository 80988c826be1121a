import { LimiterUnavailableError } from '../redis/deadline.ts';
import { createQuotaBook } from './book.ts';
import { checkPromise, checkTerms } from './tiers.ts';
import type { Quota, QuotaAnswer, QuotaTerms } from './quota.ts';

/** The terms of a memory quota. */
export interface MemoryQuotaOptions extends QuotaTerms {
  /** Whole epoch milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
}

/** The same promise as the Redis quota, for a single process. Throws InputError if a term is not usable. */
export function createMemoryQuota(options: MemoryQuotaOptions): Quota {
  const { now = Date.now } = options;
  const { tiers, leaseMs } = checkTerms(options);
  const steady = options.now ?? (() => performance.now());
  const book = createQuotaBook(tiers);
  let isClosed = false;

  function answer(promisedAt?: number): QuotaAnswer {
    checkPromise(promisedAt);
    if (isClosed) throw new LimiterUnavailableError('the quota is closed');
    const at = now();
    const told = book.take(at, promisedAt);
    if (told === 'taken') return { kind: 'taken', useBy: steady() + leaseMs };
    return { kind: 'over', ...told, waitMs: Math.max(1, told.at - at) };
  }

  return {
    take: (promisedAt) => new Promise((resolve) => resolve(answer(promisedAt))),
    used() {
      const used = book.used(now());
      return Promise.resolve(tiers.map(({ name: rule, max }, index) => ({ rule, max, used: used[index] ?? 0 })));
    },
    close() {
      isClosed = true;
      return Promise.resolve();
    },
  };
}
