import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { loadQueueConfig } from '../../src/config/config.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/letter.ts';
import { createDeadLetters, type DeadLetters } from '../../src/dead-letters/store.ts';
import { matches, type DeadLetterFilter, takeAll } from '../../src/dead-letters/take.ts';
import type { Policy } from '../../src/domain/limits.ts';
import type { DeadLetterReason } from '../../src/domain/outcome.ts';
import { DEAD_LETTERS, QUEUE, shardPrefixes } from '../../src/queue/names.ts';
import { readWorkers, sharedPolicy } from '../../src/queue/workers.ts';
import type { Connection } from '../../src/redis/connection.ts';
import { CommandError, printJson } from '../../src/terminal/command.ts';
import { canAsk, confirm, createProgress, say } from '../../src/terminal/progress.ts';
import { wrapText, columnsOf } from '../../src/terminal/text.ts';
import { readEnvironment, atQueueRedis } from '../support/queue.ts';
import { filterOf, type FilterFlags, type TakingFlags, type Verb } from './flags.ts';

/** What the commands about dead letters need. */
export interface Desk {
  /** One for each shard. */
  readonly shards: readonly DeadLetters[];
  /** Epoch milliseconds on Redis's clock, when the command began. */
  readonly now: number;
  /** Over all shards. */
  count(): Promise<number>;
  /** The overall limits that the living workers tell; undefined if none does. */
  workersPolicy(): Promise<Policy | undefined>;
}

/** Opens the dead letters that the environment names, and runs `work`. `advice` is added to the error if Redis is lost. */
export async function atDeadLetters(advice: string, work: (desk: Desk) => Promise<void>): Promise<void> {
  const { redis, queue } = loadQueueConfig(readEnvironment());
  const open = async (connection: Connection): Promise<void> => {
    const prefixes = shardPrefixes(queue.prefix, queue.shards);
    const shards = await Promise.all(prefixes.map((prefix) => openShard(connection, prefix)));
    const [seconds, microseconds] = await connection.time();
    const now = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
    const count = async () => (await Promise.all(shards.map((shard) => shard.count()))).reduce((a, b) => a + b, 0);
    const workersPolicy = async () => sharedPolicy(await readWorkers(connection, queue.prefix))?.policy.policy;
    await work({ shards, now, count, workersPolicy });
  };
  await atQueueRedis(redis, open, advice);
}

async function openShard(connection: Connection, prefix: string): Promise<DeadLetters> {
  const open = async (name: string): Promise<Queue> => {
    const queue = new Queue(name, { connection, prefix, skipMetasUpdate: true });
    await queue.on('error', () => undefined).waitUntilReady();
    return queue;
  };
  return createDeadLetters({ queue: await open(QUEUE), deadQueue: await open(DEAD_LETTERS) });
}

/** Dead letters of all shards that match the filter, oldest first; one page of each shard is in memory at a time. */
export async function* inOrder(
  { shards, now }: Pick<Desk, 'shards' | 'now'>,
  filter: DeadLetterFilter,
): AsyncGenerator<StoredDeadLetter, void, undefined> {
  const walks = shards.map((shard) => chosenOf(shard, filter, now));
  const heads = await Promise.all(walks.map(headOf));
  for (;;) {
    const deaths = heads.map((head) => head?.letter.deadAt ?? Infinity);
    const oldest = deaths.indexOf(Math.min(...deaths));
    const [walk, head] = [walks[oldest], heads[oldest]];
    if (walk === undefined || head === undefined) return;
    yield head;
    heads[oldest] = await headOf(walk);
  }
}

type Walk = AsyncGenerator<StoredDeadLetter, undefined, undefined>;

async function headOf(walk: Walk): Promise<StoredDeadLetter | undefined> {
  return (await walk.next()).value;
}

async function* chosenOf(shard: DeadLetters, filter: DeadLetterFilter, now: number): Walk {
  for await (const page of shard.walk()) {
    for (const stored of page) if (stored.buriedAt <= now && matches(stored, filter)) yield stored;
  }
  return undefined;
}

interface Taking {
  /** The label of the progress bar. */
  readonly label: string;
  /** Takes one; false if it was gone. Absent: they are only counted. */
  readonly take?: (shard: DeadLetters, stored: StoredDeadLetter) => Promise<boolean>;
  readonly pace?: () => Promise<void>;
  /** Called for each that matches, in their order, before it is taken. */
  readonly onMatched?: (stored: StoredDeadLetter) => void;
}

/** Counts of the dead letters that existed when the command began. */
export interface TakenInAll {
  readonly seen: number;
  readonly matched: number;
  readonly taken: number;
  readonly byReason: Readonly<Partial<Record<DeadLetterReason, number>>>;
}

