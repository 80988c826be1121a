import type { Permit } from '../provider.ts';
import { unsent, type Unsent } from './result.ts';

/** One of a number of places for requests. */
export class Slot implements Permit {
  #give: (() => void) | undefined;

  constructor(give: () => void) {
    this.#give = give;
  }

  release(): void {
    const give = this.#give;
    this.#give = undefined;
    give?.();
  }

  /** The place, for one request, which releases it. Undefined if it was used or released before. */
  use(): Slot | undefined {
    const give = this.#give;
    this.#give = undefined;
    return give && new Slot(give);
  }
}

/** A number of places; who finds none waits, in the order of asking. */
export interface Slots {
  /** Unsent if none is free until then (`performance.now()`). */
  take(until?: number): Promise<Slot | Unsent>;
  owns(permit: Permit | undefined): permit is Slot;
  giveUpWaiting(why: Unsent): void;
  end(): void;
}

export function createSlots(count: number): Slots {
  const waiting = new Set<(found: Slot | Unsent) => void>();
  let free = count;
  let isEnded = false;

  function make(): Slot {
    free -= 1;
    return new Slot(() => {
      free += 1;
      const [next] = waiting;
      if (next === undefined) return;
      waiting.delete(next);
      next(make());
    });
  }

  function giveUpWaiting(why: Unsent): void {
    const all = [...waiting];
    waiting.clear();
    for (const resolve of all) resolve(why);
  }

  return {
    take(until = Infinity) {
      if (isEnded) return Promise.resolve(unsent('closed'));
      if (free > 0) return Promise.resolve(make());
      return new Promise((resolve) => {
        waiting.add(resolve);
        if (until === Infinity) return;
        const giveUp = (): void => {
          if (waiting.delete(resolve)) resolve(unsent('no-stream'));
        };
        setTimeout(giveUp, Math.max(0, until - performance.now())).unref();
      });
    },
    owns: (permit) => permit instanceof Slot,
    giveUpWaiting,
    end() {
      isEnded = true;
      giveUpWaiting(unsent('closed'));
    },
  };
}
