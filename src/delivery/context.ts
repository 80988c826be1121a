import type { Job } from 'bullmq';
import { z } from 'zod';
import type { BreakerAnswer, Breakers } from '../breaker/breaker.ts';
import { type Account, type Service, isSameDevice, serviceOfDevice } from '../notification/device.ts';
import type { Fault } from '../domain/faults.ts';
import { newerThanKnown, type Newer } from '../domain/format.ts';
import type { CountedApart, PlaceInLimits } from '../domain/limits.ts';
import {
  parseNotification,
  type Device,
  type Notification,
  type ParsedNotification,
} from '../notification/notification.ts';
import { DEAD_LETTER_REASONS, type Outcome, type Result } from '../notification/outcome.ts';
import { originOf, type Origin } from '../notification/story.ts';
import type { WaitingLimiter, SlotId } from '../limiter/limiter.ts';
import type { EndLook } from '../limiter/redis/canceller.ts';
import type { PassEnd } from '../observe/metrics.ts';
import type { PassTrace } from '../observe/tracing.ts';
import type { Encoded, Permit, Provider, Reply } from '../providers/provider.ts';
import type { JobLock, Due } from '../queue/job-lock.ts';
import { isUnprioritised, notificationIdOf } from '../queue/names.ts';
import type { Place } from '../queue/notification-worker.ts';
import type { OtherWorkers } from '../queue/workers.ts';
import { unreadableFault } from '../queue/readable.ts';
import type { Quota } from '../quota/quota.ts';

/**
 * One pass: one run of a job through this worker. The steps of deliver.ts read here what they need, and write here whatever
 * more than one later step reads.
 */
export interface Context {
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
  /** The limiter was asked for a slot in this pass, so its answer has said whether the notification ends without being sent. */
  isAsked: boolean;
  /** The limiter answered that the notification ends without being sent. It remembers that until the job has ended. */
  isEnded: boolean;
  /** What the job remembers, at first without `dueAt`. A step replaces it; it is saved at the end of the pass. */
  progress: Progress;
  /** The span of this pass; undefined where no traces are wanted. */
  trace: PassTrace | undefined;

  /** What the breakers that are not closed said about this notification. */
  breakerAnswers: Map<Service, BreakerAnswer> | undefined;
  /** Open devices for whose platform or app this worker has no credentials. */
  lacking: readonly LackingDevice[];
  /** Another living worker has the credentials that this one lacks, for at least one of the devices. */
  isElsewhere: boolean;
  /** What is sent now makes no sound, no vibration and no banner: `onThrottle` or `onQuiet` wants that. */
  isSilent: boolean;
  /** Every stream that was set aside; those that are not used are released at the end of the pass. */
  readonly permits: Permit[];
  /** The slot to send in; undefined until there is one, and for a silent send. */
  slot: Slot | undefined;
  /** The devices that were tried, with the replies. */
  readonly tried: Tried[];
  /** An error that no step foresaw, to be logged. */
  error: unknown;
}

/** A device that can be sent to now: its alert is encoded, and its provider is there. */
export interface ReadyDevice {
  readonly label: string;
  readonly device: Device;
  /** Whose credentials and quota it takes. */
  readonly account: Account;
  /** Whose circuit breaker decides. */
  readonly service: Service;
  readonly provider: Provider;
  readonly encoded: Encoded;
  /**
   * The stream that is set aside. Only the first device of each server has one; the others wait for a stream when they are sent
   * to.
   */
  permit?: Permit;
}

/** A device for which this worker has no credentials. */
interface LackingDevice {
  readonly label: string;
  readonly account: Account;
}

/** A send that is prepared. */
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

/** A slot that may be used now. */
export interface Slot {
  /** The ask that was admitted: the limiter knows the slot by it. */
  readonly ask: SlotId;
  /** Epoch milliseconds on the limiter's clock. */
  readonly at: number;
  /** The same instant on `performance.now()`. */
  readonly sendAt: number;
  /** After this instant of `performance.now()` nothing may be sent in the slot: the next alert could follow too closely. */
  readonly sendBy: number;
  /** A job that waits for such a slot is due this much before it, in milliseconds. */
  readonly leadMs: number;
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
  /** When it was handed over to be sent: an instant of `performance.now()`. */
  readonly handedOverAt: number;
  /** From the hand-over to the reply, milliseconds. */
  readonly tookMs: number;
}

/**
 * A part that only looks at passes: it logs, counts, traces or writes what it sees, and changes no result. Its calls come in
 * the order below; a call that it does not define costs nothing. No call may throw or reject. No watcher may need what another
 * one does, with one exception: where traces are wanted, `context.trace` is there from the end of `taken` on.
 */