/** Goes through one shard after the other, oldest first in each, with a progress bar on a terminal. */
async function takeFromAll(desk: Desk, flags: FilterFlags, taking: Taking): Promise<TakenInAll> {
  const { label, take, pace, onMatched } = taking;
  const filter = filterOf(flags);
  const progress = createProgress(label, await desk.count());
  const byReason: Partial<Record<DeadLetterReason, number>> = {};
  let [shown, seen, matched, taken] = [0, 0, 0, 0];
  try {
    for (const shard of desk.shards) {
      const limit = (flags.limit ?? Infinity) - matched;
      if (limit === 0) break;
      const done = await takeAll(shard, {
        filter,
        buriedUntilMs: desk.now,
        limit,
        ...(take && { take: (stored: StoredDeadLetter) => take(shard, stored) }),
        ...(pace && { pace }),
        ...(onMatched && { onMatched }),
        onSeen: () => {
          progress.update(++shown);
        },
      });
      seen += done.seen;
      taken += done.taken;
      for (const [reason, count] of done.matched) {
        byReason[reason] = (byReason[reason] ?? 0) + count;
        matched += count;
      }
    }
  } finally {
    progress.stop();
  }
  return { seen, matched, taken, byReason };
}

/** How a command takes dead letters. */
export interface TakingCommand extends Required<Pick<Taking, 'take'>>, Pick<Taking, 'pace'> {
  readonly verb: Verb;
  readonly past: 'replayed' | 'discarded';
  /** After `120 dead letters (…)`, on a terminal. */
  readonly question: string;
  /** What it comes to, beside the counts by reason; one for each look at the dead letters. Absent: that is all. */
  readonly outlook?: () => Outlook;
}

/** Gathers what taking the dead letters would come to. */
export interface Outlook {
  add(stored: StoredDeadLetter): void;
  /** `, to 12 recipients (40 to teacher-42)`: the end of the line with the counts. */
  suffix(): string;
  /** Whole sentences. */
  lines(): readonly string[];
  /** For the JSON. */
  fields(): Readonly<Record<string, unknown>>;
}

/**
 * Says what would be taken and asks on a terminal, unless --yes or --dry-run is given; takes them, and tells what came of it. Dead
 * letters that come while the operator decides are not taken: the question was not about them.
 */
export async function takeChosen(desk: Desk, flags: TakingFlags, command: TakingCommand): Promise<void> {
  const { dryRun = false, yes = false, json = false } = flags;
  const { verb, past, take, pace, question } = command;
  const look = async (label: string, taking?: Pick<Taking, 'take' | 'pace'>) => {
    const outlook = command.outlook?.();
    const counts = await takeFromAll(desk, flags, { ...taking, label, onMatched: (stored) => outlook?.add(stored) });
    return { ...counts, outlook };
  };
  if (!dryRun && !yes) {
    const { matched, byReason, outlook } = await look('counted');
    // With none there is nothing to ask about, and the result says so.
    if (matched > 0) {
      const counts = `${deadLetters(matched)}${breakdown(byReason)}${outlook?.suffix() ?? ''}`;
      const columns = columnsOf(process.stderr) ?? Infinity;
      say([counts, ...(outlook?.lines() ?? [])].flatMap((line) => wrapText(line, columns)).join('\n'));
      if (canAsk() && !(await confirm(question))) throw new CommandError(`nothing was ${past}`);
    }
  }
  const { seen, matched, taken, byReason, outlook } = dryRun
    ? await look('counted')
    : await look(past, { take, ...(pace && { pace }) });
  const left = await desk.count();
  if (json) {
    printJson({ seen, matched, [past]: taken, byReason, ...outlook?.fields(), left, dryRun });
  } else if (dryRun) {
    const counts = `would ${verb} ${matched} of ${deadLetters(seen)}${breakdown(byReason)}${outlook?.suffix() ?? ''}`;
    process.stdout.write(`${[counts, ...(outlook?.lines() ?? [])].join('\n')}\n`);
  } else {
    process.stdout.write(`${past} ${taken} of ${deadLetters(seen)}${breakdown(byReason)}; ${left} there now\n`);
  }
}

/** ` (9 rejected, 3 stalled)`, the most frequent first; empty for none. */
export function breakdown(byReason: TakenInAll['byReason']): string {
  const counts = Object.entries(byReason).sort(([, a], [, b]) => b - a);
  return counts.length === 0 ? '' : ` (${counts.map(([reason, count]) => `${count} ${reason}`).join(', ')})`;
}

/** `1 dead letter`, `12 dead letters` */
export function deadLetters(count: number): string {
  return count === 1 ? '1 dead letter' : `${count} dead letters`;
}

/** Lets one caller after the other go on, evenly spaced, `perSecond` of them each second; the first at once. */
export function createPace(perSecond: number, now: () => number = () => performance.now()): () => Promise<void> {
  let next = -Infinity;
  return async () => {
    const at = Math.max(next, now());
    next = at + 1_000 / perSecond;
    const waitMs = at - now();
    if (waitMs > 0) await sleep(waitMs);
  };
}

/** `100/s`, `100` → 100 a second; `30/m` → 0.5 a second; `off` → Infinity; undefined if the text is no rate. */
export function parseRate(text: string): number | undefined {
  if (text === 'off') return Infinity;
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(?:\/(s|m|h))?$/.exec(text);
  if (!match) return undefined;
  const perSecond = Number(match[1]) / { s: 1, m: 60, h: 3_600 }[(match[2] ?? 's') as 's' | 'm' | 'h'];
  return perSecond > 0 ? perSecond : undefined;
}
