import { Option } from 'commander';
import { loadPolicy } from '../src/config/config.ts';
import { printable } from '../src/domain/faults.ts';
import { policyText, type Policy } from '../src/domain/limits.ts';
import { instantOf } from '../src/domain/time.ts';
import { createCommand, runCommand, UsageError } from '../src/terminal/command.ts';
import { span } from '../src/terminal/text.ts';
import {
  addTakeFlags,
  checkTakeFlags,
  QUEUE_HELP,
  takeHelp,
  TIME_HELP,
  type TakeFlags,
  atDeadLetters,
  createPace,
  parseRate,
  takeChosen,
  type Outlook,
} from './dead-letters/take.ts';

interface Flags extends TakeFlags {
  /** How many in a second; Infinity: without a pause. */
  readonly rate: number;
}

/** A worker of two cores sends several times as many: new notifications go through beside a replay at this rate. */
const DEFAULT_PER_SECOND = 50;

const HELP = `
${takeHelp('replay')}

Before it asks, and with --dry-run, it says to how many recipients they go, and about when the last goes out: from --rate, and
from the limits of the living workers. If none lives, from this command's own LIMIT_RULES and LIMIT_MIN_GAP.

${TIME_HELP} Dead letters that come while the command runs are not replayed. If the command ends half-way, start it again:
nothing is lost, and nothing is replayed twice. Devices that were alerted before are skipped.

${QUEUE_HELP}`;

/** `npm run replay`: dead letters back into the queue. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('replay', 'Puts dead letters back into the queue, oldest first.');
  addTakeFlags(command, 'replay', 'seen, matched, replayed, byReason, recipients, expired, lastAfterMs, left, dryRun')
    .addOption(
      new Option('--rate <n/s>', 'the most to replay in a second; also 30/m or 500/h; off: without a pause')
        .argParser(rate)
        .default(DEFAULT_PER_SECOND, rateText(DEFAULT_PER_SECOND)),
    )
    .addHelpText('after', HELP)
    .action(async (flags: Flags) => {
      checkTakeFlags(flags, 'replay');
      const own = loadPolicy(process.env);
      await atDeadLetters('; start again to go on', async (opened) => {
        const policy = (await opened.workersPolicy()) ?? own;
        await takeChosen(opened, flags, {
          verb: 'replay',
          past: 'replayed',
          question: 'Replay them?',
          take: async (shard, stored) => (await shard.replay(stored)) !== undefined,
          pace: createPace(flags.rate),
          outlook: () => createOutlook({ perSecond: flags.rate, policy, now: opened.now }),
        });
      });
    });
  await runCommand(command, argv);
}

function rate(text: string): number {
  const perSecond = parseRate(text);
  if (perSecond !== undefined) return perSecond;
  throw new UsageError(`--rate: expected a rate such as 50/s, or off, found ${JSON.stringify(text)}`);
}

interface ReplayTerms {
  /** How many are replayed in a second; Infinity: without a pause. */
  readonly perSecond: number;
  /** The overall limits of each recipient. */
  readonly policy: Policy;
  /** Epoch milliseconds, when the replay begins. */
  readonly now: number;
}

/**
 * To how many recipients a replay goes, and about when its last alert would go out: each recipient's alerts follow one another as
 * closely as the policy allows. It does not know of what waits for them already, of limits of their own or of a category, of quiet
 * hours, and of quotas, which make it later; background pushes may come sooner.
 */
export function createOutlook({ perSecond, policy, now }: ReplayTerms): Outlook {
  /** By recipient: when their alerts go out, in milliseconds after the beginning. */
  const schedules = new Map<string, number[]>();
  const counts = new Map<string, number>();
  let [added, expired, lastAfterMs] = [0, 0, 0];

  return {
    add({ letter }) {
      const { recipientId, sendAfter, expiresAt } = fieldsOf(letter.notification);
      const replayedMs = (added++ * 1_000) / perSecond;
      const id = typeof recipientId === 'string' ? recipientId : ''; // nobody's name, and not counted as one
      if (id !== '') counts.set(id, (counts.get(id) ?? 0) + 1);
      const schedule = schedules.get(id) ?? [];
      const at = earliestMs(schedule, policy, Math.max(replayedMs, (instantOf(sendAfter) ?? now) - now));
      if ((instantOf(expiresAt) ?? Infinity) <= now + at) {
        expired += 1;
        return;
      }
      schedule.push(at);
      schedules.set(id, schedule);
      lastAfterMs = Math.max(lastAfterMs, at);
    },
    suffix() {
      const [busiest, most] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 0]);
      if (counts.size === 0) return '';
      if (counts.size === 1) return `, to ${printable(busiest)}`;
      return `, to ${counts.size} recipients${most === 1 ? '' : ` (${most} to ${printable(busiest)})`}`;
    },
    lines() {
      if (added === 0) return [];
      const gone = expired === 0 ? [] : [`About ${expired} will have expired by then, and will not be sent.`];
      if (expired === added) return ['All of them have expired: none will be sent.'];
      const rate = perSecond === Infinity ? 'Without a rate' : `At ${rateText(perSecond)}`;
      const when = lastAfterMs < 1_000 ? 'at once' : `in about ${span(lastAfterMs)}`;
      return [`${rate}, and under ${policyText(policy)}, the last goes out ${when}.`, ...gone];
    },
    fields: () => ({
      recipients: counts.size,
      expired,
      ...(expired < added && { lastAfterMs: Math.round(lastAfterMs) }),
    }),
  };
}

/** The earliest instant, from `at` on, that the policy leaves to one more alert. */
function earliestMs(schedule: readonly number[], { rules, minGapMs }: Policy, at: number): number {
  const bounds = rules.map(({ max, perMs }) => (schedule.at(-max) ?? -Infinity) + perMs);
  return Math.max(at, (schedule.at(-1) ?? -Infinity) + minGapMs, ...bounds);
}

/** `50/s`; where that is below one, `30/m` or `5/h`. */
function rateText(perSecond: number): string {
  const units = [
    [1, 's'],
    [60, 'm'],
    [3_600, 'h'],
  ] as const;
  const [size, unit] = units.find(([each]) => perSecond * each >= 1) ?? [3_600, 'h'];
  return `${Math.round(perSecond * size * 100) / 100}/${unit}`;
}

function fieldsOf(notification: unknown): Readonly<Record<string, unknown>> {
  return typeof notification === 'object' && notification !== null ? (notification as Record<string, unknown>) : {};
}

if (import.meta.main) await main(process.argv.slice(2));
