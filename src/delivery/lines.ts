import { countedAs, type CountedAs } from '../domain/limits.ts';
import type { Ask, Freed, Limiter, Moved, Refused, SlotView, Standing } from '../limiter/limiter.ts';
import type { Due } from '../queue/redelay.ts';
import { timeLeftMs, type Context } from './context.ts';
import type { DeliverParts, DeliveryLimiter, MoveUps } from './parts.ts';

// Moves slots in a recipient's line, and the due times of their jobs: to earlier where a slot was given back, to later where a
// notification of high priority goes first.

/**
 * A blocked job is due this much before its slot, and the worker sleeps until the slot. Most jobs come back late by less than
 * this (a few ms on a quiet machine, 20 with two dozen workers on two cores). The limiter lets an id come back even earlier
 * (`earlyMsOf`).
 */
export function leadMs({ toleranceMs }: Pick<Standing, 'toleranceMs'>): number {
  return Math.min(25, Math.floor(toleranceMs / 4));
}

/** The job of an ask: `msg-8841/0` → `msg-8841`. Undefined where a library user asked under an id of another form. */
export function jobIdOfAsk(askId: string): string | undefined {
  return /^(.+)\/\d+$/s.exec(askId)?.[1];
}

/** All ids of asks over HTTP begin with this. Those of notifications end with `/` and a number: the two are never the same. */
const OVER_HTTP = 'http:';

/** The ask of another program for something that is no notification: `email:msg-8841` → `http:email:msg-8841`. */
export function askIdOverHttp(name: string): string {
  return OVER_HTTP + name;
}

