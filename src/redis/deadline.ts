import { InputError } from '../domain/faults.ts';
import { isRefusal } from './not-now.ts';

/** The limiter had no answer in time: neither a yes nor a no. Ask again later under the same id, which costs no second slot. */
export class LimiterUnavailableError extends Error {
  override readonly name = 'LimiterUnavailableError';
}

interface Waiting {
  readonly until: number;
  readonly giveUp: () => void;
}

/** What `answer` resolves to, or LimiterUnavailableError when there is none within the deadline. What Redis refuses is rejected as it is. */
export type Deadline = <T>(answer: Promise<T>) => Promise<T>;

/** Node's timers hold no more: a longer one would fire at once, again and again. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * One timer for all that are waited for, since all are waited for as long; none while there is nobody. Throws InputError
 * where `timeoutMs` is no time to wait.
 */
export function createDeadline(timeoutMs: number): Deadline {
  if (!(timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS)) {
    const expected = `milliseconds, from 1 to ${MAX_TIMEOUT_MS}`;
    throw new InputError('unusable options', [{ path: 'timeoutMs', expected, found: String(timeoutMs) }]);
  }
  const waiting = new Set<Waiting>();
  let timer: NodeJS.Timeout | undefined;

  /** A process that stood still finds its answers in the socket: they are read before anybody is given up. */
  function look(): void {
    setImmediate(giveUpOverdue, performance.now());
  }

  function giveUpOverdue(now: number): void {
    clearTimeout(timer);
    timer = undefined;
    for (const each of waiting) {
      if (each.until > now) {
        timer = setTimeout(look, Math.ceil(each.until - now));
        return;
      }
      waiting.delete(each);
      each.giveUp();
    }
  }

  function done(each: Waiting): void {
    waiting.delete(each);
    if (waiting.size > 0) return;
    clearTimeout(timer);
    timer = undefined;
  }

  return <T>(answer: Promise<T>) =>
    new Promise<T>((resolve, reject) => {
      const giveUp = () => {
        reject(new LimiterUnavailableError(`the limiter's Redis did not answer within ${timeoutMs} ms`));
      };
      const each = { until: performance.now() + timeoutMs, giveUp };
      waiting.add(each);
      timer ??= setTimeout(look, timeoutMs);
      answer.then(
        (value) => {
          done(each);
          resolve(value);
        },
        (cause: unknown) => {
          done(each);
          if (isRefusal(cause)) {
            reject(cause);
            return;
          }
          const why = cause instanceof Error ? cause.message : String(cause);
          reject(new LimiterUnavailableError(`the limiter's Redis did not answer: ${why}`, { cause }));
        },
      );
    });
}
