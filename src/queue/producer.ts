import { Queue } from 'bullmq';
import { InputError, type Fault } from '../domain/faults.ts';
import { parseNotification, type NotificationInput } from '../domain/notification.ts';
import { payloadFaults } from '../domain/notification-rules.ts';
import { addJobs, type Entry } from './add-jobs.ts';
import { connectProducer, explained, whenReady, type Connection } from '../redis/connection.ts';
import { PRIORITY, QUEUE } from './names.ts';
import { checkOptions, type ProducerOptions } from './producer-options.ts';
import { shardOf, shardPrefixes } from './shards.ts';

export type { ProducerOptions } from './producer-options.ts';

/** A notification to enqueue: a `NotificationInput` whose id may be left out. */
export interface EnqueueInput extends Omit<NotificationInput, 'id'> {
  /**
   * Idempotency key, and the job id: the same id twice is one notification. 1 to 128 of `A-Z a-z 0-9 . _ ~ -`. Default: a new
   * UUID. Example: `msg-8841`.
   */
  id?: string | undefined;
}

/** The result for one notification. */
export type Enqueued =
  | {
      /** It is in the queue now. */
      readonly kind: 'added';
      /** Its id: the given one, or the UUID that it got. */
      readonly id: string;
    }
  | {
      /** The id is taken: it was enqueued before, and waits, or ended within the last hour. Nothing was added. */
      readonly kind: 'duplicate';
      /** The id that is taken. */
      readonly id: string;
    }
  | {
      /** It does not fit. Nothing was added. */
      readonly kind: 'invalid';
      /** Everything that is wrong with it. */
      readonly faults: readonly Fault[];
    };

/** The answer of `enqueue`. */
export interface EnqueuedOne {
  /** The notification's id: the given one, or the UUID that it got. */
  readonly id: string;
  /** False if the id is taken: it was enqueued before, and waits, or ended within the last hour. */
  readonly added: boolean;
}

/** Adds notifications to the queue, over one connection. Keep one for the whole process, and close it at the end. */
export interface Producer {
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
  /** Closes the connection, unless the caller gave it. */
  close(): Promise<void>;
}

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
  if (isOwned) connection.on('error', toldElsewhere);
  const prefixes = shardPrefixes(prefix, shards);
  let queues: Promise<Queue[]> | undefined;

  // BullMQ never recovers if the connection breaks while it asks for Redis's version, so the queues are opened again then.
  function open(): Promise<Queue[]> {
    queues ??= openQueues(connection, prefixes).catch((error: unknown) => {
      queues = undefined;
      throw error;
    });
    return queues;
  }

  /** Adds them; answers those whose id was not taken. */
  async function addAll(entries: readonly Entry[]): Promise<Set<Entry>> {
    await whenReady(connection, timeoutMs);
    const added = new Set<Entry>();
    try {
      for (const [shard, queue] of (await open()).entries()) {
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

  return {
    async enqueue(input) {
      const { entry, faults } = check(input);
      if (entry === undefined) throw new InputError('invalid notification', faults);
      const added = await addAll([entry]);
      return { id: entry.id, added: added.has(entry) };
    },
    async enqueueMany(inputs) {
      const checks = inputs.map(check);
      const added = await addAll(checks.flatMap(({ entry }) => entry ?? []));
      return checks.map(({ entry, faults }) => {
        if (entry === undefined) return { kind: 'invalid', faults };
        return { kind: added.has(entry) ? 'added' : 'duplicate', id: entry.id };
      });
    },
    async close() {
      const opened = await queues?.catch(() => undefined);
      await Promise.all((opened ?? []).map((queue) => queue.close()));
      if (isOwned) connection.disconnect();
    },
  };
}

async function openQueues(connection: Connection, prefixes: readonly string[]): Promise<Queue[]> {
  const queues = prefixes.map((prefix) => new Queue(QUEUE, { connection, prefix }).on('error', toldElsewhere));
  try {
    await Promise.all(queues.map((queue) => queue.waitUntilReady()));
    return queues;
  } catch (error) {
    await Promise.all(queues.map((queue) => queue.close()));
    throw error;
  }
}

type Check =
  { readonly entry: Entry; readonly faults?: never } | { readonly entry?: never; readonly faults: readonly Fault[] };

function check(input: EnqueueInput): Check {
  const isWithoutId = (input as EnqueueInput | null | undefined)?.id === undefined; // callers may be plain JavaScript
  const data: unknown = isWithoutId && isObject(input) ? { ...input, id: crypto.randomUUID() } : input;
  const parsed = parseNotification(data);
  if (!parsed.ok) return { faults: parsed.faults };
  const tooLarge = payloadFaults(parsed.notification);
  if (tooLarge.length > 0) return { faults: tooLarge };
  const { id, recipientId, priority } = parsed.notification;
  return { entry: { id, recipientId, priority: PRIORITY[priority], data } };
}

function* chunksOf<T>(items: readonly T[], size: number): Generator<T[]> {
  for (let from = 0; from < items.length; from += size) yield items.slice(from, from + size);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Checks a notification as a producer does, without Redis: `invalid` with every fault, or `added`, which means that it would
 * be added if its id is free. For a form that says what is wrong before anything is sent.
 */
export function checkInput(input: EnqueueInput): Enqueued {
  const { entry, faults } = check(input);
  return entry === undefined ? { kind: 'invalid', faults } : { kind: 'added', id: entry.id };
}

/** A listener for `error` events, which Node would throw without one. The failed call itself reports the error. */
function toldElsewhere(): void {
  return;
}
