import type { DeadLetterReason, FailedAttempt, Outcome } from '../domain/outcome.ts';
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
}

export interface ConcludeParts {
  readonly retry: RetryPolicy;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** 0 to 1. */
  readonly random: () => number;
}

/** Tries after an answer that leaves open whether it alerted, beyond the first. */
const MAX_AMBIGUOUS_RETRIES = 2;
/** How long a notification is kept for a provider that refuses our credentials, before it becomes a dead letter. */
const MAX_HELD_MS = 86_400_000;
/** Kept at least this long where the provider says nothing. */
const MIN_HELD_MS = 1_000;

/** Codes of a worker that stops: the request never left, and nothing is wrong with anything. */
const STOPPING: ReadonlySet<string> = new Set(['cancelled', 'closed']);

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
  'rejected',
  'provider-not-configured',
  'bad-token',
  'unregistered',
];

/** The progress after a round of tries: devices settled, failures noted. */
export function record(progress: Progress, tried: readonly Tried[], at: number): Progress {
  const settled = tried.flatMap(({ label, reply }) => {
    const state = STATE_OF[reply.meaning];
    return state === undefined ? [] : [[label, state] as const];
  });
  const failures = tried
    .filter(({ reply }) => reply.meaning !== 'accepted')
    .map(({ label, reply }): FailedAttempt => ({ at, device: label, error: replyText(reply) }));
  return withAttempts({ ...progress, devices: { ...progress.devices, ...Object.fromEntries(settled) } }, failures);
}

/**
 * What the notification has come to: the whole policy in one place. `progress` is the recorded one, `open` the labels of
 * devices that are neither delivered nor failed, `tried` this round's replies, `pausedMs` the longest pause of a provider
 * that an open device waits for.
 */
export function conclude(
  progress: Progress,
  open: readonly string[],
  tried: readonly Tried[],
  pausedMs: number,
  parts: ConcludeParts,
): Concluded {
  if (open.length === 0) return { outcome: finalOutcome(progress), progress };

  const later = tried.filter(({ reply }) => reply.meaning === 'later' && !STOPPING.has(reply.code));
  if (later.length > 0) return retryOrGiveUp(progress, open, later, pausedMs, parts);
  return holdOrGiveUp(progress, open, tried, pausedMs, parts);
}

/** Nothing is left to try: delivered when at least one device was alerted. */
export function finalOutcome(progress: Progress): Outcome {
  const states = Object.values(progress.devices);
  if (states.includes('delivered')) return { kind: 'delivered' };
  const reason = REASONS_BY_WEIGHT.find((candidate) => states.includes(candidate)) ?? 'attempts-exhausted';
  return { kind: 'dead-letter', reason, message: progress.attempts.at(-1)?.error ?? reason };
}

/** Only the devices that failed are given up; one that waits for its provider stays open. */
function retryOrGiveUp(
  progress: Progress,
  open: readonly string[],
  later: readonly Tried[],
  pausedMs: number,
  parts: ConcludeParts,
): Concluded {
  const isAmbiguous = later.some(({ reply }) => reply.ambiguous);
  const counted = {
    ...progress,
    tries: progress.tries + 1,
    ambiguous: progress.ambiguous + (isAmbiguous ? 1 : 0),
    asks: progress.asks + 1,
    heldSince: undefined, // the provider is back, or another one is the trouble
  };
  const isLast = ({ reply }: Tried) =>
    counted.tries >= parts.retry.attempts || (reply.ambiguous && counted.ambiguous > MAX_AMBIGUOUS_RETRIES);
  const lost = later.filter(isLast).map(({ label }) => label);
  const left = giveUp(counted, lost, 'attempts-exhausted');
  const stillOpen = open.filter((label) => !lost.includes(label));
  if (stillOpen.length === 0) return { outcome: finalOutcome(left), progress: left };

  const again = later.filter(({ label }) => !lost.includes(label));
  if (again.length === 0) return holdOrGiveUp(left, stillOpen, [], pausedMs, parts);
  const atLeastMs = Math.max(0, ...again.map(({ reply }) => reply.retryAfterMs ?? 0));
  const waitMs = backoffMs(counted.tries, parts.retry, atLeastMs, parts.random());
  const code = again.map(({ reply }) => reply.code).join(',');
  return { outcome: { kind: 'retried', waitMs, code }, progress: left };
}

/** Nothing is wrong with the notification: it is kept, and no attempt is spent. */
function holdOrGiveUp(
  progress: Progress,
  open: readonly string[],
  tried: readonly Tried[],
  pausedMs: number,
  { now, random }: ConcludeParts,
): Concluded {
  const heldSince = progress.heldSince ?? now();
  const held = { ...progress, heldSince, asks: progress.asks + (tried.length > 0 ? 1 : 0) };
  if (now() - heldSince > MAX_HELD_MS) {
    const ended = giveUp(held, open, 'provider-auth');
    return { outcome: finalOutcome(ended), progress: ended };
  }
  const waitMs = Math.round(Math.max(MIN_HELD_MS, pausedMs) * (1 + random() / 4));
  const code = tried.find(({ label }) => open.includes(label))?.reply.code ?? 'provider-paused';
  return { outcome: { kind: 'held', waitMs, code }, progress: held };
}

function giveUp(progress: Progress, labels: readonly string[], reason: DeadLetterReason): Progress {
  const devices = { ...progress.devices, ...Object.fromEntries(labels.map((label) => [label, reason])) };
  return { ...progress, devices };
}
