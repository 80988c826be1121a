import { markup, type Markup } from './markup.ts';

/** Places instants on the width of a drawing. In percent, so that a drawing is as wide as the page and its marks keep their size. */
export interface Scale {
  /** The last instant, in milliseconds. */
  readonly endMs: number;
  /** `50.00%` */
  readonly x: (ms: number) => string;
  /** Where a vertical line with a number stands. */
  readonly steps: readonly number[];
}

const STEPS_MS = [1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000];
const MOST_STEPS = 6;

/** A scale from 0 to a whole second that is not before `lastMs`. */
export function createScale(lastMs: number): Scale {
  const endMs = Math.max(1_000, Math.ceil(lastMs / 1_000) * 1_000);
  const stepMs = STEPS_MS.find((ms) => endMs / ms <= MOST_STEPS) ?? endMs;
  const steps = Array.from({ length: Math.floor(endMs / stepMs) + 1 }, (_, index) => index * stepMs);
  return { endMs, steps, x: (ms) => `${((100 * Math.min(endMs, Math.max(0, ms))) / endMs).toFixed(2)}%` };
}

/** The numbers under a drawing. The first and the last stand inside of it. */
export function axis(scale: Scale, y: number): Markup {
  const labels = scale.steps.map((ms) => {
    const anchor = ms === 0 ? 'start' : ms === scale.endMs ? 'end' : 'middle';
    return markup`<text class="label" x="${scale.x(ms)}" y="${y}" text-anchor="${anchor}">${ms / 1_000} s</text>`;
  });
  return markup`${labels}`;
}

export function grid(scale: Scale, height: number): Markup {
  const lines = scale.steps.map(
    (ms) => markup`<line class="grid" x1="${scale.x(ms)}" x2="${scale.x(ms)}" y1="0" y2="${height}"/>`,
  );
  return markup`${lines}`;
}

/** `2.251 s` */
export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(3)} s`;
}
