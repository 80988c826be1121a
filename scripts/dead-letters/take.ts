import type { Command } from 'commander';
import { loadQueueConfig } from '../../src/config/config.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/letter.ts';
import { createOutlook } from '../../src/dead-letters/outlook.ts';
import { rateText } from '../../src/dead-letters/pace.ts';
import { createDeadLetters, type DeadLetters } from '../../src/dead-letters/store.ts';
import { takeAll, type DeadLetterFilter, type FoundDeadLetter, type TakeOptions } from '../../src/dead-letters/take.ts';
import { printable } from '../../src/domain/faults.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { createAudit, type Audit } from '../../src/operations/audit.ts';
import { fieldsOf, type FieldOf, type Given } from '../../src/operations/fields.ts';
import { noteBegin, takeEntry } from '../../src/operations/take-runs.ts';
import {
  askToTake,
  FILTER,
  filterFrom,
  newerText,
  outlookSentences,
  TAKE,
  type Taking,
  toWhomText,
  type Wish,
} from '../../src/operations/taking.ts';
import { createShards } from '../../src/queue/shards/shards.ts';
import { readWorkers, sharedPolicy } from '../../src/queue/workers.ts';
import { readClock, type Connection } from '../../src/redis/connection.ts';
import {
  callOf,
  CommandError,
  createCommand,
  printJson,
  runCommand,
  UsageError,
  warn,
} from '../../src/terminal/command.ts';
import { canAsk, confirm, createProgress, say } from '../../src/terminal/progress.ts';
import { breakdown, columnsOf, deadLetters, wrapText } from '../../src/terminal/text.ts';
import { addFields, flagOf, namesOf, usage } from '../support/flags.ts';
import { atQueueRedis, readEnvironment, whoAmI } from '../support/queue.ts';

/** The flags that choose dead letters: the fields of `FILTER` as texts, and `--limit`. */
export type FilterFlags = Readonly<Partial<Record<keyof typeof FILTER.shape, string>>> & { readonly limit?: number };

const FILTER_FIELDS = fieldsOf({ fields: FILTER });

/** `what` is the help text of `--limit`. */
export function addFilterFlags(command: Command, what: string): Command {
  return addFields(command, FILTER_FIELDS).option('--limit <n>', what, limit);
}

/** The filter that the flags mean. */
export function chosenBy(flags: FilterFlags): Promise<DeadLetterFilter> {
  return usage(() => filterFrom(givenIn(flags, FILTER_FIELDS), Date.now(), namesOf(FILTER_FIELDS)));
}

function givenIn(flags: object, fields: readonly FieldOf[]): Given {
  const given = new Map(Object.entries(flags));
  return Object.fromEntries(fields.flatMap(({ name }) => (given.has(name) ? [[name, given.get(name)]] : [])));
}

function limit(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new UsageError(`--limit: expected an integer of 1 or more, found ${JSON.stringify(text)}`);
}

export const TIME_HELP = 'Times are RFC 3339, epoch milliseconds, or a duration ago: 2h.';
export const QUEUE_HELP =
  'REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME and QUEUE_PREFIX say where the queue is. How many shards there are is read from Redis.';

export interface OpenDeadLetters {
  readonly audit: Audit;
  readonly shards: readonly DeadLetters[];
  /** When the command began: epoch milliseconds on Redis's clock. */
  readonly now: number;
  /** How many dead letters there are in all shards. */
  count(): Promise<number>;
  /** The overall limits of the living workers, from the registry; undefined if no worker is alive. */
  workersPolicy(): Promise<Policy | undefined>;
}

/** Opens the dead letters that the environment names, and runs `work`. If Redis is lost, `advice` is added to the error. */
export async function atDeadLetters(advice: string, work: (opened: OpenDeadLetters) => Promise<void>): Promise<void> {
  const { redis, queue } = loadQueueConfig(readEnvironment());
  const open = async (connection: Connection): Promise<void> => {
    const shards = (await createShards(connection, queue).open()).map((shard) => createDeadLetters(shard));
    const now = await readClock(connection);
    const count = async () => (await Promise.all(shards.map((shard) => shard.count()))).reduce((a, b) => a + b, 0);
    const workersPolicy = async () => sharedPolicy(await readWorkers(connection, queue.prefix))?.policy.policy;
    const audit = createAudit(connection, queue.prefix);
    await work({ shards, audit, now, count, workersPolicy });
  };
  await atQueueRedis(redis, open, advice);
}

