import type { OptionNames } from '../domain/faults.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import { createQuotaBook } from './book.ts';
import { checkPromise, checkQuotaOptions, checkTerms, type Quota, type QuotaAnswer, type QuotaTerms } from './quota.ts';

/** The terms of a memory quota. */
export interface MemoryQuotaOptions extends QuotaTerms {
  /** Whole epoch milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
}

const OPTIONS: OptionNames<MemoryQuotaOptions> = { name: true, rules: true, leaseMs: true, now: true };

/** The same promise as the Redis quota, for a single process. Throws InputError if a term or an option is not usable. */
export function createMemoryQuota(options: MemoryQuotaOptions): Quota {
  checkQuotaOptions(options, OPTIONS);
  const { tiers, leaseMs } = checkTerms(options);
  const { now = Date.now } = options;
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

  const close = (): Promise<void> => {
    isClosed = true;
    return Promise.resolve();
  };

  return {
    take: (promisedAt) => new Promise((resolve) => resolve(answer(promisedAt))),
    used() {
      const used = book.used(now());
      return Promise.resolve(tiers.map(({ name: rule, max }, index) => ({ rule, max, used: used[index] ?? 0 })));
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
