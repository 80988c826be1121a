import { Queue } from 'bullmq';
import { Option } from 'commander';
import { loadQueueConfig } from '../src/config/config.ts';
import { parseDuration } from '../src/domain/duration.ts';
import { DEAD_LETTER_REASONS, type DeadLetterReason } from '../src/domain/outcome.ts';
import {
  connectProducer,
  explained,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
  type Connection,
} from '../src/queue/connection.ts';
import { createDeadLetters, type DeadLetters } from '../src/queue/dead-letters.ts';
import { DEAD_LETTERS, QUEUE } from '../src/queue/names.ts';
import { replayAll } from '../src/queue/replay.ts';
import { shardPrefixes } from '../src/queue/shards.ts';
import { CommandError, createCommand, printJson, runCommand, UsageError } from './support/command.ts';
import { parseInstant } from './support/instant.ts';
import { createProgress } from './support/progress.ts';
import { createPace, parseRate } from './support/rate.ts';

interface Flags {
  readonly reason?: DeadLetterReason;
  readonly recipient?: string;
  readonly id?: string;
  readonly since?: number;
  readonly until?: number;
  readonly limit?: number;
  readonly rate?: number;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const HELP = `
Times are RFC 3339, epoch milliseconds, or so long ago: 2h. Dead letters that come while the command runs are left.
Ended half-way, the command can be started again: nothing is lost, and nothing is replayed twice.
REDIS_URL, REDIS_CLUSTER, QUEUE_PREFIX and QUEUE_SHARDS tell where the queue is.`;

/** `npm run replay`: dead letters back into the queue. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('replay', 'Puts dead letters back into the queue, oldest first.')
    .addOption(new Option('--reason <reason>', 'only those that died of it').choices(DEAD_LETTER_REASONS))
    .option('--recipient <id>', 'only those to this recipient')
    .option('--id <id>', 'only the notification with this id')
    .option('--since <time>', 'only those that died then or later', time('--since'))
    .option('--until <time>', 'only those that died then or before', time('--until'))
    .option('--limit <n>', 'at most so many', limit)
    .option('--rate <n/s>', 'at most so many a second; 30/m and 500/h do too', rate)
    .option('--dry-run', 'only count')
    .option('--json', 'one JSON object as the last line: seen, matched, replayed, byReason, left, dryRun')
    .addHelpText('after', HELP)
    .action((flags: Flags) => replay(flags));
  await runCommand(command, argv);
}

async function replay(flags: Flags): Promise<void> {
  const { redis, queue } = loadQueueConfig(process.env);
  const connection = connectProducer(redis);
  connection.on('error', () => undefined); // the call that fails tells it
  try {
    await whenReady(connection, PRODUCER_TIMEOUT_MS);
    const result = await replayShards(connection, shardPrefixes(queue.prefix, queue.shards), flags);
    if (flags.json === true) printJson(result);
    else process.stdout.write(`${summary(result)}\n`);
  } catch (error) {
    const known = explained(connection, error);
    throw known instanceof RedisAwayError ? new CommandError(`${known.message}; start again to go on`) : known;
  } finally {
    connection.disconnect();
  }
}

interface Result {
  readonly seen: number;
  readonly matched: number;
  readonly replayed: number;
  readonly byReason: Readonly<Record<string, number>>;
  /** Dead letters that are still there. */
  readonly left: number;
  readonly dryRun: boolean;
}

async function replayShards(connection: Connection, prefixes: readonly string[], flags: Flags): Promise<Result> {
  const shards = await Promise.all(prefixes.map((prefix) => openShard(connection, prefix)));
  const [seconds, microseconds] = await connection.time();
  const buriedUntilMs = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
  const total = (await Promise.all(shards.map((shard) => shard.count()))).reduce((sum, count) => sum + count, 0);

  const progress = createProgress(flags.dryRun === true ? 'counted' : 'replayed', total);
  const byReason: Record<string, number> = {};
  let [seen, matched, replayed] = [0, 0, 0];
  try {
    for (const shard of shards) {
      const done = await replayAll(shard, {
        filter: filterOf(flags),
        buriedUntilMs,
        limit: (flags.limit ?? Infinity) - matched,
        isDryRun: flags.dryRun ?? false,
        ...(flags.rate !== undefined && { pace: createPace(flags.rate) }),
        onSeen: () => {
          progress.update(++seen);
        },
      });
      replayed += done.replayed;
      for (const [reason, count] of done.matched) {
        byReason[reason] = (byReason[reason] ?? 0) + count;
        matched += count;
      }
    }
  } finally {
    progress.stop();
  }
  const left = (await Promise.all(shards.map((shard) => shard.count()))).reduce((sum, count) => sum + count, 0);
  return { seen, matched, replayed, byReason, left, dryRun: flags.dryRun ?? false };
}

async function openShard(connection: Connection, prefix: string): Promise<DeadLetters> {
  const [queue, deadQueue] = [QUEUE, DEAD_LETTERS].map((name) => new Queue(name, { connection, prefix })) as [
    Queue,
    Queue,
  ];
  for (const each of [queue, deadQueue]) await each.on('error', () => undefined).waitUntilReady();
  return createDeadLetters({ queue, deadQueue });
}

function filterOf({
  reason,
  recipient,
  id,
  since,
  until,
}: Flags): NonNullable<Parameters<typeof replayAll>[1]['filter']> {
  return {
    ...(reason !== undefined && { reason }),
    ...(recipient !== undefined && { recipientId: recipient }),
    ...(id !== undefined && { id }),
    ...(since !== undefined && { sinceMs: since }),
    ...(until !== undefined && { untilMs: until }),
  };
}

function summary({ seen, matched, replayed, byReason, left, dryRun }: Result): string {
  const reasons = Object.entries(byReason).map(([reason, count]) => `${count} ${reason}`);
  const breakdown = reasons.length === 0 ? '' : ` (${reasons.join(', ')})`;
  if (dryRun) return `would replay ${matched} of ${seen} dead letters${breakdown}`;
  return `replayed ${replayed} of ${seen} dead letters${breakdown}; ${left} there now`;
}

function time(flag: string): (text: string) => number {
  return (text) => {
    const agoMs = parseDuration(text);
    if (agoMs !== undefined) return Date.now() - agoMs;
    const at = parseInstant(text);
    if (at !== undefined) return at;
    const expected = 'an RFC 3339 date-time, epoch milliseconds or a duration ago such as 2h';
    throw new UsageError(`${flag}: expected ${expected}, found ${JSON.stringify(text)}`);
  };
}

function limit(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new UsageError(`--limit: expected an integer of 1 or more, found ${JSON.stringify(text)}`);
}

function rate(text: string): number {
  const perSecond = parseRate(text);
  if (perSecond !== undefined) return perSecond;
  throw new UsageError(`--rate: expected so many a second such as 50/s, found ${JSON.stringify(text)}`);
}

if (import.meta.main) await main(process.argv.slice(2));
