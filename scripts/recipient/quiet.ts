import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { formatFault, printable } from '../../src/domain/faults.ts';
import {
  quietFaults,
  quietHoursText,
  type QuietHours,
  DAYS,
  meantDay,
  type Day,
} from '../../src/domain/quiet-hours.ts';
import { createCommand, UsageError } from '../../src/terminal/command.ts';
import { alertsOf, change } from './change.ts';
import { recipientId, unfit } from './open.ts';

interface Flags {
  readonly timezone?: string;
  readonly from?: string;
  readonly until?: string;
  readonly days?: readonly unknown[];
  readonly none?: true;
  readonly file?: string;
  readonly json?: true;
}

const HELP = `
If --until is before --from, the quiet time ends on the next day. --days are the days on which it begins, such as mon-fri or
sat,sun (default: every day). For several quiet times, --file has JSON:
  { "timezone": "Europe/Paris", "quietHours": [
    { "days": ["mon"], "from": "21:00", "until": "07:00" }
  ] }
The quiet hours replace earlier ones, and those of LIMITS_FILE. They hold for all workers at once. Waiting notifications
are moved to their earliest slots, in their order, and their delayed jobs with them.`;

/** `recipient quiet ID --timezone Europe/Paris --from 21:00 --until 07:00` */
export function quietCommand(): Command {
  return createCommand('quiet', 'Stores quiet hours for this recipient: no alert is shown in them.')
    .argument('<id>', 'the recipient', recipientId)
    .option('--timezone <name>', 'whose clock: Europe/Paris')
    .option('--from <time>', 'when it begins: 21:00')
    .option('--until <time>', 'when it ends: 07:00')
    .option('--days <days>', 'the days on which it begins: mon-fri', daysOf)
    .option('--file <path>', 'the quiet hours as JSON, in place of the flags; - reads standard input')
    .option('--none', 'no time is quiet, also if LIMITS_FILE has quiet hours')
    .option('--json', 'one JSON object as the last line: recipientId, quiet, waiting, lastAt, moved')
    .addHelpText('after', HELP)
    .action(quiet);
}

async function quiet(id: string, { json, ...flags }: Flags): Promise<void> {
  const hours = await hoursOf(flags);
  await change(id, json, alertsOf(id), () => ({
    action: { kind: 'quiet', hours },
    done: (_, { quiet }) => ({ did: `${printable(id)} has quiet hours: ${quietHoursText(hours)}`, fields: { quiet } }),
  }));
}

/** The quiet hours that the flags give. Throws UsageError with every fault. */
async function hoursOf({ file, none, ...flags }: Flags): Promise<QuietHours> {
  const { timezone, from, until, days } = flags;
  const given = Object.entries({ timezone, from, until, days }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`],
  );
  const [first] = given;
  if (file !== undefined) {
    if (none || first !== undefined) {
      throw new UsageError(`--file: expected no other flag, found ${none ? '--none' : (first ?? '')}`);
    }
    return checked(await readJson(file), (path) => (path === '' ? '--file' : `--file: ${path}`));
  }
  if (none) {
    if (first !== undefined) throw new UsageError(`--none: expected no other flag, found ${first}`);
    return { timezone: 'UTC', quietHours: [] };
  }
  const missing = Object.entries({ timezone, from, until }).filter(([, value]) => value === undefined);
  if (missing.length > 0) {
    const names = missing.map(([name]) => `--${name}`).join(', ');
    throw new UsageError(`${names}: expected --timezone, --from and --until (or --file, or --none), found nothing`);
  }
  const time = { ...(days !== undefined && { days }), from, until };
  // `quietHours[0].from` is --from; `quietHours` as a whole is about the time that both give.
  const named = (path: string): string =>
    path === 'quietHours' ? '--from, --until' : `--${path.replace(/^quietHours\[0\]\.?/, '')}`;
  return checked({ timezone, quietHours: [time] }, named);
}

function checked(value: unknown, nameOf: (path: string) => string): QuietHours {
  const faults = quietFaults(value).map((fault) => ({ ...fault, path: nameOf(fault.path) }));
  if (faults.length > 0) throw new UsageError(faults.map(formatFault).join('\n'));
  return value as QuietHours;
}

async function readJson(path: string): Promise<unknown> {
  let content: string;
  try {
    content = path === '-' ? await text(process.stdin) : await readFile(path, 'utf8');
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    throw new UsageError(`--file: expected a file that can be read, found ${JSON.stringify(path)} (${code})`);
  }
  try {
    return JSON.parse(content) as unknown;
  } catch {
    throw new UsageError(`--file: expected JSON, found text that is not JSON`);
  }
}

/** `recipient unquiet ID` */
export function unquietCommand(): Command {
  return createCommand('unquiet', 'Removes the stored quiet hours: those of LIMITS_FILE hold again.')
    .argument('<id>', 'the recipient', recipientId)
    .option('--json', 'one JSON object as the last line: recipientId, wasQuiet, quiet, waiting, lastAt, moved')
    .action(unquiet);
}

async function unquiet(id: string, { json }: { json?: true }): Promise<void> {
  await change(id, json, alertsOf(id), () => ({
    action: { kind: 'unquiet' },
    done: ({ wasThere: wasQuiet }, { quiet }) => {
      const had = wasQuiet ? 'has no quiet hours of its own any more' : 'had no quiet hours of its own';
      const inForce = quiet === undefined ? '' : `; in force is ${quietHoursText(quiet.hours)}`;
      return { did: `${printable(id)} ${had}${inForce}`, fields: { wasQuiet, quiet } };
    },
  }));
}

/** `mon-fri`, `sat,sun` or both: the days, in the order in which they are written. */
export function daysOf(text: string): readonly Day[] {
  const days = text.split(',').flatMap((part) => {
    const [first = '', last = first, ...more] = part.trim().split('-');
    const [from, until] = [dayOf(first, text), dayOf(last, text)];
    if (more.length > 0) throw unfit('--days', 'days such as mon-fri or sat,sun', text);
    const count = ((until - from + DAYS.length) % DAYS.length) + 1;
    return Array.from({ length: count }, (_, index) => DAYS[(from + index) % DAYS.length] ?? 'sun');
  });
  return [...new Set(days)];
}

function dayOf(name: string, text: string): number {
  const day = DAYS.findIndex((known) => known === name);
  if (day >= 0) return day;
  const meant = meantDay(name);
  throw unfit(
    '--days',
    `days such as mon-fri or sat,sun${meant === undefined ? '' : ` (did you mean ${meant}?)`}`,
    text,
  );
}
