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
import { hasOthers, isLeftOpen, mayShow, type Completion, type DeadLetter } from '../notification/outcome.ts';
import type { Meant } from '../notification/retraction.ts';
import { MUST_SHOW } from '../notification/rules.ts';
import { firstEnqueuedAtOf } from '../notification/story.ts';
import type { KeyPlace } from '../queue/cancellation-index.ts';
import {
  deadIdsOf,
  jobIdOf,
  KEEP_COMPLETED,
  notificationIdOf,
  PRIORITY,
  replayIdsOf,
  RETRACT,
} from '../queue/names.ts';
import { findJob } from '../queue/readable.ts';
import { stop, type CancelParts } from './cancel.ts';
import { deadAmong, find, jobsOf, progressOf, stageOf, type AllFound, type Found } from './find.ts';
import { takeBack, type Shown, type TakeBackParts } from './take-back.ts';

export interface RetractParts extends CancelParts, TakeBackParts {
  /** The queue of the dead letters with this prefix. */
  readonly deadQueue: (prefix: string) => Queue | Promise<Queue>;
}

/** What a retract did so far. */
export interface Retracting {
  readonly retracted: Retracted;
  /** The retract is not complete yet, for example because a notification is being sent: repeat it a little later. */
  readonly isOpen: boolean;
  /** The ids of the notifications with which the retract is not complete yet. */
  readonly left: readonly string[];
  /** When the newest notification with a job was enqueued, on its producer's clock: epoch milliseconds; 0 if none has a job. */
  readonly newestAt: number;
}

/**
 * Takes notifications back. Those that wait are canceled. Devices that were alerted get a background push that names the
 * notifications. If no notification has the id, a job takes this id for an hour: a notification with the same id that comes
 * later is then not sent. Safe to repeat: what was taken back already is not taken back again.
 *
 * @param meant if the target is a cancellation key: other notifications are left as they are. Default: all under the key are meant
 */
export async function retract(
  { badge, ...target }: RetractTarget,
  parts: RetractParts,
  meant: Meant = { until: Infinity },
): Promise<Retracting> {
  const isByKey = !('id' in target);
  const isMeant = ({ job }: Found): boolean => !isByKey || isAmong(meant, job.id, firstEnqueuedAtOf(job));
  const look = async (): Promise<AllFound> => {
    const found = await find(target, parts);
    return { ...found, jobs: found.jobs.filter(isMeant) };
  };
  let all = await look();
  if (!isByKey && isUnknown(all)) {
    await takeId(target.id, parts);
    all = await look(); // the notification may have come meanwhile
    if (isUnknown(all)) return { retracted: { ...NOTHING, unknown: 1 }, isOpen: false, left: [], newestAt: 0 };
  }
  const states: State[] = [];
  for (let from = 0; from < all.jobs.length; from += AT_ONCE) {
    const some = all.jobs.slice(from, from + AT_ONCE);
    states.push(...(await Promise.all(some.map((found) => stopOne(found, isByKey, parts)))));
  }
  const letters = await findLetters(target, all, meant, parts);
  // A job that still exists says more than the dead letter that it became.
  const kept = new Set(all.jobs.map(({ job }) => job.id));
  const found = [...states, ...letters.filter(({ jobId }) => !kept.has(jobId)).map(({ state }) => state)];
  const isTaken = await takeBack(shownIn(found, badge), badge, parts);
  // The dead letters are removed only after `takeBack`: if this process ends before that, the next try finds them again.
  const ofIt = letters.filter(({ isForOthers }) => !isForOthers);
  await Promise.all(ofIt.map(({ queue, jobId }) => queue.remove(jobId)));
  // These replays began meanwhile, and are only stopped here. The next try finds them: by a key, they are in the index by then.
  const replays = await Promise.all(
    (await findReplays(target, all, meant, parts)).map((each) => stopOne(each, isByKey, parts)),
  );
  const open = [
    ...found.filter(({ kind, shown }) => kind === 'open' || (!isTaken && shown !== undefined)),
    ...replays.filter(({ kind }) => kind !== 'canceled'),
  ];
  const left = [...new Set(open.map(({ jobId }) => notificationIdOf(jobId)))];
  const newestAt = all.jobs.reduce((newest, { job }) => Math.max(newest, firstEnqueuedAtOf(job)), 0);
  return { retracted: countsOf(found, isByKey), isOpen: left.length > 0, left, newestAt };
}

function isAmong(meant: Meant, jobId = '', enqueuedAt: number): boolean {
  return 'ids' in meant ? meant.ids.includes(notificationIdOf(jobId)) : enqueuedAt <= meant.until;
}

/** How many notifications are stopped at once, so that other commands get through in between. */
const AT_ONCE = 100;

