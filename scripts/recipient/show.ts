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
LIMIT_RULES, LIMIT_MIN_GAP and LIMITS_FILE must be the same as the workers'.
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
  await atLimiter(async ({ limiter, config }) => {
    const inspection = await limiter.inspect(id);
    const told = all ? Infinity : TOLD;
    const { redis, queue, categories } = config;
    const [waiting, delayed] = await atQueue({ redis, queue, recipientId: id }, async (shard, connection) => {
      const known = new Set(inspection.reserved.flatMap((slot) => (slot.id && jobIdOfAsk(slot.id)) ?? []));
      return Promise.all([
        waitingOf(inspection, told, shard),
        findDelayed(shard, connection, { recipientId: id, known }),
      ]);
    });
    if (json) printJson({ recipientId: id, ...inspection, categories, reserved: waiting, delayed: delayed.found });
    else {
      const columns = columnsOf();
      const lines = describe({ recipientId: id, inspection, waiting, delayed, categories, told, columns });
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
