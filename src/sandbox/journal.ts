import type { Platform } from '../domain/notification.ts';

/** One request as a provider saw it. */
export interface JournalEntry {
  readonly platform: Platform;
  /** Empty if the request had none. APNs tokens are in lower case. */
  readonly token: string;
  /** When the request's headers arrived: epoch milliseconds with a fraction, on a clock that is never set. */
  readonly at: number;
  /** Whether the device was alerted; the answer may have said otherwise. */
  readonly accepted: boolean;
  /** The HTTP status that was answered; absent where no answer was given. */
  readonly status?: number | undefined;
  /** The provider's code for a refusal; `hang` or `reset` if there was no answer. */
  readonly reason?: string | undefined;
  /** APNs: the `apns-id` that was sent or made. */
  readonly apnsId?: string | undefined;
  /** FCM: the message's name; answered where the message was accepted. */
  readonly messageName?: string | undefined;
  readonly collapseId?: string | undefined;
  /** As the client wrote it: `10` or `5` on APNs, `high` or `normal` on FCM. */
  readonly priority?: string | undefined;
  /** Epoch seconds after which the provider drops the alert; 0 for one try only. FCM's ttl is counted from `at`. */
  readonly expiration?: number | undefined;
  readonly pushType?: string | undefined;
  readonly title?: string | undefined;
  readonly body?: string | undefined;
  /** What the app gets beside the alert. */
  readonly data: Readonly<Record<string, string>>;
  /** APNs' whole payload, FCM's whole message; undefined where it could not be read. */
  readonly payload?: unknown;
}

export interface JournalOptions {
  /** How many entries to keep, the latest; all of them where left out. */
  readonly keep?: number | undefined;
}

/** Everything that the loopback providers received, in the order of their answers. */
export class Journal {
  readonly #keep: number;
  readonly #listeners = new Set<(entry: JournalEntry) => void>();
  #all: JournalEntry[] = [];
  #accepted: JournalEntry[] = [];

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

  record(entry: JournalEntry): void {
    this.#append(this.#all, entry);
    if (entry.accepted) this.#append(this.#accepted, entry);
    for (const listener of this.#listeners) listener(entry);
  }

  /** Calls the listener for every later entry; the returned function removes it. */
  on(listener: (entry: JournalEntry) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  clear(): void {
    this.#all = [];
    this.#accepted = [];
  }

  #append(entries: JournalEntry[], entry: JournalEntry): void {
    entries.push(entry);
    if (entries.length > this.#keep) entries.shift();
  }
}

/** Epoch milliseconds with a fraction, counted from this process's start, so that setting the system's clock moves no entry. */
export function arrivalInstant(): number {
  return performance.timeOrigin + performance.now();
}
