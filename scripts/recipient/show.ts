import type { Queue } from 'bullmq';
import type { Command } from 'commander';
import type { Inspection } from '../../src/limiter/limiter.ts';
import { createCommand, printJson } from '../support/command.ts';
import { columnsOf } from '../support/terminal.ts';
import { describe, type WaitingSlot } from './describe.ts';
import { recipientId } from './flags.ts';
import { findDelayed, findJobs } from './jobs.ts';
import { jobIdOfAsk } from '../../src/delivery/slot.ts';
import { atLimiter, atQueue } from './open.ts';

interface Flags {
  readonly all?: true;
  readonly json?: true;
}

/** How many waiting notifications are shown without `--all`. */
const TOLD = 20;

const HELP = `
LIMIT_RULES, LIMIT_MIN_GAP, LIMITS_FILE and LIMIT_BACKGROUND_RULES must be the same as the workers'.
Background pushes are shown where there are any: those that were sent within the longest of their windows, and those that wait.
Notifications that are delayed without a slot (for a retry, or because of their provider) are shown too. The queue has no index
by recipient, so at most 20,000 delayed jobs are looked through. Jobs that no worker has looked at yet are not shown.`;

/** `recipient show ID` */
export function showCommand(): Command {
  return createCommand('show', "Shows a recipient's limits, sent slots, waiting notifications, and the next free slot.")
    .argument('<id>', 'the recipient', recipientId)
    .option('--all', `every notification that waits, not just the first ${TOLD}`)
    .option('--json', 'one JSON object as the last line; instants are epoch milliseconds')
    .addHelpText('after', HELP)
    .action(show);
}

async function show(id: string, { all, json }: Flags): Promise<void> {
  await atLimiter(async ({ limiter, background: backgroundLimiter, config }) => {
    const inspection = await limiter.inspect(id);
    const pushes = await backgroundLimiter.inspect(id);
    const told = all ? Infinity : TOLD;
    const { redis, queue, categories } = config;
    const [waiting, waitingPushes, delayed] = await atQueue({ redis, queue, recipientId: id }, (shard, connection) => {
      const reserved = [...inspection.reserved, ...pushes.reserved];
      const known = new Set(reserved.flatMap((slot) => (slot.id && jobIdOfAsk(slot.id)) ?? []));
      return Promise.all([
        waitingOf(inspection, told, shard),
        waitingOf(pushes, told, shard),
        findDelayed(shard, connection, { recipientId: id, known }),
      ]);
    });
    const background =
      pushes.sent.length + pushes.reserved.length > 0 ? { ...pushes, reserved: waitingPushes } : undefined;
    if (json) {
      const { rules } = pushes.policy;
      const shown = background && { rules, sent: background.sent, reserved: background.reserved };
      printJson({
        ...{ recipientId: id, ...inspection, categories, reserved: waiting, delayed: delayed.found },
        ...(shown && { background: shown }),
      });
    } else {
      const columns = columnsOf();
      const lines = describe({ recipientId: id, inspection, waiting, background, delayed, categories, told, columns });
      process.stdout.write(`${lines.join('\n')}\n`);
    }
  });
}

/** What was put back by another rule, and moved behind a block since, waits for the block. */
async function waitingOf(
  { reserved, block }: Pick<Inspection, 'reserved' | 'block'>,
  most: number,
  queue: Queue<unknown>,
): Promise<WaitingSlot[]> {
  const jobIds = reserved.slice(0, most).map(({ id }) => id && jobIdOfAsk(id));
  const jobs = await findJobs(
    queue,
    jobIds.filter((id) => id !== undefined),
  );
  return reserved.map((slot, index) => {
    const notification = jobs.get(jobIds[index] ?? '');
    if (notification === undefined) return slot;
    const isBlocked = block !== undefined && slot.at >= block.until;
    return { ...slot, notification: isBlocked ? { ...notification, waitsFor: 'block' } : notification };
  });
}
