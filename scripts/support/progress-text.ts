import { cut, widthOf } from './table.ts';

/** What a bar shows. */
export interface Counted {
  readonly label: string;
  readonly unit: 'bytes' | undefined;
  readonly done: number;
  /** Undefined or 0: unknown. */
  readonly total: number | undefined;
  /** Undefined: not known yet. */
  readonly perSecond: number | undefined;
}

const WIDEST_BAR = 30;
const NARROWEST_BAR = 5;
/** A longer time left is a guess that helps nobody. */
const MOST_LEFT_S = 99 * 3_600;

/** One line that is shorter than the terminal's `columns`: first the bar becomes shorter, then it goes, then the end is cut. */
export function barText({ label, unit, done, total = 0, perSecond }: Counted, columns: number): string {
  const room = columns - 1; // in the last column some terminals begin a new line
  const amount = (value: number) => (unit === 'bytes' ? size(value) : count(value));
  const rate = perSecond === undefined ? '' : speed(perSecond, unit);
  if (total <= 0) return cut(joined([label, amount(done), rate]), room);
  const share = Math.min(1, Math.max(0, done / total));
  const left = perSecond === undefined || perSecond <= 0 ? undefined : timeLeft((total - done) / perSecond);
  const facts = joined([
    `${Math.floor(share * 100)}%`,
    `${amount(done)}/${amount(total)}`,
    left === undefined ? rate : `${rate}, ${left}`,
  ]);
  const barWidth = Math.min(WIDEST_BAR, room - widthOf(label) - facts.length - 2);
  return cut(joined([label, barWidth < NARROWEST_BAR ? '' : bar(share, barWidth), facts]), room);
}

function joined(parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join(' ');
}

function bar(share: number, width: number): string {
  const full = Math.floor(share * width);
  return `${'█'.repeat(full)}${'░'.repeat(width - full)}`;
}

/** `1,200` */
function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** `950 B`, `1.2 MB` */
function size(bytes: number): string {
  if (bytes < 1_000) return `${Math.round(bytes)} B`;
  const power = Math.min(3, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1_000 ** power).toFixed(1)} ${['B', 'kB', 'MB', 'GB'][power] ?? ''}`;
}

/** `1,200/s`, `0.5/s`, `1.2 MB/s` */
function speed(perSecond: number, unit: Counted['unit']): string {
  if (unit === 'bytes') return `${size(perSecond)}/s`;
  return `${perSecond > 0 && perSecond < 10 ? perSecond.toFixed(1) : count(perSecond)}/s`;
}

/** `3 s left`, `12 min left`, `2 h 5 min left`; undefined if it is too far ahead to say. */
function timeLeft(seconds: number): string | undefined {
  if (seconds > MOST_LEFT_S) return undefined;
  const whole = Math.max(0, Math.ceil(seconds));
  if (whole < 60) return `${whole} s left`;
  const minutes = Math.ceil(whole / 60);
  if (minutes < 60) return `${minutes} min left`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min left`;
}
