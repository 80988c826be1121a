import { countedAs, type CountedAs } from '../domain/limits.ts';
import type { Moved, SlotId, SlotView, Standing, WaitingAsk } from '../limiter/limiter.ts';
import type { Due } from '../queue/job-lock.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import type { Context, DeliverParts, DeliveryLimiter, MoveUps, Redelays } from './context.ts';

// How slots in a recipient's line move: up, where a slot was given back, and back, where one of high priority overtakes. The jobs follow.

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
  /** For each line that is moving up: whether it is to move up once more. */
  const underWay = new Map<string, { isAgain: boolean }>();
  return {
    async run(recipientId, work) {
      const before = underWay.get(recipientId);
      if (before !== undefined) {
        before.isAgain = true;
        return;
      }
      const own = { isAgain: true };
      underWay.set(recipientId, own);
      try {
        while (own.isAgain) {
          own.isAgain = false;
          await work();
        }
      } finally {
        underWay.delete(recipientId);
      }
    },
  };
}

/**
 * The notification gave back a slot that lay ahead, so the reservations behind it move up. If that fails they keep their slots,
 * which are only later than they need to be.
 */
export async function moveUp(context: Context, parts: DeliverParts): Promise<void> {
  const { recipientId } = context.notification;
  const onMoved = async (moved: readonly Moved[]): Promise<void> => {
    await parts.redelay(recipientId, duesOf(moved, parts.toleranceMs));
  };
  const limiter = limiterOf(context, parts);
  const work = (): Promise<void> => limiter.moveUp(recipientId, { onMoved, leadMs: MOVE_LEAD_MS });
  await parts.moveUps.run(`${countedAs(context.notification)} ${recipientId}`, work).catch(() => undefined);
}

/** One whose slot comes sooner than this is not overtaken: its job is about to come. */
const OVERTAKE_LEAD_MS = 250;

export function createRedelays(redelay: DeliverParts['redelay']): Redelays {
  /** For each recipient whose jobs are being changed: what is to be written next. */
  const underWay = new Map<string, Map<string, Due>>();
  return {
    async write(recipientId, due) {
      const before = underWay.get(recipientId);
      const own = before ?? new Map<string, Due>();
      for (const each of due) own.set(each.jobId, each);
      if (before !== undefined) return;
      underWay.set(recipientId, own);
      try {
        while (own.size > 0) {
          const next = [...own.values()];
          own.clear();
          await redelay(recipientId, next);
        }
      } finally {
        underWay.delete(recipientId);
      }
    },
  };
}

/**
 * The notification is of high priority and has a slot ahead: it goes before those of normal priority. Where that fails it keeps its slot,
 * which is only later than it could be.
 */
export async function overtake(context: Context, ask: SlotId & WaitingAsk, parts: DeliverParts): Promise<void> {
  const { recipientId } = context.notification;
  const onMoved = async (moved: readonly Pick<Moved, 'id' | 'at'>[]): Promise<void> => {
    const due = duesOf(moved, parts.toleranceMs).map((each) => ({ ...each, why: {} }));
    await parts.redelays.write(recipientId, due).catch(() => undefined); // they come too early then, and get the same slots again
  };
  const { recipientId: whose, id, category, enqueuedAt } = ask;
  const slot = { recipientId: whose, id, ...(category !== undefined && { category }), enqueuedAt };
  try {
    await limiterOf(context, parts).overtake(slot, { ...parts.overtaking, leadMs: OVERTAKE_LEAD_MS, onMoved });
  } catch (error) {
    if (!(error instanceof LimiterUnavailableError)) throw error;
  }
}
