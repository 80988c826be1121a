import type { Policy } from '../../domain/limits.ts';
import type { QuietHours } from '../../domain/quiet-hours.ts';
import type { Block } from '../limiter.ts';
import { NO_SHOW_MS } from '../pace.ts';
import type { Scope } from './scope.ts';
import { newest, type KeptSlots, type Slots } from './slots.ts';

/** A policy that is stored for a recipient, in force before `until`; Infinity if it has no end. */
export interface StoredPolicy {
  readonly policy: Policy;
  readonly until: number;
}

/** Everything that is stored about one recipient. */
export interface Book {
  /** By category; the overall scope's under `undefined`. None is empty. */
  readonly slots: ReadonlyMap<string | undefined, KeptSlots>;
  readonly stored?: StoredPolicy | undefined;
  readonly block?: Block | undefined;
  /** The quiet hours that are stored for the recipient. */
  readonly quiet?: QuietHours | undefined;
}

export const EMPTY_BOOK: Book = { slots: new Map() };

/** The stored policy that is in force. */
export function policyAt({ stored }: Book, now: number): StoredPolicy | undefined {
  return stored !== undefined && now < stored.until ? stored : undefined;
}

/** The block that is in force. */
export function blockAt({ block }: Book, now: number): Block | undefined {
  return block !== undefined && now < block.until ? block : undefined;
}

export function withScopes(book: Book, scopes: readonly Scope[]): Book {
  return scopes.reduce((rest, { category, keptMs, slots }) => withSlots(rest, category, { ...slots, keptMs }), book);
}

function withSlots(book: Book, category: string | undefined, kept: KeptSlots): Book {
  const slots = new Map(book.slots);
  if (kept.sent.length + kept.reserved.length + kept.held.length > 0) slots.set(category, kept);
  else slots.delete(category);
  return { ...book, slots };
}

/** The book with edited slots in the overall scope and in these categories; the same object if nothing changed. */
export function edited(book: Book, categories: readonly string[], edit: (slots: Slots) => Slots): Book {
  let result = book;
  for (const category of [undefined, ...categories]) {
    const kept = book.slots.get(category);
    if (kept === undefined) continue;
    const slots = edit(kept);
    if (slots !== kept) result = withSlots(result, category, { ...slots, keptMs: kept.keptMs });
  }
  return result;
}

/** The book without sent slots. Reservations stay. */
export function withoutSent(book: Book): Book {
  const slots = [...book.slots].map(([category, kept]) => [category, { ...kept, sent: [] }] as const);
  return { ...book, slots: new Map(slots) };
}

/** When the whole book may be forgotten, in epoch milliseconds; -Infinity for an empty one. */
export function expiryOf({ slots, stored, block, quiet }: Book): number {
  if (quiet !== undefined) return Infinity;
  const ends = [...slots.values()].flatMap(({ sent, reserved, held, keptMs }) => [
    (newest(sent) ?? -Infinity) + keptMs,
    (newest(reserved) ?? -Infinity) + NO_SHOW_MS,
    (newest(held) ?? -Infinity) + NO_SHOW_MS,
  ]);
  return Math.max(stored?.until ?? -Infinity, block?.until ?? -Infinity, ...ends);
}

/** How many books each write checks for expiry. It is more than the one that a write adds, so every book is checked in time. */
const SWEPT_PER_WRITE = 2;

/** The books of all recipients. Expired books are removed by the writes of others, so no timer is needed. */
export class Books {
  readonly #books = new Map<string, Book & { readonly expiry: number }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  get size(): number {
    return this.#books.size;
  }

  get(recipientId: string): Book {
    return this.#books.get(recipientId) ?? EMPTY_BOOK;
  }

  set(recipientId: string, book: Book): void {
    this.#books.delete(recipientId);
    const expiry = expiryOf(book);
    if (expiry !== -Infinity) this.#books.set(recipientId, { ...book, expiry });
    this.#sweep();
  }

  /** Checks the books that were checked longest ago: removes the expired ones and moves the others to the end. */
  #sweep(): void {
    for (let swept = 0; swept < SWEPT_PER_WRITE; swept += 1) {
      const [oldest] = this.#books;
      if (oldest === undefined) return;
      const [recipientId, book] = oldest;
      this.#books.delete(recipientId);
      if (book.expiry >= this.#now()) this.#books.set(recipientId, book);
    }
  }
}
