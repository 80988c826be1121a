/** Answers how often a trouble was met since it was last told, and undefined where that was only lately: then nothing is told. */
export type Sparing = (trouble: string) => number | undefined;

/** Keeps a log readable through an outage: each trouble once in so many milliseconds, with how often it went untold. */
export function createSparing(everyMs: number, now: () => number = () => performance.now()): Sparing {
  const told = new Map<string, { readonly at: number; untold: number }>();
  return (trouble) => {
    const time = now();
    const last = told.get(trouble);
    if (last !== undefined && time - last.at < everyMs) {
      last.untold += 1;
      return undefined;
    }
    for (const [key, { at }] of told) if (time - at >= everyMs) told.delete(key);
    told.set(trouble, { at: time, untold: 0 });
    return last?.untold ?? 0;
  };
}
