import type { Command } from 'commander';
import { printable, formatFault } from '../../src/domain/faults.ts';
import { MAX_WINDOW_MS, parseRules, limitedText, policyText, type Policy, type Rule } from '../../src/domain/limits.ts';
import { DURATION_FORMAT, formatDuration, parseDuration } from '../../src/domain/time.ts';
import type { Action } from '../../src/limiter/foresee.ts';
import type { Inspection } from '../../src/limiter/limiter.ts';
import { act, type Acted } from '../../src/operations/actions.ts';
import { createCommand, printJson, UsageError } from '../../src/terminal/command.ts';
import { createProgress } from '../../src/terminal/progress.ts';
import { instantFrom } from '../../src/terminal/text.ts';
import { waitingText, type Waiting } from '../support/queue.ts';
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
  await change(id, json, waitingOf(id), (_, { now }) => {
    const until = endOf(end, now, MOST_AHEAD_MS) as number; // one of the two is given
    const did = `${printable(id)} is blocked until ${instantFrom(now, until)}: ${printable(reason)}`;
    return { action: { kind: 'block', until, reason }, done: () => ({ did, fields: { until, reason }, now }) };
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
  await change(id, json, waitingOf(id), () => ({
    action: { kind: 'unblock' },
    done: ({ wasThere: wasBlocked }) => {
      const did = `${printable(id)} ${wasBlocked ? 'is not blocked any more' : 'was not blocked'}`;
      return { did, fields: { wasBlocked }, isOneLine: true };
    },
  }));
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
  await change(id, json, alertsOf(id), ({ config }, { now }) => {
    const { action, didOf } = flags.clear ? clearing(id, config) : storing(id, flags, now, config);
    return {
      action,
      done: ({ wasThere }, { policy, source, policyUntil: until }) => ({
        did: didOf(wasThere),
        fields: { policy, source, until },
      }),
    };
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

type Config = OpenLimiters['config'];

/** A command, and what to say of it. */
interface Limiting {
  readonly action: Action;
  readonly didOf: (wasLimited: boolean) => string;
}

function storing(id: string, flags: LimitFlags, now: number, config: Config): Limiting {
  const { rules = config.policy.rules, minGap: minGapMs = config.policy.minGapMs } = flags;
  const policy: Policy = { rules, minGapMs };
  const until = endOf(flags, now);
  const end = until === undefined ? ', without an end' : ` until ${instantFrom(now, until)}`;
  const did = `${printable(id)} ${limitedText(policy)}${end}`;
  return { action: { kind: 'limit', policy, until }, didOf: () => did };
}

function clearing(id: string, { policy }: Config): Limiting {
  const didOf = (wasLimited: boolean): string => {
    const had = wasLimited ? 'has no limits of its own any more' : 'had no limits of its own';
    return `${printable(id)} ${had}; in force is ${policyText(policy)}`;
  };
  return { action: { kind: 'unlimit' }, didOf };
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
  await change(id, json, alertsOf(id), (_, { sent }) => ({
    action: { kind: 'reset' },
    done: ({ wasThere: wasKnown }) => {
      const name = printable(id);
      const did = wasKnown ? `forgot ${sent.length} sent to ${name}` : `nothing was sent to ${name} lately`;
      return { did, fields: { wasKnown, sent: sent.length }, isOneLine: true };
    },
  }));
}

/** What a command did. */
interface Done {
  /** As text. */
  readonly did: string;
  /** In the JSON, beside `recipientId`, `waiting`, `lastAt` and `moved`. */
  readonly fields: object;
  /** The instant that `did` counts from, if that is not the limiter's clock after the command. */
  readonly now?: number;
  /** What waits is said on the same line. */
  readonly isOneLine?: boolean;
}

/** What a command is to do, and what to say when it is done. */
interface Plan<Known> {
  readonly action: Action;
  /** @param after what is known of the recipient then */
  readonly done: (acted: Acted, after: Known) => Done;
}

/**
 * Runs an operator's command, and says what was done, and what waits now.
 *
 * @param look what is known of the recipient; called before and after
 */
export async function change<Known extends Waiting>(
  id: string,
  json: true | undefined,
  look: (limiters: OpenLimiters) => Promise<Known>,
  plan: (limiters: OpenLimiters, before: Known) => Plan<Known>,
): Promise<void> {
  await atLimiter(async (limiters) => {
    const before = await look(limiters);
    const mostly = before.reserved.length; // others may come meanwhile
    const { action, done } = plan(limiters, before);
    const { limiter, apart, config } = limiters;
    const acted = await atQueue(config, id, async (queues) => {
      const progress = createProgress('moved', mostly);
      const parts = { limiters: { alert: limiter, ...apart }, policy: config.policy, queues };
      try {
        return await act(id, action, parts, (moved) => progress.update(moved, Math.max(moved, mostly)));
      } finally {
        progress.stop();
      }
    });
    const after = await look(limiters);
    const { reserved } = after;
    const { did, fields, now = after.now, isOneLine } = done(acted, after);
    const waits = waitingText({ now, reserved });
    if (json) {
      const lastAt = reserved.at(-1)?.at;
      printJson({ recipientId: id, ...fields, waiting: reserved.length, lastAt, moved: acted.moved });
    } else process.stdout.write(`${did}${waits === undefined ? '' : `${isOneLine ? '; ' : '\n'}${waits}`}\n`);
  });
}

/** What the limiter of alerts knows of the recipient. */
export function alertsOf(id: string): (limiters: OpenLimiters) => Promise<Inspection> {
  return ({ limiter }) => limiter.inspect(id);
}

/** What waits at all limiters of the recipient, the next one first. */
function waitingOf(id: string): (limiters: OpenLimiters) => Promise<Waiting> {
  return async ({ limiter, apart }) => {
    const others = Object.values(apart).map((each) => each.inspect(id));
    const [alerts, ...pushes] = await Promise.all([limiter.inspect(id), ...others]);
    const reserved = [alerts, ...pushes].flatMap((each) => each.reserved);
    return { now: alerts.now, reserved: reserved.toSorted((a, b) => a.at - b.at) };
  };
}
