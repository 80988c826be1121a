import type { Command } from 'commander';
import type { Config } from '../../src/config/config.ts';
import { duesOf, MOVE_LEAD_MS } from '../../src/delivery/slot.ts';
import { printable, formatFault } from '../../src/domain/faults.ts';
import { MAX_WINDOW_MS, parseRules, type Policy, type Rule } from '../../src/domain/limits.ts';
import { DURATION_FORMAT, formatDuration, parseDuration } from '../../src/domain/time.ts';
import type { Follow, Moved } from '../../src/limiter/limiter.ts';
import { paceOf } from '../../src/limiter/pace.ts';
import { redelay } from '../../src/queue/job-lock.ts';
import { createCommand, printJson, UsageError } from '../../src/terminal/command.ts';
import { createProgress } from '../../src/terminal/progress.ts';
import { instantFrom } from '../../src/terminal/text.ts';
import { waitingText, policyText } from '../support/queue.ts';
import {
  checkEnd,
  endOf,
  forDuration,
  MOST_AHEAD_MS,
  recipientId,
  unfit,
  untilInstant,
  type EndFlags,
  atLimiter,
  waitingAt,
  type OpenLimiters,
  atQueue,
} from './open.ts';

interface BlockFlags extends EndFlags {
  readonly reason: string;
  readonly json?: true;
}

const MAX_REASON = 500;

const BLOCK_HELP = `
Waiting notifications are moved behind the end, in their order, and their delayed jobs with them. Those whose expiresAt comes
first expire. An earlier block is replaced.`;

/** `recipient block ID --for 2h --reason TEXT` */
export function blockCommand(): Command {
  return createCommand('block', 'Stops all notifications to this recipient until the end.')
    .argument('<id>', 'the recipient', recipientId)
    .option('--for <duration>', 'from now, such as 2h', forDuration)
    .option('--until <time>', 'RFC 3339 or epoch milliseconds', untilInstant)
    .requiredOption('--reason <text>', 'for people to read', reason)
    .option('--json', 'one JSON object as the last line: recipientId, until, reason, waiting, lastAt, moved')
    .addHelpText('after', BLOCK_HELP)
    .action(block);
}

async function block(id: string, { reason, json, ...end }: BlockFlags): Promise<void> {
  checkEnd(end);
  if (end.for === undefined && end.until === undefined) {
    throw new UsageError('--for: expected --for or --until, found neither');
  }
  await atLimiter(async ({ config, ...limiters }) => {
    const { now, reserved } = await waitingAt(limiters, id);
    const until = endOf(end, now, MOST_AHEAD_MS) as number; // one of the two is given
    const { moved } = await followed(id, config, reserved.length, async (follow) => {
      await limiters.limiter.block(id, { until, reason }, follow);
      for (const each of Object.values(limiters.apart)) await each.block(id, { until, reason }, follow);
    });
    const after = await waitingAt(limiters, id);
    const lines = [
      `${printable(id)} is blocked until ${instantFrom(now, until)}: ${printable(reason)}`,
      waitingText({ ...after, now }),
    ];
    const lastAt = after.reserved.at(-1)?.at;
    if (json) printJson({ recipientId: id, until, reason, waiting: after.reserved.length, lastAt, moved });
    else process.stdout.write(`${lines.filter((line) => line !== undefined).join('\n')}\n`);
  });
}

function reason(text: string): string {
  const length = Array.from(text).length;
  if (length >= 1 && length <= MAX_REASON && printable(text) === text) return text;
  throw unfit('--reason', `1 to ${MAX_REASON} printable characters`, text.slice(0, MAX_REASON));
}

/** `recipient unblock ID` */
export function unblockCommand(): Command {
  return createCommand('unblock', 'Ends the block. Notifications that wait are moved to their earliest slots.')
    .argument('<id>', 'the recipient', recipientId)
    .option('--json', 'one JSON object as the last line: recipientId, wasBlocked, waiting, lastAt, moved')
    .action(unblock);
}

