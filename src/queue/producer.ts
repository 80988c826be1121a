import type { Queue } from 'bullmq';
import type { CancelTarget } from '../domain/notification.ts';
import { InputError } from '../domain/faults.ts';
import { connectProducer, explained, whenReady } from '../redis/connection.ts';
import { addJobs, type Entry, check, delayed, type Spread, type Enqueued, type EnqueueInput } from './add-jobs.ts';
import { broadcast, checkBroadcast, type EnqueuedMany, type EnqueueManyOptions, type Positions } from './broadcast.ts';
import { type Canceled, createProducerCancel } from './cancel.ts';
import { broadcastKey, DEAD_LETTERS, QUEUE, shardOf, shardPrefixes } from './names.ts';
import { openQueues, ignoreError, checkOptions, type ProducerOptions } from './producer-options.ts';
import { checkId, findStatus, type NotificationStatus } from './status.ts';

export type { EnqueuedMany, EnqueueManyOptions } from './broadcast.ts';
export type { CancelTarget } from '../domain/notification.ts';
export type { Canceled } from './cancel.ts';
export { checkInput } from './add-jobs.ts';
export type { Enqueued, EnqueueInput } from './add-jobs.ts';
export type { ProducerOptions } from './producer-options.ts';
export type { NotificationStatus } from './status.ts';

/** The answer of `enqueue`. */
export interface EnqueuedOne {
  /** The notification's id: the given one, or the UUID that it got. */
  readonly id: string;
  /** False if the id is taken: it was enqueued before, and waits, or ended within the last hour. */
  readonly added: boolean;
}

/**
 * Adds notifications to the queue, over one connection. Keep one for the whole process, and close it at the end. After that every
 * call rejects with an Error.
 */
export interface Producer extends AsyncDisposable {
  /**
   * Adds one notification. Rejects with InputError, which lists every fault: nothing was added. Rejects with RedisAwayError: it
   * may have been added, so try again with the same id.
   */
  enqueue(input: EnqueueInput): Promise<EnqueuedOne>;
  /**
   * Adds many, several times as fast as one by one, with a result for each at its index. Valid ones are added even if others are
   * invalid. Rejects with RedisAwayError; some may have been added by then, and their ids make a second try safe.
   */
  enqueueMany(inputs: readonly EnqueueInput[]): Promise<Enqueued[]>;
  /**
   * Adds a sequence of any length, such as a million recipients from a database, with 500 in memory at a time. Rejects with
   * InputError for a bad option: nothing was added. Rejects with RedisAwayError, or with what the sequence threw; some were added
   * by then. With a `broadcastId` a second call goes on where the first one stopped; otherwise their ids make it safe.
   */
  enqueueMany(
    inputs: AsyncIterable<EnqueueInput> | Iterable<EnqueueInput>,
    options: EnqueueManyOptions,
  ): Promise<EnqueuedMany>;
  /**
   * What became of the notification with this id, as it is now. Known are those that wait, those that ended within the last hour,
   * and those in the dead letters. Rejects with InputError for an id that no notification can have, and with RedisAwayError.
   */
  status(id: string): Promise<NotificationStatus>;
  /**
   * Cancels the notification with this id, or all that wait for a recipient under a `cancellationKey`. What is canceled is not sent,
   * and ends as `canceled`; `tooLate` is what is being sent, may have alerted, or has ended. An unknown id is neither. Rejects with
   * InputError if the target is not usable, and with RedisAwayError: some may be canceled by then. It is safe to repeat, and
   * counts what was canceled before again, for an hour.
   */
  cancel(target: CancelTarget): Promise<Canceled>;
  /** Closes the connection, unless the caller gave it. `await using` calls it by itself. */
  close(): Promise<void>;
}

type Inputs = AsyncIterable<EnqueueInput> | Iterable<EnqueueInput>;

/** How long the position of a broadcast is kept after its last batch: a week. */
const POSITION_KEPT_S = 7 * 86_400;
/** How many are added in one transaction, which blocks Redis for some 20 ms. */
const CHUNK = 500;

/**
 * Adds notifications from any Node process. Connects at once, without waiting for Redis; each call waits for it, at most
 * `timeoutMs`. Throws InputError with every option that is not usable.
 */
