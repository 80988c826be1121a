import type { Job } from 'bullmq';
import type { BreakerAnswer } from '../breaker/breaker.ts';
import type { Account, Service } from '../domain/account.ts';
import type { Fault } from '../domain/faults.ts';
import { parseNotification, type Device, type Notification, type ParsedNotification } from '../domain/notification.ts';
import type { Held } from '../limiter/limiter.ts';
import type { Encoded, Permit, Provider, Reply } from '../providers/provider.ts';
import type { JobLock } from '../queue/job-lock.ts';
import type { Place } from '../queue/notification-worker.ts';
import { notificationIdOf } from '../queue/names.ts';
import { unreadableFault } from '../queue/readable.ts';
import { readProgress, type Progress } from './progress.ts';

/**
 * One pass: one run of a job through this worker. The steps of deliver.ts read here what they need, and write here what
 * they found.
 */
export interface Context {
  readonly jobId: string;
  /** The job's data as somebody enqueued it. */
  readonly data: unknown;
  /** The job's data, checked; an empty notification where there are `faults`. */
  readonly notification: Notification;
  /** What is wrong with the data; empty where nothing is. */
  readonly faults: readonly Fault[];
  /** When the job was added: epoch milliseconds. */
  readonly enqueuedAt: number;
  /** Attempts of the passes before this one. */
  readonly attemptsBefore: number;
  /** How often the job came back because a worker did not renew its lock (BullMQ's count). */
  readonly stalls: number;
  readonly lock: JobLock;
  /** Its place among the passes of WORKER_CONCURRENCY. */
  readonly place: Place;
  /** Fires when the worker has to stop: nothing is sent after it. */
  readonly signal: AbortSignal;
  /** The last pass asked for a slot, got no answer, and certainly sent nothing: if a slot was given to it, it is unused. */
  readonly isSlotUnused: boolean;
  /** What the job remembers. A step replaces it; it is saved at the end of the pass. */
  progress: Progress;

  /** What the breakers that are not closed said about this notification. */
  breakerAnswers: Map<Service, BreakerAnswer> | undefined;
  /** The devices that can be sent to now. */
  ready: readonly ReadyDevice[];
  /** What is sent now makes no sound, no vibration and no banner: `onThrottle` or `onQuiet` wants that. */
  isSilent: boolean;
  /** Every stream that was set aside; those that are not used are released at the end of the pass. */
  readonly permits: Permit[];
  /** The slot to send in; undefined until there is one, and for a silent send. */
  slot: Slot | undefined;
  /** The tokens of the quotas are not used after this instant of `performance.now()`. */
  tokensUntil: number;
  /** A provider's quota has no room now, so some devices were not tried. */
  quotaWait: QuotaWait | undefined;
  /** Why nothing may be sent, found while the send was prepared. */
  notPrepared: 'lock-lost' | 'not-noted' | undefined;
  /** Nothing is handed to a connection after this instant of `performance.now()`. */
  sendBy: number;
  /** The devices that were tried, with the replies. */
  readonly tried: Tried[];
  /** An error that no step foresaw; for the log. */
  error: unknown;
}

/** A device that can be sent to now: its alert is encoded, and its provider is there. */
export interface ReadyDevice {
  readonly label: string;
  readonly device: Device;
  /** Whose credentials and quota it takes. */
  readonly account: Account;
  /** Whose circuit breaker. */
  readonly service: Service;
  readonly provider: Provider;
  readonly encoded: Encoded;
  /** The stream that is set aside. Only the first device of each server has one; the others wait for theirs in the send. */
  permit?: Permit;
}

/** A slot that may be used now. */
export interface Slot {
  readonly kind: 'slot';
  /** The ask that was admitted: the limiter knows the slot by it. */
  readonly ask: Held;
  /** Epoch milliseconds on the limiter's clock. */
  readonly at: number;
  /** The same instant on `performance.now()`. */
  readonly sendAt: number;
  /** After this instant of `performance.now()` nothing may be sent in it: the next alert could follow too closely. */
  readonly sendBy: number;
}

/** The wait until a quota has room. */
export interface QuotaWait {
  readonly waitMs: number;
  /** `fcm:600000/1m`; of another app's quota `fcm~teacher:600000/1m`. */
  readonly rule: string;
  /** The end of the wait on `performance.now()`. */
  readonly dueAt: number;
}

/** One try at one device, and what came of it. */
export interface Tried {
  readonly label: string;
  readonly service: Service;
  readonly reply: Reply;
  /** When the reply came, or the try was given up: epoch milliseconds. */
  readonly at: number;
}

/** The context at the beginning of a pass. */
export function createContext(
  job: Pick<Job, 'id' | 'data' | 'progress' | 'timestamp' | 'stalledCounter'>,
  lock: JobLock,
  signal: AbortSignal,
  place: Place = STAYS,
): Context {
  const jobId = job.id ?? '';
  const data = job.data as unknown;
  const unreadable = unreadableFault(data);
  const parsed: ParsedNotification =
    unreadable === undefined ? parseNotification(withId(data, jobId)) : { ok: false, faults: [unreadable] };
  const progress = readProgress(job.progress);
  return {
    jobId,
    data,
    notification: parsed.ok ? parsed.notification : NONE,
    faults: parsed.ok ? NO_FAULTS : parsed.faults,
    enqueuedAt: job.timestamp,
    stalls: job.stalledCounter,
    lock,
    place,
    signal,
    // A worker that died after the ask may have sent.
    isSlotUnused: progress.unsent === true && job.stalledCounter === 0,
    attemptsBefore: progress.tries,
    progress,
    breakerAnswers: undefined,
    ready: NO_DEVICES,
    isSilent: false,
    permits: [],
    slot: undefined,
    tokensUntil: Infinity,
    quotaWait: undefined,
    notPrepared: undefined,
    sendBy: Infinity,
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
const STAYS: Place = { leave: () => () => undefined };
const NO_FAULTS: readonly Fault[] = [];
const NO_DEVICES: readonly ReadyDevice[] = [];

/** The id may be left out of the data: it is the job's then. */
function withId(data: unknown, jobId: string): unknown {
  const isObject = typeof data === 'object' && data !== null && !Array.isArray(data);
  return isObject && !('id' in data) ? { ...data, id: notificationIdOf(jobId) } : data;
}

/** Milliseconds until the notification expires; Infinity where it does not. */
export function timeLeftMs({ notification }: Pick<Context, 'notification'>, { now }: { now: () => number }): number {
  return notification.expiresAt === undefined ? Infinity : notification.expiresAt - now();
}
