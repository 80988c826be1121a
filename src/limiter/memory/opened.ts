import { isUrgent, withoutExempt, type CategoryPolicy, type Exemption, type Policy } from '../../domain/limits.ts';
import type { QuietHours } from '../../domain/quiet-hours.ts';
import { blockAt, policyAt, type Book } from './book.ts';
import { checkCategories, checkQuietHours } from '../checks.ts';
import { paceOf } from '../pace.ts';
import { createQuietClock, QUIET_EDGE_MS } from '../quiet.ts';
import { openScope, type Moment, type Scopes } from './scope.ts';

/** A recipient's book as one call sees it. */
export interface Opened extends Moment {
  /** The overall policy in force. */
  readonly policy: Policy;
  readonly scopes: Scopes;
}

/** The options of a limiter that decide how a book is read. */
export interface OpenerOptions {
  readonly policy: Policy;
  readonly categories: Readonly<Record<string, CategoryPolicy>>;
  readonly quietHours: QuietHours | undefined;
  readonly keepMs: number;
  readonly now: () => number;
}

export interface Opener {
  /** The categories that have a policy. */
  readonly categories: readonly string[];
  /** The policy of a category, if it has one. */
  policyOf(category: string | undefined): CategoryPolicy | undefined;
  /** The overall scope, and those of the categories in `asked` that have a policy. `policy`: the ask's own. */
  open(book: Book, asked: readonly string[], policy?: Policy): Opened;
}

/** Throws InputError with every fault of a policy. */
export function createOpener({ policy: ownPolicy, categories, quietHours, keepMs, now }: OpenerOptions): Opener {
  checkCategories(categories);
  checkQuietHours(quietHours);
  const clock = createQuietClock();
  // A Map, because a category may be called `constructor`.
  const policies = new Map(Object.entries(categories));
  // The overall scope decides whether an id was admitted before, so it must keep ids as long as any category counts them.
  const windowsMs = [ownPolicy, ...policies.values()].map((policy) => paceOf(policy).longestMs);
  const leastKeptMs = Math.max(keepMs, ...windowsMs);

  return {
    categories: [...policies.keys()],
    policyOf: (category) => (category === undefined ? undefined : policies.get(category)),
    open(book, asked, policy = ownPolicy) {
      const at = now();
      const inForce = policyAt(book, at)?.policy ?? policy;
      const slotsOf = (category?: string) => book.slots.get(category);
      const overall = openScope(undefined, inForce, leastKeptMs, slotsOf(), at);
      const others = asked.flatMap((category) => {
        const own = policies.get(category);
        return own === undefined ? [] : [openScope(category, own, keepMs, slotsOf(category), at)];
      });
      const hours = book.quiet ?? quietHours;
      const quiet = hours === undefined ? [] : clock.of(hours, at).windows;
      const blockedUntil = blockAt(book, at)?.until;
      return { now: at, blockedUntil, quiet, edgeMs: QUIET_EDGE_MS, policy: inForce, scopes: [overall, ...others] };
    },
  };
}

/** A recipient's book as an ask of a category sees it that is exempt from some overall limits. */
export function exempted(opened: Opened, exempt: readonly Exemption[] = []): Opened {
  const { quiet, policy, scopes } = opened;
  const [overall, ...others] = scopes;
  const left = { ...opened, quiet: exempt.includes('quietHours') ? [] : quiet };
  if (!isUrgent({ exempt })) return left;
  const reduced = withoutExempt(policy, { exempt });
  const { limits, toleranceMs } = paceOf(reduced);
  return {
    ...left,
    scopes: [
      { ...overall, limits, allLimits: overall.limits, toleranceMs, gapMs: reduced.minGapMs, isUrgent: true },
      ...others,
    ],
  };
}
