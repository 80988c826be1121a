import { Queue, type Job } from 'bullmq';
import { faultOf, InputError } from '../domain/faults.ts';
import { countedAs } from '../domain/limits.ts';
import { parseCancelTarget, type CancelTarget } from '../domain/notification.ts';
import { ENQUEUED_BY, ENQUEUED_BY_FORMAT } from '../domain/story.ts';
import { forEachKind, limiterPrefix } from '../limiter/limiter.ts';
import { countBefore, createCanceller } from '../limiter/redis/canceller.ts';
import { openTracing, wantsTraces, type Carried } from '../observe/tracing.ts';
import { connectProducer, explained, RedisAwayError, whenReady, type Connection } from '../redis/connection.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import { addressOf } from '../redis/target.ts';
import { addJobs, check, delayed, type Enqueued, type EnqueueInput, type Entry, type Spread } from './add-jobs.ts';
import { broadcast, checkBroadcast, type EnqueuedMany, type EnqueueManyOptions, type Positions } from './broadcast.ts';
import { cancelWaiting, type Canceled, type CancelParts } from './cancel.ts';
import { broadcastKey, DEAD_LETTERS, destinationOf, QUEUE, shardOf, shardPrefixes } from './names.ts';
import { checkOptions, limiterTarget, type ProducerOptions } from './producer-options.ts';
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
   * The same `enqueue` and `enqueueMany`, which note in each job who enqueues: the name of a service, or of its client. It is shown in
   * the story of a notification (`pushpacer why`). Throws InputError for a name that is not 1 to 100 letters, digits, spaces and
   * punctuation.
   */
  as(name: string): Pick<Producer, 'enqueue' | 'enqueueMany'>;
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
  const limiterAt = limiterTarget(options);
  let limiter: Connection | undefined;
  let deciders: CancelParts['deciders'] | undefined;
  const opened = new Map<string, Promise<Queue[]>>();
  let closed: Promise<void> | undefined;
  const isTraced = wantsTraces(process.env, options.tracing);
  const tracing = isTraced ? openTracing({ destination: destinationOf(prefix) }, warnOnce) : undefined;

  /** Without this a call after `close` would look like an outage, though it is a mistake in the caller's code. */
  function assertOpen(): void {
    if (closed !== undefined) throw new Error('the producer was closed: it takes no more calls');
  }

  /** Runs it once Redis can be asked. */
  async function ask<T>(work: () => Promise<T>): Promise<T> {
    assertOpen();
    await whenReady(connection, timeoutMs);
    try {
      return await work();
    } catch (error) {
      throw explained(connection, error);
    }
  }

  /** If the limiter has a Redis of its own, the first call that needs it connects to it. */
  function limiterConnection(): Connection {
    if (limiterAt === undefined) return connection;
    return (limiter ??= connectProducer(limiterAt, timeoutMs).on('error', ignoreError));
  }

  async function close(): Promise<void> {
    limiter?.disconnect();
    const queues = await Promise.all([...opened.values()].map((opening) => opening.catch(() => [])));
    await Promise.all(queues.flat().map((queue) => queue.close()));
    if (isOwned) connection.disconnect();
  }

  /** The queue of this name in each shard. Where Redis does not answer, none stays open. */
  async function openQueues(name: string): Promise<Queue[]> {
    const queues = shardPrefixes(prefix, shards).map((of) => new Queue(name, { connection, prefix: of }));
    for (const queue of queues) queue.on('error', ignoreError);
    try {
      await Promise.all(queues.map((queue) => queue.waitUntilReady()));
      return queues;
    } catch (error) {
      await Promise.all(queues.map((queue) => queue.close()));
      opened.delete(name);
      throw error;
    }
  }

  // BullMQ never recovers if the connection breaks while it asks for Redis's version, so the queues are opened again then.
  function open(name: string): Promise<Queue[]> {
    const opening = opened.get(name) ?? openQueues(name);
    opened.set(name, opening);
    return opening;
  }

  /** Adds them, in a span if there is tracing; answers those whose id was not taken. */
  async function addAll(entries: readonly Entry[]): Promise<Set<Entry>> {
    if (tracing === undefined || entries.length === 0) return add(entries);
    const opened = await tracing;
    if (opened === undefined) return add(entries);
    const ids = entries.map(({ id }) => id);
    return opened.enqueue(ids, (carried) => add(entries, carried));
  }

  function add(entries: readonly Entry[], carried?: Carried): Promise<Set<Entry>> {
    return ask(async () => {
      const added = new Set<Entry>();
      for (const [shard, queue] of (await open(QUEUE)).entries()) {
        const itsEntries = entries.filter(({ recipientId }) => shardOf(recipientId, shards) === shard);
        for (let from = 0; from < itsEntries.length; from += CHUNK) {
          for (const entry of await addJobs(queue, itsEntries.slice(from, from + CHUNK), carried)) added.add(entry);
        }
      }
      return added;
    });
  }

  /** Adds those that fit. `spreadOver`: each begins to wait for its slot at a random instant within that time. */
  async function addMany(
    inputs: readonly EnqueueInput[],
    enqueuedBy: string | undefined,
    spreadOver?: Spread,
  ): Promise<Enqueued[]> {
    const checks = inputs.map((input) => delayed(check(input, enqueuedBy), spreadOver));
    const added = await addAll(checks.flatMap(({ entry }) => entry ?? []));
    return checks.map(({ entry, faults }) => {
      if (entry === undefined) return { kind: 'invalid', faults };
      return { kind: added.has(entry) ? 'added' : 'duplicate', id: entry.id };
    });
  }

  /** @param enqueuedBy noted in each job */
  function enqueuing(enqueuedBy: string | undefined): Pick<Producer, 'enqueue' | 'enqueueMany'> {
    function enqueueMany(inputs: readonly EnqueueInput[]): Promise<Enqueued[]>;
    function enqueueMany(inputs: Inputs, options: EnqueueManyOptions): Promise<EnqueuedMany>;
    async function enqueueMany(inputs: Inputs, options?: EnqueueManyOptions): Promise<Enqueued[] | EnqueuedMany> {
      if (options === undefined && Array.isArray(inputs)) return addMany(inputs as readonly EnqueueInput[], enqueuedBy);
      checkBroadcast(options ?? {});
      const { broadcastId, spreadOverMs = 0, ...others } = options ?? {};
      const spreadOver = { from: Date.now(), ms: spreadOverMs };
      const positions = broadcastId === undefined ? undefined : positionsOf(broadcastId);
      return broadcast(inputs, (batch) => addMany(batch, enqueuedBy, spreadOver), positions, others);
    }
    return {
      async enqueue(input) {
        const { entry, faults } = check(input, enqueuedBy);
        if (entry === undefined) throw new InputError('invalid notification', faults);
        const added = await addAll([entry]);
        return { id: entry.id, added: added.has(entry) };
      },
      enqueueMany,
    };
  }

  function positionsOf(broadcastId: string): Positions {
    const key = broadcastKey(prefix, broadcastId);
    return {
      read: async () => Number((await ask(() => connection.get(key))) ?? 0),
      write: async (position) => {
        await ask(() => connection.set(key, position, 'EX', POSITION_KEPT_S));
      },
    };
  }

  /** How many are before this job in its line. Undefined if it waits in none, or the limiter does not answer. */
  async function before({ id: jobId = '', data, progress }: Job<unknown>): Promise<number | undefined> {
    const { recipientId, category } = (data ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof recipientId !== 'string') return undefined;
    const { asks = 0 } = progress as { readonly asks?: number };
    const waiting = { recipientId, id: `${jobId}/${asks}`, ...(typeof category === 'string' && { category }) };
    try {
      await whenReady(limiterConnection(), timeoutMs);
      return await countBefore(limiterConnection(), limiterPrefix(countedAs(data as object), prefix), waiting);
    } catch {
      return undefined; // the status is answered without it
    }
  }

  async function cancel(given: CancelTarget): Promise<Canceled> {
    const parsed = parseCancelTarget(given);
    if (!parsed.ok) throw new InputError('unusable cancel', parsed.faults);
    assertOpen();
    const redis = limiterConnection();
    await Promise.all([whenReady(connection, timeoutMs), whenReady(redis, timeoutMs)]);
    deciders ??= forEachKind(prefix, (ofKind) => createCanceller({ redis, prefix: ofKind, timeoutMs }));
    const parts = { connection, deciders };
    return ask(async () => {
      const queues = await open(QUEUE);
      return cancelWaiting(parsed.target, { ...parts, queues }).catch((error: unknown) => {
        const isLimiter = error instanceof LimiterUnavailableError;
        throw isLimiter ? new RedisAwayError(addressOf(redis), error.cause ?? error) : error;
      });
    });
  }

  return {
    ...enqueuing(undefined),
    as(name) {
      const isUsable = typeof name === 'string' && ENQUEUED_BY.test(name); // callers may be plain JavaScript
      if (!isUsable) throw new InputError('unusable name', [faultOf('name', ENQUEUED_BY_FORMAT, name)]);
      return enqueuing(name);
    },
    async status(id) {
      checkId(id);
      return ask(async () => findStatus(id, await open(QUEUE), () => open(DEAD_LETTERS), before));
    },
    cancel,
    close: () => (closed ??= close()),
    [Symbol.asyncDispose]: () => (closed ??= close()),
  };
}

/** A library has no log of its own. */
function warnOnce(message: string): void {
  process.emitWarning(message, { type: 'PushpacerWarning' });
}

/** A listener for `error` events: without one Node would throw them. The call that failed reports the error. */
function ignoreError(): void {
  return;
}
