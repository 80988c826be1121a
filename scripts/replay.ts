import { Option } from 'commander';
import { loadPolicy } from '../src/config/config.ts';
import { createCommand, runCommand, UsageError } from './support/command.ts';
import { atDeadLetters } from './dead-letters/desk.ts';
import {
  addTakingFlags,
  checkTaking,
  QUEUE_HELP,
  takingHelp,
  TIME_HELP,
  type TakingFlags,
} from './dead-letters/flags.ts';
import { createOutlook, rateText } from './dead-letters/outlook.ts';
import { createPace, parseRate, takeChosen } from './dead-letters/taking.ts';

interface Flags extends TakingFlags {
  /** How many in a second; Infinity: without a pause. */
  readonly rate: number;
}

/** A worker of two cores sends several times as many: new notifications go through beside a replay at this rate. */
const DEFAULT_PER_SECOND = 50;

const HELP = `
${takingHelp('replay')}

Before it asks, and with --dry-run, it says to how many recipients they go, and about when the last goes out: from --rate, and
from the limits of the living workers. If none lives, from this command's own LIMIT_RULES and LIMIT_MIN_GAP.

${TIME_HELP} Dead letters that come while the command runs are not replayed. If the command ends half-way, start it again:
nothing is lost, and nothing is replayed twice. Devices that were alerted before are skipped.

${QUEUE_HELP}`;

/** `npm run replay`: dead letters back into the queue. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('replay', 'Puts dead letters back into the queue, oldest first.');
  addTakingFlags(command, 'replay', 'seen, matched, replayed, byReason, recipients, expired, lastAfterMs, left, dryRun')
    .addOption(
      new Option('--rate <n/s>', 'the most to replay in a second; also 30/m or 500/h; off: without a pause')
        .argParser(rate)
        .default(DEFAULT_PER_SECOND, rateText(DEFAULT_PER_SECOND)),
    )
    .addHelpText('after', HELP)
    .action(async (flags: Flags) => {
      checkTaking(flags, 'replay');
      const own = loadPolicy(process.env);
      await atDeadLetters('; start again to go on', async (desk) => {
        const policy = (await desk.workersPolicy()) ?? own;
        await takeChosen(desk, flags, {
          verb: 'replay',
          past: 'replayed',
          question: 'Replay them?',
          take: async (shard, stored) => (await shard.replay(stored)) !== undefined,
          pace: createPace(flags.rate),
          outlook: () => createOutlook({ perSecond: flags.rate, policy, now: desk.now }),
        });
      });
    });
  await runCommand(command, argv);
}

function rate(text: string): number {
  const perSecond = parseRate(text);
  if (perSecond !== undefined) return perSecond;
  throw new UsageError(`--rate: expected a rate such as 50/s, or off, found ${JSON.stringify(text)}`);
}

if (import.meta.main) await main(process.argv.slice(2));
