import type { Policy } from '../../domain/limits.ts';
import { checkAsk, checkBlock, checkFollow, checkHeld, checkKeep, checkLimit, checkRecipient } from '../checks.ts';
import { blockAt, Books, edited, policyAt, withoutSent, withScopes, type Book } from './book.ts';
import { decide, type Decision } from './decide.ts';
import { inspection, replanned } from './oversee.ts';
import type { Admission, Ask, Block, Follow, Held, Inspection, Limiter } from '../limiter.ts';
import { createOpener } from './opened.ts';
import { postponed, released, type Slots } from './slots.ts';

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

  function cancel(held: Held): boolean {
    checkHeld(held);
    const [before, after] = edit(held, (slots) => released(released(slots, 'reserved', held.id), 'held', held.id));
    return after !== before;
  }

  /** Changes a part of the book, and gives all that wait their earliest places; the book as it was. */
  async function oversee(recipientId: string, change: (book: Book) => Book, follow: Follow): Promise<Book> {
    checkFollow(follow);
    const { onMoved, leadMs = 0 } = follow;
    const before = books.get(recipientId);
    const changed = change(before);
    const [after, moved] = replanned(changed, opener.open(changed, opener.categories), leadMs);
    books.set(recipientId, after);
    if (moved.length > 0) await onMoved?.(moved);
    return before;
  }

  async function limit(recipientId: string, own: Policy, options: Follow & { readonly until?: number } = {}) {
    const { until } = options;
    checkLimit(recipientId, own, until, now());
    const stored = { policy: structuredClone(own), until: until ?? Infinity };
    await oversee(recipientId, (book) => ({ ...book, stored }), options);
  }

  async function unlimit(recipientId: string, follow: Follow = {}): Promise<boolean> {
    checkRecipient(recipientId);
    return (
      policyAt(await oversee(recipientId, (book) => ({ ...book, stored: undefined }), follow), now()) !== undefined
    );
  }

  async function block(recipientId: string, { until, reason }: Block, follow: Follow = {}): Promise<void> {
    checkBlock(recipientId, { until, reason }, now());
    await oversee(recipientId, (book) => ({ ...book, block: { until, reason } }), follow);
  }

  async function unblock(recipientId: string, follow: Follow = {}): Promise<boolean> {
    checkRecipient(recipientId);
    return blockAt(await oversee(recipientId, (book) => ({ ...book, block: undefined }), follow), now()) !== undefined;
  }

  async function reset(recipientId: string, follow: Follow = {}): Promise<boolean> {
    checkRecipient(recipientId);
    const before = await oversee(recipientId, withoutSent, follow);
    return [...before.slots.values()].some(({ sent }) => sent.length > 0);
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
    limit,
    unlimit,
    block,
    unblock,
    reset,
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
