import type { Platform } from '../domain/notification.ts';
import { insist } from '../redis/not-now.ts';

/** A token that a provider called gone: the producer should stop using it. */
export interface InvalidToken {
  readonly recipientId: string;
  readonly platform: Platform;
  readonly token: string;
  /** The provider's word: `Unregistered`, `UNREGISTERED`. */
  readonly reason: string;
  /** Epoch milliseconds: since when it is gone, where the provider tells it (APNs does), else when it was said. */
  readonly timestamp: number;
}

export interface StreamRedis {
  xadd(
    key: string,
    ...args: [...bound: ['MAXLEN', '~', number], id: '*', ...fields: (string | number)[]]
  ): Promise<unknown>;
}

/** About this many are kept; a consumer that is further behind misses the oldest. */
const MAX_LENGTH = 100_000;
/** How long a Redis that cannot write is asked again: nobody else will tell of this token. */
const INSIST_MS = 60_000;

/** `{pushpacer}:invalid-tokens` */
export function invalidTokensKey(prefix: string): string {
  return `${prefix}:invalid-tokens`;
}

/**
 * Adds one entry to the stream: fields `recipientId`, `platform`, `token`, `reason`, `timestamp`; of about `keep` entries (100,000) the
 * latest stay. Rejects where Redis has refused it for a minute.
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
