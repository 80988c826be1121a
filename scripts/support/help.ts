import { styleText } from 'node:util';
import { Command, type AddHelpTextContext, type AddHelpTextPosition } from 'commander';
import { wrapText } from './table.ts';
import { columnsOf } from './terminal.ts';

/** How the help of every command is laid out: it fits the terminal, and no line breaks inside a word. */

/** Longer lines are hard to read. */
const WIDEST = 120;
const WITHOUT_TERMINAL = 80;
/** With less room than this beside its term, a description goes below it. */
const LEAST_ROOM = 32;
const INDENT = '  ';
const BELOW = '      ';

function helpWidth(): number {
  return Math.min(columnsOf() ?? WITHOUT_TERMINAL, WIDEST);
}

/** A term with its description: beside it, `termWidth` columns after its beginning, or below it. */
export function helpItem(term: string, description: string, termWidth: number, width = helpWidth()): string {
  if (description === '') return `${INDENT}${term}`;
  const before = termWidth + 2 * INDENT.length;
  if (width - before < LEAST_ROOM) {
    return [`${INDENT}${term}`, ...wrapText(description, width - BELOW.length).map((line) => BELOW + line)].join('\n');
  }
  const [first = '', ...rest] = wrapText(description, width - before);
  return [`${INDENT}${term.padEnd(termWidth)}${INDENT}${first}`, ...rest.map((line) => ' '.repeat(before) + line)].join(
    '\n',
  );
}

/** A command whose help is laid out like this, also the text behind its options. */
export class LaidOutCommand extends Command {
  constructor(name: string) {
    super(name);
    this.configureHelp({
      styleTitle: (title) => styleText('bold', title, { validateStream: false }), // commander takes it away again
      minWidthToWrap: 1,
      formatItem: (term, termWidth, description) => helpItem(term, description, termWidth),
    });
    this.configureOutput({ getOutHelpWidth: helpWidth });
  }

  override addHelpText(position: AddHelpTextPosition, text: string | ((context: AddHelpTextContext) => string)): this {
    const written = typeof text === 'string' ? () => `\n${paragraphs(text, helpWidth()).join('\n')}` : text;
    return super.addHelpText(position, written);
  }
}

/**
 * An empty line begins a new paragraph, and a line that begins with a space stays as it is. All other line breaks are only those of
 * the source.
 */
function paragraphs(text: string, width: number): string[] {
  const blocks: string[] = [];
  let isOpen = false;
  for (const line of text.trim().split('\n')) {
    const isText = line !== '' && !line.startsWith(' ');
    if (isText && isOpen) blocks.push(`${blocks.pop() ?? ''} ${line}`);
    else blocks.push(line);
    isOpen = isText;
  }
  return blocks.flatMap((block) => (block.startsWith(' ') ? [block] : wrapText(block, width)));
}
