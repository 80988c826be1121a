import type { Command } from 'commander';
import type { Config } from '../../src/config/config.ts';
import type { SlotView } from '../../src/limiter/limiter.ts';
import { createCommand, printJson } from '../support/command.ts';
import { describe, type WaitingSlot } from './describe.ts';
import { recipientId } from './flags.ts';
import { findJobs, jobIdOfAsk } from './jobs.ts';
import { atLimiter } from './limiter.ts';

interface Flags {
  readonly all?: true;
  readonly json?: true;
}

/** So many waiting notifications are told without `--all`. */
const TOLD = 20;

const HELP = `
LIMIT_RULES, LIMIT_MIN_GAP and LIMITS_FILE are taken from this command's environment: give it the workers' own.
Notifications that no worker has looked at yet have no slot, and are not told.`;

/** `recipient show ID` */
export function showCommand(): Command {
  return createCommand('show', "Tells a recipient's limits, what was sent, what waits, and when the next could go.")
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
    const waiting = await waitingOf(id, inspection.reserved, told, config);
    const { categories } = config;
    if (json) printJson({ recipientId: id, ...inspection, categories, reserved: waiting });
    else process.stdout.write(`${describe({ recipientId: id, inspection, waiting, categories, told }).join('\n')}\n`);
  });
}

async function waitingOf(
  recipientId: string,
  reserved: readonly SlotView[],
  most: number,
  { redis, queue }: Pick<Config, 'redis' | 'queue'>,
): Promise<WaitingSlot[]> {
  const jobIds = reserved.slice(0, most).map(({ id }) => id && jobIdOfAsk(id));
  const jobs = await findJobs(
    jobIds.filter((id) => id !== undefined),
    { redis, queue, recipientId },
  );
  return reserved.map((slot, index) => {
    const notification = jobs.get(jobIds[index] ?? '');
    return notification === undefined ? slot : { ...slot, notification };
  });
}
