import type { Device, Notification, Platform } from '../domain/notification.ts';
import type { Breakers, Entry } from '../breaker/breaker.ts';
import type { Limiter } from '../limiter/limiter.ts';
import type { Quota } from '../quota/quota.ts';
import type { Lease } from '../queue/lease.ts';
import type { Provider, Reply } from '../providers/provider.ts';
import type { RetryPolicy } from './backoff.ts';
import type { Progress } from './progress.ts';
import type { Turns } from './turns.ts';

/** One pass of a job through a worker. */
export interface Pass {
  readonly jobId: string;
  /** The job's data, as somebody handed it over. */
  readonly data: unknown;
  /** What the job remembers. */
  readonly progress: Progress;
  /** When the job was added: epoch milliseconds. */
  readonly enqueuedAt: number;
  /** The last pass asked for a slot and certainly sent nothing. */
  readonly isUnsent: boolean;
  /** Fires when the worker has to stop: what has not been sent is given back. */
  readonly signal: AbortSignal;
  /** The worker's claim to the job. */
  readonly lease: Lease;
}

/** What the steps of a pass hand on. */
export interface Context extends Omit<Pass, 'progress'> {
  readonly notification: Notification;
  /** What has been reached so far; each step replaces it. */
  progress: Progress;
  /** What the breakers said, for the platforms whose breaker is not closed; absent where all are. */
  entries?: Map<Platform, Entry>;
}

/** One answer of a provider. */
export interface ReplyEvent {
  readonly notification: Notification;
  readonly device: Device;
  /** `apns#0`: the first of `devices`, which is on APNs. */
  readonly label: string;
  readonly reply: Reply;
  readonly tookMs: number;
}

/** What the pipeline works with. */
export interface DeliverParts {
  readonly limiter: Pick<Limiter, 'admit' | 'refund' | 'cancel' | 'postpone'>;
  /** The gap of the policy that holds overall, milliseconds; 0 for none. */
  readonly overallGapMs: number;
  /** The quotas of whole projects, for the providers that have one. */
  readonly quotas: ReadonlyMap<Platform, Pick<Quota, 'take'>>;
  readonly providers: ReadonlyMap<Platform, Provider>;
  readonly breakers: Breakers;
  /** This worker's own. */
  readonly turns: Turns;
  readonly retry: RetryPolicy;
  /** A slot further ahead than this is not taken: the notification becomes a dead letter. Milliseconds. */
  readonly maxWaitMs: number;
  /** Nor one behind so many that wait for the same recipient already. */
  readonly maxPending?: number;
  /** What may have alerted is never sent again. */
  readonly atMostOnce: boolean;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** 0 to 1. */
  readonly random: () => number;
  /** Told of each answer. Awaited, so that what it tells somebody is told before the job can end; it must not reject. */
  readonly onReply: (event: ReplyEvent) => void | Promise<void>;
}

/** Milliseconds until it expires; Infinity where it does not. */
export function timeLeftMs({ notification }: Pick<Context, 'notification'>, { now }: { now: () => number }): number {
  return notification.expiresAt === undefined ? Infinity : notification.expiresAt - now();
}

/** Whose slots, and of which category. */
export function scopeOf({ notification: { recipientId, category } }: Pick<Context, 'notification'>) {
  return { recipientId, ...(category !== undefined && { category }) };
}
