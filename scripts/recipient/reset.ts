import type { Command } from 'commander';
import { printable } from '../../src/domain/printable.ts';
import { createCommand, printJson } from '../support/command.ts';
import { recipientId } from './flags.ts';
import { atLimiter } from './limiter.ts';

const HELP = `
What was sent counts no longer, so alerts may follow at once. Notifications that wait come back when they were told to,
and ask again. Stored limits and a block stay.`;

/** `recipient reset ID` */
export function resetCommand(): Command {
  return createCommand('reset', "Forgets all of this recipient's slots, sent and reserved, in every category.")
    .argument('<id>', 'the recipient', recipientId)
    .option('--json', 'one JSON object as the last line: recipientId, wasKnown, sent, reserved')
    .addHelpText('after', HELP)
    .action(reset);
}

async function reset(id: string, { json }: { json?: true }): Promise<void> {
  await atLimiter(async ({ limiter }) => {
    const before = await limiter.inspect(id);
    const [sent, reserved] = [before.sent.length, before.reserved.length];
    const wasKnown = await limiter.reset(id);
    const forgot = `forgot ${sent} sent and ${reserved} reserved slots of ${printable(id)}`;
    if (json) printJson({ recipientId: id, wasKnown, sent, reserved });
    else process.stdout.write(`${wasKnown ? forgot : `${printable(id)} had no slots`}\n`);
  });
}
