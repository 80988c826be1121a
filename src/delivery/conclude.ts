import type { DeadLetterReason, FailedAttempt, Outcome } from '../domain/outcome.ts';
import type { Trouble } from '../domain/trouble.ts';
import type { Meaning, Reply } from '../providers/provider.ts';
import { backoffMs, type Backoff } from './backoff.ts';
import { replyText } from './devices.ts';
import { withAttempts, type DeviceState, type Progress } from './progress.ts';

export interface RetryPolicy extends Backoff {
  /** Delivery attempts before a dead letter. */
  readonly attempts: number;
}

export interface Concluded {
  readonly outcome: Outcome;
  readonly progress: Progress;
}

/** What one try at one device came to. */
export interface Tried {
  readonly label: string;
  readonly reply: Reply;
  /** Its provider is paused by now: what went wrong belongs to an outage that is known of. */
  readonly isPaused?: boolean;
}

/** A paused provider that a device waits for. */
export interface Kept {
  /** Its pause's, epoch milliseconds. */
  readonly until: number;
  /** When it wants to see the notification again: epoch milliseconds. Takes a place in the line of those that wait for it. */
  readonly comeBackAt: () => number;
  readonly trouble: Trouble;
}

export interface ConcludeParts {
  readonly retry: RetryPolicy;
  /** What may have alerted is never sent again. */
  readonly atMostOnce: boolean;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** 0 to 1. */
  readonly random: () => number;
}

/** Tries after an answer that leaves open whether it alerted, beyond the first. */
const MAX_AMBIGUOUS_RETRIES = 2;
/** How long a notification is kept for a provider that is paused or cannot be reached, before it becomes a dead letter. */
const MAX_HELD_MS = 86_400_000;
/** What never got there is tried again soon, and less often the longer it lasts. */
const UNREACHED: Backoff = { backoffBaseMs: 500, backoffMaxMs: 30_000 };
/** What was late by this machine's own fault asks for another slot almost at once. */
const TOO_LATE: Backoff = { backoffBaseMs: 50, backoffMaxMs: 1_000 };
/** Behind those that come to find out whether their provider is back. */
const BEHIND_PROBES_MS = 1_000;

/** The meanings that settle a device, and as what; `later` and `auth` leave it open. */
const STATE_OF: Partial<Record<Meaning, DeviceState>> = {
  accepted: 'delivered',
  gone: 'unregistered',
  'bad-token': 'bad-token',
  rejected: 'rejected',
};

/** Where devices failed for different reasons, the dead letter tells the one that is most worth curing. */
const REASONS_BY_WEIGHT: readonly DeadLetterReason[] = [
  'provider-auth',
  'attempts-exhausted',
  'ambiguous',
  'rejected',
  'provider-not-configured',
  'bad-token',
  'unregistered',
];

/** The progress after a round of tries: devices settled, failures noted. */
export function record(progress: Progress, tried: readonly Tried[], at: number, atMostOnce = false): Progress {
  const settled = tried.flatMap(({ label, reply }) => {
    const isLost = atMostOnce && reply.alerted === 'maybe';
    const state = STATE_OF[reply.meaning] ?? (isLost ? 'ambiguous' : undefined);
    return state === undefined ? [] : [[label, state] as const];
  });
  const failures = tried
    .filter(({ reply }) => reply.meaning !== 'accepted')
    .map(({ label, reply }): FailedAttempt => ({ at, device: label, error: replyText(reply) }));
  return withAttempts({ ...progress, devices: { ...progress.devices, ...Object.fromEntries(settled) } }, failures);
}

/**
 * What the notification has come to: the whole policy in one place. `progress` is the recorded one, `open` the labels of
 * devices that are neither delivered nor failed, `tried` this round's replies, `kept` the first paused provider to
 * be back that an open device waits for.
 */
export function conclude(
  progress: Progress,
  open: readonly string[],
  tried: readonly Tried[],
  kept: Kept | undefined,
  parts: ConcludeParts,
): Concluded {
  if (open.length === 0) return { outcome: finalOutcome(progress), progress };

  const later = tried.filter(({ label }) => open.includes(label));
  const failed = later.filter(isAttempt);
  if (failed.length > 0) return retryOrGiveUp(progress, open, failed, kept, parts);
  // The slot of a round that sent anything is used, whatever is left.
  const asks = progress.asks + (tried.length > 0 ? 1 : 0);
  return holdOrGiveUp({ ...progress, asks }, open, later, kept, parts);
}

