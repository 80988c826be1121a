import { createCommand, runCommand } from '../src/terminal/command.ts';
import { atDeadLetters, takeChosen } from './dead-letters/taking.ts';
import {
  addTakingFlags,
  checkTaking,
  QUEUE_HELP,
  takingHelp,
  TIME_HELP,
  type TakingFlags,
} from './dead-letters/flags.ts';

const HELP = `
A discarded dead letter cannot be restored. ${takingHelp('discard')}

${TIME_HELP} Dead letters that come while the command runs are not discarded. If the command ends half-way, start it again. One
that is replayed at the same time is either replayed or discarded.

${QUEUE_HELP}`;

/** `npm run discard`: dead letters removed for good. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('discard', 'Removes dead letters for good, oldest first.');
  addTakingFlags(command, 'discard', 'seen, matched, discarded, byReason, left, dryRun')
    .addHelpText('after', HELP)
    .action(async (flags: TakingFlags) => {
      checkTaking(flags, 'discard');
      await atDeadLetters('; start again to go on', (desk) =>
        takeChosen(desk, flags, {
          verb: 'discard',
          past: 'discarded',
          question: 'Discard them for good?',
          take: async (shard, { id }) => (await shard.discard(id)) === 'discarded',
        }),
      );
    });
  await runCommand(command, argv);
}

if (import.meta.main) await main(process.argv.slice(2));
