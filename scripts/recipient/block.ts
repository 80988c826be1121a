import type { Command } from 'commander';
import { printable } from '../../src/domain/faults.ts';
import { createCommand, printJson, UsageError } from '../support/command.ts';
import {
  checkEnd,
  endOf,
  forDuration,
  MOST_AHEAD_MS,
  recipientId,
  unfit,
  untilInstant,
  type EndFlags,
} from './flags.ts';
import { followed } from './follow.ts';
import { atLimiter, waitingAt } from './open.ts';
import { instantFrom, waitingText } from '../support/text.ts';

interface Flags extends EndFlags {
  readonly reason: string;
  readonly json?: true;
}

const MAX_REASON = 500;

const HELP = `
Waiting notifications are moved behind the end, in their order, and their delayed jobs with them. Those whose expiresAt comes
first expire. An earlier block is replaced.`;

/** `recipient block ID --for 2h --reason TEXT` */
export function blockCommand(): Command {
  return createCommand('block', 'Stops all notifications to this recipient until the end.')
    .argument('<id>', 'the recipient', recipientId)
    .option('--for <duration>', 'from now, such as 2h', forDuration)
    .option('--until <time>', 'RFC 3339 or epoch milliseconds', untilInstant)
    .requiredOption('--reason <text>', 'for people to read', reason)
    .option('--json', 'one JSON object as the last line: recipientId, until, reason, waiting, lastAt, moved')
    .addHelpText('after', HELP)
    .action(block);
}

async function block(id: string, { reason, json, ...end }: Flags): Promise<void> {
  checkEnd(end);
  if (end.for === undefined && end.until === undefined) {
    throw new UsageError('--for: expected --for or --until, found neither');
  }
  await atLimiter(async ({ config, ...limiters }) => {
    const { now, reserved } = await waitingAt(limiters, id);
    const until = endOf(end, now, MOST_AHEAD_MS) as number; // one of the two is given
    const { moved } = await followed(id, config, reserved.length, async (follow) => {
      await limiters.limiter.block(id, { until, reason }, follow);
      for (const each of Object.values(limiters.apart)) await each.block(id, { until, reason }, follow);
    });
    const after = await waitingAt(limiters, id);
    const lines = [
      `${printable(id)} is blocked until ${instantFrom(now, until)}: ${printable(reason)}`,
      waitingText({ ...after, now }),
    ];
    const lastAt = after.reserved.at(-1)?.at;
    if (json) printJson({ recipientId: id, until, reason, waiting: after.reserved.length, lastAt, moved });
    else process.stdout.write(`${lines.filter((line) => line !== undefined).join('\n')}\n`);
  });
}

function reason(text: string): string {
  const length = Array.from(text).length;
  if (length >= 1 && length <= MAX_REASON && printable(text) === text) return text;
  throw unfit('--reason', `1 to ${MAX_REASON} printable characters`, text.slice(0, MAX_REASON));
}

/** `recipient unblock ID` */
export function unblockCommand(): Command {
  return createCommand('unblock', 'Ends the block. Notifications that wait are moved to their earliest slots.')
    .argument('<id>', 'the recipient', recipientId)
    .option('--json', 'one JSON object as the last line: recipientId, wasBlocked, waiting, lastAt, moved')
    .action(unblock);
}

async function unblock(id: string, { json }: { json?: true }): Promise<void> {
  await atLimiter(async ({ config, ...limiters }) => {
    const { reserved } = await waitingAt(limiters, id);
    const { result: wasBlocked, moved } = await followed(id, config, reserved.length, async (follow) => {
      let wasBlocked = await limiters.limiter.unblock(id, follow);
      for (const each of Object.values(limiters.apart)) wasBlocked = (await each.unblock(id, follow)) || wasBlocked;
      return wasBlocked;
    });
    const after = await waitingAt(limiters, id);
    const waiting = waitingText(after);
    const lastAt = after.reserved.at(-1)?.at;
    const did = `${printable(id)} ${wasBlocked ? 'is not blocked any more' : 'was not blocked'}`;
    if (json) printJson({ recipientId: id, wasBlocked, waiting: after.reserved.length, lastAt, moved });
    else process.stdout.write(`${did}${waiting === undefined ? '' : `; ${waiting}`}\n`);
  });
}
