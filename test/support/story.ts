import { main as why } from '../../scripts/why.ts';
import type { Told } from '../../src/operations/story.ts';
import { outputOf, runMain } from './command.ts';
import { queueEnv } from './redis.ts';

/** The JSON of `pushpacer why ID`. */
export async function storyOf(prefix: string, id: string): Promise<Told['status'] & Pick<Told, 'story'>> {
  const stdout = await outputOf(runMain(why, [id, '--json'], queueEnv(prefix)));
  return JSON.parse(stdout) as Told['status'] & Pick<Told, 'story'>;
}
