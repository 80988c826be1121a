import type { Job, Queue } from 'bullmq';
import { objectOr } from '../domain/json.ts';
import { tagsOf } from '../notification/device.ts';
import {
  parseNotification,
  type Device,
  type Notification,
  type Retracted,
  type RetractTarget,
} from '../notification/notification.ts';
import { hasOthers, isLeftOpen, type Completion, type DeadLetter } from '../notification/outcome.ts';
import { MUST_SHOW } from '../notification/rules.ts';
import { firstEnqueuedAtOf } from '../notification/story.ts';
import type { KeyPlace } from '../queue/cancellation-index.ts';
import { deadIdsOf, jobIdOf, KEEP_COMPLETED, notificationIdOf, PRIORITY, RETRACT } from '../queue/names.ts';
import { findJob } from '../queue/readable.ts';
import { stop, type CancelParts } from './cancel.ts';
import { deadAmong, find, progressOf, stageOf, type AllFound, type Found } from './find.ts';
import { takeBack, type Shown, type TakeBackParts } from './take-back.ts';

export interface RetractParts extends CancelParts, TakeBackParts {
  /** The queue of the dead letters with this prefix. */
  readonly deadQueue: (prefix: string) => Queue | Promise<Queue>;
}

/** What a retract did so far. */
export interface Retracting {
  readonly retracted: Retracted;
  /** Some are being sent, or are between two queues: repeat the retract a little later. */
  readonly isOpen: boolean;
  /** When the newest of them was enqueued, on its producer's clock: epoch milliseconds; 0 if none was found. */
  readonly newestAt: number;
}

/**
 * Cancels what waits, and takes from the devices what has alerted them: by a background push that names the notifications. By an
 * id that no notification has, the id is taken for an hour, so that the notification is not sent if it comes later. Safe to
 * repeat: what is taken back already is not taken back again.
 *
 * @param until by a key, those that were enqueued after this are not meant: epoch milliseconds
 */
export async function retract(
  { badge, ...target }: RetractTarget,
  parts: RetractParts,
  until = Infinity,
): Promise<Retracting> {
  const isByKey = !('id' in target);
  const isMeant = ({ job }: Found): boolean => !isByKey || firstEnqueuedAtOf(job) <= until;
  const look = async (): Promise<AllFound> => {
    const found = await find(target, parts);
    return { ...found, jobs: found.jobs.filter(isMeant) };
  };
  let all = await look();
  if (!isByKey && isUnknown(all)) {
    await takeId(target.id, parts);
    all = await look(); // it may have come meanwhile
    if (isUnknown(all)) return { retracted: { ...NOTHING, unknown: 1 }, isOpen: false, newestAt: 0 };
  }
  const states: State[] = [];
  for (let from = 0; from < all.jobs.length; from += AT_ONCE) {
    const some = all.jobs.slice(from, from + AT_ONCE);
    states.push(...(await Promise.all(some.map((found) => stopOne(found, isByKey, parts)))));
  }
  const letters = await findLetters(target, all, until, parts);
  // A job that is kept says more than the dead letter that it became.
  const kept = new Set(all.jobs.map(({ job }) => job.id));
  const found = [...states, ...letters.filter(({ jobId }) => !kept.has(jobId)).map(({ state }) => state)];
  const isTaken = await takeBack(shownIn(found, badge), badge, parts);
  // After `takeBack`: if this process ends before, the next try finds them again.
  const ofIt = letters.filter(({ isForOthers }) => !isForOthers);
  const removed = await Promise.all(ofIt.map(({ queue, jobId }) => queue.remove(jobId)));
  const isOpen = !isTaken || removed.includes(0) || found.some(({ kind }) => kind === 'open');
  const newestAt = all.jobs.reduce((newest, { job }) => Math.max(newest, firstEnqueuedAtOf(job)), 0);
  return { retracted: countsOf(found, isByKey), isOpen, newestAt };
}

/** How many notifications are stopped at once, so that other commands get through in between. */
const AT_ONCE = 100;