async function unblock(id: string, { json }: { json?: true }): Promise<void> {
  await atLimiter(async ({ config, ...limiters }) => {
    const { reserved } = await waitingAt(limiters, id);
    const { result: wasBlocked, moved } = await followed(id, config, reserved.length, async (follow) => {
      let wasBlocked = await limiters.limiter.unblock(id, follow);
      for (const each of Object.values(limiters.apart)) wasBlocked = (await each.unblock(id, follow)) || wasBlocked;
      return wasBlocked;
    });
    const after = await waitingAt(limiters, id);
    const waiting = waitingText(after);
    const lastAt = after.reserved.at(-1)?.at;
    const did = `${printable(id)} ${wasBlocked ? 'is not blocked any more' : 'was not blocked'}`;
    if (json) printJson({ recipientId: id, wasBlocked, waiting: after.reserved.length, lastAt, moved });
    else process.stdout.write(`${did}${waiting === undefined ? '' : `; ${waiting}`}\n`);
  });
}

interface LimitFlags extends EndFlags {
  readonly rules?: readonly Rule[];
  readonly minGap?: number;
  readonly clear?: true;
  readonly json?: true;
}

const LIMIT_HELP = `
What is not given comes from LIMIT_RULES and LIMIT_MIN_GAP. The limits hold for all workers at once. Waiting notifications
are moved to their earliest slots, in their order, and their delayed jobs with them. Limits per category hold too.`;

/** `recipient limit ID --rules 5/1m --min-gap 10s --for 7d`, `recipient limit ID --clear` */
export function limitCommand(): Command {
  return createCommand('limit', 'Stores limits for this recipient, in place of the general ones.')
    .argument('<id>', 'the recipient', recipientId)
    .option('--rules <rules>', 'as LIMIT_RULES: 5/1m,50/1h; the word none for no rules', rules)
    .option('--min-gap <duration>', 'as LIMIT_MIN_GAP: 10s; 0 for none', minGap)
    .option('--for <duration>', 'from now, such as 7d (default: without an end)', forDuration)
    .option('--until <time>', 'RFC 3339 or epoch milliseconds', untilInstant)
    .option('--clear', 'forget the stored limits: the general ones hold again')
    .option('--json', 'one JSON object as the last line: recipientId, policy, source, until, waiting, lastAt, moved')
    .addHelpText('after', LIMIT_HELP)
    .action(limit);
}

async function limit(id: string, { json, ...flags }: LimitFlags): Promise<void> {
  check(flags);
  await atLimiter(async (desk) => {
    const { reserved: before } = await desk.limiter.inspect(id);
    const { result: did, moved } = await followed(id, desk.config, before.length, (follow) =>
      flags.clear ? clear(id, desk, follow) : store(id, flags, desk, follow),
    );
    const after = await desk.limiter.inspect(id);
    const { policy, source, policyUntil: until, reserved } = after;
    const result = {
      recipientId: id,
      policy,
      source,
      until,
      waiting: reserved.length,
      lastAt: reserved.at(-1)?.at,
      moved,
    };
    const lines = [did, waitingText(after)].filter((line) => line !== undefined);
    if (json) printJson(result);
    else process.stdout.write(`${lines.join('\n')}\n`);
  });
}

function check({ rules, minGap, clear, ...end }: LimitFlags): void {
  checkEnd(end);
  const given = Object.entries({ '--rules': rules, '--min-gap': minGap, '--for': end.for, '--until': end.until });
  const [name] = given.find(([, value]) => value !== undefined) ?? [];
  if (clear && name !== undefined) throw new UsageError(`--clear: expected no other flag, found ${name}`);
  if (clear || rules !== undefined || minGap !== undefined) return;
  throw new UsageError('--rules: expected --rules, --min-gap or --clear, found none of them');
}

