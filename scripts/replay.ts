import { createCommand, printJson, runCommand, UsageError } from './support/command.ts';
import { atDeadLetters, type Desk } from './dead-letters/desk.ts';
import { addFilterFlags, QUEUE_HELP, TIME_HELP, type FilterFlags } from './dead-letters/flags.ts';
import { breakdown, createPace, deadLetters, parseRate, takeFromAll } from './dead-letters/taking.ts';

interface Flags extends FilterFlags {
  readonly rate?: number;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const HELP = `
${TIME_HELP} Dead letters that come while the command runs are not replayed.
If the command ends half-way, start it again: nothing is lost, and nothing is replayed twice.
Devices that were alerted before are skipped.
${QUEUE_HELP}`;

/** `npm run replay`: dead letters back into the queue. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('replay', 'Puts dead letters back into the queue, oldest first.');
  addFilterFlags(command, 'the most to replay')
    .option('--rate <n/s>', 'the most to replay in a second; also 30/m or 500/h', rate)
    .option('--dry-run', 'only count')
    .option('--json', 'one JSON object as the last line: seen, matched, replayed, byReason, left, dryRun')
    .addHelpText('after', HELP)
    .action((flags: Flags) => atDeadLetters('; start again to go on', (desk) => replay(desk, flags)));
  await runCommand(command, argv);
}

async function replay(desk: Desk, flags: Flags): Promise<void> {
  const { rate, dryRun = false, json = false } = flags;
  const { seen, matched, taken, byReason } = await takeFromAll(desk, flags, {
    label: dryRun ? 'counted' : 'replayed',
    ...(!dryRun && { take: async (shard, stored) => (await shard.replay(stored)) !== undefined }),
    ...(rate !== undefined && { pace: createPace(rate) }),
  });
  const left = await desk.count();
  if (json) printJson({ seen, matched, replayed: taken, byReason, left, dryRun });
  else if (dryRun) process.stdout.write(`would replay ${matched} of ${deadLetters(seen)}${breakdown(byReason)}\n`);
  else process.stdout.write(`replayed ${taken} of ${deadLetters(seen)}${breakdown(byReason)}; ${left} there now\n`);
}

function rate(text: string): number {
  const perSecond = parseRate(text);
  if (perSecond !== undefined) return perSecond;
  throw new UsageError(`--rate: expected a rate such as 50/s, found ${JSON.stringify(text)}`);
}

if (import.meta.main) await main(process.argv.slice(2));
