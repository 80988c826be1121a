import { countedAs, type CountedAs } from '../domain/limits.ts';
import type { Ask, Moved, Refused, SlotView, Standing } from '../limiter/limiter.ts';
import type { Due } from '../queue/job-lock.ts';
import { timeLeftMs, type Context, type DeliverParts, type DeliveryLimiter, type MoveUps } from './context.ts';

// How slots in a recipient's line move, and the jobs with them: up, where a slot was given back, and back, where one of high
// priority goes first.

/**
 * A blocked job is due this much before its slot, and the worker sleeps until the slot. Most jobs come back late by less than
 * this (a few ms on a quiet machine, 20 with two dozen workers on two cores). It is less than the time by which the limiter
 * lets an id come back early.
 */
export function leadMs({ toleranceMs }: Pick<Standing, 'toleranceMs'>): number {
  return Math.min(25, Math.floor(toleranceMs / 4));
}

/** The job of an ask: `msg-8841/0` → `msg-8841`. Undefined where a library user asked under an id of another form. */
export function jobIdOfAsk(askId: string): string | undefined {
  return /^(.+)\/\d+$/s.exec(askId)?.[1];
}

/** Background pushes and Live Activities do not count against the limits of alerts, but each kind against its own. */
export function limiterOf({ notification }: Context, parts: DeliverParts): DeliveryLimiter {
  return limiterFor(countedAs(notification), parts);
}

export function limiterFor(
  kind: CountedAs,
  { limiter, apart }: Pick<DeliverParts, 'limiter' | 'apart'>,
): DeliveryLimiter {
  return kind === 'alert' ? limiter : apart[kind];
}

/** No slot is moved to earlier than now plus this, so that the queue gets the new due time before the slot comes. */
export const MOVE_LEAD_MS = 1_000;

/** When the jobs of moved reservations are due: a little before their slots, as when a worker requeues a job. */
export function duesOf(
  moved: readonly (SlotView & Partial<Pick<Moved, 'rule' | 'ruleUntil'>>)[],
  toleranceMs: number,
): Due[] {
  const earlyMs = leadMs({ toleranceMs });
  return moved.flatMap(({ id, at, rule, ruleUntil }) => {
    const jobId = id === undefined ? undefined : jobIdOfAsk(id);
    if (jobId === undefined) return [];
    return [{ jobId, at: at - earlyMs, ...(rule !== undefined && { why: { rule, ruleUntil } }) }];
  });
}

export function createMoveUps(): MoveUps {
  /** For each line that is moving up: what waits for the next move-up. */
  const underWay = new Map<string, { next: PromiseWithResolvers<void> | undefined }>();

  async function moveUntilDone(line: string, work: () => Promise<void>): Promise<void> {
    const own: { next: PromiseWithResolvers<void> | undefined } = { next: Promise.withResolvers() };
    underWay.set(line, own);
    try {
      while (own.next !== undefined) {
        const { resolve } = own.next;
        own.next = undefined;
        await work().finally(resolve);
      }
    } finally {
      underWay.delete(line);
      own.next?.resolve();
    }
  }

  return {
    moved: new Map(),
    run(line, work) {
      const before = underWay.get(line);
      if (before === undefined) return { isOwn: true, ended: moveUntilDone(line, work) };
      before.next ??= Promise.withResolvers();
      return { isOwn: false, ended: before.next.promise };
    },
  };
}

/**
 * The notification gave back a slot that lay ahead, so the reservations behind it move up. If that fails they keep their slots,
 * which are only later than they need to be.
 */
export async function moveUp(context: Context, parts: DeliverParts): Promise<void> {
  const { isOwn, ended } = startMoveUp(context, MOVE_LEAD_MS, parts);
  const done = ended.catch(() => undefined);
  if (isOwn) await done;
}

/**
 * The notification goes first: its reservation is moved before others. Resolves when it has moved, or is known not to move; the others
 * may still be moving then. If that fails, it keeps its slot, which is only later than it needs to be.
 */
export async function goFirst(context: Context, askId: string, parts: DeliverParts): Promise<void> {
  const { moved } = parts.moveUps;
  const place = `${lineOf(context)} ${askId}`;
  const own = Promise.withResolvers<void>();
  moved.set(place, own.resolve);
  const { ended } = startMoveUp(context, GO_FIRST_LEAD_MS, parts);
  await Promise.race([own.promise, ended.catch(() => undefined)]);
  moved.delete(place);
}

function startMoveUp(context: Context, leadMs: number, parts: DeliverParts): ReturnType<MoveUps['run']> {
  const { recipientId } = context.notification;
  const { moveUps, redelay, toleranceMs } = parts;
  const line = lineOf(context);
  const onMoved = async (moved: readonly Moved[]): Promise<void> => {
    for (const { id = '' } of moved) moveUps.moved.get(`${line} ${id}`)?.();
    await redelay(recipientId, duesOf(moved, toleranceMs));
  };
  const limiter = limiterOf(context, parts);
  return moveUps.run(line, () => limiter.moveUp(recipientId, { onMoved, leadMs }));
}

function lineOf({ notification }: Context): string {
  return `${countedAs(notification)} ${notification.recipientId}`;
}

/**
 * None whose slot comes sooner than this is overtaken: its job is about to come. It may be short, since the one that goes first has its job
 * in this pass, and those behind it move to later.
 */
const GO_FIRST_LEAD_MS = 250;

/** Whether a notification whose wait was refused as too long would not wait too long if it went before others. */
export async function wouldBeInTime(
  context: Context,
  ask: Ask,
  { rule, waitMs: askedMs }: Refused,
  parts: DeliverParts,
): Promise<boolean> {
  if (rule === 'quiet' && context.notification.onQuiet !== 'delay') return false;
  const { recipientId, id, category } = ask;
  const slot = { recipientId, id, ...(category !== undefined && { category }) };
  const { waitMs, quietMs } = await limiterOf(context, parts).foreseeFirst(slot, askedMs, GO_FIRST_LEAD_MS);
  return waitMs - quietMs <= parts.maxWaitMs && waitMs < timeLeftMs(context, parts);
}