async function store(
  id: string,
  flags: LimitFlags,
  { limiter, config }: OpenLimiters,
  follow: Follow,
): Promise<string> {
  const { rules = config.policy.rules, minGap: minGapMs = config.policy.minGapMs } = flags;
  const policy: Policy = { rules, minGapMs };
  const { now } = await limiter.inspect(id);
  const until = endOf(flags, now);
  await limiter.limit(id, policy, { ...follow, ...(until !== undefined && { until }) });
  const end = until === undefined ? ', without an end' : ` until ${instantFrom(now, until)}`;
  return `${printable(id)} is limited to ${policyText(policy)}${end}`;
}

async function clear(id: string, { limiter, config }: OpenLimiters, follow: Follow): Promise<string> {
  const wasLimited = await limiter.unlimit(id, follow);
  const had = wasLimited ? 'has no limits of its own any more' : 'had no limits of its own';
  return `${printable(id)} ${had}; in force is ${policyText(config.policy)}`;
}

function rules(text: string): readonly Rule[] {
  if (text === 'none') return [];
  const parsed = parseRules(text, '--rules');
  if (parsed.ok) return parsed.rules;
  throw new UsageError(parsed.faults.map(formatFault).join('\n'));
}

function minGap(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms <= MAX_WINDOW_MS) return ms;
  throw unfit('--min-gap', `0 or ${DURATION_FORMAT}, at most ${formatDuration(MAX_WINDOW_MS)}`, text);
}

const RESET_HELP = `
Sent alerts no longer count, so more may follow at once. Waiting notifications are moved to their earliest slots, in their
order, and their delayed jobs with them. Stored limits and a block stay.`;

/** `recipient reset ID` */
export function resetCommand(): Command {
  return createCommand('reset', 'Forgets what was sent to this recipient, in every category.')
    .argument('<id>', 'the recipient', recipientId)
    .option('--json', 'one JSON object as the last line: recipientId, wasKnown, sent, waiting, lastAt, moved')
    .addHelpText('after', RESET_HELP)
    .action(reset);
}

async function reset(id: string, { json }: { json?: true }): Promise<void> {
  await atLimiter(async ({ limiter, config }) => {
    const { sent, reserved } = await limiter.inspect(id);
    const { result: wasKnown, moved } = await followed(id, config, reserved.length, (follow) =>
      limiter.reset(id, follow),
    );
    const after = await limiter.inspect(id);
    const waiting = waitingText(after);
    const lastAt = after.reserved.at(-1)?.at;
    const did = wasKnown
      ? `forgot ${sent.length} sent to ${printable(id)}`
      : `nothing was sent to ${printable(id)} lately`;
    if (json)
      printJson({ recipientId: id, wasKnown, sent: sent.length, waiting: after.reserved.length, lastAt, moved });
    else process.stdout.write(`${did}${waiting === undefined ? '' : `; ${waiting}`}\n`);
  });
}

/** The result of an operator's command, and how many waiting notifications it moved to another slot. */
export interface Followed<T> {
  readonly result: T;
  readonly moved: number;
}

/**
 * Runs an operator's command, and changes the due times of the recipient's delayed jobs to their new slots. A job that a worker has
 * at that moment asks the limiter anyway.
 *
 * @param waiting about how many wait, for the progress bar
 */
export function followed<T>(
  recipientId: string,
  { redis, queue, policy }: Pick<Config, 'redis' | 'queue' | 'policy'>,
  waiting: number,
  act: (follow: Follow) => Promise<T>,
): Promise<Followed<T>> {
  return atQueue({ redis, queue, recipientId }, async (shard) => {
    const progress = createProgress('moved', waiting);
    let moved = 0;
    const onMoved = async (part: readonly Moved[]): Promise<void> => {
      await redelay(shard, duesOf(part, paceOf(policy).toleranceMs));
      moved += part.length;
      progress.update(moved, Math.max(moved, waiting));
    };
    try {
      return { result: await act({ onMoved, leadMs: MOVE_LEAD_MS }), moved };
    } finally {
      progress.stop();
    }
  });
}
