import { readFileSync } from 'node:fs';
import type { Queue } from 'bullmq';

/** Runs a script on a queue's connection: keys first, then arguments. */
export type Script<Reply> = (queue: Queue, args: readonly (string | number)[]) => Promise<Reply>;

/** The script in a file of this folder; defined once on each connection. */
export function defineScript<Reply>(file: `./${string}.lua`, numberOfKeys: number): Script<Reply> {
  const lua = readFileSync(new URL(file, import.meta.url), 'utf8');
  const name = `pushpacer:${file.slice('./'.length, -'.lua'.length)}`;
  const defined = new WeakSet();
  return async (queue, args) => {
    const client = await queue.getBackend().client;
    if (!defined.has(client)) client.defineCommand(name, { numberOfKeys, lua });
    defined.add(client);
    return (await client.runCommand(name, [...args])) as Reply;
  };
}
