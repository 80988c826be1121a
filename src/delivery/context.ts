import type { Job } from 'bullmq';
import type { BreakerAnswer } from '../breaker/breaker.ts';
import { type Account, type Service, isSameDevice, serviceOfDevice } from '../notification/device.ts';
import type { Fault } from '../domain/faults.ts';
import { newerThanKnown, type Newer } from '../domain/format.ts';
import {
  parseNotification,
  type Device,
  type Notification,
  type ParsedNotification,
} from '../notification/notification.ts';
import type { Outcome, Result } from '../notification/outcome.ts';
import { originOf, type Origin } from '../notification/story.ts';
import type { SlotId } from '../limiter/limiter.ts';
import type { PassEnd } from '../observe/metrics.ts';
import type { PassTrace } from '../observe/tracing.ts';
import type { Encoded, Permit, Provider, Reply } from '../providers/provider.ts';
import type { JobLock } from '../queue/job-lock.ts';
import { isRaised, isUnprioritised, notificationIdOf } from '../queue/names.ts';
import type { Place } from '../queue/notification-worker.ts';
import { unreadableFault } from '../queue/readable.ts';
import { readProgress, type Progress } from './progress.ts';

/** What a pass knows about its job and its worker. `createContext` sets it, and nothing changes it. */
interface Given {
  readonly jobId: string;
  /** The job's data as it was enqueued. */
  readonly data: unknown;
  /** The job's data, checked; an empty notification where there are `faults`. */
  readonly notification: Notification;
  /** What is wrong with the data; empty where nothing is. */
  readonly faults: readonly Fault[];
  /** A newer version wrote the data or the progress: nothing of the job is read, and its progress is left as it is. */
  readonly newer: Newer | undefined;
  /** How often workers have taken the job, with this pass (BullMQ's count). */
  readonly passes: number;
  /** When the job was added: epoch milliseconds. */
  readonly enqueuedAt: number;
  /** The `enqueuedAt` of the notification's first job; for a replay it is earlier. With the id it names the notification. */
  readonly firstEnqueuedAt: number;
  /** Who enqueued the job, and in which trace. */
  readonly origin: Origin;
  /** The job is new and has no priority: BullMQ takes such jobs before all that are due. */
  readonly isUnprioritised: boolean;
  /** The job is new, and a worker has raised it before jobs that are due (queue/prioritise.ts). */
  readonly isRaised: boolean;
  /** When this pass began: epoch milliseconds. */
  readonly startedAt: number;
  /** What the job remembered when this pass began. */
  readonly before: Progress;
  /** How often the job came back because a worker did not renew its lock (BullMQ's count). */
  readonly stalls: number;
  readonly lock: JobLock;
  /** The pass's place among the WORKER_CONCURRENCY places of this worker. */
  readonly place: Place;
  /** Fires when the worker has to stop: nothing is sent after it. */
  readonly signal: AbortSignal;
  /** The last pass asked for a slot and certainly sent nothing: if it was given a slot, that slot is unused. */
  readonly isSlotUnused: boolean;
}

/**
 * One pass: one run of a job through this worker. The steps of deliver.ts read here what they need, and write here whatever
 * more than one later step reads. Each field below names the file that sets it.
 */
export interface Context extends Given {
  /** What the job remembers, at first without `dueAt`. Steps and watchers replace it. Saved at the end of the pass. */
  progress: Progress;
  /** trace.ts: the span of this pass; undefined where no traces are wanted. */
  trace: PassTrace | undefined;
  /** replies.ts, before the send: what the breakers that are not closed said about this notification. */
  breakerAnswers: Map<Service, BreakerAnswer> | undefined;
  /** ready.ts: open devices for whose platform or app this worker has no credentials. */
  lacking: readonly LackingDevice[];
  /** ready.ts: another living worker has the credentials that this one lacks, for at least one of the devices. */
  isElsewhere: boolean;
  /** ready.ts: every stream that was set aside; those that are not used are released at the end of the pass. */
  readonly permits: Permit[];
  /** slot.ts: the limiter was asked in this pass, so its answer has said whether the notification ends without being sent. */
  isAsked: boolean;
  /** slot.ts: the slot that the limiter gave this pass; undefined if it has none, or has given it back. */
  admitted: AdmittedSlot | undefined;
  /** slot.ts: the slot to send in; undefined until there is one, and for a silent send. */
  slot: Slot | undefined;
  /** deliver.ts: what is sent now makes no sound, no vibration and no banner, as `onThrottle` or `onQuiet` wants. */
  isSilent: boolean;
  /** send.ts: how many requests were handed over whose replies are not in `tried` yet. */
  underWay: number;
  /** replies.ts, after the send: the devices that were tried, with the replies. */
  readonly tried: Tried[];
  /** decide.ts: the limiter answered that the notification ends without being sent. It remembers that until the job has ended. */
  isEnded: boolean;
  /** decide.ts: an error that no step foresaw, to be logged. */
  error: unknown;
}

