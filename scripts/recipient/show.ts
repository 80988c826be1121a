import type { Command } from 'commander';
import type { CountedApart } from '../../src/domain/limits.ts';
import { keptAbout, keptFields } from '../../src/operations/catalogue.ts';
import { createCommand, printJson } from '../../src/terminal/command.ts';
import { columnsOf } from '../../src/terminal/text.ts';
import { describe } from './describe.ts';
import { recipientId, atLimiter, atQueue } from './open.ts';
import { lookAtRecipient } from '../../src/operations/recipient.ts';

interface Flags {
  readonly all?: true;
  readonly json?: true;
}

/** How many waiting notifications are shown without `--all`. */
const MOST_SHOWN = 20;

const HELP = `
The limits are those of the living workers. If no worker is alive, LIMIT_RULES, LIMIT_MIN_GAP, LIMITS_FILE,
LIMIT_BACKGROUND_RULES and LIMIT_LIVE_ACTIVITY_RULES of this command are used: then they must be the same as the workers'.
Background pushes, and Live Activities without an alert, are shown where there are any: those that were sent within the longest
of their windows, and those that wait.
Notifications that are delayed without a slot (for a retry, or because of their provider) are shown too. The queue has no index
by recipient, so at most 20,000 delayed jobs are looked through, and as many of those that no worker has taken yet.`;

/** `recipient show ID` */
export function showCommand(): Command {
  return createCommand('show', "Shows a recipient's limits, sent slots, waiting notifications, and the next free slot.")
    .argument('<id>', 'the recipient', recipientId)
    .option('--all', `every notification that waits, not just the first ${MOST_SHOWN}`)
    .option('--json', 'one JSON object as the last line; instants are epoch milliseconds')
    .addHelpText('after', HELP)
    .action(show);
}

async function show(id: string, { all, json }: Flags): Promise<void> {
  await atLimiter(async ({ limiter, apart, config, limitsOf }) => {
    const most = all ? Infinity : MOST_SHOWN;
    const { categories } = config;
    const [look, kept] = await atQueue(config, id, (queues, connection) =>
      Promise.all([
        lookAtRecipient(id, { limiters: { alert: limiter, ...apart }, queues, connection, most }),
        keptAbout(id, { connection, prefix: config.queue.prefix }),
      ]),
    );
    const { inspection, waiting, others, delayed, notTaken, sending } = look;
    if (json) {
      const shown = others.map(({ kind, policy, sent, reserved }) => [
        APART_FIELDS[kind],
        { rules: policy.rules, sent, reserved },
      ]);
      printJson({
        ...{ recipientId: id, ...inspection, categories, sending, reserved: waiting, delayed: delayed.found, notTaken },
        limitsOf: { workers: limitsOf?.workers ?? 0, others: limitsOf?.others ?? 0 },
        ...(Object.fromEntries(shown) as object),
        ...keptFields(kept),
      });
    } else {
      const columns = columnsOf();
      const found = { waiting, others, delayed, notTaken, sending, kept };
      const lines = describe({ recipientId: id, inspection, ...found, categories, limitsOf, most, columns });
      process.stdout.write(`${lines.join('\n')}\n`);
    }
  });
}

/** Where the JSON has them. */
const APART_FIELDS: Readonly<Record<CountedApart, string>> = {
  background: 'background',
  liveactivity: 'liveActivity',
};