const NOTHING: Retracted = { canceled: 0, retracting: 0, ended: 0, unknown: 0 };

function isUnknown({ jobs, dead }: AllFound): boolean {
  return jobs.length === 0 && dead.length === 0;
}

/**
 * Adds a job that contains only this id to every queue: the recipient is not known, and so the queue is not known either. A
 * producer that enqueues the notification later gets the answer that its id is taken.
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

/** What is to be taken back. With a badge, devices that show nothing get it too, except devices that must show every push. */
function shownIn(found: readonly State[], badge: number | undefined): Shown[] {
  return found.flatMap(({ kind, shown }) => {
    if (shown === undefined || (kind !== 'seen' && badge === undefined)) return [];
    if (kind === 'seen') return [shown];
    return [{ ...shown, devices: shown.devices.filter(({ platform }) => !MUST_SHOW.includes(platform)) }];
  });
}

/** The state of a notification now. `seen`: a device shows it, or may show it. `open`: it could not be stopped yet. */
interface State {
  readonly jobId: string;
  readonly kind: 'canceled' | 'seen' | 'ended' | 'open';
  /**
   * What the notification's devices show, or may show. If no alert has to be removed: all its devices, and no tags. Absent if
   * `kind` is `open`, if the data are unreadable, and for a Live Activity.
   */
  readonly shown?: Shown | undefined;
}

async function stopOne(found: Found, isByKey: boolean, parts: RetractParts): Promise<State> {
  const open = { jobId: found.job.id ?? '', kind: 'open' } as const;
  if (found.job.finishedOn !== undefined || isPartOf(found.job, isByKey)) return stateOf(found.job, isByKey);
  const stopped = await stop(found, parts, ({ finishedOn }) => finishedOn !== undefined, true);
  if (stopped === 'replaced') return stateOf(found.job, isByKey, 'ended');
  if (stopped === 'too-late') return open; // it is being sent, or has its slot
  // Its worker died, and no other has it yet; or it is between two queues.
  if (stopped.job === undefined || (stopped.isTaken && stopped.job.finishedOn === undefined)) return open;
  if (stageOf(stopped.job) === 'dead') return open; // its dead letter came after the search
  // The job may have ended before the cancel.
  if (stopped.job.finishedOn !== undefined) await parts.deciders[found.place.kind].forget(stopped.request);
  return stateOf(stopped.job, isByKey);
}

/** True if only one notification of an admitted digest is retracted: the digest stays, since it stands for others too. */
function isPartOf(job: Job<unknown>, isByKey: boolean): boolean {
  return !isByKey && hasOthers(progressOf(job).digest);
}

/**
 * The state of a job that is stopped, has ended, or is not to be stopped.
 *
 * @param unsent the kind of a job that has not ended, if no device was alerted
 */
async function stateOf(job: Job<unknown>, isByKey: boolean, unsent: 'canceled' | 'ended' = 'canceled'): Promise<State> {
  const isDead = stageOf(job) === 'dead';
  const { id: jobId = '' } = job;
  if (isDead && (await job.isFailed())) return { jobId, kind: 'open' }; // it is about to become a dead letter
  const { devices, outcome } = (job.returnvalue ?? {}) as Partial<Completion>;
  const progress = progressOf(job);
  const { trying = [], attempts = [] } = progress;
  const isPart = isPartOf(job, isByKey);
  const states = devices ?? progress.devices ?? {};
  // A worker may have alerted, and died before it could note that.
  const isUnsure = isLeftOpen(progress) || job.stalledCounter > 0 || (isDead && attempts.length > 0);
  const seen = { states, isUnsure, trying, isPart };
  const notEnded = isDead || isPart ? 'ended' : unsent;
  const ended = outcome === 'canceled' ? 'canceled' : 'ended';
  return judge(job.data, jobId, firstEnqueuedAtOf(job), seen, outcome === undefined ? notEnded : ended);
}

interface Seen {
  /** How devices ended, by label. */
  readonly states: Readonly<Record<string, unknown>>;
  /** A device without a state, or whose attempts are exhausted, may have been alerted. */
  readonly isUnsure: boolean;
  readonly trying?: readonly string[];
  /**
   * The notification was sent in a digest that stands for others too, which a retract by the id of only one does not take back.
   */
  readonly isPart: boolean;
}

