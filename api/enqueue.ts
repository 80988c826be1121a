import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Queue } from 'bullmq';
import type { Fault } from '../src/domain/faults.ts';
import { isObject, parseJson } from '../src/domain/json.ts';
import { linesOf, notJson, notUtf8, type Line } from '../src/domain/ndjson.ts';
import { mapInTurns } from '../src/domain/time.ts';
import { idempotencyKey, isOrder, jobIdOf } from '../src/queue/names.ts';
import { checkInput, type Enqueued, type EnqueueInput, type Producer } from '../src/producer/producer.ts';
import { findJob, MAX_JOB_TEXT } from '../src/queue/readable.ts';
import type { Connection } from '../src/redis/connection.ts';
import type { Backlog } from './backlog.ts';
import { problemBody, type Problem } from './problems.ts';
import type { Token } from './tokens.ts';

/**
 * The result for one notification of a request. `conflict`: its id is taken by a notification with other content. `refused`:
 * too many notifications wait already, or Redis does not answer; it may be sent again.
 */
export type Result =
  | { readonly result: 'added' | 'duplicate'; readonly id: string }
  | { readonly result: 'invalid'; readonly faults: readonly Fault[] }
  | { readonly result: 'conflict'; readonly id: string; readonly detail: string }
  | { readonly result: 'refused'; readonly problem: Readonly<Record<string, unknown>> };

export interface EnqueuerParts {
  readonly producer: Pick<Producer, 'as'>;
  /** The queues that may have a recipient's notifications. */
  readonly homes: (recipientId: string) => Promise<readonly Queue[]>;
  readonly redis: Connection;
  readonly prefix: string;
  readonly backlog: Backlog;
}

/** How many notifications one array may contain, and how many one step of a stream takes. */
export const MOST_IN_ARRAY = 1_000;
const STEP = 500;

/** Adds the notifications of requests. Calls reject with RedisAwayError if Redis does not answer: some may have been added. */
export interface Enqueuer {
  /** Adds notifications in the name of the token. The results are in the order of the inputs. */
  add(inputs: readonly unknown[], token: Token): Promise<Result[]>;
  /**
   * Adds the lines of an NDJSON stream as they come, and yields the results of each step with their line numbers. At most one
   * step of lines is in memory, and the next step is read when the client has taken the answers of the last one.
   *
   * @param tokenNow asked before each step, since a stream may last for days; if it answers undefined, nothing more is added
   */
  addLines(chunks: AsyncIterable<Uint8Array>, tokenNow: () => Token | undefined): AsyncGenerator<readonly LineResult[]>;
  /** Remembers the `Idempotency-Key` of a request for a day, and says whether it came before. */
  claim(key: string, token: Token, body: string): Promise<Claim>;
}

export type LineResult = Result & { readonly line: number };

/**
 * `conflict`: the key came before with another body. `open`: it came for the first time; or the first request was not finished,
 * or added nothing. `done`: the first request added everything that is valid.
 */
export type Claim =
  | { readonly kind: 'conflict' }
  | {
      readonly kind: 'open';
      readonly withIds: WithIds;
      /** To be called with the results when everything is added. If nothing was added, a repeated request is tried again. */
      readonly done: (results: readonly Result[]) => Promise<void>;
    }
  | {
      readonly kind: 'done';
      readonly withIds: WithIds;
      /** The answer to a repeated request: nothing is added again, even if a notification has ended since. */
      readonly repeated: (withIds: readonly unknown[]) => Promise<Result[]>;
    };

/** The inputs, each with an id. If the same request comes again, the ids are the same. */
type WithIds = (inputs: readonly unknown[]) => readonly unknown[];

const KEY_KEPT_S = 86_400;
/**
 * A request that is done is stored as its fingerprint, this sign, the indices of its conflicts, this sign, and the indices of
 * its invalid inputs: `+0,7+3`. Earlier versions noted only the conflicts.
 */
const DONE = '+';

