import { createReadStream } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import { addAbortSignal, type Readable } from 'node:stream';
import { loadQueueConfig } from '../src/config/config.ts';
import { formatFault, type Fault } from '../src/domain/faults.ts';
import { ID, ID_FORMAT, valueAt } from '../src/domain/json.ts';
import { instantOf, parseDuration } from '../src/domain/time.ts';
import { MAX_SPREAD_MS } from '../src/producer/broadcast.ts';
import { startTracing } from '../src/observe/tracing-sdk.ts';
import {
  checkInput,
  createProducer,
  type Enqueued,
  type EnqueueInput,
  type Producer,
} from '../src/producer/producer.ts';
import { RedisAwayError } from '../src/redis/connection.ts';
import {
  callOf,
  CommandError,
  createCommand,
  createStopSignals,
  EXIT,
  printJson,
  runCommand,
  UsageError,
} from '../src/terminal/command.ts';
import { createProgress, type Progress } from '../src/terminal/progress.ts';
import { red } from '../src/terminal/text.ts';
import { addNotificationFlags, itemOfFlags, type NotificationFlags, itemsOfLines, type Item } from './enqueue/flags.ts';
import { readEnvironment } from './support/queue.ts';

interface Flags extends NotificationFlags {
  readonly file?: string;
  readonly spread?: number;
  readonly broadcast?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

interface Counts {
  read: number;
  added: number;
  duplicates: number;
  invalid: number;
  skipped: number;
}

const HELP = `
REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME and QUEUE_PREFIX say where the queue is. How many shards there are is read from Redis;
QUEUE_SHARDS is the number for a new queue.

If a file was enqueued only in part, enqueue it again: ids that are in the queue already count as duplicates. A line without an id is a
new notification each time. With --broadcast the second run goes on where the first one stopped, so give it the same file.
It does not read bad lines again either: put the corrected ones into a file of their own. Ctrl-C waits for the
notifications that are being added; a second Ctrl-C does not.`;

/** `npm run enqueue`: validates notifications and adds them to the queue. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('enqueue', 'Validates notifications and adds them to the queue.')
    .argument('[-]', 'reads standard input, as --file - does')
    .option('--file <path>', 'notifications as NDJSON, one a line')
    .option('--spread <duration>', 'spread the alerts of a file over this time, such as 30m; 7d at most', spreadFlag)
    .option('--broadcast <name>', 'remember for 7 days how much of a file was enqueued, and go on there', broadcastFlag)
    .option('--dry-run', 'only validate; Redis is not asked')
    .option('--json', 'one JSON object as the last line: read, added, duplicates, invalid, skipped, dryRun')
    .addHelpText('after', HELP);
  addNotificationFlags(command).action((source: string | undefined, flags: Flags) => enqueue(source, flags));
  await runCommand(command, argv);
}

async function enqueue(source: string | undefined, flags: Flags): Promise<void> {
  const { redis, queue } = loadQueueConfig(readEnvironment());
  const interrupts = watchInterrupts();
  const { signal } = interrupts;
  try {
    const { items, progress, stream } = await open(source, flags, signal);
    const warn = (message: string): void => progress.say(`warning: ${message}`);
    const endTracing = flags.dryRun === true ? undefined : await startTracing(process.env, 'pushpacer-enqueue', warn);
    const producer = flags.dryRun === true ? undefined : createProducer({ ...redis, ...queue });
    const counts: Counts = { read: 0, added: 0, duplicates: 0, invalid: 0, skipped: 0 };
    try {
      await addAll(items, flags, { producer, counts, progress, signal });
    } catch (error) {
      const away = error instanceof RedisAwayError ? error.message : undefined;
      if (away === undefined && !signal.aborted) throw error;
      const what = [...(signal.aborted ? ['interrupted'] : []), ...(away === undefined ? [] : [away])].join('; ');
      const rest = signal.aborted ? restOf(counts, away === undefined ? 'not added' : 'may have been added') : '';
      throw new CommandError(`${what}; ${summary(counts, flags.dryRun)} before${rest}`);
    } finally {
      progress.stop();
      stream?.destroy(); // a pipe that stays open would keep the process alive
      await producer?.close();
      await endTracing?.();
    }
  } finally {
    interrupts.stop();
  }
}

/** The name that the story of a notification shows. */
const ENQUEUED_BY = 'pushpacer enqueue';

interface Parts {
  /** Undefined if `--dry-run` is given. */
  readonly producer: Producer | undefined;
  readonly counts: Counts;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

async function addAll(
  items: AsyncIterable<Item> | Iterable<Item>,
  flags: Flags,
  { producer, counts, progress, signal }: Parts,
): Promise<void> {
  /** The items that have no result yet. */
  const places: Item[] = [];
  async function* inputs(): AsyncGenerator<EnqueueInput> {
    for await (const item of items) {
      counts.read++;
      places.push(item);
      yield item.input as EnqueueInput; // undefined for a line that is not JSON, so that a broadcast counts it too
    }
  }
  let lastId: string | undefined;
  let expired = 0;
  const onResult = (result: Enqueued): void => {
    const { where = '', faults, input } = places.shift() ?? {};
    if (result.kind === 'invalid') {
      counts.invalid++;
      progress.say(complaint(where, faults ?? result.faults));
      return;
    }
    lastId = result.id;
    counts[result.kind === 'added' ? 'added' : 'duplicates']++;
    if (result.kind === 'added' && (instantOf(valueAt(input, 'expiresAt')) ?? Infinity) <= Date.now()) expired++;
  };
  const onSkipped = (): void => {
    counts.skipped++;
    places.shift();
  };
  if (producer === undefined) for await (const input of inputs()) onResult(checkInput(input));
  else {
    const { spread: spreadOverMs, broadcast: broadcastId } = flags;
    await producer.as(ENQUEUED_BY).enqueueMany(inputs(), { spreadOverMs, broadcastId, onResult, onSkipped, signal });
  }
  if (expired > 0) progress.say(`warning: ${expired} will not be sent, because expiresAt has passed`);
  progress.stop();
  // If the flags are one notification, bad flags are bad usage, and its id is printed because users search the log for it.
  const isOne = hasNotification(flags);
  if (isOne && counts.invalid > 0) process.exitCode = EXIT.usage;
  report(counts, flags, isOne ? lastId : undefined);
}

function report(counts: Counts, { json, dryRun = false }: Flags, id: string | undefined): void {
  if (counts.invalid > 0) process.exitCode ??= EXIT.failure;
  const named = id === undefined ? {} : { id };
  if (json === true) printJson({ ...counts, added: dryRun ? 0 : counts.added, dryRun, ...named });
  else process.stdout.write(`${summary(counts, dryRun)}${id === undefined ? '' : `: ${id}`}\n`);
}

function summary({ added, duplicates, invalid, skipped }: Counts, dryRun = false): string {
  if (dryRun) return `${added} valid, ${invalid} invalid`;
  const before = skipped === 0 ? '' : `, ${skipped} read by an earlier run`;
  return `${added} added, ${duplicates} duplicates, ${invalid} invalid${before}`;
}

/** What was read and has no result. */
function restOf({ read, added, duplicates, invalid, skipped }: Counts, what: string): string {
  const rest = read - added - duplicates - invalid - skipped;
  return rest === 0 ? '' : `; ${rest} more ${rest === 1 ? 'was' : 'were'} read and ${what}`;
}

/** `30m` in milliseconds. */
function spreadFlag(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms <= MAX_SPREAD_MS) return ms;
  throw new UsageError(`--spread: expected a duration of at most 7d, such as 30m, found ${JSON.stringify(text)}`);
}

function broadcastFlag(text: string): string {
  if (ID.test(text)) return text;
  throw new UsageError(`--broadcast: expected ${ID_FORMAT}, found ${JSON.stringify(text)}`);
}

/** `line 12: recipientId: expected …; devices: expected …`; for the flags `error: recipientId: expected …`. */
function complaint(where: string, faults: readonly Fault[]): string {
  return `${where === '' ? red('error:') : `${where}:`} ${faults.map(formatFault).join('; ')}`;
}

async function open(
  source: string | undefined,
  flags: Flags,
  signal: AbortSignal,
): Promise<{ items: AsyncIterable<Item> | Iterable<Item>; progress: Progress; stream?: Readable }> {
  if (source !== undefined && source !== '-')
    throw new UsageError(`expected - or --file, found ${JSON.stringify(source)}`);
  const inputs = [source, flags.file, hasNotification(flags) ? '' : undefined].filter((input) => input !== undefined);
  const [path] = inputs;
  if (path === undefined) throw new UsageError(usage());
  if (inputs.length > 1) {
    throw new UsageError(`expected one of --file, - and the flags of a notification, found ${inputs.length}`);
  }
  if (path === '') return { items: [itemOfFlags(flags)], progress: createProgress('added', 1) };
  const total = path === '-' ? undefined : await sizeOf(path);
  const progress = createProgress('read', total, { unit: 'bytes' });
  const stream: Readable = addAbortSignal(signal, path === '-' ? process.stdin : createReadStream(path));
  const onRead = (bytes: number) => {
    progress.update(bytes);
  };
  return { items: itemsOfLines(stream as AsyncIterable<Uint8Array>, onRead), progress, stream };
}

function usage(): string {
  const call = callOf('enqueue');
  return [
    'nothing to enqueue: expected the flags of a notification, --file, or - for standard input',
    `Examples: ${call} --recipient teacher-42 --fcm TOKEN --title 'Room 12' --body 'Forms are due'`,
    `          ${call} --file morning.ndjson`,
    '(--help shows the options)',
  ].join('\n');
}

function hasNotification(flags: Flags): boolean {
  const others = ['file', 'spread', 'broadcast', 'dryRun', 'json'];
  return Object.entries(flags).some(([name, value]) => !others.includes(name) && String(value) !== '');
}

async function sizeOf(path: string): Promise<number> {
  try {
    const file = await stat(path);
    await access(path, constants.R_OK);
    if (file.isDirectory()) throw new CommandError('--file: expected a file, found a folder');
    return file.size;
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`--file: cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** SIGINT (Ctrl-C) and SIGTERM of this process. */
interface Interrupts {
  /** Aborts with the first signal. A later one ends the process at once. */
  readonly signal: AbortSignal;
  /** Stops watching. After an interrupt the process then ends by that signal, as a shell expects after Ctrl-C. */
  stop(): void;
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

function watchInterrupts(): Interrupts {
  const interrupted = new AbortController();
  const signals = createStopSignals();
  let came: NodeJS.Signals | undefined;
  const onSignal = (signal: NodeJS.Signals): void => {
    const which = signals();
    if (which === 'first') {
      came = signal;
      interrupted.abort();
    } else if (which === 'later') {
      forget();
      process.kill(process.pid, signal);
    }
  };
  const forget = (): void => {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    signal: interrupted.signal,
    stop() {
      forget();
      const signal = came;
      // Only after the error of the command is written.
      if (signal !== undefined) setImmediate(() => process.kill(process.pid, signal));
    },
  };
}

if (import.meta.main) await main(process.argv.slice(2));
