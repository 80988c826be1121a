import { outcomeFields, type Outcome } from '../domain/ended.ts';
import { insist } from '../redis/not-now.ts';
import type { StreamRedis } from './invalid-tokens.ts';
import { outcomesKey } from './names.ts';
import { shardOf, shardPrefixes } from './shards.ts';

export interface OutcomesOptions {
  /** Sends a command again if the connection broke before the answer, as `connectWorker` does. */
  readonly redis: StreamRedis;
  readonly prefix: string;
  readonly shards: number;
  /** About so many entries are kept in each stream. */
  readonly max: number;
  /** How long to try again while Redis cannot take an entry, in milliseconds. */
  readonly insistMs: number;
  /** Called with an outcome that Redis did not take. */
  readonly onLost: (outcome: Outcome, error: unknown) => void;
}

/** Writes what became of notifications to the stream of their shard. */
export interface Outcomes {
  /** Resolves when the entry is written, or given up. Never rejects: a notification is not held back for its entry. */
  write(outcome: Outcome): Promise<void>;
}

/**
 * One command for each entry. To gather them in pipelines was measured: it saved nothing, since the client sends the commands of
 * all jobs in hand without waiting for the answers.
 */
export function createOutcomes({ redis, prefix, shards, max, insistMs, onLost }: OutcomesOptions): Outcomes {
  const keys = shardPrefixes(prefix, shards).map(outcomesKey);
  return {
    async write(outcome) {
      const key = keys[shardOf(outcome.recipientId ?? '', shards)] ?? outcomesKey(prefix);
      const fields = outcomeFields(outcome);
      try {
        await insist(() => redis.xadd(key, 'MAXLEN', '~', max, '*', ...fields), insistMs);
      } catch (error) {
        onLost(outcome, error);
      }
    },
  };
}
