import { createDeadline } from '../../redis/deadline.ts';
import { defineScript, readScript, type Call } from '../../redis/scripts.ts';
import type { NotToBeSent, SlotId, SlotView } from '../limiter.ts';
import { GRACE_MS } from '../pace.ts';
import {
  categoryKeys,
  entryOf,
  idOf,
  jobIdIn,
  memberOf,
  recipientKeys,
  waitingFields,
  type LimiterRedis,
} from './keys.ts';
import type { Numeric } from './wire.ts';

/** A notification that is to be canceled, named by the id of its next ask. */
export interface CancelRequest extends SlotId {
  /** As `enqueuedAt` in the asks of this notification. */
  readonly enqueuedAt: number;
  /** Cancel it also if it was sent before, and waits to be sent again: to devices that are left, or after an unclear answer. */
  readonly isResend?: boolean;
}

interface CancelAnswer {
  /** False if it is too late: the notification has been admitted, or has ended in another way. */
  readonly canceled: boolean;
  /** It is too late, but it is not sent either: a newer one takes its place, or a digest was sent for it. Absent if not. */
  readonly isReplaced?: true;
  /** Its text alone is canceled: it is still sent for others of its digest, which joined under an older version. Absent if not. */
  readonly isForOthers?: true;
  /** The ask that leads the notification's digest from now on, with its slot; absent if none does. */
  readonly leader?: SlotView;
}

/** Cancels what waits for a slot. Needs no policies, so a producer can do it. */
export interface Canceller {
  /**
   * In Redis, a cancel and an admission of the same recipient never run at the same time, so what is canceled is never admitted
   * afterwards. Rejects with LimiterUnavailableError if there was no answer: then call it again, which is safe.
   */
  cancel(request: CancelRequest): Promise<CancelAnswer>;
  /** Removes what `cancel` stored: the job has ended. */
  forget(request: CancelRequest): Promise<void>;
  /** From now on the cancel can no longer be taken back. False if it was taken back before. */
  keep(request: CancelRequest): Promise<boolean>;
  /** Takes a cancel back: the notification is sent. False if it is kept, or a pass knows of it: the job ends as canceled. */
  takeBack(request: CancelRequest): Promise<boolean>;
}

export interface CancellerOptions {
  /** The Redis of the limiter that counts these notifications. */
  readonly redis: LimiterRedis;
  /** The limiter's prefix. */
  readonly prefix: string;
  /** How long an answer may take, in milliseconds. Default: 2,000. */
  readonly timeoutMs?: number;
}

/** A pass that is under way may have asked up to this many times more than its job's progress says. */
const ASKS_AHEAD = 3;

export function createCanceller({ redis, prefix, timeoutMs = 2_000 }: CancellerOptions): Canceller {
  const lua = readScript('cancel.lua', import.meta.url);
  const define = (keys: number): Call<readonly [canceled: Numeric, leader: string, slot: Numeric]> =>
    defineScript(redis, `pushpacer:cancel:${keys}`, lua, keys);
  const [script, withCategory] = [define(3), define(5)];
  const ends = defineEnds<Numeric>(redis);
  const tell = createEndLook({ redis, prefix, timeoutMs });
  const answered = createDeadline(timeoutMs);
  return {
    async cancel({ recipientId, id, category, enqueuedAt, isResend = false }) {
      const keys = recipientKeys(prefix, recipientId);
      const ofOverall = [keys.waiting, keys.sent, keys.reserved];
      const own = category === undefined ? undefined : categoryKeys(keys, category);
      const args = [jobIdIn(id), enqueuedAt, ...sentEntries(id, isResend)];
      const [canceled, leader, slot] = await answered(
        own === undefined
          ? script(...ofOverall, ...args)
          : withCategory(...ofOverall, own.reserved, own.heldBack, ...args),
      );
      const [at, leads] = [Number(slot), idOf(leader)];
      return {
        canceled: Number(canceled) > 0,
        ...(Number(canceled) === 2 && { isForOthers: true }),
        ...(Number(canceled) === -1 && { isReplaced: true }),
        ...(at > 0 && { leader: { at, ...(leads !== undefined && { id: leads }) } }),
      };
    },
    async forget({ recipientId, id, enqueuedAt }) {
      await answered(
        redis.hdel(recipientKeys(prefix, recipientId).waiting, waitingFields(jobIdIn(id), enqueuedAt).end),
      );
    },
    async keep({ recipientId, id, enqueuedAt }) {
      const end = await tell({ recipientId, jobId: jobIdIn(id), enqueuedAt });
      return end?.how === 'canceled';
    },
    async takeBack({ recipientId, id, enqueuedAt }) {
      const { waiting } = recipientKeys(prefix, recipientId);
      return Number(await answered(ends(waiting, jobIdIn(id), enqueuedAt, 'take back'))) === 1;
    },
  };
}

function defineEnds<Reply>(redis: LimiterRedis): Call<Reply> {
  return defineScript<Reply>(redis, 'pushpacer:end', readScript('end.lua', import.meta.url), 1);
}

/**
 * The notification's possible ids among the sent slots: if one of them is there, it is too late to cancel. `id`: the id of the
 * next ask. A resend can be canceled after an earlier send, so the ids of earlier asks are left out.
 */
