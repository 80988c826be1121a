import type { Permit } from '../provider.ts';
import { unsent, type Unsent } from './result.ts';
import { Waiting } from './waiting.ts';

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
  const waiting = new Waiting<Slot>();
  let free = count;
  let isEnded = false;

  function take(): Slot | undefined {
    if (free === 0) return undefined;
    free -= 1;
    return new Slot(() => {
      free += 1;
      waiting.serve(take);
    });
  }

  return {
    take(until = Infinity) {
      if (isEnded) return Promise.resolve(unsent('closed'));
      const slot = take();
      return slot === undefined ? waiting.join(until) : Promise.resolve(slot);
    },
    owns: (permit) => permit instanceof Slot,
    giveUpWaiting: (why) => waiting.giveUp(why),
    end() {
      isEnded = true;
      waiting.giveUp(unsent('closed'));
    },
  };
}
