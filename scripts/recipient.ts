import { blockCommand, unblockCommand } from './recipient/block.ts';
import { limitCommand } from './recipient/limit.ts';
import { resetCommand } from './recipient/reset.ts';
import { showCommand } from './recipient/show.ts';
import { createCommand, runCommand } from './support/command.ts';

const HELP = `
Each tells its options with --help. REDIS_URL, REDIS_CLUSTER, LIMITER_REDIS_URL, QUEUE_PREFIX, QUEUE_SHARDS, LIMIT_RULES,
LIMIT_MIN_GAP and LIMITS_FILE are to be those of the workers.`;

/** `npm run recipient -- show|block|unblock|limit|reset ID`: look into, and act on, one recipient. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('recipient', 'Looks into, and acts on, one recipient.').addHelpText('after', HELP);
  for (const subcommand of [showCommand(), blockCommand(), unblockCommand(), limitCommand(), resetCommand()]) {
    command.addCommand(subcommand);
  }
  await runCommand(command, argv);
}

if (import.meta.main) await main(process.argv.slice(2));
