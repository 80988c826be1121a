import { callOf, CommandError, createCommand, printJson, runCommand, UsageError } from './support/command.ts';
import { canAsk, confirm } from './support/confirm.ts';
import { atDeadLetters, type Desk } from './dead-letters/desk.ts';
import { addFilterFlags, filterOf, QUEUE_HELP, TIME_HELP, type FilterFlags } from './dead-letters/flags.ts';
import { breakdown, deadLetters, takeFromAll } from './dead-letters/taking.ts';

interface Flags extends FilterFlags {
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const HELP = `
A discarded dead letter cannot be restored. On a terminal the command says how many it would discard, and asks; without a
terminal --yes is required. Without a filter --all is required; --limit is not a filter, and takes the oldest.
${TIME_HELP} Dead letters that come while the command runs are not discarded.
If the command ends half-way, start it again. One that is replayed at the same time is either replayed or discarded.
${QUEUE_HELP}`;

/** `npm run discard`: dead letters removed for good. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('discard', 'Removes dead letters for good, oldest first.');
  addFilterFlags(command, 'the most to discard')
    .option('--all', 'all dead letters, without a filter')
    .option('--dry-run', 'only count')
    .option('-y, --yes', 'do not ask')
    .option('--json', 'one JSON object as the last line: seen, matched, discarded, byReason, left, dryRun')
    .addHelpText('after', HELP)
    .action(async (flags: Flags) => {
      checkUsage(flags);
      await atDeadLetters('; start again to go on', (desk) => discard(desk, flags));
    });
  await runCommand(command, argv);
}

/** Discarding cannot be undone, so the caller must choose a filter or --all, and confirm. */
function checkUsage(flags: Flags): void {
  const isFiltered = Object.keys(filterOf(flags)).length > 0;
  if (!isFiltered && flags.all !== true) {
    throw new UsageError(
      'say which dead letters to remove: with --reason, --recipient, --id, --since or --until, or all of them with --all.\n' +
        `Example, which only counts: ${callOf('discard')} --reason unregistered --dry-run`,
    );
  }
  if (isFiltered && flags.all === true) {
    throw new UsageError('--all: expected no filter beside it, since it means all dead letters; found one');
  }
  if (flags.dryRun !== true && flags.yes !== true && !canAsk()) {
    throw new UsageError(
      'there is no terminal to ask on: add --yes to remove them without a question, or --dry-run to count them',
    );
  }
}

async function discard(desk: Desk, flags: Flags): Promise<void> {
  const { dryRun = false, yes = false, json = false } = flags;
  if (!dryRun && !yes && !(await isConfirmed(desk, flags))) throw new CommandError('nothing was discarded');
  const { seen, matched, taken, byReason } = await takeFromAll(desk, flags, {
    label: dryRun ? 'counted' : 'discarded',
    ...(!dryRun && { take: async (shard, { id }) => (await shard.discard(id)) === 'discarded' }),
  });
  const left = await desk.count();
  if (json) printJson({ seen, matched, discarded: taken, byReason, left, dryRun });
  else if (dryRun) process.stdout.write(`would discard ${matched} of ${deadLetters(seen)}${breakdown(byReason)}\n`);
  else process.stdout.write(`discarded ${taken} of ${deadLetters(seen)}${breakdown(byReason)}; ${left} there now\n`);
}

/** Dead letters that come while the operator decides are not discarded: the question was not about them. */
async function isConfirmed(desk: Desk, flags: Flags): Promise<boolean> {
  const { matched, byReason } = await takeFromAll(desk, flags, { label: 'counted' });
  if (matched === 0) return true; // there is nothing to ask about, and the result will say so
  return confirm(`Discard ${deadLetters(matched)}${breakdown(byReason)} for good?`);
}

if (import.meta.main) await main(process.argv.slice(2));
