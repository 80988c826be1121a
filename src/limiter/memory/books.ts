import { EMPTY_BOOK, expiryOf, type Book } from './book.ts';

/** Books looked at for expiry with each write: more than the one that a write may add, so that none is left behind. */
const SWEPT_PER_WRITE = 2;

/** The books of all recipients. What has expired is forgotten while others are written, without a timer. */
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

  /** Drops what has expired among the books that were looked at longest ago, and puts the others last. */
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
