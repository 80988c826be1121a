import { loadPolicy } from '../src/config/config.ts';
import { REPLAY } from '../src/operations/taking.ts';
import { takeMain } from './dead-letters/take.ts';

const HELP = `Before it asks, and with --dry-run, it says to how many recipients they go, and about when the last goes out: from --rate, and
from the limits of the living workers. If none lives, from this command's own LIMIT_RULES and LIMIT_MIN_GAP. Nothing is lost, and
nothing is replayed twice. Devices that were alerted before are skipped.

`;

/** `npm run replay`: puts dead letters back into the queue. */
export async function main(argv: readonly string[]): Promise<void> {
  await takeMain(argv, {
    ...{ taking: REPLAY, help: HELP, example: '--reason provider-auth' },
    answers: ['recipients', 'expired', 'lastAfterMs'],
    take: async (shard, stored) => (await shard.replay(stored)) !== undefined,
    policy: () => loadPolicy(process.env),
  });
}

if (import.meta.main) await main(process.argv.slice(2));