const NOTHING: Retracted = { canceled: 0, retracting: 0, ended: 0, unknown: 0 };

function isUnknown({ jobs, dead }: AllFound): boolean {
  return jobs.length === 0 && dead.length === 0;
}

/**
 * Adds a job without a notification under the notification's id to every queue, since the recipient is not known. Whoever
 * enqueues the notification later gets the answer that its id is taken.
 */
async function takeId(id: string, { queues }: RetractParts): Promise<void> {
  const options = {
    jobId: jobIdOf(id),
    priority: PRIORITY.normal,
    removeOnComplete: KEEP_COMPLETED,
    removeOnFail: false,
  };
  await Promise.all(queues.map((queue) => queue.add(RETRACT, { id }, options)));
}

/** What is to be taken back. With a badge, devices on which nothing is shown get the badge. */
function shownIn(found: readonly State[], badge: number | undefined): Shown[] {
  return found.flatMap(({ kind, shown }) => {
    if (shown === undefined || (kind !== 'seen' && badge === undefined)) return [];
    if (kind === 'seen') return [shown];
    return [{ ...shown, devices: shown.devices.filter(({ platform }) => !MUST_SHOW.includes(platform)) }];
  });
}

/** How a notification stands now that it is stopped. `open`: it is not stopped. */
interface State {
  readonly kind: 'canceled' | 'seen' | 'ended' | 'open';
  /** What its devices show, or may show; of one that no device shows, all devices and no tags. Absent if that is unreadable. */
  readonly shown?: Shown | undefined;
}

async function stopOne(found: Found, isByKey: boolean, parts: RetractParts): Promise<State> {
  if (found.job.finishedOn !== undefined) return stateOf(found.job, isByKey);
  const stopped = await stop(found, parts, ({ finishedOn }) => finishedOn !== undefined, true);
  // It is being sent, or has its slot; or its worker died, and another one is to take it; or it is between two queues.
  if (stopped?.job === undefined || (stopped.isTaken && stopped.job.finishedOn === undefined)) return { kind: 'open' };
  if (stopped.job.finishedOn !== undefined) await parts.deciders[found.place.kind].forget(stopped.request); // it may have ended before
  return stateOf(stopped.job, isByKey);
}

/** The state of a job that is stopped or has ended. */
async function stateOf(job: Job<unknown>, isByKey: boolean): Promise<State> {
  const isDead = stageOf(job) === 'dead';
  if (isDead && (await job.isFailed())) return { kind: 'open' }; // it is about to become a dead letter
  const { devices, outcome } = (job.returnvalue ?? {}) as Partial<Completion>;
  const progress = progressOf(job);
  const { trying = [], digest, attempts = [] } = progress;
  const states = devices ?? progress.devices ?? {};
  // A worker may have alerted, and died before it could note that.
  const isUnsure = isLeftOpen(progress) || job.stalledCounter > 0 || (isDead && attempts.length > 0);
  const seen = { states, isUnsure, trying, isPart: !isByKey && hasOthers(digest) };
  const isCanceled = outcome === undefined ? !isDead : outcome === 'canceled';
  return judge(job.data, job.id ?? '', firstEnqueuedAtOf(job), seen, isCanceled ? 'canceled' : 'ended');
}

interface Seen {
  /** How devices ended, by label. */
  readonly states: Readonly<Record<string, unknown>>;
  /** A device without a state, or whose attempts are exhausted, may have been alerted. */
  readonly isUnsure: boolean;
  readonly trying?: readonly string[];
  /** It was sent as a digest for others too, which is not taken back for one of them. */
  readonly isPart: boolean;
}

