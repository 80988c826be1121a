import { styleText } from 'node:util';
import measure from 'fast-string-truncated-width';
import { counted, printable } from '../domain/faults.ts';
import { span } from '../domain/time.ts';

export { counted } from '../domain/faults.ts';
export { span } from '../domain/time.ts';

const DAY_MS = 86_400_000;

/** `2026-11-21T14:00:00Z`: RFC 3339, which every flag for an instant takes. */
export function instant(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}

/** `2026-11-21T14:00:00Z (in 2h)`, `2026-11-21T11:00:00Z (1h ago)` */
export function instantFrom(now: number, at: number): string {
  return `${instant(at)} (${fromNow(now, at)})`;
}

/** `in 2h`, `1h ago`, `now` */
export function fromNow(now: number, at: number): string {
  if (at === now) return 'now';
  return at > now ? `in ${span(at - now)}` : `${span(now - at)} ago`;
}

/** ` (9 rejected, 3 stalled)`, the most frequent reason first; empty for none. */
export function breakdown(byReason: Readonly<Record<string, number>>): string {
  const counts = Object.entries(byReason).sort(([, a], [, b]) => b - a);
  return counts.length === 0 ? '' : ` (${counts.map(([reason, count]) => `${count} ${reason}`).join(', ')})`;
}

/** At most this many of the same kind are named. If a machine is lost, all of its workers are. */
export const NAMED = 3;

/** `a; b; c; and 97 more` */
export function named(all: readonly string[]): string {
  return [...all.slice(0, NAMED), ...(all.length > NAMED ? [`and ${all.length - NAMED} more`] : [])].join('; ');
}

/** `web-1 (process 7)` */
export function workerName({ host, pid }: { readonly host: string; readonly pid: number }): string {
  return `${printable(host)} (process ${pid})`;
}

/** `1 dead letter`, `12 dead letters` */
export function deadLetters(count: number): string {
  return counted(count, 'dead letter');
}

/** `14:00:00Z`; with the date if the instant is more than a day from now. */
export function timeNear(now: number, at: number): string {
  return Math.abs(at - now) < DAY_MS ? instant(at).slice(11) : instant(at);
}

/** Any text as one word of a shell: `it's` → `'it'\''s'`. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

type Format = Parameters<typeof styleText>[0];

// Colours are used only on a terminal; NO_COLOR turns them off, and FORCE_COLOR turns them on.
const on = (stream: NodeJS.WriteStream, format: Format) => (text: string) => styleText(format, text, { stream });

/** For `error:` on standard error. */
export const red = on(process.stderr, 'red');
/** For `warning:` on standard error. */
export const yellow = on(process.stderr, 'yellow');
/** For what is wrong, on standard output. */
export const redOut = on(process.stdout, 'red');
/** For what needs attention, on standard output. */
export const yellowOut = on(process.stdout, 'yellow');
/** For what is as it should be, on standard output. */
export const green = on(process.stdout, 'green');
/** For the headings of tables, on standard output. */
export const heading = on(process.stdout, 'bold');
/** For what matters less, on standard output. */
export const dim = on(process.stdout, 'dim');

/** The width of the terminal behind `stream`; undefined if `stream` is not a terminal: then nothing is cut. */
export function columnsOf(stream: NodeJS.WriteStream = process.stdout): number | undefined {
  if (!stream.isTTY) return undefined;
  return stream.columns > 0 ? stream.columns : 80; // with 0, the terminal does not know its width
}

let isPrepared = false;

/**
 * Ends the command without an error when the reader of standard output has ended (`pushpacer dead-letters | head`). If the
 * reader of standard error has ended, the command goes on, because the results are not written there.
 */
export function endWithReader(): void {
  if (isPrepared) return;
  isPrepared = true;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    process.stderr.write(`${red('error:')} standard output: ${error.message}\n`);
    process.exit(1);
  });
  process.stderr.on('error', () => undefined);
}

