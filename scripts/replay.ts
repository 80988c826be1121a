import { Option } from 'commander';
import { loadPolicy } from '../src/config/config.ts';
import { createOutlook, type ReplayTerms } from '../src/dead-letters/outlook.ts';
import { createPace, parseRate, rateText, REPLAYS_PER_SECOND } from '../src/dead-letters/pace.ts';
import { printable } from '../src/domain/faults.ts';
import { policyText } from '../src/domain/limits.ts';
import { createCommand, runCommand, UsageError } from '../src/terminal/command.ts';
import { span } from '../src/terminal/text.ts';
import {
  addTakeFlags,
  checkTakeFlags,
  QUEUE_HELP,
  takeHelp,
  TIME_HELP,
  type TakeFlags,
  atDeadLetters,
  takeChosen,
  type ShownOutlook,
} from './dead-letters/take.ts';

interface Flags extends TakeFlags {
  /** How many in a second; Infinity: without a pause. */
  readonly rate: number;
}

const HELP = `
${takeHelp('replay')}

Before it asks, and with --dry-run, it says to how many recipients they go, and about when the last goes out: from --rate, and
from the limits of the living workers. If none lives, from this command's own LIMIT_RULES and LIMIT_MIN_GAP.

${TIME_HELP} Dead letters that come while the command runs are not replayed. If the command ends half-way, start it again:
nothing is lost, and nothing is replayed twice. Devices that were alerted before are skipped.

${QUEUE_HELP}`;

/** `npm run replay`: dead letters back into the queue. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('replay', 'Puts dead letters back into the queue, oldest first.');
  addTakeFlags(
    command,
    'replay',
    'seen, matched, replayed, newer, byReason, recipients, expired, lastAfterMs, left, dryRun',
  )
    .addOption(
      new Option('--rate <n/s>', 'the most to replay in a second; also 30/m or 500/h; off: without a pause')
        .argParser(rate)
        .default(REPLAYS_PER_SECOND, rateText(REPLAYS_PER_SECOND)),
    )
    .addHelpText('after', HELP)
    .action(async (flags: Flags) => {
      checkTakeFlags(flags, 'replay');
      const own = loadPolicy(process.env);
      await atDeadLetters('; start again to go on', async (opened) => {
        const policy = (await opened.workersPolicy()) ?? own;
        await takeChosen(opened, flags, {
          verb: 'replay',
          past: 'replayed',
          question: 'Replay them?',
          take: async (shard, stored) => (await shard.replay(stored)) !== undefined,
          pace: createPace(flags.rate),
          outlook: () => outlookText({ perSecond: flags.rate, policy, now: opened.now }),
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

/** The words for what a replay comes to. */
export function outlookText(terms: ReplayTerms): ShownOutlook {
  const outlook = createOutlook(terms);
  const forecast = () => outlook.forecast();
  return {
    add: (stored) => {
      outlook.add(stored);
    },
    suffix() {
      const { recipients, busiest } = forecast();
      if (busiest === undefined) return '';
      const { recipientId, count } = busiest;
      if (recipients === 1) return `, to ${printable(recipientId)}`;
      return `, to ${recipients} recipients${count === 1 ? '' : ` (${count} to ${printable(recipientId)})`}`;
    },
    lines() {
      const { count, expired, lastAfterMs } = forecast();
      if (count === 0) return [];
      if (lastAfterMs === undefined) return ['All of them have expired: none will be sent.'];
      const gone = expired === 0 ? [] : [`About ${expired} will have expired by then, and will not be sent.`];
      const rate = terms.perSecond === Infinity ? 'Without a rate' : `At ${rateText(terms.perSecond)}`;
      const when = lastAfterMs < 1_000 ? 'at once' : `in about ${span(lastAfterMs)}`;
      return [`${rate}, and under ${policyText(terms.policy)}, the last goes out ${when}.`, ...gone];
    },
    fields() {
      const { recipients, expired, lastAfterMs } = forecast();
      return { recipients, expired, ...(lastAfterMs !== undefined && { lastAfterMs }) };
    },
  };
}

if (import.meta.main) await main(process.argv.slice(2));
