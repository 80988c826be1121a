import { quietText, type QuietHours } from '../../domain/quiet-hours.ts';
import { createDeadline } from '../../redis/deadline.ts';
import { checkBlock, checkCategories, checkLimit, checkQuiet, checkRecipient } from '../checks.ts';
import { foresee, type Change, type Foreseen } from '../foresee.ts';
import { IN_ORDER } from '../overtaking.ts';
import { paceOf } from '../pace.ts';
import { freedBy } from './canceller.ts';
import { idOf, recipientKeys, type LimiterRedis } from './keys.ts';
import { createLook } from './look.ts';
import { createQuietTerms } from './quiet-terms.ts';
import type { RedisLimiterOptions } from './redis-limiter.ts';
import { createPolicies } from './wire.ts';

/** What actions and other limits would do to the reservations in Redis. Writes nothing. */
export interface Foresight {
  /**
   * Where every reservation of the recipient would lie after the change. Rejects with InputError if the action itself would,
   * and with LimiterUnavailableError if there was no answer.
   *
   * @param leadMs no slot is moved to earlier than now plus this, as with `Follow`
   */
  foresee(recipientId: string, change: Exclude<Change, { kind: 'cancel' }>, leadMs: number): Promise<Foreseen>;
  /** As `foresee`, if these notifications were canceled. The slot of a digest stays if the digest is still sent for others. */
  foreseeCancel(recipientId: string, jobs: readonly CanceledJob[], leadMs: number): Promise<Foreseen>;
  /** The longest window of the limiter's policies, in milliseconds: slots that were sent earlier may be forgotten. */
  readonly longestMs: number;
}

/** A notification that waits, by the id of its job and the number of its next ask. */
export interface CanceledJob {
  readonly jobId: string;
  /** When its notification was enqueued first: epoch milliseconds. */
  readonly enqueuedAt: number;
  readonly asks: number;
}

/** The options of the limiter whose reservations are read. */
export interface ForesightOptions extends Pick<
  RedisLimiterOptions,
  'policy' | 'categories' | 'quietHours' | 'timeoutMs'
> {
  readonly redis: LimiterRedis;
  readonly prefix: string;
}

export function createForesight(options: ForesightOptions): Foresight {
  const { redis, prefix, policy, categories = {}, quietHours, timeoutMs = 2_000 } = options;
  const quietTerms = createQuietTerms(quietHours, categories);
  const ofCategories = Object.keys(categories).length;
  const answered = createDeadline(timeoutMs);
  const look = createLook({ redis, prefix, categories: ofCategories, quietTerms, overtaking: IN_ORDER, answered });

  async function foreseeAny(recipientId: string, change: Change, leadMs: number): Promise<Foreseen> {
    check(recipientId, change, undefined);
    // The changed policies may have longer windows: sent slots that only these count are read too, where they are still stored.
    const state = await look(recipientId, createPolicies(policy, categories, ...keptFor(change)));
    check(recipientId, change, state.now);
    const quietOf = (hours?: QuietHours) => quietTerms.read(hours && quietText(hours), state.now);
    return foresee(state, change, { policy, idOf, quietOf }, leadMs);
  }

  return {
    foresee: foreseeAny,
    async foreseeCancel(recipientId, jobs, leadMs) {
      checkRecipient(recipientId);
      const entries = await answered(freedBy(redis, recipientKeys(prefix, recipientId).waiting, jobs));
      return foreseeAny(recipientId, { kind: 'cancel', entries }, leadMs);
    },
    longestMs: Math.max(...[policy, ...Object.values(categories)].map((each) => paceOf(each).longestMs)),
  };
}

/** For how long the policies of a change count sent slots: in categories, and overall. Milliseconds. */
function keptFor(change: Change): readonly [keepMs: number, overallKeepMs: number] {
  const ofCategories = change.kind === 'policies' ? Object.values(change.categories ?? {}) : [];
  const keepMs = Math.max(0, ...ofCategories.map((each) => paceOf(each).longestMs));
  const overall = 'policy' in change && change.policy !== undefined ? paceOf(change.policy).longestMs : 0;
  return [keepMs, Math.max(keepMs, overall)];
}

function check(recipientId: string, change: Change, now: number | undefined): void {
  checkRecipient(recipientId);
  if (change.kind === 'block') checkBlock(recipientId, { until: change.until, reason: change.reason }, now);
  if (change.kind === 'limit') checkLimit(recipientId, change.policy, change.until, now);
  if (change.kind === 'quiet') checkQuiet(recipientId, change.hours);
  if (change.kind !== 'policies') return;
  checkCategories(change.categories ?? {});
  if (change.policy !== undefined) checkLimit(recipientId, change.policy, undefined, now);
}
