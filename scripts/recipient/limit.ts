import type { Command } from 'commander';
import { DURATION_FORMAT, formatDuration, parseDuration } from '../../src/domain/time.ts';
import { formatFault, printable } from '../../src/domain/faults.ts';
import { MAX_WINDOW_MS, parseRules, type Policy, type Rule } from '../../src/domain/limits.ts';
import type { Follow } from '../../src/limiter/limiter.ts';
import { createCommand, printJson, UsageError } from '../support/command.ts';
import { checkEnd, endOf, forDuration, recipientId, unfit, untilInstant, type EndFlags } from './flags.ts';
import { followed } from './follow.ts';
import { atLimiter, type Desk } from './open.ts';
import { instantFrom, policyText, waitingText } from '../support/text.ts';

interface Flags extends EndFlags {
  readonly rules?: readonly Rule[];
  readonly minGap?: number;
  readonly clear?: true;
  readonly json?: true;
}

const HELP = `
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
    .addHelpText('after', HELP)
    .action(limit);
}

async function limit(id: string, { json, ...flags }: Flags): Promise<void> {
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

function check({ rules, minGap, clear, ...end }: Flags): void {
  checkEnd(end);
  const given = Object.entries({ '--rules': rules, '--min-gap': minGap, '--for': end.for, '--until': end.until });
  const [name] = given.find(([, value]) => value !== undefined) ?? [];
  if (clear && name !== undefined) throw new UsageError(`--clear: expected no other flag, found ${name}`);
  if (clear || rules !== undefined || minGap !== undefined) return;
  throw new UsageError('--rules: expected --rules, --min-gap or --clear, found none of them');
}

async function store(id: string, flags: Flags, { limiter, config }: Desk, follow: Follow): Promise<string> {
  const { rules = config.policy.rules, minGap: minGapMs = config.policy.minGapMs } = flags;
  const policy: Policy = { rules, minGapMs };
  const { now } = await limiter.inspect(id);
  const until = endOf(flags, now);
  await limiter.limit(id, policy, { ...follow, ...(until !== undefined && { until }) });
  const end = until === undefined ? ', without an end' : ` until ${instantFrom(now, until)}`;
  return `${printable(id)} is limited to ${policyText(policy)}${end}`;
}

async function clear(id: string, { limiter, config }: Desk, follow: Follow): Promise<string> {
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
