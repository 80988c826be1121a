import { Option, type Command } from 'commander';
import { PLATFORMS, type Platform } from '../../src/domain/notification.ts';
import { parseDuration } from '../../src/domain/time.ts';
import { DEAD_LETTER_REASONS, type DeadLetterReason } from '../../src/domain/outcome.ts';
import type { DeadLetterFilter } from '../../src/dead-letters/take.ts';
import { callOf, UsageError, parseInstant } from '../../src/terminal/command.ts';
import { canAsk } from '../../src/terminal/progress.ts';

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
  'REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME, QUEUE_PREFIX and QUEUE_SHARDS say where the queue is.';

/** The flags of a command that takes dead letters away. */
export interface TakingFlags extends FilterFlags {
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** What such a command does, as a verb: `replay`. It is the command's name too. */
export type Verb = 'replay' | 'discard';

/** The flags that all such commands have; `fields` are those of its JSON. */
export function addTakingFlags(command: Command, verb: Verb, fields: string): Command {
  return addFilterFlags(command, `the most to ${verb}; takes the oldest`)
    .option('--all', 'all dead letters, without a filter')
    .option('--dry-run', 'only count')
    .option('-y, --yes', 'do not ask')
    .option('--json', `one JSON object as the last line: ${fields}`);
}

/** What their help says of the flags. */
export const takingHelp = (verb: Verb): string => {
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
export function checkTaking(flags: TakingFlags, verb: Verb): void {
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
