import { setTimeout as sleep } from 'node:timers/promises';
import { InputError } from '../domain/faults.ts';
import { newerFormatOf } from '../domain/format.ts';

/** The limiter did not answer in time: neither yes nor no. Ask again later under the same id, which takes no second slot. */
export class LimiterUnavailableError extends Error {
  /** To recognise it without the class, such as across two copies of the package. */
  override readonly name = 'LimiterUnavailableError';
}

interface Waiting {
  readonly until: number;
  readonly giveUp: () => void;
}

/**
 * Resolves like `answer`, or rejects with LimiterUnavailableError after the deadline; with NewerFormatError if a newer version wrote
 * what the ask is about. Any other error about the ask itself stays as it is.
 */
export type Deadline = <T>(answer: Promise<T>) => Promise<T>;

/** The longest timer of Node; a longer one would fire at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * One timer serves all calls, since all have the same timeout; there is none while no call waits. Throws InputError if
 * `timeoutMs` is not usable.
 */
export function createDeadline(timeoutMs: number): Deadline {
  if (!(timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS)) {
    const expected = `milliseconds, from 1 to ${MAX_TIMEOUT_MS}`;
    throw new InputError('unusable options', [{ path: 'timeoutMs', expected, found: String(timeoutMs) }]);
  }
  const waiting = new Set<Waiting>();
  let timer: NodeJS.Timeout | undefined;

  /** If this process was stalled, answers may already lie in the socket: `setImmediate` lets them be read first. */
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
 * (redis.io/docs/latest/develop/reference/protocol-spec). They are looked for anywhere in the message, because Redis 6 wraps
 * the error of a script in another one. "max number of clients" reaches the commands that waited for a new connection.
 */
const NOT_NOW =
  /\b(OOM|READONLY|LOADING|MISCONF|BUSY|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|NOREPLICAS|max number of clients)\b/;

/** Redis's word for why it cannot now: `OOM` if its memory is full. Undefined if the text has none. */
export function notNowWord(text: string): string | undefined {
  return NOT_NOW.exec(text)?.[0];
}

/**
 * A slot of a cluster is on its way from one master to another, so some of its keys are here and some are there. ioredis tries 16
 * times, which takes a second or two, and then gives up with a text of its own. The other text is Redis's for a script that needs a
 * key which it did not name: all of BullMQ's scripts and ours look before they write.
 */
const SLOT_MOVES = /^Too many Cluster redirections\b|\baccess a non local key in a cluster node\b/;

/** Whether Redis has forgotten a script, or never had it. The script did not run. */
export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError' && error.message.startsWith('NOSCRIPT');
}

/**
 * True if Redis is out of memory or clients, read-only, loading, or in a failover, if it forgets its scripts, or if the slot is moved
 * just now. Nothing was written then.
 */
export function isNotNow(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (SLOT_MOVES.test(error.message) || isUnknownScript(error)) return true;
  return error.name === 'ReplyError' && NOT_NOW.test(error.message);
}

/**
 * Redis's words for a command or a key that the user has no right to. Of a command inside a script version 7.0 says it without the
 * code, and later versions as an `ACL failure`.
 */
const FORBIDDEN = /\bNOPERM\b|The user executing the script can't|\bACL failure in script\b/;

/** The text of an error that says that Redis forbids this user a command or a key. */
export function isForbidden(text: string): boolean {
  return FORBIDDEN.test(text);
}

/** Redis refuses the client. An operator can correct that; then the same ask is answered, so it counts as an outage. */
const REFUSES_CLIENT = /\b(NOAUTH|WRONGPASS)\b/;

/** An error about this one ask, such as a key of the wrong type. That is an answer, and no outage. */
function isRefusal(cause: unknown): cause is Error {
  const isReply = cause instanceof Error && cause.name === 'ReplyError';
  return isReply && !isNotNow(cause) && !REFUSES_CLIENT.test(cause.message) && !isForbidden(cause.message);
}

const AGAIN_MS = 250;

/**
 * Calls `work` again, four times a second, as long as Redis says that it cannot now. Rejects with the last error after `forMs`, and
 * with the signal's reason as soon as it aborts, whatever `work` waits for.
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
