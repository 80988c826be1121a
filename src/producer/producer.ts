import { Queue, type Job } from 'bullmq';
import { faultOf, InputError } from '../domain/faults.ts';
import { countedAs } from '../domain/limits.ts';
import {
  parseCancelTarget,
  parseRetractTarget,
  type Canceled,
  type CancelTarget,
  type Retracted,
  type RetractTarget,
} from '../notification/notification.ts';
import { ENQUEUED_BY, ENQUEUED_BY_FORMAT } from '../notification/story.ts';
import { mapInTurns } from '../domain/time.ts';
import { forEachKind, limiterPrefix } from '../limiter/limiter.ts';
import { countBefore, createCanceller } from '../limiter/redis/canceller.ts';
import { openTracing, wantsTraces, type Carried } from '../observe/tracing.ts';
import { connectProducer, explained, RedisAwayError, whenReady, type Connection } from '../redis/connection.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import { addressOf } from '../redis/target.ts';
import { addJobs, check, delayed, type Check, type Enqueued, type EnqueueInput, type Entry } from './add-jobs.ts';
import { broadcast, checkBroadcast, type EnqueuedMany, type EnqueueManyOptions, type Positions } from './broadcast.ts';
import { cancelWaiting, type CancelParts } from './cancel.ts';
import { retract } from './retract.ts';
import {
  followLayout,
  formerHomeOf,
  homeOf,
  homesOf,
  openLayout,
  prefixesOf,
  type FollowedLayout,
  type Layout,
} from '../queue/shards/layout.ts';
import { callMarks } from '../queue/shards/marks.ts';
import {
  broadcastKey,
  DEAD_LETTERS,
  destinationOf,
  jobIdOf,
  KEEP_COMPLETED,
  PRIORITY,
  QUEUE,
  RETRACT,
} from '../queue/names.ts';
import { checkOptions, limiterTarget, type ProducerOptions } from './options.ts';
import { checkId, findStatus, type NotificationStatus } from '../queue/status.ts';

export type { EnqueuedMany, EnqueueManyOptions } from './broadcast.ts';
export type { CancelTarget, RetractTarget } from '../notification/notification.ts';
export type { Canceled, Retracted } from '../notification/notification.ts';
export { checkInput } from './add-jobs.ts';
export type { Enqueued, EnqueueInput } from './add-jobs.ts';
export type { ProducerOptions } from './options.ts';
export type { NotificationStatus } from '../queue/status.ts';

/** The answer of `enqueue`. */
export interface EnqueuedOne {
  /** The notification's id: the given one, or the UUID that it got. */
  readonly id: string;
  /**
   * False if the id is taken: its notification waits, or ended within the last hour, or a retract took the id. A dead letter
   * has ended, so an hour later its id is free, also while a replay of it waits.
   */
  readonly added: boolean;
}

/**
 * Adds notifications to the queue, over one connection. Keep one producer for the whole process, and close it at the end. After
 * that every call rejects with an Error.
 */