/** A device that can be sent to now: its alert is encoded, and its provider is there. */
export interface ReadyDevice {
  readonly label: string;
  readonly device: Device;
  /** The account whose credentials are used, and whose quota counts if the server has no quota of its own. */
  readonly account: Account;
  /** The service whose circuit breaker decides. */
  readonly service: Service;
  readonly provider: Provider;
  readonly encoded: Encoded;
  /** The stream that is set aside: only for the first device of each server. The others wait for a stream at the send. */
  permit?: Permit;
}

/** A device for which this worker has no credentials. */
interface LackingDevice {
  readonly label: string;
  readonly account: Account;
}

export interface Prepared {
  /** The devices to send to: those that have a quota token, or whose account has no quota. */
  readonly ready: readonly ReadyDevice[];
  /** The quota tokens are not used after this instant of `performance.now()`. */
  readonly tokensUntil: number;
  /** A provider's quota has no room now, so some devices are not tried. */
  readonly quotaWait: QuotaWait | undefined;
  /** Why nothing may be sent; absent if it may. */
  readonly obstacle?: 'lock-lost' | 'not-noted';
}

/** A slot as the limiter gave it. No other worker is ever given the same id at the same instant, to send in it. */
export interface AdmittedSlot {
  readonly slot: SlotId;
  /** Epoch milliseconds on the limiter's clock. */
  readonly at: number;
}

/** A slot that may be used now. */
export interface Slot {
  /** Epoch milliseconds on the limiter's clock. */
  readonly at: number;
  /** The same instant on `performance.now()`. */
  readonly sendAt: number;
  /** After this instant of `performance.now()` nothing may be sent in the slot: the next alert could follow too closely. */
  readonly sendBy: number;
  /** A job that waits for such a slot is due this much before the slot, in milliseconds. */
  readonly leadMs: number;
}

export interface QuotaWait {
  readonly waitMs: number;
  /** `fcm:600000/1m`; of another app's quota `fcm~teacher:600000/1m`. */
  readonly rule: string;
  /** The end of the wait on `performance.now()`. */
  readonly dueAt: number;
}

/** One try to send to one device, with the reply. */
export interface Tried {
  readonly label: string;
  readonly service: Service;
  readonly reply: Reply;
  /** When the reply came, or the try was given up: epoch milliseconds. */
  readonly at: number;
  /** When the request was handed over to be sent: an instant of `performance.now()`. */
  readonly handedOverAt: number;
  /** From the hand-over to the reply, milliseconds. */
  readonly tookMs: number;
}

/**
 * Only looks at passes: logs, counts, traces or writes what it sees, and changes no result. Its calls come in the order below.
 * No call may throw or reject. No watcher may depend on another, with one exception: where traces are wanted, `context.trace`
 * is there after `taken`.
 */
export interface Watcher {
  /** A pass begins. */
  readonly taken?: (context: Context) => void;
  /**
   * The pass has a result, but BullMQ does not know it yet. After this call `context.progress` is saved with the result, so
   * here a watcher writes what the next pass is to read. The watchers are called one after the other.
   */
  readonly ended?: (context: Context, result: Result, end: PassFacts) => Promise<void> | void;
  /** Redis did not take the result, so the job will run again, and `completing` is not called. */
  readonly notAcked?: (context: Context, error: unknown) => void;
  /** BullMQ waits for this before it completes the job. If the worker dies before that, another worker calls this again. */
  readonly completing?: (context: Context, outcome: Outcome, endedAt: number) => Promise<void>;
}

/** What watchers get to know about a pass beside its result. */
export interface PassFacts extends PassEnd {
  /** Epoch milliseconds. */
  readonly endedAt: number;
  /** The attempts so far. */
  readonly attempts: number;
  /** How long after its due time the job was taken; undefined if it had none. */
  readonly wokenLateMs: number | undefined;
}

