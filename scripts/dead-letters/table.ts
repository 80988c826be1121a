import { printable } from '../../src/domain/faults.ts';
import { cut, table, widthOf } from '../support/table.ts';
import { heading } from '../support/terminal.ts';
import { span } from '../support/text.ts';
import type { Facts } from './facts.ts';

const HEAD = ['id', 'reason', 'died (UTC)', '', 'gen', 'tries', 'recipient', 'message'];
/** On a narrow terminal: id, reason, ago, recipient. */
const ESSENTIAL = [0, 1, 3, 6];
/** With less room than this, the message gets a line of its own. */
const LEAST_WORDS_WIDTH = 20;
const INDENT = '    ';

/**
 * One line each, or two if the columns before the message leave it too little room. Nothing is cut where there is no terminal.
 */
export function renderTable(all: readonly Facts[], now: number, columns?: number): string[] {
  if (all.length === 0) return [];
  const rows = [HEAD, ...all.map((facts) => row(facts, now))];
  const facts = table(rows.map((cells) => cells.slice(0, -1)));
  const width = Math.max(...facts.map(widthOf)) + '  '.length;
  if (columns === undefined || columns - width >= LEAST_WORDS_WIDTH) {
    const words = columns === undefined ? Infinity : columns - width;
    const [head = '', ...lines] = table(rows.map((cells) => cells.with(-1, cut(cells.at(-1) ?? '', words))));
    return [heading(head), ...lines];
  }
  const [head = '', ...lines] = table(
    rows.map((cells) => cells.slice(0, -1)),
    { columns, essential: ESSENTIAL },
  );
  const messages = all.map(({ message }) => `${INDENT}${cut(printable(message), columns - INDENT.length)}`);
  return [heading(head), ...lines.flatMap((line, at) => [line, messages[at] ?? ''])];
}

function row({ id, reason, deadAt, generation, attempts, notification, message }: Facts, now: number): string[] {
  return [
    printable(id),
    reason,
    died(deadAt, now),
    `${span(Math.max(0, now - deadAt)).replace(/ .*/, '')} ago`,
    String(generation),
    String(attempts.length),
    printable(notification.recipientId ?? '-'),
    printable(message),
  ];
}

/** `11-21 14:00:00`, with the year if it is not this one. */
function died(at: number, now: number): string {
  const text = new Date(at).toISOString().slice(0, 19).replace('T', ' ');
  return text.startsWith(new Date(now).toISOString().slice(0, 5)) ? text.slice('2026-'.length) : text;
}
