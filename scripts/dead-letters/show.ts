import type { Command } from 'commander';
import { printable } from '../../src/domain/faults.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/letter.ts';
import { table } from '../support/table.ts';
import { columnsOf, heading } from '../support/terminal.ts';
import { instantFrom } from '../support/text.ts';
import { CommandError, createCommand, printJson } from '../support/command.ts';
import { atDeadLetters, inOrder, type Desk } from './desk.ts';
import { factsOf, nameOf, type Facts } from './facts.ts';

const HELP = `
ID is the id of a dead letter or of a notification; a notification may have several dead letters. Tokens, texts and data are
never shown, only how many bytes they are.`;

/** `dead-letters show ID` */
export function showCommand(): Command {
  return createCommand('show', 'Shows one dead letter: its reason and every attempt.')
    .argument('<id>', 'of the dead letter, or of the notification')
    .option('--json', 'one JSON object as the last line; instants are epoch milliseconds')
    .addHelpText('after', HELP)
    .action(async (id: string, _: unknown, command: Command) => {
      const { json } = command.optsWithGlobals<{ readonly json?: true }>();
      await atDeadLetters('', (desk) => show(desk, id, json ?? false));
    });
}

async function show(desk: Desk, id: string, json: boolean): Promise<void> {
  const found = (await find(desk, id)).map(factsOf);
  if (found.length === 0) throw new CommandError(`no dead letter has the id ${JSON.stringify(id)}`);
  if (json) printJson(found.length === 1 ? found[0] : { deadLetters: found });
  else process.stdout.write(`${found.map((facts) => describe(facts, desk.now).join('\n')).join('\n\n\n')}\n`);
}

/** A dead letter's own id is found at once; for a notification's id all dead letters are searched. */
async function find(desk: Desk, id: string): Promise<StoredDeadLetter[]> {
  const [exact] = (await Promise.all(desk.shards.map((shard) => shard.find(id)))).filter((each) => each !== undefined);
  const found: StoredDeadLetter[] = [];
  if (exact !== undefined) return [exact];
  for await (const stored of inOrder(desk, { id })) found.push(stored);
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
  const told = devices?.map((label) => (delivered.includes(label) ? `${label} (alerted)` : label)).join(', ');
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
    ['devices', told],
    ['sizes', parts.filter((part) => part !== false).join(', ')],
  ];
  return lines.flatMap(([name, value]) => (value === undefined ? [] : [[name, printable(value)]]));
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`;
}
