import { setTimeout as sleep } from 'node:timers/promises';
import { InputError } from '../domain/faults.ts';
import { newerFormatOf } from '../domain/format.ts';

/** The limiter did not answer in time: neither yes nor no. Ask again later under the same id: one id never gets a second slot. */
export class LimiterUnavailableError extends Error {
  /** To recognise it without the class, such as across two copies of the package. */
  override readonly name = 'LimiterUnavailableError';
}

interface Waiting {
  readonly until: number;
  readonly giveUp: () => void;
}

/**
 * Resolves as `answer` does, or rejects with LimiterUnavailableError after the deadline. Rejects with NewerFormatError if a
 * newer version wrote what the ask is about. Any other error about the ask itself stays as it is.
 */
export type Deadline = <T>(answer: Promise<T>) => Promise<T>;

/** The longest timer of Node; a longer one would fire at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * One timer serves all calls, since all have the same timeout; while no call waits there is no timer. Throws InputError if
 * `timeoutMs` is not usable.
 */
export function createDeadline(timeoutMs: number): Deadline {
  if (!(timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS)) {
    const expected = `milliseconds, from 1 to ${MAX_TIMEOUT_MS}`;
    throw new InputError('unusable options', [{ path: 'timeoutMs', expected, found: String(timeoutMs) }]);
  }
  const waiting = new Set<Waiting>();
  let timer: NodeJS.Timeout | undefined;

  /** If this process was stalled, answers may already be in the socket: `setImmediate` lets them be read first. */
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
            reject(newerFormatOf(cause) ?? cause);
            return;
          }
          const why = cause instanceof Error ? cause.message : String(cause);
          reject(new LimiterUnavailableError(`the limiter's Redis did not answer: ${why}`, { cause }));
        },
      );
    });
}

/**
 * Codes of Redis's errors that are about Redis itself: the same command may succeed later
 * (redis.io/docs/latest/develop/reference/protocol-spec). A code may be anywhere in the message, because Redis 6 wraps the
 * error of a script in another one. "max number of clients" is the error of commands that waited for a new connection.
 */
const NOT_NOW =
  /\b(OOM|READONLY|LOADING|MISCONF|BUSY|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|NOREPLICAS|max number of clients)\b/;

/** Redis's word for why it cannot work now: `OOM` if its memory is full. Undefined if the text contains none. */
export function notNowWord(text: string): string | undefined {
  return NOT_NOW.exec(text)?.[0];
}

/**
 * A hash slot of a cluster moves from one master to another, so its keys are on both. The first text is ioredis's: it gives up
 * after 16 tries, which take a second or two. The second text is Redis's: a script needs a key that the call did not name. That
 * script has written nothing: all scripts of BullMQ and of this project look before they write.
 */
const SLOT_MOVES = /^Too many Cluster redirections\b|\baccess a non local key in a cluster node\b/;

/** Whether Redis has forgotten a script, or never had it. The script did not run. */
export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError' && error.message.startsWith('NOSCRIPT');
}

/**
 * True if Redis is out of memory or clients, read-only, loading, or in a failover, if it has forgotten its scripts, or if the
 * hash slot is being moved. Nothing was written then.
 */
export function isNotNow(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (SLOT_MOVES.test(error.message) || isUnknownScript(error)) return true;
  return error.name === 'ReplyError' && NOT_NOW.test(error.message);
}

/**
 * Redis's words if the user has no right to a command or a key. For a command inside a script, version 7.0 says it without the
 * code, and later versions as an `ACL failure`.
 */
const FORBIDDEN = /\bNOPERM\b|The user executing the script can't|\bACL failure in script\b/;

/** Whether the text of an error says that Redis forbids this user a command or a key. */
export function isForbidden(text: string): boolean {
  return FORBIDDEN.test(text);
}

/** Redis refuses the client. It counts as an outage: once an operator has corrected that, the same ask is answered. */
const REFUSES_CLIENT = /\b(NOAUTH|WRONGPASS)\b/;

/** Whether the error is about this one ask, such as a key of the wrong type. Such an error is an answer, and not an outage. */
function isRefusal(cause: unknown): cause is Error {
  const isReply = cause instanceof Error && cause.name === 'ReplyError';
  return isReply && !isNotNow(cause) && !REFUSES_CLIENT.test(cause.message) && !isForbidden(cause.message);
}

const AGAIN_MS = 250;

/**
 * Calls `work` again, four times a second, as long as Redis says that it cannot work now. Rejects with the last error after
 * `forMs`, and with the signal's reason as soon as the signal aborts, whatever `work` waits for.
 */
export async function insist<T>(work: () => Promise<T>, forMs: number, signal?: AbortSignal): Promise<T> {
  const deadline = performance.now() + forMs;
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await (signal === undefined ? work() : unlessAborted(work(), signal));
    } catch (error) {
      if (!isNotNow(error) || performance.now() + AGAIN_MS > deadline) throw error;
      await sleep(AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason as Error);
  signal.addEventListener('abort', abort);
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', abort));
}
