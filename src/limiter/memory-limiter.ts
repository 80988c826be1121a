import type { Policy } from '../domain/limits.ts';
import { checkAsk } from './ask.ts';
import { answer, EMPTY_BOOK, expiryOf, live, without, withMoved, type Answer, type Book } from './book.ts';
import type { Admission, Ask, Limiter } from './limiter.ts';
import { paceOf } from './pace.ts';

export interface MemoryLimiterOptions {
  /** What holds for an ask that brings no policy of its own. */
  readonly policy: Policy;
  /** What was sent is remembered for at least this long; see the Redis limiter's option of this name. */
  readonly keepMs?: number;
  /** Whole epoch milliseconds. */
  readonly now?: () => number;
}

export interface MemoryLimiter extends Limiter {
  /** How many recipients are remembered. */
  readonly recipients: number;
}

/** Books looked at for expiry with each write: more than the one that a write may add, so that none is left behind. */
const SWEPT_PER_WRITE = 2;

/** The promise of the Redis limiter for a single process. */
export function createMemoryLimiter({ policy, keepMs = 0, now = Date.now }: MemoryLimiterOptions): MemoryLimiter {
  const ownKeepMs = Math.max(keepMs, paceOf(policy).longestMs);
  const books = new Map<string, Book & { readonly until: number }>();

  function decide(ask: Ask): Answer & { keptMs: number } {
    checkAsk(ask);
    const pace = paceOf(ask.policy ?? policy);
    const keptMs = Math.max(ownKeepMs, pace.longestMs);
    const at = now();
    const book = live(books.get(ask.recipientId) ?? EMPTY_BOOK, pace, at, keptMs);
    return { ...answer(ask, book, pace, at), keptMs };
  }

  function store(recipientId: string, book: Book, keptMs: number): void {
    books.delete(recipientId);
    const until = expiryOf(book, keptMs);
    if (until !== undefined) books.set(recipientId, { ...book, until });
    sweep();
  }

  /** Drops what has expired among the books that were looked at longest ago, and puts the others last. */
  function sweep(): void {
    for (let swept = 0; swept < SWEPT_PER_WRITE; swept += 1) {
      const [oldest] = books;
      if (oldest === undefined) return;
      const [recipientId, book] = oldest;
      books.delete(recipientId);
      if (book.until >= now()) books.set(recipientId, book);
    }
  }

  function release(recipientId: string, id: string, from: keyof Book): boolean {
    const book = books.get(recipientId);
    if (book?.[from].some((slot) => slot.id === id) !== true) return false;
    store(recipientId, { ...book, [from]: without(book[from], id) }, ownKeepMs);
    return true;
  }

  function postpone(recipientId: string, id: string, at: number): boolean {
    const book = books.get(recipientId);
    const instant = Math.min(Math.round(at), now());
    const isLater = book?.sent.some((slot) => slot.id === id && slot.at < instant) === true;
    if (isLater) store(recipientId, { ...book, sent: withMoved(book.sent, id, instant) }, ownKeepMs);
    return isLater;
  }

  function admit(ask: Ask): Admission {
    const { admission, book, keptMs } = decide(ask);
    if (book !== undefined) store(ask.recipientId, book, keptMs);
    return admission;
  }

  return {
    get recipients() {
      return books.size;
    },
    admit: promised(admit),
    peek: promised((ask: Ask) => decide(ask).admission),
    refund: promised((recipientId: string, id: string) => release(recipientId, id, 'sent')),
    postpone: promised(postpone),
    cancel: promised((recipientId: string, id: string) => release(recipientId, id, 'reserved')),
    reset: promised((recipientId: string) => books.delete(recipientId)),
  };
}

/** The same function, answering and throwing by a promise. */
function promised<A extends unknown[], R>(run: (...args: A) => R): (...args: A) => Promise<R> {
  return (...args) => new Promise((resolve) => resolve(run(...args)));
}
