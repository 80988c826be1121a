/** Sends answers after a delay, with one timer each. After `close` none is sent. */
export class LateAnswers {
  readonly #timers = new Set<NodeJS.Timeout>();
  #isClosed = false;

  /** Runs after `waitMs` milliseconds. */
  after(waitMs: number, run: () => void): void {
    if (this.#isClosed) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, waitMs);
    this.#timers.add(timer);
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }
}
