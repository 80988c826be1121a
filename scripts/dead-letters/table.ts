import { printable } from '../../src/domain/faults.ts';
import { span, table } from '../support/text.ts';
import type { Facts } from './facts.ts';

const HEAD = ['id', 'reason', 'died (UTC)', '', 'gen', 'tries', 'recipient', 'message'];
/** How much of a message is shown if there is no terminal, whose width would decide. */
const WORDS_WIDTH = 60;
/** With less room than this, the message gets a line of its own. */
const LEAST_WORDS_WIDTH = 20;
const RECIPIENT_WIDTH = 20;
const INDENT = '    ';

/** One line each, or two if the columns before the message leave it too little room. */
export function renderTable(all: readonly Facts[], now: number, columns?: number): string[] {
  if (all.length === 0) return [];
  const rows = all.map((facts) => row(facts, now));
  const facts = table([HEAD, ...rows].map((cells) => cells.slice(0, -1).concat('')));
  const width = Math.max(...facts.map((line) => line.length)) + '  '.length;
  const room = columns === undefined ? WORDS_WIDTH : columns - width;
  if (room >= LEAST_WORDS_WIDTH) {
    return table([HEAD, ...rows].map((cells) => cells.with(-1, cut(cells.at(-1) ?? '', room))));
  }
  const wordsWidth = (columns ?? WORDS_WIDTH) - INDENT.length;
  const [head = '', ...lines] = facts;
  return [head, ...lines.flatMap((line, at) => [line, `${INDENT}${cut(rows[at]?.at(-1) ?? '', wordsWidth)}`])];
}

function row({ id, reason, deadAt, generation, attempts, notification, message }: Facts, now: number): string[] {
  const recipient = cut(printable(notification.recipientId ?? '-'), RECIPIENT_WIDTH);
  return [
    printable(id),
    reason,
    died(deadAt, now),
    `${span(Math.max(0, now - deadAt)).replace(/ .*/, '')} ago`,
    String(generation),
    String(attempts.length),
    recipient,
    printable(message),
  ];
}

/** `11-21 14:00:00`, with the year if it is not this one. */
function died(at: number, now: number): string {
  const text = new Date(at).toISOString().slice(0, 19).replace('T', ' ');
  return text.startsWith(new Date(now).toISOString().slice(0, 5)) ? text.slice('2026-'.length) : text;
}

/** `as far as i…` */
function cut(text: string, width: number): string {
  const characters = Array.from(text);
  return characters.length <= width ? text : `${characters.slice(0, width - 1).join('')}…`;
}
