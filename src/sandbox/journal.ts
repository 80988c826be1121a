import { pushId } from '../domain/device.ts';
import { entryText, type JournalEntry } from './journal-entry.ts';

export type { JournalEntry } from './journal-entry.ts';

/** What to wait for in a journal. */
export interface WaitOptions {
  /** Which entries count. Default: those of alerts that were accepted. */
  readonly where?: ((entry: JournalEntry) => boolean) | undefined;
  /** How long to wait, in milliseconds. Default: 10,000. */
  readonly timeoutMs?: number | undefined;
}

/** What the providers received, for reading. */
export interface SandboxJournal {
  /** Every request for an alert, the refused ones too, in the order of their answers. */
  readonly all: readonly JournalEntry[];
  /** Every alert that a device got, in the order of the answers. */
  readonly accepted: readonly JournalEntry[];
  /**
   * The requests for one notification, by its id. An alert to FCM that has a collapse id is not found: such a request holds
   * nothing that comes from the notification's id. Look for its token or its collapse id in `all`.
   */
  of(notificationId: string): readonly JournalEntry[];
  /**
   * Resolves with the entries that count as soon as there are `count` of them or more, counted from the start or the last
   * `clear`. Rejects with an Error that says what came instead, if they have not come within the timeout.
   */
  waitFor(count: number, options?: WaitOptions): Promise<readonly JournalEntry[]>;
  /** Calls the listener for every later entry; the returned function removes it. */
  on(listener: (entry: JournalEntry) => void): () => void;
  /** Forgets every entry. */
  clear(): void;
}

export interface JournalOptions {
  /** How many entries to keep, the latest; all of them where left out. */
  readonly keep?: number | undefined;
}

const WAIT_MS = 10_000;

/** Everything that the loopback providers received, in the order of their answers. */
export class Journal implements SandboxJournal {
  readonly #keep: number;
  readonly #listeners = new Set<(entry: JournalEntry) => void>();
  #all: JournalEntry[] = [];
  #accepted: JournalEntry[] = [];
  #dropped = 0;

  constructor({ keep = Infinity }: JournalOptions = {}) {
    this.#keep = keep;
  }

  /** Every request for an alert, refused ones too; without FCM's dry runs. */
  get all(): readonly JournalEntry[] {
    return this.#all;
  }

  /** Every alert that a device got. */
  get accepted(): readonly JournalEntry[] {
    return this.#accepted;
  }

  /** How many older entries were left out of `all`, because only the latest are kept. */
  get dropped(): number {
    return this.#dropped;
  }

  record(entry: JournalEntry): void {
    this.#dropped += this.#append(this.#all, entry);
    if (entry.accepted) this.#append(this.#accepted, entry);
    for (const listener of this.#listeners) listener(entry);
  }

  of(notificationId: string): readonly JournalEntry[] {
    return entriesOf(notificationId, this.#all);
  }

  async waitFor(count: number, { where = isAccepted, timeoutMs = WAIT_MS }: WaitOptions = {}) {
    if (count > this.#keep) throw new RangeError(`count: expected at most ${this.#keep}, found ${count}`);
    const { promise, resolve, reject } = Promise.withResolvers<readonly JournalEntry[]>();
    const look = (): void => {
      const found = this.#all.filter(where);
      if (found.length >= count) resolve(found);
    };
    const stop = this.on(look);
    const timer = setTimeout(() => reject(new Error(shortfall(count, where, timeoutMs, this.#all))), timeoutMs);
    look();
    return promise.finally(() => {
      clearTimeout(timer);
      stop();
    });
  }

  on(listener: (entry: JournalEntry) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  clear(): void {
    this.#all = [];
    this.#accepted = [];
    this.#dropped = 0;
  }

  /** How many entries it took away. */
  #append(entries: JournalEntry[], entry: JournalEntry): number {
    entries.push(entry);
    if (entries.length <= this.#keep) return 0;
    entries.shift();
    return 1;
  }
}

const isAccepted = ({ accepted }: JournalEntry): boolean => accepted;

/** The requests for a notification: each of its devices has a push id that comes from the notification's id. */
function entriesOf(notificationId: string, entries: readonly JournalEntry[]): JournalEntry[] {
  const pushIds = new Set(Array.from({ length: MAX_DEVICES }, (_, index) => pushId(notificationId, index)));
  return entries.filter(({ apnsId, tag }) =>
    [apnsId?.toLowerCase(), tag].some((id) => id !== undefined && pushIds.has(id)),
  );
}

const MAX_DEVICES = 20;
const SHOWN = 5;

/** `expected 2 within 10000 ms, found 1; the latest requests: …` */
function shortfall(
  count: number,
  where: (entry: JournalEntry) => boolean,
  timeoutMs: number,
  entries: readonly JournalEntry[],
): string {
  const what = where === isAccepted ? 'accepted alerts' : 'such requests';
  const found = `expected ${count} ${what} within ${timeoutMs} ms, found ${entries.filter(where).length}`;
  if (entries.length === 0) return `${found}: no request came at all`;
  return [`${found}; the latest of ${entries.length} requests:`, ...entries.slice(-SHOWN).map(entryText)].join('\n  ');
}

/** Epoch milliseconds with a fraction, counted from this process's start, so that setting the system's clock moves no entry. */
export function arrivalInstant(): number {
  return performance.timeOrigin + performance.now();
}
