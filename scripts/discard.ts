import { createCommand, runCommand } from '../src/terminal/command.ts';
import {
  atDeadLetters,
  takeChosen,
  addTakeFlags,
  checkTakeFlags,
  QUEUE_HELP,
  takeHelp,
  TIME_HELP,
  type TakeFlags,
} from './dead-letters/take.ts';

const HELP = `
A discarded dead letter cannot be restored. ${takeHelp('discard')}

${TIME_HELP} Dead letters that come while the command runs are not discarded. If the command ends half-way, start it again. One
that is replayed at the same time is either replayed or discarded.

${QUEUE_HELP}`;

/** `npm run discard`: dead letters removed for good. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('discard', 'Removes dead letters for good, oldest first.');
  addTakeFlags(command, 'discard', 'seen, matched, discarded, newer, byReason, left, dryRun')
    .addHelpText('after', HELP)
    .action(async (flags: TakeFlags) => {
      checkTakeFlags(flags, 'discard');
      await atDeadLetters('; start again to go on', (opened) =>
        takeChosen(opened, flags, {
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
