import { once } from 'node:events';
import type { Command } from 'commander';
import { factsOf, type Facts, nameOf } from '../src/dead-letters/facts.ts';
import { notificationIdIn, type StoredDeadLetter } from '../src/dead-letters/letter.ts';
import { inOrder, type DeadLetterFilter } from '../src/dead-letters/take.ts';
import { printable, printableJson } from '../src/domain/faults.ts';
import type { DeadLetterReason } from '../src/notification/outcome.ts';
import { createCommand, runCommand, CommandError, printJson } from '../src/terminal/command.ts';
import {
  breakdown,
  columnsOf,
  cut,
  deadLetters,
  dim,
  table,
  widthOf,
  heading,
  span,
  instant,
  instantFrom,
} from '../src/terminal/text.ts';
import {
  addFilterFlags,
  QUEUE_HELP,
  TIME_HELP,
  chosenBy,
  type FilterFlags,
  atDeadLetters,
  type OpenDeadLetters,
} from './dead-letters/take.ts';

const HELP = `
The newest are last, as in a log: --limit takes the newest (replay and discard begin with the oldest). Without --limit, 50
are shown, and with --json all of them. Tokens, texts and data are never shown.
${TIME_HELP}

${QUEUE_HELP}`;

/** `npm run dead-letters [-- show ID]`: lists dead letters, or shows one. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('dead-letters', 'Lists what could not be delivered, and why; or shows one in full.');
  addFilterFlags(command, 'the most to list; takes the newest')
    .option('--json', 'one JSON object as the last line: total, matched, byReason, deadLetters')
    .enablePositionalOptions()
    .addHelpText('after', HELP)
    .action(async (flags: ListFlags) => {
      const filter = await chosenBy(flags);
      await atDeadLetters('', (opened) => listDeadLetters(opened, filter, flags));
    })
    .addCommand(showCommand());
  await runCommand(command, argv);
}

interface ListFlags extends FilterFlags {
  readonly json?: true;
}

/** How many dead letters are listed without `--limit`. */
const MOST_SHOWN = 50;

