import { NewerFormatError, newerThanKnown, type Newer } from '../domain/format.ts';
import { isObject, objectOr, valueAt } from '../domain/json.ts';
import { devicesIn } from '../notification/device.ts';
import { parseNotification, PLATFORMS, type Platform } from '../notification/notification.ts';
import {
  DEAD_LETTER_REASONS,
  type DeadLetter,
  type DeadLetterReason,
  type FailedAttempt,
} from '../notification/outcome.ts';
import { redact } from '../notification/redact.ts';
import {
  firstEnqueuedAtOf,
  MOST_TEXT,
  originOf,
  readPasses,
  withPass,
  type LetterStory,
} from '../notification/story.ts';
import { hasStalled } from '../queue/bullmq-internals.ts';
import { isOrder, notificationIdOf } from '../queue/names.ts';

/** A dead letter in its queue. */
export interface StoredDeadLetter {
  /** The id of the dead letter's job in `dead-letters`. */
  readonly id: string;
  /**
   * When the dead letter came into the queue `dead-letters`: epoch milliseconds on Redis's clock. For one that another program
   * added: on its clock.
   */
  readonly buriedAt: number;
  readonly letter: DeadLetter;
  /** A newer version wrote the dead letter, or its notification: this version neither replays nor discards it. */
  readonly newer?: Newer;
}

/** The fields of a job's hash that dead letters need. */
export interface JobFields {
  readonly name: string;
  /** The job's data. If its text is no JSON, too long, or nested too deeply to be written as JSON again: its beginning. */
  readonly data: unknown;
  readonly progress: unknown;
  readonly opts: unknown;
  readonly failedReason: string;
  readonly finishedOn?: number;
  /** When the job was added: epoch milliseconds. */
  readonly timestamp: number;
}

/**
 * The dead letter of a failed job. The pass that decided the failure has stored reason and attempts in the job's progress, as
 * `{ dead: { reason, message }, attempts, devices }`. Without these, BullMQ's own failure message is used.
 */
export function deadLetterOf(job: JobFields, now: number): DeadLetter {
  const devices = valueAt(job.progress, 'devices');
  const delivered = Object.entries(objectOr(devices)).flatMap(([label, state]) =>
    state === 'delivered' ? [label] : [],
  );
  return {
    notification: job.data,
    ...(isOrder(job.name) && { order: job.name }),
    ...verdictOf(job),
    attempts: attemptsOf(job.progress),
    deadAt: job.finishedOn ?? now,
    enqueuedAt: firstEnqueuedAtOf(job),
    generation: generationOf(job.opts),
    ...digestIn(job.progress),
    ...(delivered.length > 0 && { delivered }),
    ...storyIn(job.progress, job.opts, job.timestamp),
  };
}

/** What the digest of this job or dead letter consists of. Empty for a notification that stands for no others. */
function digestIn(holder: unknown): Pick<DeadLetter, 'digest'> {
  const { count, own } = objectOr(valueAt(holder, 'digest'));
  if (typeof count !== 'number' || typeof own !== 'boolean' || (count === 1 && own)) return {};
  return { digest: { count, own } };
}

/** The story of a job or dead letter. Empty if no pass was recorded, and neither its producer nor its trace is known. */
function storyIn(passesIn: unknown, originIn: unknown, enqueuedAt: number): { readonly story?: LetterStory } {
  const [passes, origin] = [readPasses(passesIn), originOf(originIn)];
  const { enqueuedBy, traceparent } = origin;
  if (passes.passes === undefined && enqueuedBy === undefined && traceparent === undefined) return {};
  return { story: { firstEnqueuedAt: enqueuedAt, ...origin, ...passes } };
}

/** Whether a pass decided that the job fails: then the failure is logged and counted already. */
export function isDecided({ progress }: Pick<JobFields, 'progress'>): boolean {
  return isReason(valueAt(progress, 'dead.reason'));
}

function verdictOf({ data, progress, failedReason }: JobFields): Pick<DeadLetter, 'reason' | 'message'> {
  const [decided, message] = [valueAt(progress, 'dead.reason'), valueAt(progress, 'dead.message')];
  if (isReason(decided) && typeof message === 'string') return { reason: decided, message };
  let reason: DeadLetterReason = parseNotification(data).ok ? 'attempts-exhausted' : 'invalid';
  if (hasStalled(failedReason)) reason = wasBeingSent(progress) ? 'ambiguous' : 'stalled';
  return { reason, message: redact(failedReason, data) };
}

/** Under AT_MOST_ONCE: whether the last worker died while it sent to a device, so that the device may have been alerted. */
function wasBeingSent(progress: unknown): boolean {
  const [trying, devices] = [valueAt(progress, 'trying'), valueAt(progress, 'devices')];
  return Array.isArray(trying) && trying.some((label) => !isObject(devices) || devices[String(label)] === undefined);
}

/**
 * The first progress of a replayed job; delivery/progress.ts reads it. Devices that were alerted before are marked as
 * delivered, so that they are skipped. A digest is sent for all its notifications. The story is continued.
 */
