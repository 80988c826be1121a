import { formatDuration } from '../../src/domain/time.ts';
import { ruleName, type Policy } from '../../src/domain/limits.ts';
import type { Inspection } from '../../src/limiter/limiter.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const SPANS = [
  { unit: 'd', size: DAY, then: 'h', step: HOUR },
  { unit: 'h', size: HOUR, then: 'm', step: MINUTE },
  { unit: 'm', size: MINUTE, then: 's', step: SECOND },
] as const;

/** A duration in at most two units: 950 → `950ms`, 12_340 → `12.3s`, 7_260_000 → `2h 1m`. */
export function span(ms: number): string {
  if (Math.round(ms) < SECOND) return `${Math.round(ms)}ms`;
  const tenths = Math.round(ms / 100) / 10;
  if (tenths < 60) return `${tenths}s`;
  for (const { unit, size, then, step } of SPANS) {
    const steps = Math.round(ms / step);
    const whole = Math.floor((steps * step) / size);
    if (whole === 0) continue;
    const rest = steps - (whole * size) / step;
    return rest === 0 ? `${whole}${unit}` : `${whole}${unit} ${rest}${then}`;
  }
  return '1m'; // 59.95 s and more
}

/** `2026-11-21 14:00:00Z` */
export function instant(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')}Z`;
}

/** `2026-11-21 14:00:00Z (in 2h)`, `2026-11-21 11:00:00Z (1h ago)` */
export function instantFrom(now: number, at: number): string {
  return `${instant(at)} (${fromNow(now, at)})`;
}

/** `in 2h`, `1h ago`, `now` */
export function fromNow(now: number, at: number): string {
  if (at === now) return 'now';
  return at > now ? `in ${span(at - now)}` : `${span(now - at)} ago`;
}

/** `10/1m, 100/1h, gap 3s` */
export function policyText({ rules, minGapMs }: Policy): string {
  if (rules.length === 0 && minGapMs === 0) return 'no limits';
  const gap = minGapMs === 0 ? 'no gap' : `gap ${formatDuration(minGapMs)}`;
  return [...rules.map(ruleName), gap].join(', ');
}

/** What waits for a slot, the next one first. */
export type Waiting = Pick<Inspection, 'now' | 'reserved'>;

/** `3 notifications wait, the last until 2026-11-21 14:00:09Z (in 2h)`; undefined where none does. */
export function waitingText({ now, reserved }: Waiting): string | undefined {
  const last = reserved.at(-1);
  if (last === undefined) return undefined;
  const until = instantFrom(now, last.at);
  return reserved.length === 1
    ? `1 notification waits, until ${until}`
    : `${reserved.length} notifications wait, the last until ${until}`;
}

/** Any text as one word of a shell: `it's` → `'it'\''s'`. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
