import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { loadQueueConfig } from '../src/config/config.ts';
import { formatFault, type Fault } from '../src/domain/faults.ts';
import { RedisAwayError } from '../src/redis/connection.ts';
import { checkInput, createProducer, type Enqueued, type EnqueueInput, type Producer } from '../src/queue/producer.ts';
import { CommandError, createCommand, EXIT, printJson, runCommand, UsageError } from './support/command.ts';
import { addNotificationFlags, itemOfFlags, type NotificationFlags } from './enqueue/flags.ts';
import { itemsOfLines, type Item } from './enqueue/items.ts';
import { readEnvironment } from './support/environment.ts';
import { createProgress, type Progress } from './support/progress.ts';

interface Flags extends NotificationFlags {
  readonly file?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

interface Counts {
  read: number;
  added: number;
  duplicates: number;
  invalid: number;
}

/** How many lines are in memory at a time. */
const BATCH = 1_000;

const HELP = `
REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME, QUEUE_PREFIX and QUEUE_SHARDS say where the queue is. If a file was
enqueued only in part, enqueue it again: ids that are in the queue already count as duplicates. A line without an id is a
new notification each time.`;

/** `npm run enqueue`: validates notifications and adds them to the queue. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('enqueue', 'Validates notifications and adds them to the queue.')
    .argument('[-]', 'reads standard input, as --file - does')
    .option('--file <path>', 'notifications as NDJSON, one a line')
    .option('--dry-run', 'only validate; Redis is not asked')
    .option('--json', 'one JSON object as the last line: read, added, duplicates, invalid, dryRun')
    .addHelpText('after', HELP);
  addNotificationFlags(command).action((source: string | undefined, flags: Flags) => enqueue(source, flags));
  await runCommand(command, argv);
}

async function enqueue(source: string | undefined, flags: Flags): Promise<void> {
  const { redis, queue } = loadQueueConfig(readEnvironment());
  const { items, progress } = await open(source, flags);
  const producer = flags.dryRun === true ? undefined : createProducer({ ...redis, ...queue });
  const counts: Counts = { read: 0, added: 0, duplicates: 0, invalid: 0 };
  let lastId: string | undefined;
  try {
    for await (const batch of batchesOf(items, BATCH)) {
      const results = await resultsOf(batch, producer);
      counts.read += results.length;
      for (const [index, result] of results.entries()) {
        if (result.kind !== 'invalid') lastId = result.id;
        if (result.kind === 'invalid') progress.say(complaint(batch[index], result.faults));
        counts[COUNTED[result.kind]]++;
      }
    }
  } catch (error) {
    if (error instanceof RedisAwayError) throw new CommandError(`${error.message}; ${summary(counts, false)} before`);
    throw error;
  } finally {
    progress.stop();
    await producer?.close();
  }
  // For the flags of one notification: bad flags are bad usage, and its id is printed because one searches the log for it.
  const isOne = hasNotification(flags);
  if (isOne && counts.invalid > 0) process.exitCode = EXIT.usage;
  report(counts, flags, isOne ? lastId : undefined);
}

const COUNTED = { added: 'added', duplicate: 'duplicates', invalid: 'invalid' } as const;

function report(counts: Counts, { json, dryRun = false }: Flags, id: string | undefined): void {
  if (counts.invalid > 0) process.exitCode ??= EXIT.failure;
  const named = id === undefined ? {} : { id };
  if (json === true) printJson({ ...counts, added: dryRun ? 0 : counts.added, dryRun, ...named });
  else process.stdout.write(`${summary(counts, dryRun)}${id === undefined ? '' : `: ${id}`}\n`);
}

function summary({ added, duplicates, invalid }: Counts, dryRun: boolean): string {
  return dryRun ? `${added} valid, ${invalid} invalid` : `${added} added, ${duplicates} duplicates, ${invalid} invalid`;
}

/** `line 12: recipientId: expected …; devices: expected …` */
function complaint(item: Item | undefined, faults: readonly Fault[]): string {
  const where = item === undefined || item.where === '' ? '' : `${item.where}: `;
  return `${where}${faults.map(formatFault).join('; ')}`;
}

async function open(
  source: string | undefined,
  flags: Flags,
): Promise<{ items: AsyncIterable<Item> | Iterable<Item>; progress: Progress }> {
  if (source !== undefined && source !== '-')
    throw new UsageError(`expected - or --file, found ${JSON.stringify(source)}`);
  const inputs = [source, flags.file, hasNotification(flags) ? '' : undefined].filter((input) => input !== undefined);
  const [path] = inputs;
  if (path === undefined || inputs.length > 1) {
    throw new UsageError(`expected one of --file, - and the flags of a notification, found ${inputs.length}`);
  }
  if (path === '') return { items: [itemOfFlags(flags)], progress: createProgress('added', 1) };
  const total = path === '-' ? undefined : await sizeOf(path);
  const progress = createProgress('read', total, { unit: 'bytes' });
  const chunks = (path === '-' ? process.stdin : createReadStream(path)) as AsyncIterable<Uint8Array>;
  const onRead = (bytes: number) => {
    progress.update(bytes);
  };
  return { items: itemsOfLines(chunks, onRead), progress };
}

function hasNotification(flags: Flags): boolean {
  const others = ['file', 'dryRun', 'json'];
  return Object.entries(flags).some(([name, value]) => !others.includes(name) && String(value) !== '');
}

async function sizeOf(path: string): Promise<number> {
  try {
    const file = await stat(path);
    if (file.isDirectory()) throw new CommandError('--file: expected a file, found a folder');
    return file.size;
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`--file: cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function resultsOf(batch: readonly Item[], producer: Producer | undefined): Promise<Enqueued[]> {
  const inputs = batch.flatMap(({ input, faults }) => (faults === undefined ? [input as EnqueueInput] : []));
  const results = producer === undefined ? inputs.map(checkInput) : await producer.enqueueMany(inputs);
  let position = 0;
  return batch.flatMap(({ faults }) =>
    faults === undefined ? (results[position++] ?? []) : { kind: 'invalid', faults },
  );
}

async function* batchesOf<T>(items: AsyncIterable<T> | Iterable<T>, size: number): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

if (import.meta.main) await main(process.argv.slice(2));
