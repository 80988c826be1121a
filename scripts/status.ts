import { Option } from 'commander';
import { loadQueueConfig } from '../src/config/config.ts';
import { printable } from '../src/domain/faults.ts';
import { readStatus } from '../src/operations/status.ts';
import { forgetLosses } from '../src/queue/losses.ts';
import { createShards } from '../src/queue/shards/shards.ts';
import { addressOf } from '../src/redis/target.ts';
import { createCommand, EXIT, printJson, runCommand, UsageError } from '../src/terminal/command.ts';
import { columnsOf } from '../src/terminal/text.ts';
import { describeStatus, type Status } from './status/describe.ts';
import { showNotification } from './status/notification.ts';
import { DEFAULT_EVERY, parseEvery, watchStatus } from './status/watch.ts';
import type { Connection } from '../src/redis/connection.ts';
import { atQueueRedis, readEnvironment } from './support/queue.ts';

interface Flags {
  readonly json?: true;
  /** Milliseconds. */
  readonly watch?: number;
  readonly check?: true;
  readonly acknowledge?: true;
}

const HELP = `
The last lines say whether all is well, and if not, what is wrong. Exit code 0 in both cases; 1 only if Redis does not answer. With
--check also 1 if something is wrong: for cron, or a check of a monitoring system.
If Redis was emptied, came back with an older state or evicted keys, that stays wrong for a day, or until --acknowledge, which removes
what workers noted of it and then looks as usual.
With an ID: everything that is known of this notification. Tokens, titles, texts and data are never shown.
With --watch it looks again and again, and also shows what the workers do a second. On a terminal it draws over the last look, what
is wrong at the top; q or Ctrl-C ends it, with exit code 0. Elsewhere each look is a block of lines, or with --json a line of its
own (NDJSON). If Redis goes away meanwhile, it says so and goes on when Redis is back.
Redis is asked for some thousand jobs at the most, whatever the queue holds; where that is not all of them, the output says so.
REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME and QUEUE_PREFIX must be the same as the workers'; for an ID LIMITER_REDIS_URL and
LIMITER_REDIS_SENTINEL_NAME too. How many shards there are is read from Redis.`;

/** `npm run status [-- ID]`: the state of workers and queue, or of one notification. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('status', 'Shows how workers and queue are, or what became of one notification.')
    .argument('[id]', "a notification's id")
    .addOption(
      new Option('--watch [every]', `look again and again, every so often: 500ms to 1h (default: ${DEFAULT_EVERY})`)
        .preset(DEFAULT_EVERY)
        .argParser(parseEvery),
    )
    .option('--check', 'exit with 1 if something is wrong')
    .option('--acknowledge', 'tell no more of what Redis has lost until now')
    .option('--json', 'one JSON object as the last line; instants are epoch milliseconds')
    .addHelpText('after', HELP)
    .action((id: string | undefined, flags: Flags) => {
      const { json, watch, check, acknowledge } = flags;
      const modes = Object.entries({ watch, check, acknowledge }).flatMap(([name, value]) =>
        value === undefined ? [] : name,
      );
      if (id !== undefined && modes.length > 0)
        throw new UsageError(`--${modes[0]}: expected no ID beside it, found one`);
      if (watch !== undefined && modes.length > 1)
        throw new UsageError(`--watch: expected no --${modes[1]} beside it, found one`);
      if (id !== undefined) return showNotification(id, json ?? false);
      return watch === undefined ? showAll(flags) : watchAll(watch, json ?? false);
    });
  await runCommand(command, argv);
}

async function showAll({ json, check, acknowledge }: Flags): Promise<void> {
  const status = await withLook(async (look, connection, prefix) => {
    if (acknowledge) await forgetLosses(connection, prefix);
    return look();
  });
  if (json) printJson(status.result);
  else process.stdout.write(`${describeStatus(status, columnsOf()).join('\n')}\n`);
  if (check && !status.result.ok) process.exitCode = EXIT.failure;
}

function watchAll(everyMs: number, json: boolean): Promise<void> {
  return withLook((look, connection) => watchStatus({ look, connection, everyMs, json }));
}

type Look = () => Promise<Status>;

/** Connects, and gives `work` a function for a look, which `work` may call again and again. */
async function withLook<T>(work: (look: Look, connection: Connection, prefix: string) => Promise<T>): Promise<T> {
  const { redis, queue } = loadQueueConfig(readEnvironment());
  return atQueueRedis(redis, async (connection) => {
    const shards = createShards(connection, queue);
    const where = `${printable(queue.prefix)} on ${addressOf(connection)}`;
    const lookAt = async () => readStatus(await shards.open(), connection, queue.prefix, await shards.layout());
    return work(async () => ({ result: await lookAt(), where }), connection, queue.prefix);
  });
}

if (import.meta.main) await main(process.argv.slice(2));
