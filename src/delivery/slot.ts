import { sleepUntil } from '../domain/sleep.ts';
import type { Admission, Ask, Held, Limiter, Standing } from '../limiter/limiter.ts';

/** A slot that may be used now: under which id it is held, and its instant on both clocks. */
export interface Go {
  readonly kind: 'go';
  readonly held: Held;
  /** The number of the ask that holds it. */
  readonly asks: number;
  /** Epoch milliseconds on the limiter's clock. */
  readonly at: number;
  /** The same instant on `performance.now()`. */
  readonly sendAt: number;
  /** Later than this, on the same clock, it must not go out (`Timing.hardMs`). */
  readonly sendBy: number;
  /** What has not left the machine by then, for want of a connection, had better ask for another slot. */
  readonly leaveBy: number;
}

/** What came of asking: go now, or the limiter's no (to the ask of this number), or an instant that was missed. */
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
  /** It did not leave in time before, more than once: a machine that is always late must get there too. */
  readonly isLate: boolean;
}

export interface SlotParts {
  readonly limiter: Pick<Limiter, 'admit' | 'refund'>;
}

/** How exactly the policies in force want their instants met. */
export interface Timing {
  /** Later than this after its instant, a send is worth asking anew, so that the next alert keeps its distance from it. */
  readonly softMs: number;
  /** Later than this it must not go out: a process that was stopped would land on top of the next alert. */
  readonly hardMs: number;
  /** A blocked job is called back this much before its slot, and sleeps the rest in the worker: that absorbs a late wake-up. */
  readonly leadMs: number;
}

/** What leaves this much after its instant is as good as on time: below what a person tells apart. */
const LEAVE_MS = 18;
/** Asking anew helps against a hiccup, not against a machine that is always late. */
const MAX_SOFT_RENEWALS = 2;
const MAX_RENEWALS = 5;

/**
 * Hard: min(gap / 2, 500 ms); beyond half a gap, the next alert may be nearer than half a gap. Soft: 10 ms; below what a
 * person tells apart, above a busy event loop's usual delay. Lead: 25 ms, more than most wake-ups are late (a few ms on a
 * quiet machine, 20 with two dozen workers on two cores), and at most half of how early the limiter takes a job back.
 */
export function timingOf({ gapMs, toleranceMs }: Standing): Timing {
  const hardMs = gapMs === 0 ? 500 : Math.min(gapMs / 2, 500);
  return { softMs: Math.min(10, hardMs), hardMs, leadMs: Math.min(25, Math.floor(toleranceMs / 2)) };
}

/** Longer than this and a process was stopped: its lock may be gone, and another worker at the job. Below BullMQ's 30 s. */
const STOPPED_MS = 10_000;

/** `msg-8841/0`: a retry is a new ask, so that what a failed attempt may have shown stays counted. */
export function askId(jobId: string, asks: number): string {
  return `${jobId}/${asks}`;
}

/**
 * Asks for a slot and waits the few milliseconds until its instant. An instant that was missed is asked for anew (`renew`:
 * nothing was sent on it). An admission that somebody was given before is nobody's to use: its worker may have sent on it
 * and died, so it stays counted, and the next number asks.
 */
export async function takeSlot(ask: SlotAsk, parts: SlotParts, signal: AbortSignal): Promise<Slot> {
  const { jobId, isUnsent, isLate, asks: firstAsk, ...rest } = ask;
  const askOf = (number: number) => ({ ...rest, id: askId(jobId, number) });
  let asks = firstAsk;
  let isOurs = isUnsent;
  for (let tries = 0; tries <= MAX_RENEWALS; tries++) {
    const held = askOf(asks);
    const admission = await parts.limiter.admit({ ...held, renew: isOurs });
    if (admission.kind === 'refused' && isOurs) await parts.limiter.refund(held); // it was not used
    if (admission.kind !== 'admitted') return { kind: 'no', asks, admission };
    if (admission.repeated) {
      asks += 1;
      isOurs = false;
      continue;
    }

    isOurs = true;
    const { at, sendAt } = admission;
    if (!(await sleepUntil(sendAt, signal))) break;
    const lateMs = performance.now() - sendAt;
    if (lateMs > STOPPED_MS) break;
    const { softMs, hardMs } = timingOf(admission);
    const isStrict = tries < MAX_SOFT_RENEWALS && !isLate;
    if (lateMs > (isStrict ? softMs : hardMs)) continue;
    const leaveMs = isStrict ? LEAVE_MS : Math.max(LEAVE_MS, hardMs);
    return { kind: 'go', held, asks, at, sendAt, sendBy: sendAt + hardMs, leaveBy: sendAt + leaveMs };
  }
  if (isOurs) await parts.limiter.refund(askOf(asks));
  return { kind: 'missed', asks };
}