/* Replay and discard */

interface TakeFlags extends FilterFlags {
  readonly all?: boolean;
  readonly rate?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

interface TakeCommand {
  /** Takes one dead letter; false if it was gone. */
  readonly take: (shard: DeadLetters, stored: StoredDeadLetter) => Promise<boolean>;
  readonly taking: Taking;
  readonly help: string;
  readonly example: string;
  /** The JSON fields that only this command's answer has. */
  readonly answers: readonly string[];
  /**
   * The overall limits if no worker is alive, to forecast when the last alert is sent. Absent: there is no forecast, only the
   * counts by reason, and no bound on how many are taken in a second.
   */
  readonly policy?: () => Policy;
}

export async function takeMain(argv: readonly string[], command: TakeCommand): Promise<void> {
  const { taking, answers, policy, help, example } = command;
  const { name: verb, does, past } = taking;
  const left = ['pick', 'before', ...(policy === undefined ? ['rate'] : [])];
  const fields = fieldsOf({ fields: TAKE }).filter(({ name }) => !left.includes(name));
  const all = ['seen', 'matched', past, 'newer', 'byReason', ...answers, 'left', 'dryRun'];
  const definition = addFields(createCommand(verb, does), fields)
    .option('--limit <n>', `the most to ${verb}; takes the oldest`, limit)
    .option('--dry-run', 'only count')
    .option('-y, --yes', 'do not ask')
    .option('--json', `one JSON object as the last line: ${all.join(', ')}`)
    .addHelpText(
      'after',
      `
${help}On a terminal the command says what it would ${verb}, and asks; without a terminal --yes is required. Without a
filter --all is required, except with --dry-run; --limit is not a filter.

${TIME_HELP} Dead letters that come while the command runs are not ${past}. If the command ends half-way, start it again.
The audit has its begin and its end; if it is interrupted, its begin alone.

${QUEUE_HELP}`,
    )
    .action(async (flags: TakeFlags) => {
      const given = givenIn(flags, fields);
      const isChosen = Object.keys(given).some((name) => name !== 'rate');
      if (!isChosen && flags.dryRun !== true) {
        throw new UsageError(`say which dead letters to ${verb}: with ${filterFlags()}, or all of them with --all.
Example, which only counts: ${callOf(verb)} ${example} --dry-run`);
      }
      const rest = { ...(!isChosen && { all: true }), ...(policy === undefined && { rate: 'off' }) };
      const wish = await usage(() => askToTake(verb, { ...given, ...rest }, Date.now(), namesOf(fields)));
      if (flags.dryRun !== true && flags.yes !== true && !canAsk()) {
        throw new UsageError(
          `there is no terminal to ask on: add --yes to ${verb} them without a question, or --dry-run to count them`,
        );
      }
      const own = policy?.();
      await atDeadLetters('; start again to go on', (opened) => takeChosen(opened, flags, wish, { ...command, own }));
    });
  await runCommand(definition, argv);
}

/** `--reason, --recipient, … or --until` */
function filterFlags(): string {
  const flags = FILTER_FIELDS.map(flagOf);
  return `${flags.slice(0, -1).join(', ')} or ${flags.at(-1) ?? ''}`;
}

/**
 * Says which dead letters the command would take, and asks, unless --yes or --dry-run is given. Then it takes
 * them and prints the counts. Dead letters that come while the operator decides are not taken, because the question was not
 * about them.
 */
async function takeChosen(
  opened: OpenDeadLetters,
  flags: TakeFlags,
  wish: Wish,
  { taking, take, own }: TakeCommand & { readonly own: Policy | undefined },
): Promise<void> {
  const { dryRun = false, yes = false, json = false } = flags;
  const { name: verb, past, question } = taking;
  const { perSecond } = wish;
  const policy = own && ((await opened.workersPolicy()) ?? own);
  const look = async (label: string, options?: Pick<TakeOptions, 'take' | 'perSecond'>) => {
    const terms = policy && { perSecond, policy, now: opened.now };
    const outlook = terms && createOutlook(terms);
    const onMatched = (stored: StoredDeadLetter) => outlook?.add(stored);
    const progress = createProgress(label, await opened.count());
    let shown = 0;
    const onSeen = (): void => progress.update(++shown);
    const choice = { which: wish.which, buriedUntilMs: opened.now, limit: flags.limit };
    const counts = await takeAll(opened.shards, { ...options, ...choice, onMatched, onSeen }).finally(() =>
      progress.stop(),
    );
    const forecast = outlook?.forecast();
    const toWhom = forecast === undefined ? '' : toWhomText(forecast);
    const sentences = forecast === undefined || terms === undefined ? [] : outlookSentences(forecast, terms);
    return { ...counts, forecast, said: [`${breakdown(counts.byReason)}${toWhom}`, ...sentences] };
  };
  if (!dryRun && !yes) {
    const { matched, said } = await look('counted');
    // If none matches there is nothing to ask about, and the result says so.
    if (matched > 0) {
      const columns = columnsOf(process.stderr) ?? Infinity;
      say(
        [`${deadLetters(matched)}${said[0] ?? ''}`, ...said.slice(1)]
          .flatMap((each) => wrapText(each, columns))
          .join('\n'),
      );
      if (!(await confirm(question))) throw new CommandError(`nothing was ${past}`);
    }
  }
  const facts = { state: 'began', rate: rateText(perSecond), ...(flags.limit !== undefined && { limit: flags.limit }) };
  const noteEnd = async (end: Readonly<Record<string, string | number>>): Promise<void> => {
    if (began === undefined) return;
    await opened.audit.write({ ...takeEntry(wish, whoAmI()), facts: end }).catch(() => {
      warn('that it has ended could not be written to the audit');
    });
  };
  // The audit is written just before the first dead letter is taken, so that a command that finds none leaves no entry.
  let began: Promise<void> | undefined;
  let done = 0;
  const counted = async (found: FoundDeadLetter): Promise<boolean> => {
    await (began ??= noteBegin(opened.audit, wish, whoAmI(), facts));
    const shard = opened.shards[found.shard];
    const isTaken = shard !== undefined && (await take(shard, found));
    if (isTaken) done++;
    return isTaken;
  };
  const taken = dryRun
    ? await look('counted')
    : await look(past, { take: counted, perSecond }).catch(async (error: unknown) => {
        await noteEnd({ state: 'failed', done });
        throw error;
      });
  const { seen, matched, newer, byReason, forecast, said } = taken;
  await noteEnd({ state: 'done', done, of: matched });
  const left = await opened.count();
  const isUnknown = flags.id !== undefined && matched === 0 && newer === 0;
  if (json) {
    const { recipients, expired, lastAfterMs } = forecast ?? {};
    printJson({ seen, matched, [past]: done, newer, byReason, recipients, expired, lastAfterMs, left, dryRun });
  } else if (isUnknown) {
    // the error is reported below
  } else if (dryRun) {
    const [counts = '', ...sentences] = said;
    process.stdout.write([`would ${verb} ${matched} of ${deadLetters(seen)}${counts}`, ...sentences, ''].join('\n'));
  } else {
    process.stdout.write(`${past} ${done} of ${deadLetters(seen)}${breakdown(byReason)}; ${left} there now\n`);
  }
  if (isUnknown) throw new CommandError(noneText(flags));
  const text = newerText(newer, past);
  if (text !== undefined) throw new CommandError(text);
}

/** An error text if the given id was not found: the operator has seen a dead letter with this id, so finding none is no success. */
function noneText({ id = '', ...flags }: TakeFlags): string {
  const others = Object.keys(givenIn(flags, FILTER_FIELDS)).length > 0 ? ' and fits the other flags' : '';
  return `no dead letter has the id ${JSON.stringify(printable(id))}${others}`;
}