export function createEnqueuer({ producer, homes, redis, prefix, backlog }: EnqueuerParts): Enqueuer {
  /**
   * Whether the job with this id was enqueued with the same content. True also if they cannot be compared: the job is gone by
   * now, or it belongs to a retract that has taken the id.
   */
  async function isSame(input: unknown, id: string): Promise<boolean> {
    if (!isObject(input) || input['id'] === undefined) return true;
    const queues = await homes(String(input['recipientId']));
    const jobs = await Promise.all(queues.map((queue) => findJob(queue, jobIdOf(id))));
    // A job that was moved to another queue leaves a hash without data here for a while.
    const job = jobs.find((found) => typeof found?.name === 'string');
    return job === undefined || isOrder(job.name) || isDeepStrictEqual(job.data, parseJson(JSON.stringify(input)));
  }

  async function resultOf(enqueued: Enqueued, input: unknown): Promise<Result> {
    switch (enqueued.kind) {
      case 'invalid':
        return { result: 'invalid', faults: enqueued.faults };
      case 'added':
        return { result: 'added', id: enqueued.id };
      case 'duplicate':
        return (await isSame(input, enqueued.id)) ? { result: 'duplicate', id: enqueued.id } : conflictOf(enqueued.id);
    }
  }

  async function add(inputs: readonly unknown[], { name }: Token): Promise<Result[]> {
    const enqueued = await producer.as(name).enqueueMany(inputs as readonly EnqueueInput[]);
    const results = await Promise.all(enqueued.map((each, index) => resultOf(each, inputs[index])));
    backlog.added(results.filter(({ result }) => result === 'added').length);
    return results;
  }

  /** Adds some lines. If one line is not JSON, the others are added all the same. Undefined if the token may not add them. */
  async function addStep(
    lines: readonly ReadLine[],
    tokenNow: () => Token | undefined,
  ): Promise<LineResult[] | undefined> {
    const asking = tokenNow();
    const full = asking && (await backlog.problemFor(asking));
    const token = tokenNow(); // Redis may have taken its time
    if (token === undefined) return undefined;
    if (full !== undefined) return lines.map(({ line }) => ({ line, ...refused(full) }));
    const readable = lines.filter((line) => line.fault === undefined);
    const results = await add(
      readable.map(({ input }) => input),
      token,
    );
    const byLine = new Map(readable.map(({ line }, index) => [line, results[index]]));
    return lines.map(({ line, fault }) => {
      const result = byLine.get(line) ?? { result: 'invalid', faults: fault === undefined ? [] : [fault] };
      return { line, ...result };
    });
  }

  return {
    add,
    async *addLines(chunks, tokenNow) {
      let read = 0;
      for await (const lines of linesOf(chunks, MAX_JOB_TEXT)) {
        const step = lines.map((line, index) => readLine(line, read + index + 1)).filter((line) => line !== undefined);
        read += lines.length;
        for (let from = 0; from < step.length; from += STEP) {
          const results = await addStep(step.slice(from, from + STEP), tokenNow);
          if (results === undefined) return;
          yield results;
        }
      }
    },
    async claim(key, { name }, body) {
      const digest = (...texts: string[]): string =>
        createHash('sha256').update(JSON.stringify(texts)).digest('base64url').slice(0, 22);
      const [redisKey, fingerprint] = [idempotencyKey(prefix, digest(name, key)), digest(body)];
      const isFirst = (await redis.set(redisKey, fingerprint, 'EX', KEY_KEPT_S, 'NX')) === 'OK';
      const known = isFirst ? fingerprint : ((await redis.get(redisKey)) ?? '');
      const [knownFingerprint, conflicts, invalids] = known.split(DONE);
      if (knownFingerprint !== fingerprint) return { kind: 'conflict' };
      const withIds: WithIds = (inputs) =>
        inputs.map((input, index) => {
          if (!isObject(input) || input['id'] !== undefined) return input;
          return { ...input, id: digest(name, key, String(index)) };
        });
      if (conflicts !== undefined) {
        const wasConflict = new Set(conflicts.split(','));
        const wasInvalid = invalids === undefined ? undefined : new Set(invalids.split(','));
        const repeated = (inputs: readonly unknown[]): Promise<Result[]> =>
          mapInTurns([...inputs.entries()], ([index, input]) =>
            repeatedResult(input, wasConflict.has(String(index)), wasInvalid?.has(String(index))),
          );
        return { kind: 'done', withIds, repeated };
      }
      return {
        kind: 'open',
        withIds,
        done: async (results) => {
          if (!results.some(({ result }) => result === 'added' || result === 'duplicate')) return;
          const indicesOf = (kind: Result['result']): string =>
            results.flatMap(({ result }, index) => (result === kind ? index : [])).join();
          const noted = [fingerprint, indicesOf('conflict'), indicesOf('invalid')].join(DONE);
          await redis.set(redisKey, noted, 'EX', KEY_KEPT_S, 'XX');
        },
      };
    },
  };
}

function conflictOf(id: string): Result {
  return { result: 'conflict', id, detail: 'the id is taken by a notification with other content' };
}

/** @param wasInvalid undefined if an earlier version did not note it */
function repeatedResult(input: unknown, wasConflict: boolean, wasInvalid: boolean | undefined): Result {
  if (wasInvalid !== false) {
    const checked = checkInput(input as EnqueueInput);
    if (checked.kind === 'invalid') return { result: 'invalid', faults: checked.faults };
    if (wasInvalid === true) return { result: 'invalid', faults: [WAS_INVALID] };
  }
  const id = String((input as { readonly id?: unknown }).id);
  return wasConflict ? conflictOf(id) : { result: 'duplicate', id };
}

/** The fault of an input that was invalid at first and fits by now, such as an instant that is not too far ahead any more. */
const WAS_INVALID: Fault = {
  path: '',
  expected: 'one that fitted when this Idempotency-Key came first',
  found: 'one that was invalid then (send it with another key)',
};

interface ReadLine {
  readonly line: number;
  readonly input?: unknown;
  readonly fault?: Fault;
}

/** The JSON in a line, or what is wrong with it; undefined for an empty line. */
function readLine({ text, length, isTooLong, isUtf8 }: Line, line: number): ReadLine | undefined {
  if (isTooLong)
    return { line, fault: { path: '', expected: `at most ${MAX_JOB_TEXT} characters`, found: `${length}` } };
  if (!isUtf8) return { line, fault: notUtf8(length) };
  if (text.trim() === '') return undefined;
  try {
    return { line, input: JSON.parse(text) as unknown };
  } catch {
    return { line, fault: notJson(length) };
  }
}

function refused(problem: Problem): Result {
  return { result: 'refused', problem: problemBody(problem) };
}
