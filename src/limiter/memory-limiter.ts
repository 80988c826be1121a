import type { Policy } from '../domain/limits.ts';
import { checkAsk } from './ask.ts';
import { blockAt, edited, policyAt, withScopes, type Book } from './memory/book.ts';
import { Books } from './memory/books.ts';
import { checkBlock, checkHeld, checkKeep, checkLimit, checkRecipient } from './checks.ts';
import { decide, type Decision } from './memory/decide.ts';
import { inspection } from './memory/inspection.ts';
import type { Admission, Ask, Block, Held, Inspection, Limiter } from './limiter.ts';
import { createOpener } from './memory/opened.ts';
import { replan } from './memory/replan.ts';
import { postponed, released, type Slots } from './memory/slots.ts';

export interface MemoryLimiterOptions {
  /** What holds overall for an ask that brings no policy of its own. */
  readonly policy: Policy;
  /** What holds for the asks of a category, beside what holds overall. */
  readonly categories?: Readonly<Record<string, Policy>>;
  /** A blocked ask counts like one that was sent, so whoever keeps asking keeps waiting. */
  readonly countBlocked?: boolean;
  /** `inspect` names the ids of the slots that were sent. */
  readonly keepIds?: boolean;
  /** What was sent is remembered for at least this long; see the Redis limiter's option of this name. */
  readonly keepMs?: number;
  /** Whole epoch milliseconds. */
  readonly now?: () => number;
}

export interface MemoryLimiter extends Limiter {
  /** How many recipients are remembered. */
  readonly recipients: number;
}

/** The promise of the Redis limiter for a single process. Throws InputError where a policy is unusable. */
export function createMemoryLimiter(options: MemoryLimiterOptions): MemoryLimiter {
  const { policy, categories = {}, countBlocked = false, keepIds = false, keepMs = 0, now = Date.now } = options;
  checkKeep(keepMs);
  const opener = createOpener({ policy, categories, keepMs, now });
  const books = new Books(now);

  function consider(ask: Ask): Decision {
    checkAsk(ask);
    const opened = opener.open(books.get(ask.recipientId), categoriesOf(ask), ask.policy);
    return decide(ask, opened.scopes, opened, countBlocked);
  }

  function admit(ask: Ask): Admission {
    const { admission, after } = consider(ask);
    if (after !== undefined) books.set(ask.recipientId, withScopes(books.get(ask.recipientId), after));
    return admission;
  }

  /** The book before and after; the same one where there was nothing to edit. */
  function edit(held: Held, change: (slots: Slots) => Slots): readonly [Book, Book] {
    const before = books.get(held.recipientId);
    const after = edited(before, categoriesOf(held), change);
    if (after !== before) books.set(held.recipientId, after);
    return [before, after];
  }

  function refund(held: Held): boolean {
    checkHeld(held);
    return changedOverall(edit(held, (slots) => released(slots, 'sent', held.id)));
  }

  function postpone(held: Held, at: number): boolean {
    checkHeld(held, at);
    const instant = Math.min(Math.round(at), now());
    return changedOverall(edit(held, (slots) => postponed(slots, held.id, instant)));
  }

  /** What its category held back is in no other scope. */
  function cancel(held: Held): boolean {
    checkHeld(held);
    const [before, after] = edit(held, (slots) => released(slots, 'reserved', held.id));
    return after !== before;
  }

  /** Stores a policy or a block, and moves the reservations that do not keep it. */
  function oversee(recipientId: string, change: Pick<Book, 'stored' | 'block'>): void {
    const book = { ...books.get(recipientId), ...change };
    const opened = opener.open(book, opener.categories);
    books.set(recipientId, withScopes(book, replan(opened.scopes, opened)));
  }

  function limit(recipientId: string, own: Policy, { until }: { readonly until?: number } = {}): void {
    checkLimit(recipientId, own, until, now());
    oversee(recipientId, { stored: { policy: structuredClone(own), until: until ?? Infinity } });
  }

  function block(recipientId: string, { until, reason }: Block): void {
    checkBlock(recipientId, { until, reason }, now());
    oversee(recipientId, { block: { until, reason } });
  }

  /** Changes a part of the book for good; the book as it was. */
  function replace(recipientId: string, part: Partial<Book>): Book {
    checkRecipient(recipientId);
    const before = books.get(recipientId);
    books.set(recipientId, { ...before, ...part });
    return before;
  }

  function inspect(recipientId: string): Inspection {
    checkRecipient(recipientId);
    const book = books.get(recipientId);
    return inspection(book, opener.open(book, opener.categories), countBlocked, keepIds);
  }

  return {
    get recipients() {
      return books.size;
    },
    admit: promised(admit),
    peek: promised((ask: Ask) => consider(ask).admission),
    refund: promised(refund),
    postpone: promised(postpone),
    cancel: promised(cancel),
    limit: promised(limit),
    unlimit: promised(
      (recipientId: string) => policyAt(replace(recipientId, { stored: undefined }), now()) !== undefined,
    ),
    block: promised(block),
    unblock: promised(
      (recipientId: string) => blockAt(replace(recipientId, { block: undefined }), now()) !== undefined,
    ),
    reset: promised((recipientId: string) => replace(recipientId, { slots: new Map() }).slots.size > 0),
    inspect: promised(inspect),
  };
}

/** True where the overall scope had what was edited: it is the one that knows what was sent. */
function changedOverall([before, after]: readonly [Book, Book]): boolean {
  return after.slots.get(undefined) !== before.slots.get(undefined);
}

function categoriesOf({ category }: Held): readonly string[] {
  return category === undefined ? [] : [category];
}

/** The same function, answering and throwing by a promise. */
function promised<A extends unknown[], R>(run: (...args: A) => R): (...args: A) => Promise<R> {
  return (...args) => new Promise((resolve) => resolve(run(...args)));
}