export interface Watcher {
  /** A pass begins. */
  readonly taken?: (context: Context) => void;
  /**
   * The pass has a result, but BullMQ does not know it yet. When this call's promise has resolved, `context.progress` is saved
   * with the result, so this is where a watcher writes what the next pass is to read. The watchers are called one after the
   * other.
   */
  readonly ended?: (context: Context, result: Result, end: PassFacts) => Promise<void> | void;
  /** Redis did not take the result, so the job will run again, and `completing` is not called. */
  readonly notAcked?: (context: Context, error: unknown) => void;
  /**
   * BullMQ is about to complete the job, and waits for the promise. If this worker dies before the job is completed, another worker
   * makes this call again.
   */
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
  job: Pick<Job, 'id' | 'data' | 'progress' | 'timestamp' | 'stalledCounter' | 'attemptsStarted' | 'opts'>,
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
  const before = newer === undefined ? readProgress(job.progress) : NEW;
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
    slot: undefined,
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

const progressSchema = z.object({
  /** How each device ended, by its label; a device that is not here is still to be tried. */
  devices: z.record(z.string(), z.enum(['delivered', ...DEAD_LETTER_REASONS])).default({}),
  /** When the first device accepted it: epoch milliseconds. Absent if none did, or only before a replay. */
  sentAt: z.number().optional(),
  /**
   * For a notification that may be silenced: true if every send so far that may have reached a device was without a sound.
   * Absent before the first such send.
   */
  silenced: z.boolean().optional(),
  /** The tries that failed, the newest last, as a dead letter lists them. */
  attempts: z
    .array(z.object({ at: z.number(), device: z.string().optional(), error: z.string() }))
    .readonly()
    .default([]),
  /** Attempts so far: tries that count. */
  tries: z.number().default(0),
  /** Attempts of which it is unknown whether they alerted. */
  ambiguous: z.number().default(0),
  /** Passes in a row that were to send and certainly sent nothing (no connection, a missed slot). They are no attempts. */
  unreached: z.number().default(0),
  /** Under AT_MOST_ONCE: the devices that are being sent to. Those that the next pass still finds here may have been alerted. */
  trying: z.array(z.string()).readonly().optional(),
  /** BullMQ's count of the job's stalls at the time when the job last waited because of stalls. */
  stalls: z.number().optional(),
  /** The number in the id of the next ask for a slot: 0 at first, one more after each send. */
  asks: z.number().default(0),
  /** The last pass asked for a slot, and sent nothing. */
  unsent: z.boolean().optional(),
  /**
   * The notification was to be sent as a digest: of how many notifications, and whether it is itself one of them. A retry sends
   * the same.
   */
  digest: z.object({ count: z.number(), own: z.boolean() }).optional(),
  /** How often it was requeued: by the limiter, or by a quota. */
  requeues: z.number().default(0),
  /**
   * While it is requeued, the longest cause of its wait: `quiet`, `block`, `gap`, `10/1m`, `fcm:600000/1m`, `sendAfter`. Or
   * `credentials`, while it is deferred because no worker that took it has credentials for its devices.
   */
  rule: z.string().optional(),
  /** When the block or the quiet time ends, if `rule` is one of them; epoch milliseconds. */
  ruleUntil: z.number().optional(),
  /** When it is due, epoch milliseconds. The lateness of wake-ups is measured against it. */
  dueAt: z.number().optional(),
  /** By account, for each quota that had no room: the instant for which the quota promised room; epoch milliseconds. */
  quotaAt: z.record(z.string(), z.number()).optional(),
  /**
   * Since when the job has been deferred: a breaker is open, a provider cannot be reached, or no worker has the credentials.
   * Epoch milliseconds. Time in which no worker ran does not count: if the last try is more than an hour ago, this instant
   * moves to later by the rest.
   */
  heldSince: z.number().optional(),
  /** When it was last deferred for one of those reasons; epoch milliseconds. */
  heldAt: z.number().optional(),
  /** The span of its last pass that was traced, as W3C Trace Context. */
  traceparent: z.string().optional(),
  /**
   * Its passes, where HISTORY_MAX is set; notification/story.ts reads them. They are not checked here, since a fault in them
   * must not cost the rest.
   */
  passes: z.unknown().optional(),
  passesLeftOut: z.unknown().optional(),
});

/**
 * What a job remembers between two passes. It is BullMQ's `progress`, so a crash does not lose it. Jobs wait for days, so
 * workers of the next version read what this one wrote, and during an upgrade workers of the last version do too. So a field is
 * never renamed, and what older workers would misread gets a new format (domain/format.ts). Three names are older than the
 * glossary: an entry of `attempts` is a try that failed, `tries` counts the attempts, and `heldSince` is the time since which
 * the job is deferred.
 */
export type Progress = Readonly<z.output<typeof progressSchema>>;

/** Any `job.progress` → Progress. What is no progress, or was written by a newer version, is read as that of a new job. */
export function readProgress(raw: unknown): Progress {
  if (raw === 0 || raw === undefined) return NEW; // BullMQ's own default, of every job that is new
  if (newerThanKnown('job progress', raw) !== undefined) return NEW;
  return progressSchema.safeParse(raw).data ?? NEW;
}

const NEW: Progress = progressSchema.parse({});

/** Whether a digest stands for other notifications too. One of only its own notification is sent as a normal alert. */
export function hasOthers(digest: Progress['digest']): digest is NonNullable<Progress['digest']> {
  return digest !== undefined && !(digest.own && digest.count === 1);
}

/** A dead letter lists the newest of its failed tries, this many at most. */
const MAX_ATTEMPTS = 100;

/** The progress with failed tries added. */
export function withAttempts(progress: Progress, added: Progress['attempts']): Progress {
  if (added.length === 0) return progress;
  return { ...progress, attempts: [...progress.attempts, ...added].slice(-MAX_ATTEMPTS) };
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

/** The labels of the open devices. */
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

/** Milliseconds until the notification expires; Infinity where it does not. */
export function timeLeftMs({ notification }: Pick<Context, 'notification'>, { now }: { now: () => number }): number {
  return notification.expiresAt === undefined ? Infinity : notification.expiresAt - now();
}

/** What delivery needs of a limiter. */
export type DeliveryLimiter = Pick<
  WaitingLimiter,
  'admit' | 'refund' | 'release' | 'forget' | 'moveUp' | 'foreseeFirst'
>;

/** What the pipeline works with; the same for every pass. */
export interface DeliverParts {
  readonly limiter: DeliveryLimiter;
  /** The limiters of background pushes and of Live Activities, one for each kind: they take no slot of an alert. */
  readonly apart: Readonly<Record<CountedApart, DeliveryLimiter>>;
  /** The gap of the overall policy, milliseconds; 0 for none. */
  readonly overallGapMs: number;
  /** The tolerance of the overall policy, milliseconds. */
  readonly toleranceMs: number;
  /** The quotas of whole projects, for the accounts that have one. They may change from one pass to the next. */
  readonly quotas: { get(account: Account): Pick<Quota, 'take'> | undefined };
  /** What other workers have credentials for. */
  readonly others: OtherWorkers;
  /** How long a device waits for a worker with credentials for it, while no such worker is alive. Milliseconds. */
  readonly credentialsWaitMs: number;
  /** The providers of the accounts for which this worker has credentials. They may change from one pass to the next. */
  readonly providers: { get(account: Account): Provider | undefined };
  readonly breakers: Breakers;
  /** The turns of this worker only; other workers have their own. */
  readonly turns: Turns;
  /** As `turns`: of this worker only. */
  readonly moveUps: MoveUps;
  /** Notifications of high priority go before others of their recipient. */
  readonly isHighFirst: boolean;
  readonly retry: RetryPolicy;
  /** A slot further ahead than this is not reserved: the notification becomes a dead letter. Milliseconds. */
  readonly maxWaitMs: number;
  /** No slot is reserved if this many notifications of the recipient already wait for theirs. */
  readonly maxPending?: number;
  /** An alert that may have reached its device is never sent again. */
  readonly atMostOnce: boolean;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** 0 to 1. */
  readonly random: () => number;
  /** Called with each reply. The pass waits for the promise that it returns, which must not reject. */
  readonly onReply: (event: ReplyEvent) => void | Promise<void>;
  /**
   * How the notification is to end without being sent; undefined if it is not. Takes no slot. Rejects if the limiter does not
   * answer.
   */
  readonly endOf: (
    place: PlaceInLimits & { readonly jobId: string; readonly enqueuedAt: number },
  ) => ReturnType<EndLook>;
  /** Changes the due times of the recipient's delayed jobs: their slots have moved. */
  readonly redelay: (recipientId: string, due: readonly Due[]) => Promise<unknown>;
}

/** One reply of a provider. */
export interface ReplyEvent {
  readonly notification: Notification;
  readonly device: Device;
  /** `apns#0`: the first of `devices`, which is on APNs. */
  readonly label: string;
  readonly reply: Reply;
  readonly tookMs: number;
}

/** The waits between retries: the first one, and the longest. */
export interface Backoff {
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
}

/** How often, and how soon, an attempt that failed is repeated. */
export interface RetryPolicy extends Backoff {
  /** Attempts before the notification becomes a dead letter. */
  readonly attempts: number;
}

/**
 * Lets the passes of one recipient ask for their slots in the order in which this worker took their jobs, whichever pass gets a
 * stream first. The order matters because the limiter gives slots in the order of asking.
 */
export interface Turns {
  /**
   * Call it in the order of the passes. Resolves when the turns before it have ended; call the returned function to end this
   * turn.
   */
  take(recipientId: string): Promise<EndTurn> | EndTurn;
}

/** May be called more than once. */
export type EndTurn = () => void;

/**
 * Moves up one line at a time. All notifications that want it meanwhile cause only one more move together: without this, a
 * thousand that are canceled would each move everything behind them.
 */
export interface MoveUps {
  /**
   * `ended`: a move-up that began after this call has ended; rejects if it failed. `allEnded`: so have those that others wanted
   * meanwhile; only for the call with which they began. Never rejects.
   */
  run(line: string, work: () => Promise<void>): { readonly ended: Promise<void>; readonly allEnded?: Promise<void> };
  /** To be called when the slot of an ask has moved, by its line and id. Those that wait for that enter themselves. */
  readonly moved: Map<string, () => void>;
}
