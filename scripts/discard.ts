import { DISCARD } from '../src/operations/taking.ts';
import { takeMain } from './dead-letters/take.ts';

const HELP = `A discarded dead letter cannot be restored. One that is replayed at the same time is either replayed or discarded.

`;

/** `npm run discard`: removes dead letters for good. */
export async function main(argv: readonly string[]): Promise<void> {
  await takeMain(argv, {
    ...{ taking: DISCARD, help: HELP, example: '--reason unregistered', answers: [] },
    take: async (shard, { id }) => (await shard.discard(id)) === 'discarded',
  });
}

if (import.meta.main) await main(process.argv.slice(2));