export function createProducer(options: ProducerOptions = {}): Producer {
  const { prefix, shards, timeoutMs } = checkOptions(options);
  const isOwned = options.connection === undefined;
  const connection = options.connection ?? connectProducer(options, timeoutMs);
  if (isOwned) connection.on('error', ignoreError);
  const prefixes = shardPrefixes(prefix, shards);
  const opened = new Map<string, Promise<Queue[]>>();
  let closed: Promise<void> | undefined;

  /** Without this a call after `close` would look like an outage, though it is a mistake in the caller's code. */
  function assertOpen(): void {
    if (closed !== undefined) throw new Error('the producer was closed: it takes no more calls');
  }

  /** Resolves once Redis can be asked. */
  async function ready(): Promise<void> {
    assertOpen();
    await whenReady(connection, timeoutMs);
  }

  async function close(): Promise<void> {
    canceller.close();
    const queues = await Promise.all([...opened.values()].map((opening) => opening.catch(() => [])));
    await Promise.all(queues.flat().map((queue) => queue.close()));
    if (isOwned) connection.disconnect();
  }

  // BullMQ never recovers if the connection breaks while it asks for Redis's version, so the queues are opened again then.
  function open(name: string): Promise<Queue[]> {
    const known = opened.get(name);
    if (known !== undefined) return known;
    const opening = openQueues(name, connection, prefixes).catch((error: unknown) => {
      opened.delete(name);
      throw error;
    });
    opened.set(name, opening);
    return opening;
  }

  /** Adds them; answers those whose id was not taken. */
  async function addAll(entries: readonly Entry[]): Promise<Set<Entry>> {
    await ready();
    const added = new Set<Entry>();
    try {
      for (const [shard, queue] of (await open(QUEUE)).entries()) {
        const itsEntries = entries.filter(({ recipientId }) => shardOf(recipientId, shards) === shard);
        for (const chunk of chunksOf(itsEntries, CHUNK)) {
          for (const entry of await addJobs(queue, chunk)) added.add(entry);
        }
      }
    } catch (error) {
      throw explained(connection, error);
    }
    return added;
  }

  /** Adds those that fit. `spreadOver`: each begins to wait for its slot at a random instant within that time. */
  async function addMany(inputs: readonly EnqueueInput[], spreadOver?: Spread): Promise<Enqueued[]> {
    const checks = inputs.map((input) => delayed(check(input), spreadOver));
    const added = await addAll(checks.flatMap(({ entry }) => entry ?? []));
    return checks.map(({ entry, faults }) => {
      if (entry === undefined) return { kind: 'invalid', faults };
      return { kind: added.has(entry) ? 'added' : 'duplicate', id: entry.id };
    });
  }

  const openShards = () => open(QUEUE);
  const canceller = createProducerCancel({ assertOpen, connection, open: openShards, prefix, options, timeoutMs });

  function enqueueMany(inputs: readonly EnqueueInput[]): Promise<Enqueued[]>;
  function enqueueMany(inputs: Inputs, options: EnqueueManyOptions): Promise<EnqueuedMany>;
  async function enqueueMany(inputs: Inputs, options?: EnqueueManyOptions): Promise<Enqueued[] | EnqueuedMany> {
    if (options === undefined && Array.isArray(inputs)) return addMany(inputs as readonly EnqueueInput[]);
    checkBroadcast(options ?? {});
    const { broadcastId, spreadOverMs = 0, ...others } = options ?? {};
    const spreadOver = { from: Date.now(), ms: spreadOverMs };
    const positions = broadcastId === undefined ? undefined : positionsOf(broadcastId);
    return broadcast(inputs, (batch) => addMany(batch, spreadOver), positions, others);
  }

  function positionsOf(broadcastId: string): Positions {
    const key = broadcastKey(prefix, broadcastId);
    const ask = async <T>(command: () => Promise<T>): Promise<T> => {
      await ready();
      return command().catch((error: unknown) => {
        throw explained(connection, error);
      });
    };
    return {
      read: async () => Number((await ask(() => connection.get(key))) ?? 0),
      write: async (position) => {
        await ask(() => connection.set(key, position, 'EX', POSITION_KEPT_S));
      },
    };
  }

  return {
    async enqueue(input) {
      const { entry, faults } = check(input);
      if (entry === undefined) throw new InputError('invalid notification', faults);
      const added = await addAll([entry]);
      return { id: entry.id, added: added.has(entry) };
    },
    enqueueMany,
    async status(id) {
      checkId(id);
      await ready();
      try {
        return await findStatus(
          id,
          await open(QUEUE),
          () => open(DEAD_LETTERS),
          (job) => canceller.before(job),
        );
      } catch (error) {
        throw explained(connection, error);
      }
    },
    cancel: (target) => canceller.cancel(target),
    close: () => (closed ??= close()),
    [Symbol.asyncDispose]: () => (closed ??= close()),
  };
}

function* chunksOf<T>(items: readonly T[], size: number): Generator<T[]> {
  for (let from = 0; from < items.length; from += size) yield items.slice(from, from + size);
}
