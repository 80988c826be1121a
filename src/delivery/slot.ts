import { sleepUntil } from '../domain/time.ts';
import type { Admission, Ask, Held, Limiter, Standing } from '../limiter/limiter.ts';

/** A slot that may be used now. */
export interface Go {
  readonly kind: 'go';
  /** What the limiter knows it by. */
  readonly held: Held;
  /** The number of the ask that holds it. */
  readonly asks: number;
  /** Epoch milliseconds on the limiter's clock. */
  readonly at: number;
  /** The same instant on `performance.now()`. */
  readonly sendAt: number;
  /** Later than this, on the same clock, it must not be sent: the next alert could follow too closely. */
  readonly sendBy: number;
}

/** What came of asking: go now, or the limiter's no (to the ask of this number), or a slot that was missed. */
export type Slot =
  | Go
  | { readonly kind: 'no'; readonly asks: number; readonly admission: Exclude<Admission, { kind: 'admitted' }> }
  | { readonly kind: 'missed'; readonly asks: number };

/** Whose slot it is. */
export interface SlotAsk extends Omit<Ask, 'id' | 'renew'> {
  readonly jobId: string;
  /** Asks under a new id so far. */
  readonly asks: number;
  /** The last pass asked under this number and certainly sent nothing: what it was granted is still unused. */
  readonly isUnsent: boolean;
}

/**
 * A request that leaves this much after its slot is on time: a phone does not feel it, and a quiet machine is later by a few
 * milliseconds only. Where it was 25, the stamps of a busy machine came on top, and gaps were seen to be short by 60.
 */
const ON_TIME_MS = 15;
/** A send that is later than half the gap, or than this, is not sent but asks anew. */
const MAX_LATE_MS = 5_000;
const MAX_LATE_WITHOUT_GAP_MS = 500;
/** Asking anew helps against a hiccup, not against a machine that is always late. */
const MAX_RENEWALS = 5;

/**
 * How much after its slot a request may be handed to the sender, in milliseconds: half the gap. Where a category has a wider
 * one than the recipient's overall policy, alerts of other categories follow after the overall gap.
 */
export function maxLateMs({ gapMs }: Pick<Standing, 'gapMs'>, overallGapMs = 0): number {
  if (gapMs === 0) return MAX_LATE_WITHOUT_GAP_MS;
  return Math.min((overallGapMs === 0 ? gapMs : Math.min(gapMs, overallGapMs)) / 2, MAX_LATE_MS);
}

/**
 * A blocked job is called back this much before its slot, and sleeps the rest in the worker. It is more than most wake-ups
 * are late (a few ms on a quiet machine, 20 with two dozen workers on two cores), and at most half of how early the
 * limiter takes a job back.
 */
export function leadMs({ toleranceMs }: Pick<Standing, 'toleranceMs'>): number {
  return Math.min(25, Math.floor(toleranceMs / 2));
}

/** `msg-8841/0`: a retry is a new ask, so that what a failed attempt may have shown stays counted. */
export function askId(jobId: string, asks: number): string {
  return `${jobId}/${asks}`;
}

export interface Asking {
  /** Fires when the worker has to stop. */
  readonly signal: AbortSignal;
  /** The gap of the overall policy, milliseconds; 0 for none. */
  readonly overallGapMs?: number;
  /** Told when an ask is on its way to the limiter: what is asked after it is answered after it. */
  readonly onAsked?: () => void;
}

/**
 * Asks for a slot and waits the few milliseconds until its instant. One that was missed is asked for anew (`renew`: nothing
 * was sent on it). `repeated` means that an earlier worker was given this admission and may have sent on it before it
 * died: it stays counted, and the next number asks.
 */
export async function takeSlot(
  ask: SlotAsk,
  limiter: Pick<Limiter, 'admit' | 'refund'>,
  { signal, overallGapMs, onAsked }: Asking,
): Promise<Slot> {
  const { jobId, isUnsent, asks: firstAsk, ...rest } = ask;
  let asks = firstAsk;
  let isOurs = isUnsent;
  for (let tries = 0; tries <= MAX_RENEWALS; tries++) {
    const held = { ...rest, id: askId(jobId, asks), renew: isOurs };
    const asking = limiter.admit(held);
    onAsked?.();
    const admission = await asking;
    if (admission.kind === 'refused' && isOurs) await limiter.refund(held); // it was not used
    if (admission.kind !== 'admitted') return { kind: 'no', asks, admission };
    if (admission.repeated) {
      asks += 1;
      isOurs = false;
      continue;
    }
    isOurs = true;
    const { at, sendAt } = admission;
    if (sendAt > performance.now()) await sleepUntil(sendAt, signal);
    if (signal.aborted) break;
    const sendBy = sendAt + maxLateMs(admission, overallGapMs);
    if (performance.now() <= sendBy) return { kind: 'go', held, asks, at, sendAt, sendBy };
  }
  if (isOurs) await limiter.refund({ ...rest, id: askId(jobId, asks) });
  return { kind: 'missed', asks };
}

/** A limiter that does not answer is told again, for about as long as the next alert may follow closely. */
const AGAIN_MS = 50;
const INSIST_MS = 2_000;

/** Whether a request that was handed to the sender at `sentAt` (`performance.now()`) left late enough for the limiter to know. */
export function isLate({ sendAt }: Go, sentAt: number): boolean {
  return sentAt - sendAt > ON_TIME_MS;
}

/**
 * Tells the limiter of a request that left late: the next alert keeps its distance from when it really left. Never
 * rejects, since the send has happened.
 */
export async function tellLate(slot: Go, sentAt: number, limiter: Pick<Limiter, 'postpone'>): Promise<void> {
  const lateMs = sentAt - slot.sendAt;
  const deadline = performance.now() + INSIST_MS;
  while (performance.now() < deadline) {
    const isTold = await limiter.postpone(slot.held, slot.at + lateMs).then(
      () => true,
      () => false,
    );
    if (isTold || !(await sleepUntil(performance.now() + AGAIN_MS, NEVER))) return;
  }
}

const NEVER = new AbortController().signal;
