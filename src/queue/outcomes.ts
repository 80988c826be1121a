import type { Platform } from '../notification/notification.ts';
import { outcomeFields, type Outcome } from '../notification/outcome.ts';
import { insist } from '../redis/deadline.ts';
import { homeOf, type Layout } from './shards/layout.ts';
import { outcomesKey } from './names.ts';

export interface OutcomesOptions {
  /** A client that repeats a command if the connection broke before the answer, such as one of `connectWorker`. */
  readonly redis: StreamRedis;
  readonly layout: () => Layout;
  /** About this many entries are kept in each stream. */
  readonly max: number;
  /** How long to try again while Redis cannot take an entry, in milliseconds. */
  readonly insistMs: number;
  /** Called with an outcome that Redis did not take. */
  readonly onLost: (outcome: Outcome, error: unknown) => void;
}

/** Writes what became of notifications to the stream of their shard. */
export interface Outcomes {
  /** Resolves when the entry is written, or given up. Never rejects: a notification does not wait for its entry. */
  write(outcome: Outcome): Promise<void>;
}

/**
 * One command for each entry. Pipelines of several entries were measured: they saved nothing, since the client sends the
 * commands of all jobs in hand without waiting for the answers.
 */
export function createOutcomes({ redis, layout, max, insistMs, onLost }: OutcomesOptions): Outcomes {
  return {
    async write(outcome) {
      const key = outcomesKey(homeOf(outcome.recipientId ?? '', layout()));
      const fields = outcomeFields(outcome);
      try {
        await insist(() => redis.xadd(key, 'MAXLEN', '~', max, '*', ...fields), insistMs);
      } catch (error) {
        onLost(outcome, error);
      }
    },
  };
}

/** A token that the provider does not accept. */
export interface InvalidToken {
  readonly recipientId: string;
  readonly platform: Platform;
  /** The token or installation id by which the provider knows the device; for a web push subscription, the endpoint. */
  readonly token: string;
  /** What `token` is, if it is not the device's token or endpoint: a Firebase installation id, or the token of a Live Activity. */
  readonly kind?: 'fid' | 'liveActivityToken';
  /** The app of APPS_FILE that the device has; absent for the app of the environment. */
  readonly app?: string;
  /** `gone`: the token was valid once, so the producer should forget it. `bad-token`: it never was a token of this app. */
  readonly meaning: 'gone' | 'bad-token';
  /** The provider's code: `Unregistered`, `SENDER_ID_MISMATCH`. */
  readonly reason: string;
  /** Epoch milliseconds: since when the token is invalid, if the provider says this (APNs does), else when the answer came. */
  readonly timestamp: number;
}

export interface StreamRedis {
  xadd(
    key: string,
    ...args: [...bound: ['MAXLEN', '~', number], id: '*', ...fields: (string | number)[]]
  ): Promise<unknown>;
}

/** About this many entries are kept; a consumer that is further behind misses the oldest. */
const MAX_LENGTH = 100_000;
/** How long to try again if Redis cannot write: no other worker will report this token. */
const INSIST_MS = 60_000;

/** `{pushpacer}:invalid-tokens` */
export function invalidTokensKey(prefix: string): string {
  return `${prefix}:invalid-tokens`;
}

/**
 * Adds one entry to the stream, with the fields `recipientId`, `platform`, `token`, `kind` and `app` (if it has them), `meaning`,
 * `reason`, `timestamp`. About the latest `keep` entries (100,000) stay. Rejects if Redis has refused for a minute.
 */
export async function reportInvalidToken(
  redis: StreamRedis,
  prefix: string,
  token: InvalidToken,
  { keep = MAX_LENGTH }: { readonly keep?: number } = {},
): Promise<void> {
  const fields = Object.entries(token).flat() as (string | number)[];
  await insist(() => redis.xadd(invalidTokensKey(prefix), 'MAXLEN', '~', keep, '*', ...fields), INSIST_MS);
}
