import { describeFound, InputError, optionFaults, type Fault, type OptionNames } from '../domain/faults.ts';
import { ID, ID_FORMAT } from '../domain/json.ts';
import { takingTurns } from '../domain/time.ts';
import type { Enqueued } from './add-jobs.ts';

/** How a long sequence of notifications is enqueued. Every option may be left out. */
export interface EnqueueManyOptions {
  /**
   * The name of this broadcast, to go on where an earlier call stopped: a call with the same name skips as many inputs as
   * earlier calls have dealt with (enqueued, or found invalid), so give it the same sequence. Inputs need ids: up to 500 may be
   * added once more if the process dies, and only an id makes such a copy a duplicate. 1 to 128 of `A-Z a-z 0-9 . _ ~ -`. The
   * name is known for 7 days after the last batch. Default: none, and nothing is skipped.
   */
  readonly broadcastId?: string | undefined;
  /**
   * Spreads the alerts over this time from the call, or from a later `sendAfter`, each at a random instant, so that not all
   * recipients open the app at once. Milliseconds, 0 to 604,800,000 (7 days). Default: 0, as soon as the limits allow.
   */
  readonly spreadOverMs?: number | undefined;
  /**
   * Called for each notification, in order, once its batch is in the queue. `index` counts from 0, and counts skipped inputs
   * too.
   */
  readonly onResult?: ((result: Enqueued, index: number) => void) | undefined;
  /** Called for each input that an earlier call has dealt with, in order, before any result. */
  readonly onSkipped?: ((index: number) => void) | undefined;
  /** Stops before the next input, or after the batch under way; the promise then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** The result of a long sequence. */
export interface EnqueuedMany {
  /** How many inputs the sequence had, including skipped inputs. */
  readonly read: number;
  /** How many were added to the queue. */
  readonly added: number;
  /** How many were not added because their id is taken. */
  readonly duplicates: number;
  /** How many are not valid. */
  readonly invalid: number;
  /** How many inputs an earlier call with the same `broadcastId` has dealt with: enqueued, or found invalid. */
  readonly skipped: number;
}

/** Stores the position of a broadcast: how many inputs were dealt with. */
export interface Positions {
  read(): Promise<number>;
  write(position: number): Promise<void>;
}

/** How many inputs are in memory at a time, and are added together. */
const BATCH = 500;
/** Inputs do not wait longer than this for others of their batch. */
const LONGEST_WAIT_MS = 100;
/** The longest spread, in milliseconds: a week. */
export const MAX_SPREAD_MS = 7 * 86_400_000;

const OPTIONS: OptionNames<EnqueueManyOptions> = {
  ...{ broadcastId: true, spreadOverMs: true, onResult: true, onSkipped: true, signal: true },
};

/** Throws InputError with every option that is not usable. */
export function checkBroadcast(options: EnqueueManyOptions): void {
  const faults: Fault[] = optionFaults(options, OPTIONS);
  const { broadcastId, spreadOverMs = 0 } = options;
  if (broadcastId !== undefined && !(typeof broadcastId === 'string' && ID.test(broadcastId))) {
    faults.push({ path: 'broadcastId', expected: ID_FORMAT, found: describeFound(broadcastId, false) });
  }
  if (!(Number.isInteger(spreadOverMs) && spreadOverMs >= 0 && spreadOverMs <= MAX_SPREAD_MS)) {
    const expected = `an integer from 0 to ${MAX_SPREAD_MS}`;
    faults.push({ path: 'spreadOverMs', expected, found: describeFound(spreadOverMs, false) });
  }
  if (faults.length > 0) throw new InputError('unusable options', faults);
}

/**
 * Enqueues a sequence in batches, with one batch in memory at a time: a batch is full, or its inputs have waited long enough for
 * others. The position is written after each batch. If the process dies before that, the next call adds the batch again, and
 * its ids make it duplicates. If a batch fails, the promise rejects at once: it does not wait for the next input.
 *
 * @param take called with each input before the next input is asked for, since a sequence may yield the same object each time
 */
export async function broadcast<Input, Taken>(
  inputs: AsyncIterable<Input> | Iterable<Input>,
  take: (input: Input) => Taken,
  addBatch: (batch: readonly Taken[]) => Promise<readonly Enqueued[]>,
  positions: Positions | undefined,
  { onResult, onSkipped, signal }: Pick<EnqueueManyOptions, 'onResult' | 'onSkipped' | 'signal'>,
): Promise<EnqueuedMany> {
  signal?.throwIfAborted();
  const start = (await positions?.read()) ?? 0;
  const counts = { added: 0, duplicate: 0, invalid: 0 };
  let read = 0;
  let done = start;
  const add = async (batch: readonly Taken[]): Promise<void> => {
    signal?.throwIfAborted(); // it may have fired while the batch waited for more inputs
    const results = await addBatch(batch);
    for (const [at, result] of results.entries()) {
      counts[result.kind] += 1;
      onResult?.(result, done + at);
    }
    done += batch.length;
    await positions?.write(done);
    signal?.throwIfAborted();
  };

  const turn = takingTurns();
  let batch: Taken[] = [];
  let adding: Promise<void> | undefined;
  const failed = Promise.withResolvers<never>();
  const addSome = (): Promise<void> => {
    const some = batch;
    batch = [];
    return add(some);
  };
  const timer = setInterval(() => {
    if (batch.length === 0 || adding !== undefined) return;
    adding = addSome();
    adding.catch(failed.reject);
  }, LONGEST_WAIT_MS).unref();
  const addAll = async (): Promise<void> => {
    try {
      for await (const input of inputs) {
        await adding;
        adding = undefined;
        signal?.throwIfAborted();
        read += 1;
        if (read <= start) {
          onSkipped?.(read - 1);
          continue;
        }
        batch.push(take(input));
        await turn();
        if (batch.length >= BATCH) await addSome();
      }
    } finally {
      await adding;
    }
    if (batch.length > 0) await addSome();
  };
  try {
    await Promise.race([addAll(), failed.promise]); // the next input may come late, or never
  } finally {
    clearInterval(timer);
  }
  const { added, duplicate: duplicates, invalid } = counts;
  return { read, added, duplicates, invalid, skipped: Math.min(start, read) };
}