function sentEntries(id: string, isResend: boolean): string[] {
  const asks = Number(/\d+$/.exec(id)?.[0] ?? 0);
  const all = Array.from({ length: asks + ASKS_AHEAD }, (_, number) => memberOf(entryOf(`${jobIdIn(id)}/${number}`)));
  return isResend ? all.slice(asks) : all;
}

/** The part of ioredis that reads a place in line. */
export interface LineRedis {
  zscore(key: string, member: string): Promise<string | null>;
  zcount(key: string, min: string, max: string): Promise<number>;
  time(): Promise<readonly (number | string)[]>;
}

/** How many ids are before this one in its line, as `before` in an answer. Undefined if it has no reservation. */
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

/**
 * How a notification must end without being sent; undefined if it need not. The caller then has to end it in this way, because
 * from now on a cancel can no longer be taken back. Rejects with LimiterUnavailableError if there was no answer.
 */
export type EndLook = (
  ending: Pick<CancelRequest, 'recipientId' | 'enqueuedAt'> & { readonly jobId: string },
) => Promise<Pick<NotToBeSent, 'how' | 'by'> | undefined>;

export function createEndLook({ redis, prefix, timeoutMs = 2_000 }: CancellerOptions): EndLook {
  const script = defineEnds<readonly [how: NotToBeSent['how'] | '', by: string]>(redis);
  const answered = createDeadline(timeoutMs);
  return async ({ recipientId, jobId, enqueuedAt }) => {
    const key = recipientKeys(prefix, recipientId).waiting;
    const [how, by] = await answered(script(key, jobId, enqueuedAt, 'tell'));
    if (how === '') return undefined;
    return { how, ...(by !== '' && { by }) };
  };
}

/** The part of ioredis that reads several fields. */
export interface WaitingRedis {
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
}

/** A value of the hash of waiting.lua. */
interface Stored {
  readonly field?: string;
  readonly entry?: string;
  readonly count?: number;
  readonly name?: string;
  readonly how?: NotToBeSent['how'] | 'sent';
  readonly by?: string;
}

async function readStored(
  redis: WaitingRedis,
  waiting: string,
  fields: readonly string[],
): Promise<(Stored | undefined)[]> {
  if (fields.length === 0) return [];
  const texts = await redis.hmget(waiting, ...fields);
  return texts.map((text) => (text === null ? undefined : (JSON.parse(text) as Stored)));
}

/**
 * How a notification whose job has not ended is to end without an alert of its own: canceled, superseded, or as a part of a
 * digest, which may still wait. Undefined if it is to be sent. Unlike `EndLook` it writes nothing.
 */
export async function endAhead(
  redis: WaitingRedis,
  prefix: string,
  { recipientId, jobId, enqueuedAt }: Parameters<EndLook>[0],
): ReturnType<EndLook> {
  const { waiting } = recipientKeys(prefix, recipientId);
  const { end, part } = waitingFields(jobId, enqueuedAt);
  const [ended, place] = await readStored(redis, waiting, [end, part]);
  if (ended?.how === 'sent') return undefined;
  if (ended?.how !== undefined) return { how: ended.how, ...(ended.by !== undefined && { by: ended.by }) };
  const { field = '' } = place ?? {};
  if (!/^(digest|full):/.test(field)) return undefined; // the newest of a `latest`, or it waits for the end of the quiet time
  const [digest] = await readStored(redis, waiting, [field]);
  return digest?.name === undefined ? undefined : { how: 'merged', by: digest.name };
}

/**
 * The reservations that would be given back if these notifications were canceled, as stored entries; by the rules of
 * cancel.lua. A part of a digest has no reservation, and a digest keeps its slot while others are in it. Writes nothing.
 *
 * @param waiting the key of the hash with what waits
 */
export async function freedBy(
  redis: WaitingRedis,
  waiting: string,
  jobs: readonly { readonly jobId: string; readonly enqueuedAt: number; readonly asks: number }[],
): Promise<string[]> {
  const read = (fields: readonly string[]): Promise<(Stored | undefined)[]> => readStored(redis, waiting, fields);
  const [ends, leads, parts] = await Promise.all(
    (['end', 'holder', 'part'] as const).map((kind) =>
      read(jobs.map(({ jobId, enqueuedAt }) => waitingFields(jobId, enqueuedAt)[kind])),
    ),
  );
  const freed: string[] = [];
  const leaving = new Map<string, number>(); // by the field of a digest: how many of its notifications are canceled
  for (const [index, { jobId, asks }] of jobs.entries()) {
    const field = (leads?.[index] ?? parts?.[index])?.field;
    if (field?.startsWith('latest:') === false) leaving.set(field, (leaving.get(field) ?? 0) + 1);
    else if (ends?.[index] === undefined) freed.push(entryOf(`${jobId}/${asks}`));
  }
  const fields = [...leaving.keys()];
  for (const [index, digest] of (await read(fields)).entries()) {
    const isEmpty = (digest?.count ?? 0) <= (leaving.get(fields[index] ?? '') ?? 0);
    if (digest?.entry !== undefined && isEmpty) freed.push(digest.entry);
  }
  return freed;
}