/** @param unsent the kind if no device got it */
function judge(data: unknown, jobId: string, enqueuedAt: number, seen: Seen, unsent: 'canceled' | 'ended'): State {
  const id = notificationIdOf(jobId);
  const notAlerted = Object.values(seen.states).some(mayShow) ? 'ended' : unsent; // a device may have got it without an alert
  const parsed = parseNotification({ id, ...objectOr(data) });
  if (!parsed.ok) return { jobId, kind: notAlerted };
  const { notification } = parsed;
  const { pushType, apns } = notification;
  if (pushType === 'liveactivity') return { jobId, kind: notAlerted }; // tokens of Live Activities take no other pushes
  const labels = notification.devices.map(({ platform }, index) => `${platform}#${index}`);
  const alerted = labels.flatMap((label, index) => (pushType === 'alert' && isSeenOn(label, seen) ? [index] : []));
  const of = { id, enqueuedAt, recipientId: notification.recipientId, topic: apns?.topic };
  if (alerted.length === 0 || seen.isPart) {
    return { jobId, kind: notAlerted, shown: { ...of, tags: [], devices: devicesAt(notification, labels.keys()) } };
  }
  const tags = tagsOf(notification, alerted);
  return { jobId, kind: 'seen', shown: { ...of, tags, devices: devicesAt(notification, alerted) } };
}

function devicesAt({ devices }: Notification, indexes: Iterable<number>): Device[] {
  return [...indexes].flatMap((index) => devices.slice(index, index + 1));
}

function isSeenOn(label: string, { states, isUnsure, trying = [] }: Seen): boolean {
  const state = states[label];
  if (mayShow(state)) return true;
  return (isUnsure && (state === undefined || state === 'attempts-exhausted')) || trying.includes(label);
}

/** A dead letter that was found. It is removed, because its notification must not be replayed; with `isForOthers` it stays. */
interface Letter {
  readonly queue: Queue;
  readonly jobId: string;
  /** The dead letter stands for other notifications too (a digest), and the retract names only one of them: so it stays. */
  readonly isForOthers: boolean;
  readonly state: State;
}

/** With one of these reasons a device may have been alerted, even if the dead letter has no failed attempt. */
const UNSURE: readonly unknown[] = ['ambiguous', 'stalled'];

async function findLetters(
  target: RetractTarget,
  { jobs, dead, gone }: AllFound,
  meant: Meant,
  parts: RetractParts,
): Promise<Letter[]> {
  const isByKey = !('id' in target);
  const places = isByKey ? await deadAmong(diedOf({ jobs, gone }).flatMap(deadIdsOf), parts) : dead;
  const found = places.map(async ({ prefix, ids }): Promise<Letter[]> => {
    const queue = await parts.deadQueue(prefix);
    const jobs = await Promise.all(ids.map((id) => findJob(queue, id)));
    return jobs.flatMap((job) => {
      const letter = job?.data as Partial<DeadLetter> | undefined;
      if (job?.id === undefined || letter?.notification === undefined) return [];
      const { notification, delivered = [], digest, reason, attempts = [], enqueuedAt = 0 } = letter;
      if (isByKey && !(isUnderKey(notification, target) && isAmong(meant, job.id, enqueuedAt))) return [];
      const states = Object.fromEntries(delivered.map((label) => [label, 'delivered']));
      // The reason is about one device only, so each device may have been alerted. To retract what no device shows does no
      // harm.
      const isUnsure = UNSURE.includes(reason) || attempts.length > 0;
      const isForOthers = !isByKey && hasOthers(digest);
      const seen = { states, isUnsure, isPart: isForOthers };
      return [{ queue, jobId: job.id, isForOthers, state: judge(notification, job.id, enqueuedAt, seen, 'ended') }];
    });
  });
  return (await Promise.all(found)).flat();
}

/** The ids of the jobs that have, or may have, become dead letters. */
function diedOf({ jobs, gone }: Pick<AllFound, 'jobs' | 'gone'>): string[] {
  const died = jobs.flatMap(({ job }) => (stageOf(job) === 'dead' ? (job.id ?? []) : []));
  return [...new Set([...gone.values(), died].flat())];
}

/** Replays that wait or are being sent, and that began while the dead letters were looked for. */
async function findReplays(
  target: RetractTarget,
  all: AllFound,
  meant: Meant,
  { connection, queues }: RetractParts,
): Promise<Found[]> {
  const known = new Set(all.jobs.map(({ job }) => job.id));
  const died = 'id' in target ? [jobIdOf(target.id)] : diedOf(all);
  const ids = [...new Set(died.flatMap(replayIdsOf))].filter((id) => !known.has(id));
  if (ids.length === 0) return [];
  const found = queues.map(async (queue) => {
    const isThere = (await connection.exists(...ids.map((id) => queue.toKey(id)))) > 0;
    return isThere ? jobsOf(queue, ids) : [];
  });
  const isMeant = ({ job }: Found): boolean =>
    job.finishedOn === undefined &&
    ('id' in target || (isUnderKey(job.data, target) && isAmong(meant, job.id, firstEnqueuedAtOf(job))));
  return (await Promise.all(found)).flat().filter(isMeant);
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
