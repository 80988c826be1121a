import { listDeadLetters, type ListFlags } from './dead-letters/list.ts';
import { showCommand } from './dead-letters/show.ts';
import { createCommand, runCommand } from './support/command.ts';
import { addFilterFlags, QUEUE_HELP, TIME_HELP } from './dead-letters/flags.ts';
import { atDeadLetters } from './dead-letters/desk.ts';

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
    .action((flags: ListFlags) => atDeadLetters('', (desk) => listDeadLetters(desk, flags)))
    .addCommand(showCommand());
  await runCommand(command, argv);
}

if (import.meta.main) await main(process.argv.slice(2));
