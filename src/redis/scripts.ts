import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { QueueBase, RedisQueueBackend } from 'bullmq';
import { faultOf, InputError } from '../domain/faults.ts';
import { isUnknownScript } from './deadline.ts';

/** What a script needs of ioredis: both `Redis` and `Cluster` have it. */
export interface ScriptRedis {
  /** Makes a script known to the client, as a command of this name. */
  defineCommand(name: string, definition: ScriptDefinition): void;
}

/** A Lua script, and how many of its arguments are keys. */
export interface ScriptDefinition {
  /** The text of the script. */
  lua: string;
  /** How many of the first arguments are keys. */
  numberOfKeys: number;
}

/** Runs a script on its client: keys first, then arguments. */
export type Call<Reply> = (...keysAndArgs: (string | number)[]) => Promise<Reply>;

/** The text of a script, with the scripts that it includes; the path is relative to `from`, the URL of a module or a folder. */
export function readScript(path: string, from: string | URL): string {
  const file = new URL(path, from);
  const text = readFileSync(file, 'utf8');
  return text.replaceAll(/^-- include (\S+)$/gm, (_, included: string) => readScript(included, file));
}

/**
 * Defines a script on the client as a command of this name. The number of keys is fixed with the definition. Throws InputError
 * if the client is not one of ioredis.
 */
export function defineScript<Reply>(redis: ScriptRedis, name: string, lua: string, numberOfKeys: number): Call<Reply> {
  const client = redis as Partial<ScriptRedis> | null | undefined; // callers may be plain JavaScript
  if (typeof client?.defineCommand !== 'function') {
    throw new InputError('unusable options', [faultOf('redis', 'a Redis or Cluster of ioredis', client, true)]);
  }
  redis.defineCommand(name, { lua, numberOfKeys });
  const command = (redis as unknown as Record<string, Call<Reply>>)[name];
  if (command === undefined) throw new Error(`the client has no command ${name} after it was defined`);
  return (...keysAndArgs) => withText(() => command.call(redis, ...keysAndArgs));
}

/** The most calls of one script. Each call is up to two commands, since ioredis repeats a script that Redis does not know. */
const MOST_CALLS = 10;

/**
 * Calls a script again, at once, while Redis answers that it does not know the script (after `SCRIPT FLUSH`, a restart or a
 * failover): nothing was written then. ioredis repeats each call only once. If it repeats several calls at once, only one of
 * them contains the script's text: if Redis forgets its scripts right after that call, the others fail.
 */
export async function withText<Reply>(call: () => Promise<Reply>): Promise<Reply> {
  for (let calls = 1; ; calls += 1) {
    try {
      return await call();
    } catch (error) {
      if (!isUnknownScript(error) || calls === MOST_CALLS) throw error;
    }
  }
}

/** Runs a script on the connection of a queue or a worker: keys first, then arguments. */
export type QueueScript<Reply> = (
  queue: Pick<QueueBase<RedisQueueBackend>, 'getBackend'>,
  args: readonly (string | number)[],
) => Promise<Reply>;

/** Defines the script in the file `file`. Each connection learns the script once, before its first call. */
export function defineQueueScript<Reply>(file: URL, numberOfKeys: number): QueueScript<Reply> {
  const lua = readScript('', file);
  const name = `pushpacer:${basename(fileURLToPath(file), '.lua')}`;
  const defined = new WeakSet();
  return async (queue, args) => {
    const client = await queue.getBackend().client;
    if (!defined.has(client)) client.defineCommand(name, { numberOfKeys, lua });
    defined.add(client);
    return await withText(() => client.runCommand(name, [...args]) as Promise<Reply>);
  };
}