export interface Producer extends AsyncDisposable {
  /**
   * Adds one notification, as it is at the call. Rejects with InputError, which lists every fault, if the input is not valid:
   * nothing was added. Rejects with RedisAwayError: it may have been added, so try again with the same id.
   */
  enqueue(input: EnqueueInput): Promise<EnqueuedOne>;
  /**
   * Adds many notifications, several times as fast as one by one, with a result for each at its index. Valid ones are added
   * even if others are invalid. While many are checked, other work of the process goes on: do not change the notifications
   * before the promise settles. A later call may be added first, so wait for the earlier call if the order matters. Rejects with
   * RedisAwayError; some may have been added by then, and their ids make a second try safe.
   */
  enqueueMany(inputs: readonly EnqueueInput[]): Promise<Enqueued[]>;
  /**
   * Adds a sequence of any length, such as a million recipients from a database, with 500 in memory at a time. Rejects with
   * InputError for a bad option: nothing was added. Rejects with RedisAwayError, or with what the sequence threw; some
   * notifications were added by then. With a `broadcastId`, a second call goes on where the first one stopped; otherwise their
   * ids make a second call safe.
   */
  enqueueMany(
    inputs: AsyncIterable<EnqueueInput> | Iterable<EnqueueInput>,
    options: EnqueueManyOptions,
  ): Promise<EnqueuedMany>;
  /**
   * The same `enqueue` and `enqueueMany`, but each job gets a note of who enqueued it: the name of a service, or of its client.
   * The story of a notification shows the name (`pushpacer why`). Throws InputError for a name that is not 1 to 100 letters,
   * digits, spaces and punctuation.
   */
  as(name: string): Pick<Producer, 'enqueue' | 'enqueueMany'>;
  /**
   * What became of the notification with this id, as it is now. Known are notifications that wait, that ended within the last
   * hour, or that are dead letters. Rejects with InputError for an id that no notification can have, and with RedisAwayError.
   */
  status(id: string): Promise<NotificationStatus>;
  /**
   * Cancels the notification with this id, or all that wait for a recipient under a `cancellationKey`. A canceled notification
   * is not sent, and ends as `canceled`; `tooLate` counts those that are being sent, may have alerted, or have ended. An
   * unknown id counts as neither. Rejects with InputError if the target is not usable, and with RedisAwayError: some may be
   * canceled by then. It is safe to repeat: for an hour, what was canceled before is counted again.
   */
  cancel(target: CancelTarget): Promise<Canceled>;
  /**
   * Takes back the notification with this id, or all of a recipient under a `cancellationKey`. Waiting notifications are
   * canceled. Devices that were alerted within the last hour get a background push that tells the app to remove the alert
   * (docs/retract.md). With a `badge`, the app's icon gets that number. A notification that is being sent is taken back by the
   * workers as soon as the send has ended. Rejects with InputError if the target is not usable, and with RedisAwayError: some
   * may be taken back by then. It is safe to repeat.
   */
  retract(target: RetractTarget): Promise<Retracted>;
  /** Closes the connection, unless the caller gave it. With `await using`, this is called at the end of the block. */
  close(): Promise<void>;
}

type Inputs = AsyncIterable<EnqueueInput> | Iterable<EnqueueInput>;