/** Nothing is left to try: delivered when at least one device was alerted. */
export function finalOutcome(progress: Progress): Outcome {
  const states = Object.values(progress.devices);
  if (states.includes('delivered')) return { kind: 'delivered' };
  const reason = REASONS_BY_WEIGHT.find((candidate) => states.includes(candidate)) ?? 'attempts-exhausted';
  return { kind: 'dead-letter', reason, message: progress.attempts.at(-1)?.error ?? reason };
}

/**
 * Whether a try that failed counts. It does not where it never got there, where the provider refuses our credentials or asks
 * everybody to slow down, and where it met an outage that is known of: nothing of that is the notification's fault. What
 * may have alerted counts in any case, since it can be repeated a few times only.
 */
function isAttempt({ reply, isPaused = false }: Tried): boolean {
  if (reply.alerted === 'maybe') return true;
  const isProviders = reply.trouble === 'auth' || reply.trouble === 'quota' || reply.unreached === true;
  return !isProviders && !(isPaused && reply.trouble === 'outage');
}

/** Only the devices that failed are given up; one that waits for its provider stays open. */
function retryOrGiveUp(
  progress: Progress,
  open: readonly string[],
  failed: readonly Tried[],
  kept: Kept | undefined,
  parts: ConcludeParts,
): Concluded {
  const isAmbiguous = failed.some(({ reply }) => reply.ambiguous);
  const counted = {
    ...progress,
    tries: progress.tries + 1,
    ambiguous: progress.ambiguous + (isAmbiguous ? 1 : 0),
    unreached: 0,
    asks: progress.asks + 1,
    heldSince: undefined, // the provider is back, or another one is the trouble
  };
  const isLast = ({ reply }: Tried) =>
    counted.tries >= parts.retry.attempts || (reply.ambiguous && counted.ambiguous > MAX_AMBIGUOUS_RETRIES);
  const lost = failed.filter(isLast).map(({ label }) => label);
  const left = giveUp(counted, lost, 'attempts-exhausted');
  const stillOpen = open.filter((label) => !lost.includes(label));
  if (stillOpen.length === 0) return { outcome: finalOutcome(left), progress: left };

  const again = failed.filter(({ label }) => !lost.includes(label));
  if (again.length === 0) return holdOrGiveUp(left, stillOpen, [], kept, parts);
  const atLeastMs = Math.max(0, ...again.map(({ reply }) => reply.retryAfterMs ?? 0));
  const backoff = backoffMs(counted.tries, parts.retry, atLeastMs, parts.random());
  // A probe that may have alerted is not the next one too: others wait for the same provider.
  const behind = kept === undefined ? 0 : Math.max(0, kept.until - parts.now()) + BEHIND_PROBES_MS;
  const code = again.map(({ reply }) => reply.code).join(',');
  return { outcome: { kind: 'retried', waitMs: Math.max(backoff, behind), code }, progress: left };
}

/** Nothing is wrong with the notification: it is kept, and no attempt is spent. */
function holdOrGiveUp(
  progress: Progress,
  open: readonly string[],
  tried: readonly Tried[],
  kept: Kept | undefined,
  parts: ConcludeParts,
): Concluded {
  const now = parts.now();
  const heldSince = progress.heldSince ?? now;
  const held = {
    ...progress,
    heldSince,
    unreached: tried.length > 0 ? progress.unreached + 1 : progress.unreached,
  };
  if (now - heldSince > MAX_HELD_MS) {
    const ended = giveUp(held, open, kept?.trouble === 'auth' ? 'provider-auth' : 'attempts-exhausted');
    return { outcome: finalOutcome(ended), progress: ended };
  }
  const code = tried[0]?.reply.code ?? 'provider-paused';
  const isElsewhere = tried.some(({ isPaused = false }) => !isPaused);
  if (kept !== undefined && !isElsewhere) {
    const dueAt = kept.comeBackAt(); // exactly then, so that all who wait keep their order
    return { outcome: { kind: 'held', waitMs: Math.max(0, dueAt - now), code }, progress: { ...held, dueAt } };
  }
  const atLeastMs = Math.max(0, ...tried.map(({ reply }) => reply.retryAfterMs ?? 0));
  const isOursAlone = tried.length > 0 && tried.every(({ reply }) => reply.code === 'too-late');
  const backoff = isOursAlone ? TOO_LATE : UNREACHED;
  const waitMs = backoffMs(Math.max(1, held.unreached), backoff, atLeastMs, parts.random());
  return { outcome: { kind: 'held', waitMs, code }, progress: held };
}

function giveUp(progress: Progress, labels: readonly string[], reason: DeadLetterReason): Progress {
  const devices = { ...progress.devices, ...Object.fromEntries(labels.map((label) => [label, reason])) };
  return { ...progress, devices };
}
