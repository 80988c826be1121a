import { Option, type Command } from 'commander';
import { parseDuration } from '../../src/domain/time.ts';
import { DEAD_LETTER_REASONS, type DeadLetterReason } from '../../src/domain/outcome.ts';
import type { DeadLetterFilter } from '../../src/dead-letters/take.ts';
import { UsageError } from '../support/command.ts';
import { parseInstant } from '../support/flags.ts';

/** The flags that choose dead letters, the same for every command. */
export interface FilterFlags {
  readonly reason?: DeadLetterReason;
  readonly recipient?: string;
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
    .option('--id <id>', 'only the notification, or the dead letter, with this id')
    .option('--since <time>', 'only those that died then or later', time('--since'))
    .option('--until <time>', 'only those that died then or before', time('--until'))
    .option('--limit <n>', what, limit);
}

export const TIME_HELP = 'Times are RFC 3339, epoch milliseconds, or a duration ago: 2h.';
export const QUEUE_HELP =
  'REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME, QUEUE_PREFIX and QUEUE_SHARDS say where the queue is.';

export function filterOf({ reason, recipient, id, since, until }: FilterFlags): DeadLetterFilter {
  if (since !== undefined && until !== undefined && since > until) {
    const [expected, found] = [until, since].map((at) => new Date(at).toISOString());
    throw new UsageError(`--since: expected an instant before --until, ${expected ?? ''}, found ${found ?? ''}`);
  }
  return {
    ...(reason !== undefined && { reason }),
    ...(recipient !== undefined && { recipientId: recipient }),
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
