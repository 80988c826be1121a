import { setTimeout as sleep } from 'node:timers/promises';

/** Lets one caller after the other go on, evenly spaced, `perSecond` of them each second; the first at once. */
export function createPace(perSecond: number, now: () => number = () => performance.now()): () => Promise<void> {
  let next = -Infinity;
  return async () => {
    const at = Math.max(next, now());
    next = at + 1_000 / perSecond;
    const waitMs = at - now();
    if (waitMs > 0) await sleep(waitMs);
  };
}

/** `100/s`, `100` → 100 a second; `30/m` → 0.5 a second; undefined if the text is no rate. */
export function parseRate(text: string): number | undefined {
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(?:\/(s|m|h))?$/.exec(text);
  if (!match) return undefined;
  const perSecond = Number(match[1]) / { s: 1, m: 60, h: 3_600 }[(match[2] ?? 's') as 's' | 'm' | 'h'];
  return perSecond > 0 ? perSecond : undefined;
}
