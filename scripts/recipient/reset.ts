import type { Command } from 'commander';
import { printable } from '../../src/domain/faults.ts';
import { createCommand, printJson } from '../support/command.ts';
import { recipientId } from './flags.ts';
import { followed } from './follow.ts';
import { atLimiter } from './open.ts';
import { waitingText } from '../support/text.ts';

const HELP = `
Sent alerts no longer count, so more may follow at once. Waiting notifications are moved to their earliest slots, in their
order, and their delayed jobs with them. Stored limits and a block stay.`;

/** `recipient reset ID` */
export function resetCommand(): Command {
  return createCommand('reset', 'Forgets what was sent to this recipient, in every category.')
    .argument('<id>', 'the recipient', recipientId)
    .option('--json', 'one JSON object as the last line: recipientId, wasKnown, sent, waiting, lastAt, moved')
    .addHelpText('after', HELP)
    .action(reset);
}

async function reset(id: string, { json }: { json?: true }): Promise<void> {
  await atLimiter(async ({ limiter, config }) => {
    const { sent, reserved } = await limiter.inspect(id);
    const { result: wasKnown, moved } = await followed(id, config, reserved.length, (follow) =>
      limiter.reset(id, follow),
    );
    const after = await limiter.inspect(id);
    const waiting = waitingText(after);
    const lastAt = after.reserved.at(-1)?.at;
    const did = wasKnown
      ? `forgot ${sent.length} sent to ${printable(id)}`
      : `nothing was sent to ${printable(id)} lately`;
    if (json)
      printJson({ recipientId: id, wasKnown, sent: sent.length, waiting: after.reserved.length, lastAt, moved });
    else process.stdout.write(`${did}${waiting === undefined ? '' : `; ${waiting}`}\n`);
  });
}
