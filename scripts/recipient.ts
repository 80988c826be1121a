import { operationCommands } from './recipient/act.ts';
import { showCommand } from './recipient/show.ts';
import { createCommand, runCommand } from '../src/terminal/command.ts';

const HELP = `
Each has its own --help. REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME, LIMITER_REDIS_URL, LIMITER_REDIS_SENTINEL_NAME and
QUEUE_PREFIX must be the same as the workers'. How many shards there are is read from Redis. The limits are those of the living workers; if none is alive, LIMIT_RULES, LIMIT_MIN_GAP, LIMITS_FILE,
LIMIT_BACKGROUND_RULES and LIMIT_LIVE_ACTIVITY_RULES of this command are used.`;

/** `npm run recipient -- show|block|unblock|limit|quiet|unquiet|reset|note ID`: shows one recipient, or acts on it. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('recipient', 'Shows one recipient, or acts on it.').addHelpText('after', HELP);
  for (const subcommand of [showCommand(), ...operationCommands()]) command.addCommand(subcommand);
  await runCommand(command, argv);
}

if (import.meta.main) await main(process.argv.slice(2));
