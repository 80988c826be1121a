import { printable } from '../../src/domain/faults.ts';
import { cut, table, widthOf } from '../support/table.ts';
import { heading } from '../support/terminal.ts';
import { span } from '../support/text.ts';
import { nameOf, type Facts } from './facts.ts';

/** One column: its head, and what it says of a dead letter. */
interface Column {
  readonly head: string;
  readonly of: (facts: Facts, now: number) => string;
  /** Stays on a narrow terminal. */
  readonly isEssential?: true;
  /** Is left out where it would say nothing of any dead letter. */
  readonly isOptional?: true;
}

const NOTHING = '-';
const COLUMNS: readonly Column[] = [
  { head: 'id', of: nameOf, isEssential: true },
  { head: 'reason', of: ({ reason }) => reason, isEssential: true },
  { head: 'died (UTC)', of: ({ deadAt }, now) => died(deadAt, now) },
  { head: '', of: ({ deadAt }, now) => `${span(Math.max(0, now - deadAt)).replace(/ .*/, '')} ago`, isEssential: true },
  { head: 'gen', of: ({ generation }) => String(generation) },
  { head: 'tries', of: ({ attempts }) => String(triesOf(attempts)) },
  { head: 'platform', of: ({ platforms = [] }) => platforms.join(',') || NOTHING, isOptional: true },
  { head: 'app', of: ({ apps = [] }) => apps.join(',') || NOTHING, isOptional: true },
  { head: 'category', of: ({ notification }) => notification.category ?? NOTHING, isOptional: true },
  { head: 'recipient', of: ({ notification }) => notification.recipientId ?? NOTHING, isEssential: true },
  { head: 'message', of: ({ message }) => message },
];
/** With less room than this, the message gets a line of its own. */
const LEAST_WORDS_WIDTH = 20;
const INDENT = '    ';

/**
 * One line each, or two if the columns before the message leave it too little room. Nothing is cut where there is no terminal.
 */
export function renderTable(all: readonly Facts[], now: number, columns?: number): string[] {
  if (all.length === 0) return [];
  const told = COLUMNS.filter(
    (column) => column.isOptional !== true || all.some((facts) => column.of(facts, now) !== NOTHING),
  );
  const essential = told.flatMap((column, at) => (column.isEssential === true ? [at] : []));
  const rows = [
    told.map(({ head }) => head),
    ...all.map((facts) => told.map((column) => printable(column.of(facts, now)))),
  ];
  const facts = table(rows.map((cells) => cells.slice(0, -1)));
  const width = Math.max(...facts.map(widthOf)) + '  '.length;
  if (columns === undefined || columns - width >= LEAST_WORDS_WIDTH) {
    const words = columns === undefined ? Infinity : columns - width;
    const [head = '', ...lines] = table(rows.map((cells) => cells.with(-1, cut(cells.at(-1) ?? '', words))));
    return [heading(head), ...lines];
  }
  const [head = '', ...lines] = table(
    rows.map((cells) => cells.slice(0, -1)),
    { columns, essential },
  );
  const messages = all.map(({ message }) => `${INDENT}${cut(printable(message), columns - INDENT.length)}`);
  return [heading(head), ...lines.flatMap((line, at) => [line, messages[at] ?? ''])];
}

/** How often the device failed that failed most. An attempt at several devices has an entry for each. */
function triesOf(attempts: Facts['attempts']): number {
  const byDevice = new Map<string, number>();
  for (const { device = '' } of attempts) byDevice.set(device, (byDevice.get(device) ?? 0) + 1);
  const ofAll = byDevice.get('') ?? 0;
  byDevice.delete('');
  return ofAll + Math.max(0, ...byDevice.values());
}

/** `11-21 14:00:00`, with the year if it is not this one. */
function died(at: number, now: number): string {
  const text = new Date(at).toISOString().slice(0, 19).replace('T', ' ');
  return text.startsWith(new Date(now).toISOString().slice(0, 5)) ? text.slice('2026-'.length) : text;
}