/** Lists the dead letters that match the flags, the newest last, and counts them by reason. */
async function listDeadLetters(opened: OpenDeadLetters, filter: DeadLetterFilter, flags: ListFlags): Promise<void> {
  const total = await opened.count();
  const byReason: Partial<Record<DeadLetterReason, number>> = {};
  let matched = 0;
  async function* counted(): AsyncGenerator<Facts, void, undefined> {
    for await (const stored of inOrder(opened.shards, filter, { buriedUntilMs: opened.now })) {
      const { reason } = stored.letter;
      byReason[reason] = (byReason[reason] ?? 0) + 1;
      matched++;
      yield factsOf(stored);
    }
  }

  if (flags.json && flags.limit === undefined) {
    await writeJsonArray(counted());
    const counts = JSON.stringify({ total, matched, byReason });
    process.stdout.write(`,${counts.slice(1)}\n`);
    return;
  }
  const newest = await last(counted(), flags.limit ?? MOST_SHOWN);
  if (flags.json) {
    printJson({ total, matched, byReason, deadLetters: newest });
    return;
  }
  const more = matched - newest.length;
  const lines = [
    ...(more > 0 ? [dim(`… and ${more} more, older ones; --limit shows more`)] : []),
    ...renderTable(newest, opened.now, columnsOf()),
    ...(newest.length > 0 ? [''] : []),
    summary(matched, total, byReason),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

/** Writes the dead letters one by one, since all of them may not fit into memory. The caller writes the rest of the object. */
async function writeJsonArray(all: AsyncIterable<Facts>): Promise<void> {
  process.stdout.write('{"deadLetters":[');
  let isFirst = true;
  for await (const facts of all) {
    const hasRoom = process.stdout.write(`${isFirst ? '' : ','}${printableJson(JSON.stringify(facts))}`);
    isFirst = false;
    if (!hasRoom) await once(process.stdout, 'drain');
  }
  process.stdout.write(']');
}

async function last<T>(all: AsyncIterable<T>, most: number): Promise<T[]> {
  let kept: T[] = [];
  for await (const each of all) {
    kept.push(each);
    if (kept.length >= 2 * most) kept = kept.slice(-most);
  }
  return kept.slice(-most);
}

function summary(matched: number, total: number, byReason: Partial<Record<DeadLetterReason, number>>): string {
  const of = matched === total ? deadLetters(total) : `${matched} of ${deadLetters(total)}`;
  return total === 0 ? 'no dead letters' : `${of}${breakdown(byReason)}`;
}

/** One column: its heading, and what it shows about a dead letter. */
interface Column {
  readonly head: string;
  readonly of: (facts: Facts, now: number) => string;
  /** The column stays on a narrow terminal. */
  readonly isEssential?: true;
  /** The column is left out if it would be empty for every dead letter. */
  readonly isOptional?: true;
}

const NOTHING = '-';
const COLUMNS: readonly Column[] = [
  { head: 'id', of: nameOf, isEssential: true },
  { head: 'reason', of: ({ reason }) => reason, isEssential: true },
  { head: 'died', of: ({ deadAt }) => instant(deadAt) },
  { head: '', of: ({ deadAt }, now) => `${span(Math.max(0, now - deadAt)).replace(/ .*/, '')} ago`, isEssential: true },
  { head: 'gen', of: ({ generation }) => String(generation) },
  { head: 'tries', of: ({ attempts }) => String(triesOf(attempts)) },
  { head: 'platform', of: ({ platforms = [] }) => platforms.join(',') || NOTHING, isOptional: true },
  { head: 'app', of: ({ apps = [] }) => apps.join(',') || NOTHING, isOptional: true },
  { head: 'category', of: ({ notification }) => notification.category ?? NOTHING, isOptional: true },
  { head: 'recipient', of: ({ notification }) => notification.recipientId ?? NOTHING, isEssential: true },
  { head: 'message', of: ({ message }) => message },
];
/** If the message has less room than this, it gets a line of its own. */
const LEAST_WORDS_WIDTH = 20;
const INDENT = '    ';

/** One line for each dead letter, or two if the message has too little room. Without a terminal nothing is cut. */
export function renderTable(all: readonly Facts[], now: number, columns?: number): string[] {
  if (all.length === 0) return [];
  const columnsShown = COLUMNS.filter(
    (column) => column.isOptional !== true || all.some((facts) => column.of(facts, now) !== NOTHING),
  );
  const essential = columnsShown.flatMap((column, at) => (column.isEssential === true ? [at] : []));
  const rows = [
    columnsShown.map(({ head }) => head),
    ...all.map((facts) => columnsShown.map((column) => printable(column.of(facts, now)))),
  ];
  const facts = table(rows.map((cells) => cells.slice(0, -1)));
  const width = facts.reduce((widest, line) => Math.max(widest, widthOf(line)), 0) + '  '.length;
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

/** How many attempts failed at the device that failed most. An attempt at several devices has an entry for each. */
function triesOf(attempts: Facts['attempts']): number {
  const byDevice = new Map<string, number>();
  for (const { device = '' } of attempts) byDevice.set(device, (byDevice.get(device) ?? 0) + 1);
  const ofAll = byDevice.get('') ?? 0;
  byDevice.delete('');
  return ofAll + Math.max(0, ...byDevice.values());
}

const SHOW_HELP = `
ID is the id of a dead letter or of a notification; a notification may have several dead letters. Tokens, texts and data are
never shown, only how many bytes they are.`;

/** `dead-letters show ID` */
export function showCommand(): Command {
  return createCommand('show', 'Shows one dead letter: its reason and every attempt.')
    .argument('<id>', 'of the dead letter, or of the notification')
    .option('--json', 'one JSON object as the last line; instants are epoch milliseconds')
    .addHelpText('after', SHOW_HELP)
    .action(async (id: string, _: unknown, command: Command) => {
      const { json } = command.optsWithGlobals<{ readonly json?: true }>();
      await atDeadLetters('', (opened) => show(opened, id, json ?? false));
    });
}

async function show(opened: OpenDeadLetters, id: string, json: boolean): Promise<void> {
  const found = (await find(opened, id)).map(factsOf);
  if (found.length === 0) throw new CommandError(`no dead letter has the id ${JSON.stringify(id)}`);
  if (json) printJson(found.length === 1 ? found[0] : { deadLetters: found });
  else process.stdout.write(`${found.map((facts) => describe(facts, opened.now).join('\n')).join('\n\n\n')}\n`);
}

/** An id that only a dead letter has is found at once; if the id is a notification's, all dead letters are searched. */
async function find(opened: OpenDeadLetters, id: string): Promise<StoredDeadLetter[]> {
  const [exact] = (await Promise.all(opened.shards.map((shard) => shard.find(id)))).filter(
    (each) => each !== undefined,
  );
  const found: StoredDeadLetter[] = [];
  if (exact !== undefined && notificationIdIn(exact) !== id) return [exact];
  for await (const stored of inOrder(opened.shards, { id }, { buriedUntilMs: opened.now })) found.push(stored);
  return found;
}

function describe(facts: Facts, now: number): string[] {
  const { reason, message, deadAt, generation, attempts } = facts;
  const lines = [
    ['reason', reason],
    ['message', printable(message)],
    ['died', instantFrom(now, deadAt)],
    ['generation', generation === 0 ? '0, never replayed' : `${generation}, replayed ${times(generation)}`],
    ...notificationLines(facts, now),
  ];
  const tries = attempts.map(({ at, device = '-', error }) => [instantFrom(now, at), device, printable(error)]);
  const title = attempts.length === 0 ? 'No attempt failed before.' : 'Failed attempts, the newest last';
  const width = { columns: columnsOf(), wrap: true };
  return [heading(printable(nameOf(facts))), '', ...table(lines, width), '', heading(title), ...table(tries, width)];
}

function notificationLines({ notification, platforms, apps, delivered = [] }: Facts, now: number): string[][] {
  const { id, recipientId, category, priority, expiresAt, devices, sizes } = notification;
  const labels = devices?.map((label) => (delivered.includes(label) ? `${label} (alerted)` : label)).join(', ');
  const { alert, data, all } = sizes;
  const parts = [alert !== undefined && `alert ${alert}`, data !== undefined && `data ${data}`, `all ${all} bytes`];
  const lines: (readonly [name: string, value: string | undefined])[] = [
    ['notification', id],
    ['recipient', recipientId],
    ['platform', platforms?.join(', ')],
    ['app', apps?.join(', ')],
    ['category', category],
    ['priority', priority],
    ['expires', expiresAt === undefined ? undefined : instantFrom(now, expiresAt)],
    ['devices', labels],
    ['sizes', parts.filter((part) => part !== false).join(', ')],
  ];
  return lines.flatMap(([name, value]) => (value === undefined ? [] : [[name, printable(value)]]));
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`;
}

if (import.meta.main) await main(process.argv.slice(2));
