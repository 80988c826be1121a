import type { Command } from 'commander';
import { storedRecipientId } from '../../src/notification/notification.ts';
import { keptFields } from '../../src/operations/catalogue.ts';
import { APART_FIELDS } from '../../src/operations/recipient.ts';
import { createCommand, printJson } from '../../src/terminal/command.ts';
import { columnsOf } from '../../src/terminal/text.ts';
import { atBackend } from '../support/backend.ts';
import { recipientId } from './act.ts';
import { describe } from './describe.ts';

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
    .argument('<id>', 'the recipient', (text) => recipientId(text, storedRecipientId))
    .option('--all', `every notification that waits, not just the first ${MOST_SHOWN}`)
    .option('--json', 'one JSON object as the last line; instants are epoch milliseconds')
    .addHelpText('after', HELP)
    .action(show);
}

async function show(id: string, { all, json }: Flags): Promise<void> {
  const most = all ? Infinity : MOST_SHOWN;
  const seen = await atBackend((backend) => backend.look(id, { most }));
  if (!json) {
    process.stdout.write(`${describe({ recipientId: id, ...seen, most, columns: columnsOf() }).join('\n')}\n`);
    return;
  }
  const { inspection, waiting, others, delayed, notTaken, sending, categories, limitsOf, kept } = seen;
  const apart = others.map(({ kind, policy, sent, reserved }) => [
    APART_FIELDS[kind],
    { rules: policy.rules, sent, reserved },
  ]);
  printJson({
    ...{ recipientId: id, ...inspection, categories, sending, reserved: waiting, delayed: delayed.found, notTaken },
    limitsOf: { workers: limitsOf?.workers ?? 0, others: limitsOf?.others ?? 0 },
    ...(Object.fromEntries(apart) as object),
    ...keptFields(kept),
  });
}
