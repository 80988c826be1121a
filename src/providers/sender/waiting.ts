import { unsent, type Unsent } from './result.ts';

/** Those who wait for a place, in the order of asking. */
export class Waiting<Place> {
  readonly #all = new Set<(found: Place | Unsent) => void>();

  get size(): number {
    return this.#all.size;
  }

  /** Resolves with a place from `serve`; unsent after `until` (`performance.now()`), or when all are given up. */
  join(until: number): Promise<Place | Unsent> {
    return new Promise((resolve) => {
      this.#all.add(resolve);
      if (until === Infinity) return;
      const giveUp = (): void => {
        if (this.#all.delete(resolve)) resolve(unsent('no-stream'));
      };
      setTimeout(giveUp, Math.max(0, until - performance.now())).unref();
    });
  }

  /** Gives places to those who wait, the first one first, until `take` has none. */
  serve(take: () => Place | undefined): void {
    for (const resolve of this.#all) {
      const place = take();
      if (place === undefined) break;
      this.#all.delete(resolve);
      resolve(place);
    }
  }

  giveUp(why: Unsent): void {
    const all = [...this.#all];
    this.#all.clear();
    for (const resolve of all) resolve(why);
  }
}
