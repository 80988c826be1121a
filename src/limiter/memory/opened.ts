import type { Policy } from '../../domain/limits.ts';
import { blockAt, policyAt, type Book } from './book.ts';
import { checkCategories } from '../checks.ts';
import { paceOf } from '../pace.ts';
import { openScope, type Moment, type Scopes } from './scope.ts';

/** What one call sees of a recipient's book. */
export interface Opened extends Moment {
  /** The overall policy in force. */
  readonly policy: Policy;
  readonly scopes: Scopes;
}

/** What decides how a book is read. */
export interface OpenerOptions {
  readonly policy: Policy;
  readonly categories: Readonly<Record<string, Policy>>;
  readonly keepMs: number;
  readonly now: () => number;
}

export interface Opener {
  /** The categories that have a policy. */
  readonly categories: readonly string[];
  /** The scopes overall and of those of `asked` that have a policy; `policy` is what the ask brought. */
  open(book: Book, asked: readonly string[], policy?: Policy): Opened;
}

/** Throws InputError with every fault of a policy. */
export function createOpener({ policy: ownPolicy, categories, keepMs, now }: OpenerOptions): Opener {
  checkCategories(categories);
  // A map, as a category may be called `constructor`.
  const policies = new Map(Object.entries(categories));
  // The overall scope is the one that knows an id: it must forget none that a category still counts.
  const windowsMs = [ownPolicy, ...policies.values()].map((policy) => paceOf(policy).longestMs);
  const leastKeptMs = Math.max(keepMs, ...windowsMs);

  return {
    categories: [...policies.keys()],
    open(book, asked, policy = ownPolicy) {
      const at = now();
      const inForce = policyAt(book, at)?.policy ?? policy;
      const slotsOf = (category?: string) => book.slots.get(category);
      const overall = openScope(undefined, inForce, leastKeptMs, slotsOf(), at);
      const others = asked.flatMap((category) => {
        const own = policies.get(category);
        return own === undefined ? [] : [openScope(category, own, keepMs, slotsOf(category), at)];
      });
      return { now: at, blockedUntil: blockAt(book, at)?.until, policy: inForce, scopes: [overall, ...others] };
    },
  };
}
