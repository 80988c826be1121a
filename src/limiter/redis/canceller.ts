import { createDeadline } from '../../redis/deadline.ts';
import { defineScript, readScript, type Call } from '../../redis/scripts.ts';
import type { SlotId } from '../limiter.ts';
import { GRACE_MS } from '../pace.ts';
import { categoryKeys, entryOf, memberOf, recipientKeys, type LimiterRedis } from './keys.ts';
import type { Numeric } from './wire.ts';

/** A notification that is to be canceled. */
interface CancelRequest {
  /** The id of its job. */
  readonly jobId: string;
  /** The number of its next ask (`progress.asks` of the job). */
  readonly asks: number;
  /** How long it must be remembered: longer than the job may still wait. Milliseconds; at least a day is taken. */
  readonly keepMs: number;
}

/** What came of it. */
interface CancelAnswer {
  /** False if it is too late: it has been admitted, or has ended in another way. */
  readonly canceled: boolean;
  /** The jobs that end now, and may be woken: its own, or that of the digest of which it was the last part. */
  readonly wake: readonly string[];
}

/** Cancels what waits for a slot. Needs no policies, so a producer can do it. */
export interface Canceller {
  /**
   * Decides in one step with the admissions of this recipient: what is canceled is not admitted afterwards. Rejects with
   * LimiterUnavailableError if there was no answer: then call it again, which is safe.
   */
  cancel(recipientId: string, requests: readonly CancelRequest[]): Promise<CancelAnswer[]>;
}

export interface CancellerOptions {
  /** The Redis of the limiter that counts these notifications. */
  readonly redis: LimiterRedis;
  /** The limiter's prefix. */
  readonly prefix: string;
  /** How long an answer may take, in milliseconds. Default: 2,000. */
  readonly timeoutMs?: number;
}

/** A pass that is under way may have asked once or twice more than its job's progress says. */
const ASKS_AHEAD = 3;

export function createCanceller({ redis, prefix, timeoutMs = 2_000 }: CancellerOptions): Canceller {
  const lua = readScript('cancel.lua', import.meta.url);
  const script: Call<readonly (readonly Numeric[])[]> = defineScript(redis, 'pushpacer:cancel:2', lua, 2);
  const answered = createDeadline(timeoutMs);
  return {
    async cancel(recipientId, requests) {
      if (requests.length === 0) return [];
      const { waiting, sent } = recipientKeys(prefix, recipientId);
      const asked = requests.map(({ jobId, asks, keepMs }) => [jobId, Math.ceil(keepMs), ...sentEntries(jobId, asks)]);
      const answers = await answered(script(waiting, sent, JSON.stringify(asked)));
      return answers.map(([canceled, ...wake]) => ({ canceled: Number(canceled) === 1, wake: wake.map(String) }));
    },
  };
}

/** Every id under which an admission of the notification may stand among the sent slots. */
function sentEntries(jobId: string, asks: number): string[] {
  return Array.from({ length: asks + ASKS_AHEAD }, (_, number) => memberOf(entryOf(`${jobId}/${number}`)));
}

/** The part of ioredis that reads a place in line. */
export interface LineRedis {
  zscore(key: string, member: string): Promise<string | null>;
  zcount(key: string, min: string, max: string): Promise<number>;
  time(): Promise<readonly (number | string)[]>;
}

/** How many are before this id in its line, as in an answer. Undefined if it has no reservation. Needs no policies. */
export async function countBefore(
  redis: LineRedis,
  prefix: string,
  { recipientId, category, id }: SlotId,
): Promise<number | undefined> {
  const keys = recipientKeys(prefix, recipientId);
  const own = category === undefined ? undefined : categoryKeys(keys, category);
  const entry = entryOf(id);
  const [inLine, heldBack, [seconds]] = await Promise.all([
    redis.zscore(keys.reserved, entry),
    own === undefined ? null : redis.zscore(own.heldBack, entry),
    redis.time(),
  ]);
  const slot = inLine ?? heldBack;
  if (slot === null) return undefined;
  const line = inLine === null && own !== undefined ? [own.reserved, own.heldBack] : [keys.reserved];
  const since = String(Number(seconds) * 1_000 - GRACE_MS);
  const counts = await Promise.all(line.map((key) => redis.zcount(key, since, `(${slot}`)));
  return counts.reduce((sum, count) => sum + count, 0);
}

interface CanceledOptions {
  /** The limiter's Redis: a client of ioredis. */
  readonly redis: { hget(key: string, field: string): Promise<string | null> };
  /** The limiter's prefix. */
  readonly prefix: string;
  /** How long an answer may take, in milliseconds. */
  readonly timeoutMs: number;
}

/**
 * Whether a notification was canceled, by its job's id; it writes nothing. Rejects with LimiterUnavailableError if there
 * was no answer.
 */
export function createCanceledLook({
  redis,
  prefix,
  timeoutMs,
}: CanceledOptions): (recipientId: string, jobId: string) => Promise<boolean> {
  const answered = createDeadline(timeoutMs);
  return async (recipientId, jobId) => {
    const text = await answered(redis.hget(recipientKeys(prefix, recipientId).waiting, `end:${jobId}`));
    if (text === null) return false;
    const { how, kept } = JSON.parse(text) as { readonly how: string; readonly kept: number };
    return how === 'canceled' && kept > Date.now();
  };
}

/** The part of ioredis that reads several fields. */
export interface WaitingRedis {
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
}

/** What waiting.lua stores. */
interface Stored {
  readonly how?: string;
  readonly by?: string;
  readonly field?: string;
  readonly name?: string;
  readonly entry?: string;
  readonly count?: number;
}

/**
 * The reservations that would be given back if these notifications were canceled, as they are stored: as cancel.lua decides it. A
 * part of a digest has none, and a digest keeps its slot while others are in it. Writes nothing.
 *
 * @param waiting the key of what waits
 */
export async function freedBy(
  redis: WaitingRedis,
  waiting: string,
  jobs: readonly { readonly jobId: string; readonly asks: number }[],
): Promise<string[]> {
  const read = async (fields: readonly string[]): Promise<(Stored | undefined)[]> => {
    if (fields.length === 0) return [];
    const texts = await redis.hmget(waiting, ...fields);
    return texts.map((text) => (text === null ? undefined : (JSON.parse(text) as Stored)));
  };
  const [ends, holders] = await Promise.all([
    read(jobs.map(({ jobId }) => `end:${jobId}`)),
    read(jobs.map(({ jobId }) => `holder:${jobId}`)),
  ]);
  const freed: string[] = [];
  const leaving = new Map<string, number>(); // by the holder of a digest: how many of its parts
  for (const [index, { jobId, asks }] of jobs.entries()) {
    const end = ends[index];
    const holder = end?.how === 'merged' ? end.by : holders[index]?.field === undefined ? undefined : jobId;
    if (holder !== undefined) leaving.set(holder, (leaving.get(holder) ?? 0) + 1);
    else if (end === undefined) freed.push(entryOf(`${jobId}/${asks}`));
  }
  const names = [...leaving.keys()];
  const fields = (await read(names.map((name) => `holder:${name}`))).map((holder) => holder?.field ?? '');
  const digests = await read(fields);
  for (const [index, name] of names.entries()) {
    const digest = digests[index];
    const isEmpty = (digest?.count ?? 0) <= (leaving.get(name) ?? 0);
    if (digest?.name === name && digest.entry !== undefined && isEmpty) freed.push(digest.entry);
  }
  return freed;
}