export function replayProgress(
  { delivered = [], digest, story, reason, message, deadAt }: DeadLetter,
  now: number,
): object | undefined {
  const isRecorded = story?.passes !== undefined;
  if (delivered.length === 0 && digest === undefined && !isRecorded) return undefined;
  return {
    ...(digest && { digest }),
    ...(delivered.length > 0 && { devices: Object.fromEntries(delivered.map((label) => [label, 'delivered'])) }),
    ...(isRecorded &&
      withPass(story, { at: now, result: 'replayed', reason, message: message.slice(0, MOST_TEXT), deadAt })),
  };
}

/** Reads a stored dead letter. If a newer version wrote it, only its age is known. */
export function readStored(id: string, buriedAt: number, data: unknown): StoredDeadLetter {
  const newer = newerThanKnown('dead letter', data);
  if (newer === undefined) {
    const ofNotification = newerThanKnown('job data', valueAt(data, 'notification'));
    return { id, buriedAt, letter: readDeadLetter(data, buriedAt), ...(ofNotification && { newer: ofNotification }) };
  }
  const { message } = new NewerFormatError(newer);
  return { id, buriedAt, letter: { ...FOREIGN, notification: null, message, deadAt: buriedAt }, newer };
}

/**
 * Reads a job of `dead-letters`. A job that no worker of this project wrote gets the reason `invalid`; it can be replayed too. If
 * the data do not say when it died, it died when it was buried.
 */
export function readDeadLetter(data: unknown, buriedAt: number): DeadLetter {
  if (!isObject(data) || !('notification' in data) || !isReason(data['reason']))
    return { ...FOREIGN, notification: data, deadAt: buriedAt };
  const { notification, order, reason, message, enqueuedAt, delivered, story } = data;
  const deadAt = isInstant(data['deadAt']) ? data['deadAt'] : buriedAt;
  return {
    notification,
    ...(isOrder(order) && { order }),
    reason,
    message: typeof message === 'string' ? message : reason,
    attempts: attemptsOf(data),
    deadAt,
    ...(isInstant(enqueuedAt) && { enqueuedAt }),
    generation: generationOf(data),
    ...digestIn(data),
    ...(Array.isArray(delivered) && { delivered: delivered.filter((label) => typeof label === 'string') }),
    ...(isObject(story) && storyIn(story, story, deadAt)),
  };
}

const FOREIGN = {
  reason: 'invalid',
  message: 'this job in the dead-letter queue was not written by a worker',
  attempts: [],
  generation: 0,
} as const;

/** A device that a dead letter is about. */
export interface OpenDevice {
  readonly platform: Platform;
  /** Absent: the app of the workers' environment. */
  readonly app?: string;
}

/** A text that is longer than this is no name of an app, and may be a token in the wrong place. */
const MAX_APP = 64;

/**
 * The devices of the dead letter's notification that were not alerted. The notification may be any value, so a device without a
 * known platform is left out, and the list may be empty.
 */
export function openDevicesOf({ notification, delivered = [] }: DeadLetter): OpenDevice[] {
  return (devicesIn(notification) ?? []).flatMap((device: unknown, index): OpenDevice[] => {
    const [platform, app] = [PLATFORMS.find((known) => known === valueAt(device, 'platform')), valueAt(device, 'app')];
    if (platform === undefined || delivered.includes(`${platform}#${index}`)) return [];
    if (app === undefined) return [{ platform }];
    return typeof app === 'string' && app.length <= MAX_APP ? [{ platform, app }] : [];
  });
}

/** The id by which a dead letter's notification is known: that of its data, or that of its first job. */
export function notificationIdIn({ id, letter }: Pick<StoredDeadLetter, 'id' | 'letter'>): string {
  return statedIdOf(letter.notification) ?? notificationIdOf(id);
}

/** The id in a notification's data, even if it is a number by mistake; undefined if there is no id to show. */
export function statedIdOf(notification: unknown): string | undefined {
  const id = valueAt(notification, 'id');
  return typeof id === 'string' || typeof id === 'number' ? String(id) : undefined;
}

/** The generation of a replayed job is in its options, because its data stays exactly as the producer wrote it. */
function generationOf(holder: unknown): number {
  const generation = valueAt(holder, 'generation');
  return typeof generation === 'number' ? generation : 0;
}

function attemptsOf(holder: unknown): FailedAttempt[] {
  const attempts = valueAt(holder, 'attempts');
  return Array.isArray(attempts) ? attempts.filter(isAttempt) : [];
}

function isAttempt(value: unknown): value is FailedAttempt {
  if (!isObject(value)) return false;
  const { at, device, error } = value;
  return isInstant(at) && typeof error === 'string' && (device === undefined || typeof device === 'string');
}

/** Whether `Date` can represent this instant. */
function isInstant(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= 8.64e15;
}

function isReason(value: unknown): value is DeadLetterReason {
  return (DEAD_LETTER_REASONS as readonly unknown[]).includes(value);
}
