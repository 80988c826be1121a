import { Option, type Command } from 'commander';
import { loadQueueConfig } from '../../src/config/config.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/letter.ts';
import type { Outlook } from '../../src/dead-letters/outlook.ts';
import { createDeadLetters, type DeadLetters } from '../../src/dead-letters/store.ts';
import {
  type DeadLetterFilter,
  takeFromAll,
  type TakeCounts,
  type TakeFromAllOptions,
} from '../../src/dead-letters/take.ts';
import { printable } from '../../src/domain/faults.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { PLATFORMS, type Platform } from '../../src/notification/notification.ts';
import { DEAD_LETTER_REASONS, type DeadLetterReason } from '../../src/notification/outcome.ts';
import { parseDuration } from '../../src/domain/time.ts';
import { findLayout, prefixesOf } from '../../src/queue/shards/layout.ts';
import { DEAD_LETTERS, QUEUE } from '../../src/queue/names.ts';
import { readWorkers, sharedPolicy } from '../../src/queue/workers.ts';
import { readClock, type Connection } from '../../src/redis/connection.ts';
import { callOf, UsageError, parseInstant, CommandError, printJson } from '../../src/terminal/command.ts';
import { canAsk, confirm, createProgress, say } from '../../src/terminal/progress.ts';
import { breakdown, columnsOf, deadLetters, wrapText } from '../../src/terminal/text.ts';
import { atQueueRedis, openQueue, readEnvironment } from '../support/queue.ts';

/** The flags that choose dead letters, the same for every command. */
export interface FilterFlags {
  readonly reason?: DeadLetterReason;
  readonly recipient?: string;
  readonly platform?: Platform;
  readonly app?: string;
  readonly category?: string;
  readonly id?: string;
  /** Epoch milliseconds. */
  readonly since?: number;
  readonly until?: number;
  readonly limit?: number;
}

/** `what` is the help text of `--limit`. */
export function addFilterFlags(command: Command, what: string): Command {
  return command
    .addOption(new Option('--reason <reason>', 'only those with this reason').choices(DEAD_LETTER_REASONS))
    .option('--recipient <id>', 'only those to this recipient')
    .addOption(
      new Option('--platform <name>', 'only those with a device on this platform that was not alerted').choices(
        PLATFORMS,
      ),
    )
    .option('--app <name>', "only those with such a device of this app; '' is the app of the environment")
    .option('--category <name>', 'only those of this category')
    .option('--id <id>', 'only the notification, or the dead letter, with this id')
    .option('--since <time>', 'only those that died then or later', time('--since'))
    .option('--until <time>', 'only those that died then or before', time('--until'))
    .option('--limit <n>', what, limit);
}

export const TIME_HELP = 'Times are RFC 3339, epoch milliseconds, or a duration ago: 2h.';
export const QUEUE_HELP =
  'REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME and QUEUE_PREFIX say where the queue is. How many shards there are is read from Redis.';

