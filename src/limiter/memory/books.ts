import { EMPTY_BOOK, expiryOf, type Book } from './book.ts';

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