/** Whether another program asked over HTTP: then there is no job. */
export function isOverHttp(askId: string | undefined): boolean {
  return askId?.startsWith(OVER_HTTP) === true;
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

/** No slot is moved to earlier than now plus this, so that the queue gets the new due time before the slot comes. As in admit.lua. */
export const MOVE_LEAD_MS = 1_000;

/** When the jobs of moved reservations are due: a little before their slots, as when a worker requeues a job. */
export function duesOf(
  moved: readonly (SlotView & Partial<Pick<Moved, 'rule' | 'ruleUntil' | 'from'>>)[],
  toleranceMs: number,
  move?: Due['move'],
): Due[] {
  const earlyMs = leadMs({ toleranceMs });
  return moved.flatMap(({ id, at, from = Infinity, rule, ruleUntil }) => {
    const jobId = id === undefined ? undefined : jobIdOfAsk(id);
    if (jobId === undefined) return [];
    const why = rule !== undefined && { why: { rule, ruleUntil } };
    const direction = at > from ? { isLater: true } : move && { move };
    return [{ jobId, at: at - earlyMs, ...why, ...direction }];
  });
}

export function createMoveUps(): MoveUps {
  /** The lines that are moving up now, by name. */
  const underWay = new Map<string, Line>();

  async function moveUntilDone(line: string, work: () => Promise<void>, own: Line): Promise<void> {
    while (own.next !== undefined) {
      const { resolve, reject } = own.next;
      own.next = undefined;
      await work().then(() => resolve(undefined), reject);
    }
    underWay.delete(line);
  }

  return {
    moved: new Map(),
    run(line, work) {
      const before = underWay.get(line);
      const next = before?.next ?? Promise.withResolvers<undefined>();
      if (before !== undefined) {
        before.next = next;
        return { ended: next.promise };
      }
      const own: Line = { next };
      underWay.set(line, own);
      return { ended: next.promise, allEnded: moveUntilDone(line, work, own) };
    },
  };
}

interface Line {
  next: PromiseWithResolvers<undefined> | undefined;
}

/** Moves reservations up after a slot ahead was given back. If this fails, they keep slots that are later than necessary. */
export async function moveUp(context: Context, parts: DeliverParts): Promise<void> {
  await moveLineUp(lineOf(context, parts), parts);
}

/**
 * Every way in which a slot of a notification becomes free goes through here: if others wait, they move up. If the limiter does
 * not answer, the slot stays taken until it counts no longer.
 */
export async function moveUpInto<F extends Freed>(
  freeing: Promise<F>,
  line: RecipientLine,
  parts: LineParts,
): Promise<F | undefined> {
  const freed = await freeing.catch(() => undefined);
  if (freed?.othersWait === true) await moveLineUp(line, parts);
  return freed;
}

/** As `moveUp`, for a slot that another caller than a pass gave back. */
export async function moveLineUp(line: RecipientLine, parts: LineParts): Promise<void> {
  const { ended, allEnded } = startMoveUp(line, parts);
  ended.catch(() => undefined);
  await allEnded;
}

/**
 * Moves up the line in which the notification waits; its reservation before others, if the notification goes first. Resolves
 * when the reservation has moved or is known to stay, or when the worker must stop; others may still be moving then. If the
 * move fails, the reservation keeps its slot, which is only later than it needs to be.
 */
export async function goFirst(context: Context, askId: string, parts: DeliverParts): Promise<void> {
  const { moved } = parts.moveUps;
  const { signal } = context;
  const line = lineOf(context, parts);
  const place = `${line.name} ${askId}`;
  const own = Promise.withResolvers<undefined>();
  const resolve = (): void => own.resolve(undefined);
  moved.set(place, resolve);
  signal.addEventListener('abort', resolve, { once: true });
  startMoveUp(line, parts).ended.then(resolve, resolve);
  await own.promise;
  signal.removeEventListener('abort', resolve);
  moved.delete(place);
}

/** One line of a recipient, and the limiter that has it. */
export interface RecipientLine {
  /** Names the line among those that move up. */
  readonly name: string;
  readonly recipientId: string;
  readonly limiter: Pick<Limiter, 'moveUp'>;
}

type LineParts = Pick<DeliverParts, 'moveUps' | 'redelay' | 'toleranceMs'>;

function startMoveUp({ name, recipientId, limiter }: RecipientLine, parts: LineParts): ReturnType<MoveUps['run']> {
  const { moveUps, redelay, toleranceMs } = parts;
  const passOf = ({ id = '' }: Moved) => moveUps.moved.get(`${name} ${id}`); // a pass that asks once more when it has moved
  const redelayOthers = async (moved: readonly Moved[], move: Due['move']): Promise<void> => {
    const others = moved.filter((one) => passOf(one) === undefined);
    await redelay(recipientId, duesOf(others, toleranceMs, move));
  };
  const onMoving = (moving: readonly Moved[]): Promise<void> => redelayOthers(moving, 'begins');
  const onMoved = async (moved: readonly Moved[]): Promise<void> => {
    for (const one of moved) passOf(one)?.();
    await redelayOthers(moved, 'done');
  };
  return moveUps.run(name, () => limiter.moveUp(recipientId, { onMoving, onMoved, leadMs: MOVE_LEAD_MS }));
}

export function lineOf({ notification }: Context, parts: DeliverParts): RecipientLine {
  return lineFor(countedAs(notification), notification.recipientId, parts);
}

export function lineFor(
  kind: CountedAs,
  recipientId: string,
  parts: Pick<DeliverParts, 'limiter' | 'apart'>,
): RecipientLine {
  return { name: `${kind} ${recipientId}`, recipientId, limiter: limiterFor(kind, parts) };
}

/** Whether a notification whose wait was refused as too long would not wait too long if it went before others. */
export async function wouldBeInTime(
  context: Context,
  ask: Ask,
  { waitMs: refusedMs }: Refused,
  parts: DeliverParts,
): Promise<boolean> {
  const { recipientId, id, category } = ask;
  const slot = { recipientId, id, ...(category !== undefined && { category }) };
  const { waitMs, quietMs, countedMs } = await limiterOf(context, parts).foreseeFirst(slot, refusedMs);
  const isAwake = quietMs === 0 || context.notification.onQuiet === 'delay';
  return isAwake && countedMs <= parts.maxWaitMs && waitMs < timeLeftMs(context, parts);
}