/** The flags of a command that takes dead letters away. */
export interface TakeFlags extends FilterFlags {
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** What such a command does, as a verb: `replay`. It is the command's name too. */
type Verb = 'replay' | 'discard';

/** The flags that all such commands have; `fields` are those of its JSON. */
export function addTakeFlags(command: Command, verb: Verb, fields: string): Command {
  return addFilterFlags(command, `the most to ${verb}; takes the oldest`)
    .option('--all', 'all dead letters, without a filter')
    .option('--dry-run', 'only count')
    .option('-y, --yes', 'do not ask')
    .option('--json', `one JSON object as the last line: ${fields}`);
}

/** What their help says of the flags. */
export const takeHelp = (verb: Verb): string => {
  const elsewhere = verb === 'discard' ? 'without a terminal --yes is required' : 'without a terminal it goes on';
  return (
    `On a terminal the command says what it would ${verb}, and asks; ${elsewhere}. Without a filter --all is required; ` +
    '--limit is not a filter.'
  );
};

const EXAMPLES: Readonly<Record<Verb, string>> = {
  replay: '--reason provider-auth --dry-run',
  discard: '--reason unregistered --dry-run',
};

/** One word may concern all dead letters, so the caller must choose a filter or --all; what is lost for good must be confirmed. */
export function checkTakeFlags(flags: TakeFlags, verb: Verb): void {
  const isFiltered = Object.keys(filterOf(flags)).length > 0;
  if (!isFiltered && flags.all !== true) {
    throw new UsageError(
      `say which dead letters to ${verb}: with --reason, --recipient, --platform, --app, --category, --id, --since or ` +
        `--until, or all of them with --all.
Example, which only counts: ${callOf(verb)} ${EXAMPLES[verb]}`,
    );
  }
  if (isFiltered && flags.all === true) {
    throw new UsageError('--all: expected no filter beside it, since it means all dead letters; found one');
  }
  if (verb === 'discard' && flags.dryRun !== true && flags.yes !== true && !canAsk()) {
    throw new UsageError(
      'there is no terminal to ask on: add --yes to discard them without a question, or --dry-run to count them',
    );
  }
}

export function filterOf(flags: FilterFlags): DeadLetterFilter {
  const { reason, recipient, platform, app, category, id, since, until } = flags;
  if (since !== undefined && until !== undefined && since > until) {
    const [expected, found] = [until, since].map((at) => new Date(at).toISOString());
    throw new UsageError(`--since: expected an instant before --until, ${expected ?? ''}, found ${found ?? ''}`);
  }
  return {
    ...(reason !== undefined && { reason }),
    ...(recipient !== undefined && { recipientId: recipient }),
    ...(platform !== undefined && { platform }),
    ...(app !== undefined && { app }),
    ...(category !== undefined && { category }),
    ...(id !== undefined && { id }),
    ...(since !== undefined && { sinceMs: since }),
    ...(until !== undefined && { untilMs: until }),
  };
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

/** What the commands about dead letters need. */
export interface OpenDeadLetters {
  /** One for each shard. */
  readonly shards: readonly DeadLetters[];
  /** Epoch milliseconds on Redis's clock, when the command began. */
  readonly now: number;
  /** Over all shards. */
  count(): Promise<number>;
  /** The overall limits of the living workers, as the registry has them; undefined if no worker is alive. */
  workersPolicy(): Promise<Policy | undefined>;
}

/** Opens the dead letters that the environment names, and runs `work`. `advice` is added to the error if Redis is lost. */
export async function atDeadLetters(advice: string, work: (opened: OpenDeadLetters) => Promise<void>): Promise<void> {
  const { redis, queue } = loadQueueConfig(readEnvironment());
  const open = async (connection: Connection): Promise<void> => {
    const prefixes = prefixesOf(await findLayout(connection, queue));
    const shards = await Promise.all(prefixes.map((prefix) => openShard(connection, prefix)));
    const now = await readClock(connection);
    const count = async () => (await Promise.all(shards.map((shard) => shard.count()))).reduce((a, b) => a + b, 0);
    const workersPolicy = async () => sharedPolicy(await readWorkers(connection, queue.prefix))?.policy.policy;
    await work({ shards, now, count, workersPolicy });
  };
  await atQueueRedis(redis, open, advice);
}

async function openShard(connection: Connection, prefix: string): Promise<DeadLetters> {
  const queue = await openQueue(connection, QUEUE, prefix);
  return createDeadLetters({ queue, deadQueue: await openQueue(connection, DEAD_LETTERS, prefix) });
}

/** Goes through one shard after the other, oldest first in each, with a progress bar on a terminal. */
async function takeWithProgress(
  opened: OpenDeadLetters,
  flags: FilterFlags,
  { label, ...options }: LookOptions,
): Promise<TakeCounts> {
  const progress = createProgress(label, await opened.count());
  let shown = 0;
  const onSeen = (): void => {
    progress.update(++shown);
  };
  const { limit } = flags;
  try {
    const filter = filterOf(flags);
    return await takeFromAll(opened.shards, {
      ...{ ...options, filter, buriedUntilMs: opened.now, onSeen },
      ...(limit !== undefined && { limit }),
    });
  } finally {
    progress.stop();
  }
}

interface LookOptions extends Pick<TakeFromAllOptions<DeadLetters>, 'take' | 'pace' | 'onMatched'> {
  /** The label of the progress bar. */
  readonly label: string;
}

/** How a command takes dead letters. */
interface TakeCommand extends Required<Pick<LookOptions, 'take'>>, Pick<LookOptions, 'pace'> {
  readonly verb: Verb;
  readonly past: 'replayed' | 'discarded';
  /** After `120 dead letters (…)`, on a terminal. */
  readonly question: string;
  /** Makes an outlook for one walk through the dead letters. Absent: only the counts by reason are shown. */
  readonly outlook?: () => ShownOutlook;
}

/** What a command says before it takes them, beside the counts. */
export interface ShownOutlook extends Pick<Outlook, 'add'> {
  /** `, to 12 recipients (40 to teacher-42)`: the end of the line with the counts. */
  suffix(): string;
  /** Whole sentences. */
  lines(): readonly string[];
  /** For the JSON. */
  fields(): Readonly<Record<string, unknown>>;
}

/**
 * Says which dead letters it would take, and asks on a terminal, unless --yes or --dry-run is given. Then it takes them and prints
 * the counts. Dead letters that come while the operator decides are not taken: the question was not about them.
 */
export async function takeChosen(opened: OpenDeadLetters, flags: TakeFlags, command: TakeCommand): Promise<void> {
  const { dryRun = false, yes = false, json = false } = flags;
  const { verb, past, take, pace, question } = command;
  const look = async (label: string, options?: Pick<LookOptions, 'take' | 'pace'>) => {
    const outlook = command.outlook?.();
    const onMatched = (stored: StoredDeadLetter) => outlook?.add(stored);
    const counts = await takeWithProgress(opened, flags, { ...options, label, onMatched });
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
  const { seen, matched, taken, newer, byReason, outlook } = dryRun
    ? await look('counted')
    : await look(past, { take, ...(pace && { pace }) });
  const left = await opened.count();
  const isUnknown = flags.id !== undefined && matched === 0 && newer === 0;
  if (json) {
    printJson({ seen, matched, [past]: taken, newer, byReason, ...outlook?.fields(), left, dryRun });
  } else if (isUnknown) {
    // said below
  } else if (dryRun) {
    const counts = `would ${verb} ${matched} of ${deadLetters(seen)}${breakdown(byReason)}${outlook?.suffix() ?? ''}`;
    process.stdout.write(`${[counts, ...(outlook?.lines() ?? [])].join('\n')}\n`);
  } else {
    process.stdout.write(`${past} ${taken} of ${deadLetters(seen)}${breakdown(byReason)}; ${left} there now\n`);
  }
  if (isUnknown) throw new CommandError(noneText(flags));
  if (newer > 0) throw new CommandError(newerText(newer, past));
}

/** An id is of one that somebody has seen: that there is none is no success. */
function noneText({ id = '', ...flags }: TakeFlags): string {
  const others = Object.keys(filterOf(flags)).length > 0 ? ' and fits the other flags' : '';
  return `no dead letter has the id ${JSON.stringify(printable(id))}${others}`;
}

function newerText(count: number, past: string): string {
  const were = count === 1 ? 'was' : 'were';
  return `${deadLetters(count)} ${were} written by a newer version of pushpacer, and not ${past}: use the newer version`;
}
