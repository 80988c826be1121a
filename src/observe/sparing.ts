/** Whether to log a trouble now: how often it occurred unlogged since the last line, or undefined to log nothing. */
export type Sparing = (trouble: string) => number | undefined;

/** Keeps a log short during an outage: each trouble is logged at most once in `everyMs` milliseconds. */
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