/** The context at the beginning of a pass. `startedAt`: epoch milliseconds. */
export function createContext(
  job: Pick<Job, 'id' | 'data' | 'progress' | 'timestamp' | 'stalledCounter' | 'attemptsStarted' | 'opts' | 'priority'>,
  lock: JobLock,
  signal: AbortSignal,
  place: Place,
  startedAt: number,
): Context {
  const jobId = job.id ?? '';
  const data = job.data as unknown;
  const newer = newerThanKnown('job data', data) ?? newerThanKnown('job progress', job.progress);
  const unreadable = unreadableFault(data);
  const parsed: ParsedNotification =
    unreadable === undefined ? parseNotification(withId(data, jobId)) : { ok: false, faults: [unreadable] };
  const before = readProgress(newer === undefined ? job.progress : undefined);
  const origin = originOf(job.opts);
  return {
    jobId,
    data,
    notification: parsed.ok ? parsed.notification : NONE,
    faults: parsed.ok ? [] : parsed.faults,
    newer,
    passes: job.attemptsStarted,
    enqueuedAt: job.timestamp,
    firstEnqueuedAt: origin.firstEnqueuedAt ?? job.timestamp,
    origin,
    isUnprioritised: job.progress === 0 && isUnprioritised(job),
    isRaised: isRaised(job),
    startedAt,
    before,
    stalls: job.stalledCounter,
    lock,
    place,
    signal,
    // If a worker died after the ask, it may have sent.
    isSlotUnused: before.unsent === true && job.stalledCounter === 0,
    isAsked: false,
    isEnded: false,
    progress: before.dueAt === undefined ? before : { ...before, dueAt: undefined },
    trace: undefined,
    breakerAnswers: undefined,
    lacking: [],
    isElsewhere: false,
    isSilent: false,
    permits: [],
    admitted: undefined,
    slot: undefined,
    underWay: 0,
    tried: [],
    error: undefined,
  };
}

const NONE: Notification = {
  id: '',
  recipientId: '',
  devices: [],
  pushType: 'alert',
  priority: 'normal',
  onThrottle: 'delay',
  onQuiet: 'delay',
};

/** The data may lack the id: then the job's id is used. */
function withId(data: unknown, jobId: string): unknown {
  const isObject = typeof data === 'object' && data !== null && !Array.isArray(data);
  return isObject && !('id' in data) ? { ...data, id: notificationIdOf(jobId) } : data;
}

/** For how long a pass with this result puts its job back, in milliseconds; undefined if it does not put it back. */
export function putBackMs(result: Result): number | undefined {
  if (result.kind === 'requeued') return result.delayMs;
  return result.kind === 'deferred' || result.kind === 'retried' ? result.waitMs : undefined;
}

interface LabelledDevice {
  /** `apns#0`: the first of `devices`, which is on APNs. Never the token. */
  readonly label: string;
  readonly device: Device;
  readonly index: number;
}

/** The devices that have not ended: neither delivered nor failed. */
export function openDevices({ notification, progress }: Pick<Context, 'notification' | 'progress'>): LabelledDevice[] {
  return labelledDevices(notification).filter(({ label }) => !(label in progress.devices));
}

export function openLabels(context: Pick<Context, 'notification' | 'progress'>): string[] {
  return openDevices(context).map(({ label }) => label);
}

/** The services whose circuit breakers decide about the open devices. */
export function openServices(context: Pick<Context, 'notification' | 'progress'>): Service[] {
  return [...new Set(openDevices(context).map(({ device }) => serviceOfDevice(device)))];
}

/** All devices with their labels; a device that is listed twice counts once. */
function labelledDevices({ devices }: Notification): LabelledDevice[] {
  const labelled = devices.map((device, index) => ({ label: `${device.platform}#${index}`, device, index }));
  if (labelled.length === 1) return labelled; // most notifications have one device
  return labelled.filter(({ device, index }) => devices.findIndex((other) => isSameDevice(other, device)) === index);
}

/** Whether a reply, or a request whose reply is not known, leaves it possible that the recipient was alerted. */
export function mayHaveAlerted({ tried, underWay }: Pick<Context, 'tried' | 'underWay'>): boolean {
  return underWay > 0 || tried.some(({ reply }) => reply.alerted !== 'no');
}

/** Whether this pass has sent: then what it has to say of its send is true, whichever worker has the job by now. */
export function hasSent({ tried, underWay }: Pick<Context, 'tried' | 'underWay'>): boolean {
  return underWay > 0 || tried.some(({ reply }) => reply.unsent !== true);
}

/** Milliseconds until the notification expires; Infinity where it does not. */
export function timeLeftMs({ notification }: Pick<Context, 'notification'>, { now }: { now: () => number }): number {
  return notification.expiresAt === undefined ? Infinity : notification.expiresAt - now();
}
