import type { Notification } from '../domain/notification.ts';
import type { Outcome } from '../domain/outcome.ts';
import type { Held } from '../limiter/limiter.ts';
import type { Lease } from '../queue/lease.ts';
import { notificationIdOf } from '../queue/names.ts';
import { finalOutcome, type Concluded } from './conclude.ts';
import { labelledDevices, type Plan } from './devices.ts';
import { withAttempts, type Progress } from './progress.ts';

/** One pass of a job through a worker. */
export interface Pass {
  readonly jobId: string;
  /** The job's data, as somebody handed it over. */
  readonly data: unknown;
  readonly progress: Progress;
  /** When the job was added: epoch milliseconds. */
  readonly enqueuedAt: number;
  /** The last pass asked for a slot and certainly sent nothing. */
  readonly isUnsent: boolean;
  /** Fires when the worker has to stop: what has not been sent is given back. */
  readonly signal: AbortSignal;
  /** The worker's hold on the job. */
  readonly lease: Lease;
}

/** The job is somebody else's by now, and whoever has it decides. What this pass holds at the limiter stays counted. */
export function yielded({ progress }: Pick<Pass, 'progress'>): Concluded {
  return { outcome: { kind: 'yielded' }, progress };
}

/** Ends it without another try; what was alerted before stays delivered, and what may have been, ambiguous. */
export function ended({ progress }: Pick<Pass, 'progress'>, outcome: Outcome): Concluded {
  const states = Object.values(progress.devices);
  const mayBeAlerted = states.includes('delivered') || states.includes('ambiguous');
  return { outcome: mayBeAlerted ? finalOutcome(progress) : outcome, progress };
}

/** Put back until its time has come: its slot, or the room in a provider's quota. */
export function requeued(
  progress: Progress,
  { waitMs, rule }: { readonly waitMs: number; readonly rule: string },
  delayMs: number,
  { now }: { readonly now: () => number },
): Concluded {
  const requeues = progress.requeues + 1;
  return {
    outcome: { kind: 'requeued', waitMs, delayMs, rule },
    progress: { ...progress, requeues, dueAt: now() + delayMs, heldSince: undefined },
  };
}

/** Nothing was sent, and no attempt is spent. */
export function missed(
  code: 'missed-slot' | 'missed-quota' | 'not-noted',
  waitMs: number,
  progress: Progress,
): Concluded {
  return { outcome: { kind: 'held', waitMs, code }, progress };
}

export function deadLetter(reason: 'invalid' | 'throttled-too-long', message: string): Outcome {
  return { kind: 'dead-letter', reason, message };
}

/** Whose slots, and of which category. */
export function scopeOf({ recipientId, category }: Notification): Omit<Held, 'id'> {
  return { recipientId, ...(category !== undefined && { category }) };
}

export function timeLeftMs({ expiresAt }: Notification, { now }: { now: () => number }): number {
  return expiresAt === undefined ? Infinity : expiresAt - now();
}

/** The progress with what the plan has settled. */
export function planned(progress: Progress, { settled, failures }: Plan): Progress {
  return withAttempts({ ...progress, devices: { ...progress.devices, ...settled } }, failures);
}

/** The labels of the devices that are neither delivered nor failed. */
export function openDevices(notification: Notification, progress: Progress): string[] {
  return labelledDevices(notification)
    .map(({ label }) => label)
    .filter((label) => !(label in progress.devices));
}

/** The id may be left out of the data: it is the job's then. */
export function withId(data: unknown, jobId: string): unknown {
  const isObject = typeof data === 'object' && data !== null && !Array.isArray(data);
  return isObject && !('id' in data) ? { ...data, id: notificationIdOf(jobId) } : data;
}
