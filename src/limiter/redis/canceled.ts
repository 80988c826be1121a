import { createDeadline } from '../../redis/deadline.ts';
import { recipientKeys } from './keys.ts';

interface CanceledOptions {
  /** The limiter's Redis: a client of ioredis. */
  readonly redis: { hget(key: string, field: string): Promise<string | null> };
  /** The limiter's prefix. */
  readonly prefix: string;
  /** How long an answer may take, in milliseconds. */
  readonly timeoutMs: number;
}

/**
 * Whether a notification was canceled (canceller.ts), by its job's id; it writes nothing. Rejects with LimiterUnavailableError if there
 * was no answer.
 */
export function createCanceledLook({
  redis,
  prefix,
  timeoutMs,
}: CanceledOptions): (recipientId: string, jobId: string) => Promise<boolean> {
  const answered = createDeadline(timeoutMs);
  return async (recipientId, jobId) => {
    const text = await answered(redis.hget(recipientKeys(prefix, recipientId).waiting, `end:${jobId}`));
    if (text === null) return false;
    const { how, kept } = JSON.parse(text) as { readonly how: string; readonly kept: number };
    return how === 'canceled' && kept > Date.now();
  };
}