/** @param notAlerted the kind if no device was alerted */
function judge(data: unknown, jobId: string, enqueuedAt: number, seen: Seen, notAlerted: 'canceled' | 'ended'): State {
  const id = notificationIdOf(jobId);
  const parsed = parseNotification({ id, ...objectOr(data) });
  if (!parsed.ok) return { kind: notAlerted };
  const { notification } = parsed;
  const { pushType } = notification;
  if (pushType === 'liveactivity') return { kind: notAlerted }; // its tokens take nothing else
  const labels = notification.devices.map(({ platform }, index) => `${platform}#${index}`);
  const alerted = labels.flatMap((label, index) => (pushType === 'alert' && isSeenOn(label, seen) ? [index] : []));
  if (alerted.length === 0 || seen.isPart) {
    return { kind: notAlerted, shown: { ...{ id, enqueuedAt, tags: [] }, ...placeOf(notification, labels.keys()) } };
  }
  const tags = tagsOf(notification, alerted);
  return { kind: 'seen', shown: { ...{ id, enqueuedAt, tags }, ...placeOf(notification, alerted) } };
}

function placeOf({ recipientId, devices }: Notification, indexes: Iterable<number>) {
  return { recipientId, devices: [...indexes].flatMap((index): Device[] => devices.slice(index, index + 1)) };
}

function isSeenOn(label: string, { states, isUnsure, trying = [] }: Seen): boolean {
  const state = states[label];
  if (state === 'delivered' || state === 'ambiguous') return true;
  return (isUnsure && (state === undefined || state === 'attempts-exhausted')) || trying.includes(label);
}

/** A dead letter that is removed, because its notification must not be replayed. */
interface Letter {
  readonly queue: Queue;
  readonly jobId: string;
  /** It is that of a digest, of which only one is to be taken back: it stays, for the others. */
  readonly isForOthers: boolean;
  readonly state: State;
}

/** A dead letter with one of these reasons may have alerted a device without an attempt that failed. */
const UNSURE: readonly unknown[] = ['ambiguous', 'stalled'];

async function findLetters(
  target: RetractTarget,
  { jobs, dead, gone }: AllFound,
  until: number,
  parts: RetractParts,
): Promise<Letter[]> {
  const isByKey = !('id' in target);
  const died = jobs.flatMap(({ job }) => (stageOf(job) === 'dead' ? (job.id ?? []) : []));
  const ids = new Set([...gone.values(), died].flat());
  const places = isByKey ? await deadAmong([...ids].flatMap(deadIdsOf), parts) : dead;
  const found = places.map(async ({ prefix, ids }): Promise<Letter[]> => {
    const queue = await parts.deadQueue(prefix);
    const jobs = await Promise.all(ids.map((id) => findJob(queue, id)));
    return jobs.flatMap((job) => {
      const letter = job?.data as Partial<DeadLetter> | undefined;
      if (job?.id === undefined || letter?.notification === undefined) return [];
      const { notification, delivered = [], digest, reason, attempts = [], enqueuedAt = 0 } = letter;
      if (isByKey && !(isUnderKey(notification, target) && enqueuedAt <= until)) return [];
      const states = Object.fromEntries(delivered.map((label) => [label, 'delivered']));
      // Its reason is that of one device. A retraction of what no device shows does no harm.
      const isUnsure = UNSURE.includes(reason) || attempts.length > 0;
      const isForOthers = !isByKey && hasOthers(digest);
      const seen = { states, isUnsure, isPart: isForOthers };
      return [{ queue, jobId: job.id, isForOthers, state: judge(notification, job.id, enqueuedAt, seen, 'ended') }];
    });
  });
  return (await Promise.all(found)).flat();
}

function isUnderKey(notification: unknown, target: KeyPlace): boolean {
  const { recipientId, cancellationKey } = objectOr(notification);
  return recipientId === target.recipientId && cancellationKey === target.cancellationKey;
}

/** By an id, the notification and its replays count as one. */
function countsOf(found: readonly State[], isByKey: boolean): Retracted {
  const count = (...kinds: State['kind'][]): number => found.filter(({ kind }) => kinds.includes(kind)).length;
  const [retracting, canceled, ended] = [count('seen', 'open'), count('canceled'), count('ended')];
  if (isByKey) return { canceled, retracting, ended, unknown: 0 };
  if (retracting > 0) return { ...NOTHING, retracting: 1 };
  return canceled > 0 ? { ...NOTHING, canceled: 1 } : { ...NOTHING, ended: 1 };
}
