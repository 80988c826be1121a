import type { Inspection } from '../../src/limiter/limiter.ts';
import { span } from '../support/text.ts';

/** The instants to draw, in epoch milliseconds and in order. */
export type Drawn = Pick<Inspection, 'now' | 'sent' | 'reserved' | 'block'>;

/** The columns for instants, at least and at most; with at most, no line is longer than 80 characters. */
const [LEAST_COLUMNS, MOST_COLUMNS] = [8, 64];
const NAME_WIDTH = 11;

/** Maps instants to columns. The columns begin at now and go in both directions, so that no column contains both past and future. */
interface Axis {
  /** Columns before now; the next one is the mark of now itself. */
  readonly past: number;
  readonly width: number;
  readonly columnMs: number;
  readonly columnOf: (at: number) => number;
}

/**
 * From the oldest sent slot over now to the last reserved one; no line where there are none.
 *
 *                 -58s          now           +31s
 *     sent        1··1··1··11··1│··············
 *     reserved    ··············│1··1··1··1··1·
 *
 * `columns` is the width of the terminal.
 */
export function renderTimeline(drawn: Drawn, columns = 80): string[] {
  const { now, sent, reserved, block } = drawn;
  const instants = { sent: sent.map(({ at }) => at), reserved: reserved.map(({ at }) => at) };
  if (sent.length + reserved.length === 0) return [];
  const most = Math.min(MOST_COLUMNS, Math.max(LEAST_COLUMNS, columns - NAME_WIDTH - 1));
  const axis = axisOf(now, instants.sent, instants.reserved, most);
  const rows = [
    named('', labels(axis, now, instants.sent, instants.reserved)),
    named('sent', row(axis, instants.sent)),
    named('reserved', row(axis, instants.reserved)),
  ];
  if (block !== undefined) rows.push(named('block', blockRow(axis, block.until)));
  return [...rows, `A column is ${span(axis.columnMs)}; a digit counts its slots, + is more than nine.`];
}

function axisOf(now: number, sent: readonly number[], reserved: readonly number[], most: number): Axis {
  const [start, end] = endsOf(now, sent, reserved);
  const columnMs = Math.max(1, Math.ceil((end - start) / (most - 2)));
  const past = Math.ceil((now - start) / columnMs);
  const columnOf = (at: number): number =>
    at < now ? past - Math.ceil((now - at) / columnMs) : past + 1 + Math.floor((at - now) / columnMs);
  return { past, columnMs, columnOf, width: columnOf(end) + 1 };
}

/** A sent slot may lie a moment ahead, and a reserved one may be overdue. */
function endsOf(now: number, sent: readonly number[], reserved: readonly number[]): [start: number, end: number] {
  const ends = [now, sent[0], sent.at(-1), reserved[0], reserved.at(-1)].filter((at) => at !== undefined);
  return [Math.min(...ends), Math.max(...ends)];
}

/** `·` for no slot, else the number of slots. */
function row({ past, width, columnOf }: Axis, instants: readonly number[]): string {
  const counts = new Array<number>(width).fill(0);
  for (const at of instants) counts[columnOf(at)] = (counts[columnOf(at)] ?? 0) + 1;
  const cells = counts.map((count) => (count === 0 ? '·' : count > 9 ? '+' : String(count)));
  return cells.with(past, '│').join('');
}

function blockRow({ past, width, columnOf }: Axis, until: number): string {
  const blocked = Math.min(width, columnOf(until)) - past - 1;
  return `${'·'.repeat(past)}│${'='.repeat(blocked)}`.padEnd(width, '·');
}

/** `-58s`, `now` and `+31s` above their columns; without room for all of them only `now` stays. */
function labels({ past, width }: Axis, now: number, sent: readonly number[], reserved: readonly number[]): string {
  const [start, end] = endsOf(now, sent, reserved);
  const [left, right] = [start < now ? `-${span(now - start)}` : '', end > now ? `+${span(end - now)}` : ''];
  const nowAt = Math.max(0, Math.min(past - 1, width - 3));
  const before = left.length < nowAt ? left.padEnd(nowAt) : ' '.repeat(nowAt);
  const room = width - nowAt - 3;
  return `${before}now${right.length < room ? right.padStart(room) : ''}`;
}

function named(name: string, cells: string): string {
  return `${name.padEnd(NAME_WIDTH)}${cells}`.trimEnd();
}