/** How many columns a terminal needs for the text: two for each wide character, such as 字. */
export function widthOf(text: string): number {
  return measure(text).width;
}

const characters = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** As many of the text's first characters as fit into `width` columns. Never a part of a character. */
function start(text: string, width: number): string {
  let taken = 0;
  for (const { segment, index } of characters.segment(text)) {
    taken += widthOf(segment);
    if (taken > width) return text.slice(0, index);
  }
  return text;
}

/** `as far as i…` */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  return width < 1 ? '' : `${start(text, width - 1)}…`;
}

type Row = readonly string[];

export interface TableOptions {
  /** The terminal's width; without one, nothing is cut. */
  readonly columns?: number | undefined;
  /** Whether the last column is wrapped instead of cut. */
  readonly wrap?: boolean;
  /** The columns that stay if not all have room. Default: all. */
  readonly essential?: readonly number[];
}

const GAP = '  ';
/** No column is made narrower than this. */
const LEAST = 4;
/** If the last column has less room than this, it is cut and not wrapped. */
const LEAST_WRAPPED = 16;

/** Aligns cells in columns, two spaces apart. Cells that are too wide for the terminal are cut, in the widest columns first. */
export function table(
  all: readonly Row[],
  { columns = Infinity, wrap = false, essential }: TableOptions = {},
): string[] {
  const isTooWide = sum(widthsOf(all)) + ((all[0]?.length ?? 1) - 1) * GAP.length > columns;
  const rows = isTooWide && essential ? all.map((row) => essential.map((column) => row[column] ?? '')) : all;
  const widths = widthsOf(rows);
  const last = widths.length - 1;
  const before = sum(widths.slice(0, -1)) + last * GAP.length;
  if (wrap && columns - before >= LEAST_WRAPPED) {
    return rows.flatMap((row) =>
      wrapText(row[last] ?? '', columns - before).map((part, at) =>
        line((at === 0 ? row : []).slice(0, last), widths, part),
      ),
    );
  }
  const fitting = shrink(widths, columns - last * GAP.length);
  return rows.map((row) => {
    const cells = row.map((cell, column) => cut(cell, fitting[column] ?? 0));
    return cut(line(cells.slice(0, last), fitting, cells[last] ?? ''), columns);
  });
}

/** One row as a line. The last cell is not padded. */
function line(cells: Row, widths: readonly number[], last: string): string {
  const padded = widths.slice(0, -1).map((width, column) => {
    const cell = cells[column] ?? '';
    return cell + ' '.repeat(Math.max(0, width - widthOf(cell)));
  });
  return [...padded, last].join(GAP).trimEnd();
}

function widthsOf(rows: readonly Row[]): number[] {
  return rows.reduce<number[]>(
    (most, row) => row.map((cell, column) => Math.max(most[column] ?? 0, widthOf(cell))),
    [],
  );
}

/** Makes the widest column narrower, one by one, until all columns have room. */
function shrink(widths: readonly number[], room: number): number[] {
  const left = [...widths];
  for (let over = sum(left) - room; over > 0; over--) {
    const widest = left.indexOf(Math.max(...left));
    if ((left[widest] ?? 0) <= LEAST) break;
    left[widest] = (left[widest] ?? 0) - 1;
  }
  return left;
}

/** Breaks a text at spaces; a word that is longer than a line is broken too. */
export function wrapText(text: string, width: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const current = lines.at(-1) ?? '';
    const longer = current === '' ? word : `${current} ${word}`;
    if (widthOf(longer) <= width) {
      lines[lines.length - 1] = longer;
      continue;
    }
    if (current === '') lines.pop();
    lines.push(...broken(word, width));
  }
  return lines;
}

function broken(word: string, width: number): string[] {
  const parts: string[] = [];
  let rest = word;
  while (widthOf(rest) > width) {
    const part = start(rest, width);
    parts.push(part);
    rest = rest.slice(part.length);
  }
  return [...parts, rest];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}
