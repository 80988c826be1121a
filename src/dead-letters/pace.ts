import { setTimeout as sleep } from 'node:timers/promises';

/**
 * How many dead letters are replayed in a second if the operator sets no rate. A worker with two cores sends several times as
 * many, so new notifications are still sent beside such a replay.
 */
export const REPLAYS_PER_SECOND = 50;

export interface PaceOptions {
  /** When the signal fires, all waiting callers go on at once. Each caller must look at the signal, and end. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds on a clock that only goes forward. */
  readonly now?: () => number;
}

/** Lets `perSecond` callers go on each second, evenly spaced; the first one at once. */
export function createPace(perSecond: number, options: PaceOptions = {}): () => Promise<void> {
  const { signal, now = () => performance.now() } = options;
  let next = -Infinity;
  return async () => {
    const at = Math.max(next, now());
    next = at + 1_000 / perSecond;
    const waitMs = at - now();
    if (waitMs > 0) await sleep(waitMs, undefined, signal && { signal }).catch(() => undefined);
  };
}

/** A rate of less than one an hour is refused: such waits are too long for a timer. */
const LEAST_PER_SECOND = 1 / 3_600;

/**
 * `100/s`, `100` → 100 a second; `30/m` → 0.5 a second; `off` → Infinity; undefined if the text is no rate, or less than `1/h`.
 */
export function parseRate(text: string): number | undefined {
  if (text === 'off') return Infinity;
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(?:\/(s|m|h))?$/.exec(text);
  if (!match) return undefined;
  const perSecond = Number(match[1]) / { s: 1, m: 60, h: 3_600 }[(match[2] ?? 's') as 's' | 'm' | 'h'];
  return perSecond >= LEAST_PER_SECOND ? perSecond : undefined;
}

const UNITS = [
  [1, 's'],
  [60, 'm'],
  [3_600, 'h'],
] as const;

/** `50/s`; for less than one in a second, `30/m` or `5/h`; `off` for no pause. */
export function rateText(perSecond: number): string {
  if (perSecond === Infinity) return 'off';
  const [size, unit] = UNITS.find(([each]) => perSecond * each >= 1) ?? [3_600, 'h'];
  return `${Math.round(perSecond * size * 100) / 100}/${unit}`;
}