/** How long the position of a broadcast is kept after its last batch: a week. */
const POSITION_KEPT_S = 7 * 86_400;
/** How many notifications are added in one transaction, which blocks Redis for some 20 ms. */
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
  const opened = new Map<string, Promise<Queue>>();
  const followed = followLayout(() => openLayout(connection, { prefix, shards }));
  let closed: Promise<void> | undefined;
  const isTraced = wantsTraces(process.env, options.tracing);
  const tracing = isTraced ? openTracing({ destination: destinationOf(prefix) }, warnOnce) : undefined;

  /** Without this check, a call after `close` would look like an outage, though it is a mistake in the caller's code. */
  function assertOpen(): void {
    if (closed !== undefined) throw new Error('the producer was closed: it takes no more calls');
  }

  /** Runs `work` once Redis can be asked. */
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
    assertOpen();
    if (limiterAt === undefined) return connection;
    return (limiter ??= connectProducer(limiterAt, timeoutMs).on('error', ignoreError));
  }

  async function close(): Promise<void> {
    limiter?.disconnect();
    const queues = await Promise.allSettled(opened.values());
    await Promise.all(queues.flatMap((each) => (each.status === 'fulfilled' ? [each.value.close()] : [])));
    if (isOwned) connection.disconnect();
  }

  // BullMQ never recovers if the connection breaks while it asks for Redis's version. So if opening a queue fails, it is opened
  // again.
  async function openQueue(name: string, of: string, key: string): Promise<Queue> {
    const queue = new Queue(name, { connection, prefix: of });
    queue.on('error', ignoreError);
    try {
      await queue.waitUntilReady();
      return queue;
    } catch (error) {
      await queue.close();
      opened.delete(key);
      throw error;
    }
  }

  function openOne(name: string, of: string): Promise<Queue> {
    const key = `${of}:${name}`;
    const opening = opened.get(key) ?? openQueue(name, of, key);
    opened.set(key, opening);
    return opening;
  }

  /** The queues of this name that may have notifications, the queues of the shards first. */
  async function open(name: string): Promise<Queue[]> {
    return Promise.all(prefixesOf(await followed.look()).map((of) => openOne(name, of)));
  }

  /** Adds the entries, in a span if there is tracing; answers those whose id was not taken. */
  async function addAll(entries: readonly Entry[]): Promise<Set<Entry>> {
    if (tracing === undefined || entries.length === 0) return add(entries);
    const opened = await tracing;
    if (opened === undefined) return add(entries);
    const ids = entries.map(({ id }) => id);
    return opened.enqueue(ids, (carried) => add(entries, carried));
  }

  function add(entries: readonly Entry[], carried?: Carried): Promise<Set<Entry>> {
    return ask(async () => addWhereTheyBelong(entries, { followed, open: (of) => openOne(QUEUE, of), carried }));
  }

  /** Adds the notifications that are valid. */
  async function addMany(checks: readonly Check[]): Promise<Enqueued[]> {
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
      if (options === undefined && Array.isArray(inputs)) {
        // A copy, since the caller may change the array meanwhile.
        return addMany(await mapInTurns([...(inputs as readonly EnqueueInput[])], (input) => check(input, enqueuedBy)));
      }
      checkBroadcast(options ?? {});
      const { broadcastId, spreadOverMs = 0, ...others } = options ?? {};
      const spreadOver = { from: Date.now(), ms: spreadOverMs };
      const positions = broadcastId === undefined ? undefined : positionsOf(broadcastId);
      const take = (input: EnqueueInput): Check => delayed(check(input, enqueuedBy), spreadOver);
      return broadcast(inputs, take, addMany, positions, others);
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

  /** How many notifications are before this job in its line. Undefined if it waits in no line, or the limiter does not answer. */
  async function before({ id: jobId = '', data, progress }: Job<unknown>): Promise<number | undefined> {
    const { recipientId, category } = (data ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof recipientId !== 'string') return undefined;
    const { asks = 0 } = progress as { readonly asks?: number };
    const waiting = { recipientId, id: `${jobId}/${asks}`, ...(typeof category === 'string' && { category }) };
    try {
      await whenReady(limiterConnection(), timeoutMs);
      return await countBefore(limiterConnection(), limiterPrefix(countedAs(data as object), prefix), waiting);
    } catch {
      return undefined; // the status is then answered without this number
    }
  }

  async function cancel(given: CancelTarget): Promise<Canceled> {
    const parsed = parseCancelTarget(given);
    if (!parsed.ok) throw new InputError('unusable cancel', parsed.faults);
    return withLimiter((parts) => cancelWaiting(parsed.target, parts));
  }

  async function retractNow(given: RetractTarget): Promise<Retracted> {
    const parsed = parseRetractTarget(given);
    if (!parsed.ok) throw new InputError('unusable retract', parsed.faults);
    const deadQueue = (of: string): Promise<Queue> => openOne(DEAD_LETTERS, of);
    const calledAt = Date.now();
    return withLimiter(async (parts) => {
      const { retracted, isOpen, left, newestAt } = await retract(parsed.target, { ...parts, deadQueue, add: addAll });
      if (isOpen) await addRetract(parsed.target, left, Math.max(calledAt, newestAt));
      return retracted;
    });
  }

  /** Leaves these notifications to the workers. Workers of earlier versions do not read `left`, but go by `until`. */
  async function addRetract(target: RetractTarget, left: readonly string[], until: number): Promise<void> {
    const { prefixes } = await followed.look();
    const of = 'id' in target ? (prefixes[0] ?? prefix) : homeOf(target.recipientId, { prefixes });
    const queue = await openOne(QUEUE, of);
    const options = {
      jobId: `#order-${crypto.randomUUID()}`, // BullMQ's own ids are unique in one queue only, and a reshard may join two
      timestamp: until,
      priority: PRIORITY.high,
      removeOnComplete: KEEP_COMPLETED,
      removeOnFail: false,
      ...(!('id' in target) && { left }),
    };
    await queue.add(RETRACT, target, options);
  }

  /** When both Redises answer, runs `work` with what it needs to ask the limiters. */
  async function withLimiter<T>(work: (parts: CancelParts) => Promise<T>): Promise<T> {
    assertOpen();
    const redis = limiterConnection();
    await Promise.all([whenReady(connection, timeoutMs), whenReady(redis, timeoutMs)]);
    deciders ??= forEachKind(prefix, (ofKind) => createCanceller({ redis, prefix: ofKind, timeoutMs }));
    const parts = { connection, deciders };
    return ask(async () => {
      const queues = await open(QUEUE);
      const layout = await followed.look();
      const homes = (recipientId: string): readonly string[] => homesOf(recipientId, layout);
      return work({ ...parts, queues, homes }).catch((error: unknown) => {
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
    retract: retractNow,
    close: () => (closed ??= close()),
    [Symbol.asyncDispose]: () => (closed ??= close()),
  };
}

interface AddParts {
  readonly followed: FollowedLayout;
  readonly open: (prefix: string) => Promise<Queue>;
  readonly carried: Carried | undefined;
}

/** Adds each entry to the queue of its recipient's shard, also while queues change; answers those whose id was not taken. */
async function addWhereTheyBelong(entries: readonly Entry[], parts: AddParts): Promise<Set<Entry>> {
  const added = new Set<Entry>();
  let left = entries;
  for (let isFresh = false; left.length > 0; isFresh = true) {
    const layout = await parts.followed.look(isFresh);
    const elsewhere: Entry[] = [];
    for (const [of, itsEntries] of Map.groupBy(left, ({ recipientId }) => homeOf(recipientId, layout))) {
      const queue = await parts.open(of);
      for (let from = 0; from < itsEntries.length; from += CHUNK) {
        const chunk = itsEntries.slice(from, from + CHUNK);
        const free = layout.phase === 'move' ? await claim(chunk, layout, parts) : chunk;
        for (const entry of await addJobs(queue, free, parts.carried)) added.add(entry);
        const taken = free.filter((entry) => !added.has(entry));
        // Version 0: Redis stores no layout, so there is one queue and no id is marked.
        if (layout.version > 0 && taken.length > 0) elsewhere.push(...(await marked(taken, queue, layout, parts)));
      }
    }
    left = elsewhere;
  }
  return added;
}

/** The entries whose ids are free in the former queue. After this call nothing can be added there under these ids. */
async function claim(entries: readonly Entry[], layout: Layout, { open }: AddParts): Promise<Entry[]> {
  const free: Entry[] = [];
  for (const [of, itsEntries] of Map.groupBy(entries, ({ recipientId }) => formerHomeOf(recipientId, layout) ?? '')) {
    const isFree = await callMarks(await open(of), 'claim', idsOf(itsEntries));
    free.push(...itsEntries.filter((_, index) => isFree[index]));
  }
  return free;
}

/**
 * The entries that were not added only because their id is marked here: they are to be added again. Usually the queues have
 * changed since the last look. If they have not, the mark is from an earlier change, and is removed.
 */
async function marked(
  entries: readonly Entry[],
  queue: Queue,
  before: Layout,
  { followed }: AddParts,
): Promise<Entry[]> {
  const isMarked = await callMarks(queue, 'marked', idsOf(entries));
  const found = entries.filter((_, index) => isMarked[index]);
  if (found.length > 0 && (await followed.look(true)).version === before.version) {
    await callMarks(queue, 'clear', idsOf(found));
  }
  return found;
}

function idsOf(entries: readonly Entry[]): string[] {
  return entries.map(({ id }) => jobIdOf(id));
}

/** Warns by Node's own means, since a library has no log. */
function warnOnce(message: string): void {
  process.emitWarning(message, { type: 'PushpacerWarning' });
}

/** A listener for `error` events, since without one Node would throw them. The call that failed reports the error anyway. */
function ignoreError(): void {
  return;
}
