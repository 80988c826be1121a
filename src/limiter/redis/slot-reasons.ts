import { createDeadline } from '../../redis/deadline.ts';
import { slotReasonOf, sentBefore, type SlotReason, type SlotBefore } from '../slot-reason.ts';
import type { SlotId } from '../limiter.ts';
import { IN_ORDER } from '../overtaking.ts';
import { entryOf, idOf, memberOf } from './keys.ts';
import { createLook } from './look.ts';
import { createQuietTerms } from './quiet-terms.ts';
import type { RedisLimiterOptions } from './redis-limiter.ts';
import { createPolicies } from './wire.ts';

/** Says why a notification has, or had, its slot. It writes nothing. */
export interface SlotReasons {
  /** Undefined if the id has no reservation. Rejects with LimiterUnavailableError if there was no answer. */
  read(slot: SlotId): Promise<SlotReason | undefined>;
  /** The sent slot because of which this rule allowed no slot before `at`. Undefined if that slot is no longer stored. */
  sentBefore(recipientId: string, rule: string, at: number): Promise<SlotBefore | undefined>;
}

/** The options must be those of the limiter that gave the slots. */
export function createSlotReasons({
  redis,
  policy,
  categories = {},
  quietHours,
  prefix = 'pushpacer',
  timeoutMs = 2_000,
}: Pick<RedisLimiterOptions, 'redis' | 'policy' | 'categories' | 'quietHours' | 'prefix' | 'timeoutMs'>): SlotReasons {
  const quietTerms = createQuietTerms(quietHours, categories);
  const policies = createPolicies(policy, categories, 0);
  const answered = createDeadline(timeoutMs);
  const look = createLook({
    ...{ redis, prefix, categories: policies.categories.length, quietTerms },
    ...{ overtaking: IN_ORDER, answered },
  });
  return {
    read: async ({ recipientId, id }) => slotReasonOf(await look(recipientId, policies), entryOf(id)),
    sentBefore: async (recipientId, rule, at) => sentBefore(await look(recipientId, policies), rule, at),
  };
}

/** The id of a stored slot: the entry itself, or the candidate that is stored as this entry. Undefined if there is none. */
export function idOfSlot(entry: string, candidates: Iterable<string>): string | undefined {
  const isHash = /^-?\d{1,10}$/.test(entry);
  const readable = isHash ? undefined : idOf(entry);
  if (readable !== undefined) return readable;
  for (const id of candidates) {
    const stored = entryOf(id);
    if ((isHash ? memberOf(stored) : stored) === entry) return id;
  }
  return undefined;
}
